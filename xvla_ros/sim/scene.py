"""The whole simulated world as MJCF: robot, table, objects, light, cameras."""

from __future__ import annotations

from xvla_ros.sim import cameras
from xvla_ros.sim.robot import robot_actuators, robot_body, robot_defaults

CUBE = "red_cube"
CUBE_HALF = 0.0175
CUBE_MASS = 0.030
DISTRACTOR = "blue_cube"
KEY_LIGHT = "key"
TABLE = "table"
TABLE_RGBA = (0.76, 0.66, 0.52, 1.0)
TIMESTEP = 0.002

_CUBE_COLOURS = {CUBE: ".85 .07 .06 1", DISTRACTOR: ".10 .25 .80 1"}


def _cube(name: str) -> str:
    return f"""
  <body name="{name}" pos=".26 0 {CUBE_HALF}">
    <freejoint name="{name}"/>
    <geom name="{name}" type="box" size="{CUBE_HALF} {CUBE_HALF} {CUBE_HALF}"
          mass="{CUBE_MASS}" rgba="{_CUBE_COLOURS[name]}" friction="1 .01 .001" condim="4"/>
  </body>"""


def build_mjcf(distractor: bool = False) -> str:
    """MJCF of the world; the robot's base frame is the world frame, the table top is z = 0.

    Solver settings follow the MuJoCo Menagerie's model of this arm: implicitfast, elliptic
    friction cones, impratio 10. Multisampling is off: it costs more than it shows.
    """
    fixed = "\n".join(camera.mjcf() for camera in cameras.FIXED)
    objects = "".join(_cube(name) for name in objects_of(distractor))
    rgba = " ".join(str(v) for v in TABLE_RGBA)
    return f"""
<mujoco model="wx250s_table">
  <compiler angle="radian"/>
  <option timestep="{TIMESTEP}" integrator="implicitfast" cone="elliptic" impratio="10"/>
  <visual>
    <global offwidth="{cameras.WIDTH}" offheight="{cameras.HEIGHT}"/>
    <quality offsamples="0" shadowsize="0"/>
    <headlight ambient=".38 .38 .38" diffuse=".22 .22 .22" specular="0 0 0"/>
    <map znear=".02" zfar="20"/>
  </visual>
  <default>{robot_defaults()}
  </default>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1=".86 .90 .94" rgb2=".55 .60 .66"
             width="64" height="384"/>
  </asset>
  <worldbody>
    <light name="{KEY_LIGHT}" pos=".5 -.6 1.2" dir="-.25 .5 -1" directional="true"
           diffuse=".62 .60 .57" specular=".15 .15 .15"/>
    <geom name="{TABLE}" type="box" pos=".20 0 -.02" size=".42 .50 .02" rgba="{rgba}"/>
    <geom name="floor" type="plane" pos="0 0 -.75" size="4 4 .1" rgba=".46 .49 .52 1"/>
    {robot_body(cameras.WRIST.mjcf())}
    {objects}
    {fixed}
  </worldbody>
  {robot_actuators()}
</mujoco>"""


def objects_of(distractor: bool) -> tuple[str, ...]:
    """Names of the free objects in the world."""
    return (CUBE, DISTRACTOR) if distractor else (CUBE,)
