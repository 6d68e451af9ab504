"""The simulated WidowX 250S: an MJCF description with primitive shapes only.

Offsets, axes, ranges and masses are those of Interbotix' published description
(interbotix_ros_manipulators, urdf/wx250s.urdf.xacro). It is a description of its own, as the
URDF of the real arm is: the kinematics used for control are checked against it, not made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, sin, sqrt

from xvla_ros.arm.constants import FINGER_LOWER, FINGER_UPPER, GRIPPER_HORN, GRIPPER_ROD
from xvla_ros.arm.gripper import motor_from_finger

GRIPPER_ACTUATOR = "gripper"
EE_SITE = "ee_gripper_link"

PAD_OFFSET = 0.010
"""m from the finger's joint coordinate back to the inner face of its pad."""
TIP_BEYOND_EE = 0.0224
"""m that the finger tips reach beyond the ee frame."""

# Motor lag (s): a first-order filter on the position target stands for serial latency and for
# the motor's own profile; with the damping of the servo the arm follows about 0.1 s behind.
ARM_FILTER_S = 0.05
GRIPPER_FILTER_S = 0.03
GRIPPER_FORCE_N = 8.0

# Dynamixel XM430-W350: 4.1 N m at 2.3 A (robotis e-manual), read as a constant.
TORQUE_PER_MA = 4.1 / 2300.0

_DARK = ".13 .13 .15 1"
_GREY = ".30 .31 .34 1"
_METAL = ".62 .64 .68 1"
PAD_RGBA = ".10 .85 .35 1"


@dataclass(frozen=True)
class _Servo:
    """Position servo of one joint: stiffness (N m/rad), torque limit (N m), rotor inertia."""

    kp: float
    torque: float
    armature: float


_SERVOS = {
    "waist": _Servo(120.0, 10.0, 0.05),
    "shoulder": _Servo(160.0, 20.0, 0.05),
    "elbow": _Servo(120.0, 15.0, 0.05),
    "forearm_roll": _Servo(60.0, 5.0, 0.03),
    "wrist_angle": _Servo(60.0, 5.0, 0.03),
    "wrist_rotate": _Servo(30.0, 2.0, 0.02),
}


def _joint(name: str, axis: str, low: float, high: float) -> str:
    servo = _SERVOS[name]
    return (
        f'<joint name="{name}" axis="{axis}" range="{low} {high}" '
        f'armature="{servo.armature}" damping=".3" frictionloss=".03"/>'
    )


def _geom(kind: str, size: str, pos: str, mass: float, rgba: str, extra: str = "") -> str:
    return f'<geom type="{kind}" size="{size}" pos="{pos}" mass="{mass}" rgba="{rgba}" {extra}/>'


def _rod(end: str, radius: float, mass: float, rgba: str, start: str = "0 0 0") -> str:
    return (
        f'<geom type="capsule" size="{radius}" fromto="{start} {end}" mass="{mass}" rgba="{rgba}"/>'
    )


def _axle(half: float, radius: float, rgba: str) -> str:
    """A massless motor drum along y that makes a joint visible."""
    return (
        f'<geom type="cylinder" size="{radius}" fromto="0 {-half} 0 0 {half} 0" mass="0" '
        f'rgba="{rgba}" contype="0" conaffinity="0"/>'
    )


def _finger(side: str, sign: int) -> str:
    low, high = (FINGER_LOWER, FINGER_UPPER) if sign > 0 else (-FINGER_UPPER, -FINGER_LOWER)
    inner = -sign * PAD_OFFSET
    tip = 0.093575 - 0.066 + TIP_BEYOND_EE
    return f"""
    <body name="{side}_finger_link" pos=".066 0 0" gravcomp="1">
      <joint name="{side}_finger" type="slide" axis="0 1 0" range="{low} {high}"
             armature=".02" damping="60"/>
      {_geom("box", ".016 .004 .009", f".016 {inner + sign * 0.012:.4f} 0", 0.01, _DARK)}
      <geom name="{side}_pad" class="pad" size="{(tip - 0.012) / 2:.5f} .004 .0075"
            pos="{(tip + 0.012) / 2:.5f} {inner + sign * 0.004:.4f} 0" mass=".01"/>
    </body>"""


def robot_body(wrist_camera: str) -> str:
    """The body tree of the arm; `wrist_camera` is an MJCF element placed on gripper_link."""
    return f"""
  <body name="base_link" gravcomp="1">
    {_geom("box", ".075 .055 .022", "-.02 0 .022", 0.34, _DARK)}
    {_geom("cylinder", ".042 .014", "0 0 .058", 0.2, _GREY)}
    <body name="shoulder_link" pos="0 0 .072" gravcomp="1">
      {_joint("waist", "0 0 1", -3.14158, 3.14158)}
      {_geom("cylinder", ".038 .012", "0 0 .012", 0.24, _DARK)}
      {_geom("box", ".024 .034 .022", "0 0 .036", 0.24, _GREY)}
      <body name="upper_arm_link" pos="0 0 .03865" gravcomp="1">
        {_joint("shoulder", "0 1 0", -1.88496, 1.98968)}
        {_axle(0.042, 0.019, _METAL)}
        {_rod("0 0 .25", 0.019, 0.33, _DARK)}
        {_rod(".04975 0 .25", 0.019, 0.10, _DARK, "0 0 .25")}
        <body name="upper_forearm_link" pos=".04975 0 .25" gravcomp="1">
          {_joint("elbow", "0 1 0", -2.14675, 1.6057)}
          {_axle(0.036, 0.019, _METAL)}
          {_rod(".15 0 0", 0.017, 0.235, _DARK)}
          <body name="lower_forearm_link" pos=".175 0 0" gravcomp="1">
            {_joint("forearm_roll", "1 0 0", -3.14158, 3.14158)}
            {_rod(".06 0 0", 0.016, 0.22, _GREY)}
            <body name="wrist_link" pos=".075 0 0" gravcomp="1">
              {_joint("wrist_angle", "0 1 0", -1.74533, 2.14675)}
              {_axle(0.027, 0.016, _METAL)}
              {_rod(".045 0 0", 0.015, 0.085, _DARK)}
              <body name="gripper_link" pos=".065 0 0" gravcomp="1">
                {_joint("wrist_rotate", "1 0 0", -3.14158, 3.14158)}
                {_geom("box", ".018 .022 .016", ".022 0 0", 0.06, _GREY)}
                {_geom("box", ".005 .050 .010", ".052 0 0", 0.05, _DARK)}
                <site name="{EE_SITE}" pos=".093575 0 0" size=".002" group="4"/>
                {wrist_camera}
                {_finger("left", 1)}
                {_finger("right", -1)}
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>
  </body>"""


def robot_defaults() -> str:
    """Material of the finger pads: rubber that is easy to see."""
    return f"""
  <default class="pad">
    <geom type="box" rgba="{PAD_RGBA}" friction="1.5 .02 .001" condim="4"
          solref=".005 1" priority="1"/>
  </default>"""


def robot_actuators() -> str:
    """Equality of the fingers, neighbours that may touch, and the position servos."""
    arm = "\n".join(
        f'<position name="{name}" joint="{name}" kp="{servo.kp}" dampratio="1" '
        f'timeconst="{ARM_FILTER_S}" forcerange="{-servo.torque} {servo.torque}"/>'
        for name, servo in _SERVOS.items()
    )
    return f"""
  <equality>
    <joint joint1="right_finger" joint2="left_finger" polycoef="0 -1 0 0 0" solref=".004 1"/>
  </equality>
  <contact>
    <exclude body1="base_link" body2="shoulder_link"/>
    <exclude body1="shoulder_link" body2="upper_arm_link"/>
    <exclude body1="upper_forearm_link" body2="lower_forearm_link"/>
    <exclude body1="lower_forearm_link" body2="wrist_link"/>
    <exclude body1="lower_forearm_link" body2="gripper_link"/>
    <exclude body1="left_finger_link" body2="right_finger_link"/>
    <exclude body1="gripper_link" body2="left_finger_link"/>
    <exclude body1="gripper_link" body2="right_finger_link"/>
  </contact>
  <actuator>
    {arm}
    <position name="{GRIPPER_ACTUATOR}" joint="left_finger" kp="800" kv="10"
              timeconst="{GRIPPER_FILTER_S}" forcerange="{-GRIPPER_FORCE_N} {GRIPPER_FORCE_N}"/>
  </actuator>"""


def gripper_motor(finger: float, finger_speed: float, force: float) -> tuple[float, float, float]:
    """Angle (rad), speed (rad/s) and torque (N m) of the gripper's motor.

    From a finger's position (m), speed (m/s) and the force on it (N), through the crank of
    `arm.gripper`: with f = h sin + sqrt(a^2 - h^2 cos^2), df/dtheta is the lever.
    """
    # A contact can press a finger a little beyond its range, where the crank has no lever.
    angle = motor_from_finger(min(max(finger, FINGER_LOWER), FINGER_UPPER))
    across = GRIPPER_HORN * cos(angle)
    lever = across * (1.0 + GRIPPER_HORN * sin(angle) / sqrt(GRIPPER_ROD**2 - across**2))
    return angle, finger_speed / lever, force * lever
