"""The simulated robot over real DDS, in a process of its own."""

import signal

import cv2
import numpy as np
import pytest
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from xvla_ros import names
from xvla_ros.arm.constants import ARM_JOINTS, JOINT_STATE_NAMES, LEFT_FINGER
from xvla_ros.msg import WorldState
from xvla_ros.nodes import conversions, qos
from xvla_ros.sim.world import SimWorld
from xvla_ros.srv import ResetWorld

MODULE = "xvla_ros.nodes.sim_node"
RESET = names.of(names.SIM_NODE, names.RESET_WORLD)
STATE = names.of(names.SIM_NODE, names.WORLD_STATE)


class Bench:
    """The node in a child process, and what it publishes."""

    def __init__(self, ros, *parameters: str) -> None:
        self.ros = ros
        self.node = ros.node()
        self.joints: list[JointState] = []
        self.states: list[WorldState] = []
        self.node.create_subscription(
            JointState, names.joint_states(), self.joints.append, qos.JOINT_STATES
        )
        self.node.create_subscription(WorldState, STATE, self.states.append, qos.STATUS)
        self.arm = self.node.create_publisher(JointTrajectory, names.arm_trajectory(), qos.COMMAND)
        self.gripper = self.node.create_publisher(
            JointTrajectory, names.gripper_trajectory(), qos.COMMAND
        )
        arguments = [word for p in parameters for word in ("-p", p)]
        self.process = ros.spawn(MODULE, "--ros-args", *arguments)
        ros.wait_for(lambda: self.joints and self.states, 60.0, "joint states and ground truth")
        ros.wait_for(
            lambda: self.arm.get_subscription_count() and self.gripper.get_subscription_count(),
            what="the controllers",
        )

    def reset(self, seed: int, task: str = "") -> ResetWorld.Response:
        return self.ros.call(self.node, ResetWorld, RESET, ResetWorld.Request(seed=seed, task=task))

    def arm_joints(self) -> np.ndarray:
        return np.array(self.joints[-1].position[:6])

    def move_arm(self, positions, seconds=0.3, joints=ARM_JOINTS) -> None:
        self.arm.publish(trajectory(joints, positions, seconds))


def trajectory(joints, positions, seconds: float) -> JointTrajectory:
    point = JointTrajectoryPoint(positions=[float(p) for p in positions])
    point.time_from_start.sec = int(seconds)
    point.time_from_start.nanosec = int((seconds % 1.0) * 1e9)
    return JointTrajectory(joint_names=list(joints), points=[point])


def stamps(messages) -> np.ndarray:
    return np.array([conversions.seconds(m.header.stamp) for m in messages])


def cube_moved(states: list[WorldState]) -> bool:
    """Whether the cube has gone more than a centimetre aside."""
    cubes = [conversions.pose_from_msg(state.object_poses[0]) for state in states]
    return len(cubes) > 1 and cubes[0].distance(cubes[-1])[0] > 0.01


@pytest.fixture
def bench(ros) -> Bench:
    return Bench(ros)


def test_joint_states_come_as_from_the_driver(bench):
    seen = len(bench.joints)
    bench.ros.wait_for(lambda: len(bench.joints) > seen + 100)
    message = bench.joints[-1]
    assert tuple(message.name) == JOINT_STATE_NAMES
    assert len(message.position) == len(message.velocity) == len(message.effort) == 9
    assert message.position[8] == pytest.approx(-message.position[7])
    times = stamps(bench.joints[seen:])
    assert (np.diff(times) > 0.0).all()
    # 100 Hz; a machine that does other things at the same time may make it slower.
    assert 0.009 < np.median(np.diff(times)) < 0.05
    # Stamped on the clock of this machine.
    now = bench.node.get_clock().now().nanoseconds * 1e-9
    assert -0.5 < now - times[-1] < 5.0


def test_the_world_starts_as_its_seed_says_and_a_reset_puts_it_there_again(bench):
    here = SimWorld("reach", 7)
    answer = bench.reset(7, "reach")
    assert (answer.success, answer.instruction) == (True, "reach the red cube")
    state = bench.ros.wait_for(
        lambda: next((s for s in bench.states if s.seed == 7), None), what="the new seed"
    )
    assert state.task == "reach"
    assert state.elapsed < 1.0
    assert list(state.object_names) == ["red_cube"]
    cube = conversions.pose_from_msg(state.object_poses[0])
    assert cube.distance(here.state().cube)[0] < 1e-3
    assert conversions.pose_from_msg(state.ee_pose).distance(here.state().ee)[0] < 1e-3
    assert state.gripper_gap == pytest.approx(0.054, abs=1e-3)
    assert not state.success

    refused = bench.reset(8, "juggle")
    assert not refused.success
    assert "known: reach, pick" in refused.message
    assert bench.reset(9).instruction == "reach the red cube"

    # Tasks in which the cube does not stay where it is.
    for seed, task in ((10, "reach_moving"), (11, "reach_jump")):
        answer = bench.reset(seed, task)
        assert (answer.success, answer.instruction) == (True, "reach the red cube")
        bench.ros.wait_for(
            lambda seed=seed: cube_moved([s for s in bench.states if s.seed == seed]),
            what=f"a cube that moves in {task}",
        )
        assert {s.task for s in bench.states if s.seed == seed} == {task}


def test_trajectories_move_the_arm_and_the_gripper(bench):
    goal = bench.arm_joints() + np.array([0.3, 0.1, -0.1, 0.2, 0.1, -0.4])
    shuffled = [3, 1, 5, 0, 2, 4]
    bench.move_arm(goal[shuffled], joints=[ARM_JOINTS[i] for i in shuffled])
    bench.ros.wait_for(lambda: np.abs(bench.arm_joints() - goal).max() < 2e-3, what="the goal")
    bench.gripper.publish(trajectory([LEFT_FINGER], [0.020], 0.2))
    bench.ros.wait_for(lambda: abs(bench.joints[-1].position[7] - 0.020) < 1e-3)
    bench.ros.wait_for(lambda: abs(bench.states[-1].gripper_gap - 0.020) < 2e-3)


def test_a_wrong_trajectory_is_refused_in_one_line_and_moves_nothing(bench):
    before = bench.arm_joints()
    bad = [
        trajectory(ARM_JOINTS, [*before[:5], float("nan")], 0.2),
        trajectory(ARM_JOINTS[:5], before[:5] + 0.3, 0.2),
        trajectory([*ARM_JOINTS[:5], "wrist"], before + 0.3, 0.2),
        trajectory(ARM_JOINTS, before[:4] + 0.3, 0.2),
    ]
    old = trajectory(ARM_JOINTS, before + 0.3, 0.2)
    old.header.stamp.sec = 1000
    for message in [*bad, old]:
        seen = len(bench.joints)
        bench.arm.publish(message)
        bench.ros.wait_for(lambda n=seen: len(bench.joints) > n + 25)
    assert bench.arm_joints() == pytest.approx(before, abs=2e-3)
    warnings = [line for line in bench.process.output.splitlines() if "refused" in line]
    assert "/wx250s/arm_controller/joint_trajectory: trajectory refused: point 0" in warnings[0]
    assert "wrist_rotate is nan" in warnings[0]


def test_frames_of_two_cameras_arrive_stamped_and_counted(bench):
    frames: dict[str, list[Image]] = {"front": [], "wrist": []}
    # Deep, so that only what is lost on the way counts, not what this test is too slow for.
    deep = QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=50, reliability=ReliabilityPolicy.BEST_EFFORT
    )
    for name, got in frames.items():
        bench.node.create_subscription(Image, names.sim_camera(name), got.append, deep)
    bench.ros.wait_for(lambda: all(len(got) > 20 for got in frames.values()), 30.0, "frames")

    def counts() -> tuple[int, int]:
        """Frames published and received so far, once nothing is on the way."""
        names_ = list(frames)
        state = bench.states[-1]
        published = dict(zip(state.camera_names, state.frames_published, strict=True))
        return sum(published[n] for n in names_), sum(map(len, frames.values()))

    published, received = counts()
    bench.ros.wait_for(lambda: len(frames["wrist"]) > 90, 60.0, "six seconds of frames")
    later_published, later_received = counts()
    sent, arrived = later_published - published, later_received - received
    # The ground truth counts at 10 Hz: up to two frames of each camera may be on either side.
    assert arrived >= 0.98 * sent - 4

    message = frames["front"][-1]
    assert (message.width, message.height, message.step) == (640, 480, 1920)
    assert message.encoding == "rgb8"
    assert message.header.frame_id == "wx250s/camera_front"
    picture = conversions.image_to_rgb(message, "front")
    red = (picture[..., 0] > 80) & (picture[..., 0] > 3.0 * picture[..., 1])
    assert 500 < red.sum() < 20000
    for got_frames in frames.values():
        assert (np.diff(stamps(got_frames)) > 0.0).all()
    # A frame is stamped with the state that it shows, which joint states have been sent for.
    assert abs(stamps([message])[0] - stamps(bench.joints)).min() < 0.011


def test_a_camera_can_be_stopped_and_started_and_the_others_go_on(bench):
    frames: dict[str, list[Image]] = {"front": [], "wrist": []}
    for name, got in frames.items():
        bench.node.create_subscription(Image, names.sim_camera(name), got.append, qos.IMAGE)
    bench.ros.wait_for(lambda: all(frames.values()), 30.0, "frames of both")
    taken, _ = bench.ros.set_parameter(bench.node, names.SIM_NODE, "cameras.front.enabled", False)
    assert taken
    seen = len(frames["wrist"])
    bench.ros.wait_for(lambda: len(frames["wrist"]) > seen + 3)
    stopped, seen = len(frames["front"]), len(frames["wrist"])
    bench.ros.wait_for(lambda: len(frames["wrist"]) > seen + 10)
    assert len(frames["front"]) == stopped
    bench.ros.set_parameter(bench.node, names.SIM_NODE, "cameras.front.enabled", True)
    bench.ros.wait_for(lambda: len(frames["front"]) > stopped + 3)


def test_compressed_frames_show_the_same(bench):
    topic = names.sim_camera("over_shoulder")
    raw: list[Image] = []
    small: list[CompressedImage] = []
    bench.node.create_subscription(Image, topic, raw.append, qos.IMAGE)
    bench.node.create_subscription(
        CompressedImage, names.compressed(topic), small.append, qos.IMAGE
    )
    bench.ros.wait_for(lambda: len(small) > 5 and raw, 30.0, "both kinds")
    assert len(small[-1].data) < 100_000
    decoded = conversions.image_to_rgb(small[-1], topic)
    exact = conversions.image_to_rgb(raw[-1], topic)
    # JPEG halves the resolution of colour, so compare brightness.
    difference = cv2.cvtColor(decoded, cv2.COLOR_RGB2GRAY).astype(int) - cv2.cvtColor(
        exact, cv2.COLOR_RGB2GRAY
    )
    assert np.abs(difference).mean() < 2.0
    assert np.abs(decoded.mean(axis=(0, 1)) - exact.mean(axis=(0, 1))).max() < 2.0


def test_with_its_own_clock_simulated_time_runs_at_the_rate_asked_for(ros):
    clock: list[float] = []
    observer = ros.node("watch")
    observer.create_subscription(
        Clock, "/clock", lambda m: clock.append(conversions.seconds(m.clock)), 10
    )
    bench = Bench(ros, "publish_clock:=true", "realtime_factor:=0.5")
    ros.wait_for(lambda: len(clock) > 100)
    wall = bench.node.get_clock().now().nanoseconds * 1e-9
    first, first_wall = clock[-1], wall
    ros.wait_for(lambda: clock[-1] > first + 1.0, 30.0)
    rate = (clock[-1] - first) / (bench.node.get_clock().now().nanoseconds * 1e-9 - first_wall)
    # A busy machine may make it slower, nothing makes it faster.
    assert 0.2 < rate < 0.55
    assert (np.diff(clock) >= 0.0).all()
    assert stamps(bench.joints[-1:])[0] < 1e6
    # Commands are timed on the simulated clock.
    goal = bench.arm_joints() + np.array([0.2, 0.0, 0.0, 0.0, 0.0, 0.0])
    bench.move_arm(goal)
    ros.wait_for(lambda: np.abs(bench.arm_joints() - goal).max() < 2e-3, 30.0, "the goal")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_when_asked(bench, how):
    frames: list[Image] = []
    bench.node.create_subscription(Image, names.sim_camera("wrist"), frames.append, qos.IMAGE)
    bench.ros.wait_for(lambda: frames, 30.0, "a frame")
    bench.process.send(how)
    assert bench.process.wait(15.0) == 0
    assert "Traceback" not in bench.process.output
    assert "Exception" not in bench.process.output


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("task:=fly", "'task' cannot be 'fly': allowed is one of reach, pick"),
        ("realtime_factor:=2.0", "'realtime_factor' other than 1 needs 'publish_clock: true'"),
    ],
)
def test_a_wrong_parameter_ends_it_with_one_line(ros, parameter, words):
    process = ros.spawn(MODULE, "--ros-args", "-p", parameter)
    assert process.wait(30.0) == 2
    assert words in process.output
    assert "Traceback" not in process.output
