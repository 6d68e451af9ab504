"""The film shows the plan where it is in the picture."""

import numpy as np
import pytest
from PIL import Image

from xvla_ros.evaluation import recording, video
from xvla_ros.evaluation.recording import PlanTrace
from xvla_ros.evaluation.video import Caption, project
from xvla_ros.sim import cameras


@pytest.fixture(scope="module")
def world():
    from xvla_ros.sim.world import SimWorld

    world = SimWorld("pick", seed=5, jitter=False)
    yield world
    world.close()


@pytest.mark.parametrize("camera", cameras.FIXED, ids=lambda camera: camera.name)
def test_a_point_is_drawn_where_the_simulated_camera_sees_it(camera, world):
    """The cube's centre against the middle of its red pixels."""
    image = world.render(camera.name).astype(int)
    red = (image[..., 0] > 100) & (image[..., 1] < 60) & (image[..., 2] < 60)
    assert red.sum() > 200
    rows, columns = np.nonzero(red)
    pixel = project(camera, world.state().cube.position[None], 640, 480)[0]
    assert pixel == pytest.approx([columns.mean(), rows.mean()], abs=4.0)


def test_what_lies_behind_the_camera_has_no_pixel():
    camera = cameras.FRONT
    behind = np.array(camera.position) + 0.1 * (np.array(camera.position) - camera.target)
    assert np.isnan(project(camera, behind[None], 640, 480)).all()
    ahead = project(camera, np.array([camera.target]), 640, 480)[0]
    assert ahead == pytest.approx([320.0, 240.0])


def test_the_plan_ahead_is_drawn_and_the_closed_part_is_blue():
    positions = np.array([[0.25, -0.1, 0.1], [0.25, 0.0, 0.1], [0.25, 0.1, 0.1]])
    plan = PlanTrace(0.0, 0.0, 0.1, positions, np.array([0.0, 0.0, 1.0]), 1, False)
    picture = np.zeros((480, 640, 3), dtype=np.uint8)
    video.draw_plan(picture, cameras.FRONT, plan, 0.0)
    middles = project(cameras.FRONT, 0.5 * (positions[:-1] + positions[1:]), 640, 480)
    (x1, y1), (x2, y2) = np.rint(middles).astype(int)
    assert picture[y1, x1].tolist() == [255, 225, 25]
    assert picture[y2, x2].tolist() == [20, 90, 230]


def test_a_plan_that_is_over_draws_nothing():
    plan = PlanTrace(0.0, 0.0, 0.1, np.full((3, 3), 0.2), np.zeros(3), 1, True)
    picture = np.zeros((480, 640, 3), dtype=np.uint8)
    video.draw_plan(picture, cameras.FRONT, plan, 5.0)
    assert not picture.any()


def test_the_gif_has_the_length_of_the_episode_and_both_views(run_folder, tmp_path):
    series = recording.load(run_folder / "bag")
    path = tmp_path / "episode.gif"
    assert video.write_episode(path, series, 1001.0, 1004.0, Caption("pick", 1001.0, 2.0))
    with Image.open(path) as film:
        assert film.n_frames == pytest.approx(3.0 * video.FRAME_RATE, abs=2)
        assert film.size == video.SIZE == (720, 360)
        assert film.info["duration"] / 1000.0 == pytest.approx(1 / video.FRAME_RATE, abs=0.01)
        last = np.asarray(film.convert("RGB"))
    # The recorded picture's white square, in the main view and again in the small one.
    assert last[180, 240].min() > 200
    assert last[90, 600].min() > 200
    assert last[20, 600].max() < 120


def test_without_a_fixed_camera_there_is_no_film(run_folder, tmp_path):
    series = recording.load(run_folder / "bag")
    del series.frames["/sim/front/image_raw"]
    path = tmp_path / "episode.gif"
    assert not video.write_episode(path, series, 1001.0, 1004.0, Caption("pick", 1001.0, None))
    assert not path.exists()
