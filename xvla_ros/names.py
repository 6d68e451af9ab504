"""Every node, topic, service and frame name of the package, once.

Names without a leading slash are relative: they follow the node's namespace and can be remapped.
Names that begin with `~/` are private to their node; others reach them through `of`. Names of the
robot's driver are absolute, because the driver lives in a namespace of the robot's own.
"""

from __future__ import annotations

POLICY_NODE = "xvla_policy"
SCHEDULER_NODE = "chunk_scheduler"
SIM_NODE = "sim_wx250s"
NODES = (POLICY_NODE, SCHEDULER_NODE, SIM_NODE)
RECORDER_NODE = "xvla_recorder"
REPLAY_NODE = "xvla_replay"

ROBOT = "wx250s"
"""Default robot name: namespace of the driver's topics and prefix of the frames."""

BASE_LINK = "base_link"
"""Base frame, without the prefix of the robot's name."""
EE_LINK = "ee_gripper_link"
"""End-effector frame, likewise."""

ACTION_CHUNK = "action_chunk"
PLAN = "plan"
DIAGNOSTICS = "/diagnostics"
BESIDE_NETWORK = "beside the network"
"""How figures of the policy's own work begin in its diagnostics."""
BLOCKED = "the arm is blocked"
"""How the scheduler's message begins from the freezing of an arm to the end of its way back."""
JOY = "joy"

STATUS = "~/status"

INSTRUCTION = "~/instruction"
RUN_TASK = "~/run_task"

TARGET_POSE = "~/target_pose"
CURRENT_POSE = "~/current_pose"
PLANNED_PATH = "~/planned_path"
ENABLE_ACTUATION = "~/enable_actuation"
STOP = "~/stop"
CLEAR_STOP = "~/clear_stop"
GO_READY = "~/go_ready"
GO_SLEEP = "~/go_sleep"

RESET_WORLD = "~/reset_world"
WORLD_STATE = "~/world_state"


def of(node: str, private: str) -> str:
    """Relative name under which other nodes of the namespace reach the private name `~/x`."""
    return f"{node}/{private.removeprefix('~/')}"


def camera(slot: int) -> str:
    """Default image topic of a view slot of the policy."""
    return f"camera_{slot}/image_raw"


def compressed(topic: str) -> str:
    """Topic of the compressed images that belong to an image topic (image_transport)."""
    return f"{topic}/compressed"


def sim_camera(camera_name: str) -> str:
    """Image topic of a camera of the simulator: over_shoulder, front or wrist."""
    return f"sim/{camera_name}/image_raw"


def joint_states(robot: str = ROBOT) -> str:
    """Topic of the driver's joint states."""
    return f"/{robot}/joint_states"


def arm_trajectory(robot: str = ROBOT) -> str:
    """Command topic of the arm's joint_trajectory_controller."""
    return f"/{robot}/arm_controller/joint_trajectory"


def gripper_trajectory(robot: str = ROBOT) -> str:
    """Command topic of the gripper's joint_trajectory_controller."""
    return f"/{robot}/gripper_controller/joint_trajectory"


def xs_joint_group(robot: str = ROBOT) -> str:
    """Topic of xs_sdk for commands to a group of joints."""
    return f"/{robot}/commands/joint_group"


def xs_joint_single(robot: str = ROBOT) -> str:
    """Topic of xs_sdk for commands to one joint."""
    return f"/{robot}/commands/joint_single"


def xs_service(service: str, robot: str = ROBOT) -> str:
    """Full name of one of xs_sdk's services, e.g. get_robot_info."""
    return f"/{robot}/{service}"


def base_frame(robot: str = ROBOT) -> str:
    """Frame in which every pose of the package is given."""
    return f"{robot}/{BASE_LINK}"


def ee_frame(robot: str = ROBOT) -> str:
    """Frame whose pose is predicted and commanded."""
    return f"{robot}/{EE_LINK}"
