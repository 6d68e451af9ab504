"""What the pictures show, against a pinhole projection written here."""

import subprocess
import sys
import textwrap

import cv2
import numpy as np
import pytest

from xvla_ros.sim import cameras
from xvla_ros.sim.world import SimWorld


def red(picture: np.ndarray) -> np.ndarray:
    r, g, b = (picture[..., i].astype(int) for i in range(3))
    return (r > 80) & (r > 3 * g) & (r > 3 * b)


def green(picture: np.ndarray) -> np.ndarray:
    r, g, b = (picture[..., i].astype(int) for i in range(3))
    return (g > 60) & (g > 1.8 * r) & (g > 1.8 * b)


def centre(mask: np.ndarray) -> np.ndarray:
    """Column and row of the middle of the box around a mask's pixels."""
    rows, columns = np.nonzero(mask)
    return np.array([columns.min() + columns.max() + 1, rows.min() + rows.max() + 1]) / 2.0


def project(camera: cameras.Camera, points: np.ndarray) -> np.ndarray:
    """Pixels (n, 2) of points (n, 3): focal length from the vertical field of view."""
    forward = np.subtract(camera.target, camera.position)
    forward = forward / np.linalg.norm(forward)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    away = points - np.array(camera.position)
    focal = 240.0 / np.tan(np.radians(camera.fovy) / 2.0)
    depth = away @ forward
    return np.column_stack(
        [320.0 + focal * (away @ right) / depth, 240.0 + focal * (away @ down) / depth]
    )


@pytest.mark.parametrize("camera", [cameras.FRONT, cameras.OVER_SHOULDER], ids=lambda c: c.name)
@pytest.mark.parametrize("spot", [(0.19, -0.13), (0.33, -0.13), (0.26, -0.05)])
def test_the_cube_is_drawn_where_a_pinhole_camera_sees_it(world, camera, spot):
    world.place("red_cube", *spot, 0.0)
    corners = np.array(
        [
            [spot[0] + i * 0.0175, spot[1] + j * 0.0175, 0.0175 + k * 0.0175]
            for i in (-1, 1)
            for j in (-1, 1)
            for k in (-1, 1)
        ]
    )
    pixels = project(camera, corners)
    expected = (pixels.min(axis=0) + pixels.max(axis=0)) / 2.0
    assert centre(red(world.render(camera.name))) == pytest.approx(expected, abs=1.5)


def test_every_start_shows_the_whole_cube_to_the_front_camera():
    world = SimWorld()
    try:
        for seed in range(25):
            world.reset(seed)
            mask = red(world.render("front"))
            assert mask.sum() > 700, f"seed {seed}"
            assert not mask[[0, -1]].any()
            assert not mask[:, [0, -1]].any()
    finally:
        world.close()


def pad_gap(world, put_above, finger: float, cube: tuple[float, float]) -> float:
    """Pixels from pad to pad, middle to middle, in the wrist view squashed to 64 x 64."""
    put_above(world, 0.26, 0.0, 0.028, finger)
    world.place("red_cube", *cube, 0.0)
    small = cv2.resize(world.render("wrist"), (64, 64), interpolation=cv2.INTER_AREA)
    columns = np.nonzero(green(small))[1]
    return float(columns[columns >= 32].mean() - columns[columns < 32].mean())


def test_the_wrist_view_tells_open_from_closed_from_closed_on_the_cube_even_at_64_pixels(
    world, put_above
):
    opened = pad_gap(world, put_above, 0.037, (0.26, 0.0))
    holding = pad_gap(world, put_above, 0.0275, (0.26, 0.0))
    closed = pad_gap(world, put_above, 0.015, (0.33, 0.13))
    assert opened >= holding + 4
    assert holding >= closed + 4


def test_the_wrist_view_shows_the_cube_between_the_fingers(world, put_above):
    pad_gap(world, put_above, 0.037, (0.26, 0.0))
    mask = red(world.render("wrist"))
    assert mask.sum() > 0.04 * mask.size
    assert centre(mask)[0] == pytest.approx(320.0, abs=6.0)


def test_pictures_are_what_a_camera_driver_publishes(world):
    for name in cameras.NAMES:
        picture = world.render(name)
        assert picture.shape == (480, 640, 3)
        assert picture.dtype == np.uint8
        assert picture.std() > 10.0
    with pytest.raises(
        ValueError, match=r"no camera 'ceiling'; known: over_shoulder, front, wrist"
    ):
        world.render("ceiling")


def test_a_snapshot_is_drawn_as_it_was_although_the_world_went_on(world):
    snapshot, before = world.snapshot(), world.render("front")
    world.place("red_cube", 0.20, 0.12, 0.3)
    world.command_arm(np.zeros(6))
    world.step(0.5)
    now = world.render("front")
    assert np.array_equal(world.render("front", snapshot), before)
    assert not np.array_equal(now, before)


def test_looks_vary_with_the_seed_and_only_a_little(put_above):
    world = SimWorld()
    try:
        pictures = []
        for seed in (1, 2):
            world.reset(seed)
            put_above(world, 0.24, 0.0, 0.16)
            world.place("red_cube", 0.26, -0.05, 0.0)
            pictures.append(world.render("front").astype(float))
        difference = np.abs(pictures[0] - pictures[1])
        assert difference.mean() > 1.0
        moved = centre(red(pictures[0])) - centre(red(pictures[1]))
        assert 0.0 < np.abs(moved).max() < 15.0
    finally:
        world.close()


# A machine without the OpenGL libraries: the dynamic loader does not find them.
NO_OPENGL = """
    import ctypes, ctypes.util
    plain, find = ctypes.CDLL, ctypes.util.find_library
    missing = lambda name: any(word in str(name) for word in ("OSMesa", "EGL"))
    class Loader(plain):
        def __init__(self, name, *args, **options):
            if missing(name):
                raise OSError(f"{name}: cannot open shared object file")
            super().__init__(name, *args, **options)
    ctypes.CDLL = Loader
    ctypes.cdll = ctypes.LibraryLoader(Loader)
    ctypes.util.find_library = lambda name: None if missing(name) else find(name)
    from xvla_ros.sim.world import SimWorld
    world = SimWorld()
    world.step(0.1)
    print("physics works")
    world.render("front")
"""


def test_without_opengl_the_physics_works_and_a_picture_names_the_package_to_install(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(NO_OPENGL)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "physics works" in child.stdout
    last = child.stderr.strip().splitlines()[-1]
    assert "RenderingUnavailable" in last
    assert "apt-get install libosmesa6" in last
