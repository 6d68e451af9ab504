"""The cameras of the simulated workspace and their software renderer."""

from __future__ import annotations

import ctypes.util
import os
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from xvla_ros.geometry import Array

WIDTH = 640
HEIGHT = 480

_GL_MEND = (
    "no OpenGL to draw without a display: apt-get install libosmesa6, or for MUJOCO_GL=egl: "
    "apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri"
)


class RenderingUnavailable(RuntimeError):
    """This machine has no OpenGL that can draw without a display."""


@dataclass(frozen=True)
class Camera:
    """A pinhole camera: where it is, where it looks, vertical field of view in degrees."""

    name: str
    position: tuple[float, float, float]
    target: tuple[float, float, float]
    fovy: float
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)

    def rotation(self) -> Array:
        """(3, 3) in MuJoCo's convention: x right, y up, the camera looks along -z."""
        back = np.subtract(self.position, self.target)
        back /= np.linalg.norm(back)
        right = np.cross(self.up, back)
        right /= np.linalg.norm(right)
        return np.column_stack([right, np.cross(back, right), back])

    def mjcf(self) -> str:
        """The MJCF element."""
        r = self.rotation()
        axes = " ".join(f"{v:.6f}" for v in (*r[:, 0], *r[:, 1]))
        pos = " ".join(str(v) for v in self.position)
        return f'<camera name="{self.name}" pos="{pos}" xyaxes="{axes}" fovy="{self.fovy}"/>'


# The wrist camera rides on gripper_link (x forward along the fingers, z away from the palm);
# the two others stand in the robot's base frame.
WRIST = Camera("wrist", (0.020, 0.0, 0.075), (0.116, 0.0, 0.012), 66.0)
OVER_SHOULDER = Camera("over_shoulder", (-0.10, -0.42, 0.46), (0.21, 0.0, 0.08), 50.0)
FRONT = Camera("front", (0.66, 0.0, 0.42), (0.245, 0.0, 0.080), 36.0)
FIXED = (OVER_SHOULDER, FRONT)
NAMES = tuple(camera.name for camera in (OVER_SHOULDER, FRONT, WRIST))


def import_mujoco() -> ModuleType:
    """MuJoCo with a software OpenGL chosen, unless MUJOCO_GL already says which.

    MuJoCo reads MUJOCO_GL once, at import: every module of `sim` imports it through here. Where
    there is no OpenGL at all, the physics still works.

    Raises:
        RenderingUnavailable: MUJOCO_GL names what this machine does not have.
    """
    if "MUJOCO_GL" not in os.environ:
        choices = (("OSMesa", "osmesa"), ("EGL", "egl"))
        found = [name for library, name in choices if ctypes.util.find_library(library)]
        os.environ["MUJOCO_GL"] = found[0] if found else "disable"
    try:
        import mujoco
    except Exception as error:  # PyOpenGL fails with whatever comes first without its library
        raise _unavailable(error) from error
    return mujoco


def _unavailable(error: Exception) -> RenderingUnavailable:
    backend = os.environ["MUJOCO_GL"]
    reason = " ".join(str(error).split())
    return RenderingUnavailable(f"{_GL_MEND} (MUJOCO_GL={backend}: {reason})")


class Renderer:
    """Draws one model. Make it, use it and close it in one thread: OpenGL belongs to a thread."""

    def __init__(self, model: object, height: int = HEIGHT, width: int = WIDTH) -> None:
        mujoco = import_mujoco()
        try:
            self._renderer = mujoco.Renderer(model, height, width)
        except Exception as error:  # mujoco, PyOpenGL and ctypes each raise their own
            raise _unavailable(error) from error
        # Shadows and reflections cost eight times the rest in software.
        flags = self._renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0

    def render(self, data: object, camera: str) -> NDArray[np.uint8]:
        """RGB picture (height, width, 3) of the state in `data`, whose kinematics are done."""
        self._renderer.update_scene(data, camera)
        return np.asarray(self._renderer.render())

    def close(self) -> None:
        """Frees the OpenGL context."""
        self._renderer.close()
