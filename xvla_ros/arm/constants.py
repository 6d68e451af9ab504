"""Published numbers of the Interbotix WidowX 250S (model name `wx250s`).

Kinematics, limits and poses: Interbotix/interbotix_ros_manipulators,
`interbotix_xsarm_descriptions/urdf/wx250s.urdf.xacro` and `interbotix_xsarm_control/config/
wx250s.yaml`. The screw axes of the same arm: Interbotix/interbotix_ros_toolboxes,
`xs_robot/mr_descriptions.py`. Bridge numbers: rail-berkeley/bridge_data_robot. Lengths in metres,
angles in radians.
"""

from __future__ import annotations

from math import pi, radians

ARM_JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
GRIPPER_JOINT = "gripper"
LEFT_FINGER = "left_finger"
RIGHT_FINGER = "right_finger"
JOINT_STATE_NAMES = (*ARM_JOINTS, GRIPPER_JOINT, LEFT_FINGER, RIGHT_FINGER)
"""Names in the order in which the robot's driver publishes them on `joint_states`."""

# Each joint's origin in the frame of the joint before it; axes z, y, y, x, y, x.
WAIST_HEIGHT = 0.072
SHOULDER_HEIGHT = 0.03865
ELBOW_FORWARD = 0.04975
ELBOW_UP = 0.25
FOREARM_ROLL_FORWARD = 0.175
WRIST_ANGLE_FORWARD = 0.075
WRIST_ROTATE_FORWARD = 0.065
# From the wrist_rotate joint to the point between the finger tips (arm, bar and finger links).
EE_FORWARD = 0.043 + 0.023 + 0.027575

# The URDF keeps the full-turn joints 1e-5 rad short of half a turn.
_TURN = pi - 1e-5
JOINT_LOWER = (-_TURN, radians(-108), radians(-123), -_TURN, radians(-100), -_TURN)
JOINT_UPPER = (_TURN, radians(114), radians(92), _TURN, radians(123), _TURN)
JOINT_MAX_SPEED = (pi,) * 6
"""rad/s."""
ENCODER_STEP = 2.0 * pi / 4096
"""Resolution of a joint's position."""

HOME = (0.0,) * 6
SLEEP = (0.0, -1.80, 1.55, 0.0, 0.8, 0.0)
READY = (-0.13192, -0.76239, 0.44485, -0.01994, 1.75641, -0.15953)
"""The neutral joints from which BridgeData episodes start: gripper down, above the table."""

FINGER_LOWER = 0.015
"""Position of one finger with the gripper closed; the other finger has the same with minus."""
FINGER_UPPER = 0.037
"""Position of one finger with the gripper open."""
GRIPPER_HORN = 0.014
"""Radius of the crank on the gripper's motor."""
GRIPPER_ROD = 0.024
"""Length of the rod between crank and finger."""
BRIDGE_FINGER_CLOSED = 0.010
BRIDGE_FINGER_OPEN = 0.035
"""One finger's position at which BridgeData's gripper number is 0 and 1."""
