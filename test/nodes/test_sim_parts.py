"""What the simulator's node is made of: its thread, its parameters, room for images."""

import threading
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from xvla_ros import names, resources
from xvla_ros.evaluation.closed_loop import CAMERAS
from xvla_ros.nodes import fast_dds
from xvla_ros.nodes.parameters.declaration import ParameterRefused, defaults
from xvla_ros.nodes.parameters.sim import SIM_PARAMETERS, check, settings
from xvla_ros.nodes.sim_loop import PeriodicThread, next_deadline
from xvla_ros.training.recipe import Recipe


class Ticks:
    """A thread whose ticks are noted."""

    def __init__(self, fail_at: int = -1) -> None:
        self.times: list[float] = []
        self.errors: list[Exception] = []
        self.threads: list[str] = []
        self.fail_at = fail_at
        self.thread = PeriodicThread(
            "ticker",
            lambda: 0.01,
            self.tick,
            self.errors.append,
            set_up=self.note,
            tear_down=self.note,
        )

    def note(self) -> None:
        self.threads.append(threading.current_thread().name)

    def tick(self) -> None:
        self.times.append(time.monotonic())
        if len(self.times) == self.fail_at:
            raise RuntimeError("broken")


def wait(condition) -> None:
    end = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_it_ticks_until_it_is_stopped():
    ticks = Ticks()
    ticks.thread.start()
    wait(lambda: len(ticks.times) >= 12)
    ticks.thread.stop()
    assert not ticks.errors
    # Set up and torn down in the thread, which has ended.
    assert ticks.threads == ["ticker", "ticker"]
    # Never faster than asked, but for what is made up after a stall.
    assert ticks.times[-1] - ticks.times[0] > 0.05


def test_a_tick_that_is_late_does_not_delay_the_next():
    assert next_deadline(5.0, 0.02, now=5.015) == pytest.approx(5.02)
    assert next_deadline(5.0, 0.02, now=5.035) == pytest.approx(5.02)


def test_ticks_that_were_missed_in_a_stall_are_not_made_up_for():
    due, now, at_once = 5.0, 5.3, 0
    # Each tick at once takes no time; those after it are in the future.
    while (due := next_deadline(due, 0.01, now)) <= now:
        at_once += 1
    assert at_once <= 2
    assert now < due <= now + 0.01 + 1e-9


def test_an_exception_in_a_tick_ends_the_thread_and_is_told():
    ticks = Ticks(fail_at=3)
    ticks.thread.start()
    wait(lambda: ticks.errors)
    ticks.thread.stop()
    assert str(ticks.errors[0]) == "broken"
    assert len(ticks.times) == 3
    assert len(ticks.threads) == 2, "torn down all the same"


def test_an_exception_in_the_set_up_comes_out_of_start():
    def fail() -> None:
        raise OSError("no OpenGL")

    thread = PeriodicThread("t", lambda: 0.01, lambda: None, lambda error: None, set_up=fail)
    with pytest.raises(OSError, match="no OpenGL"):
        thread.start()


def test_the_profile_gives_images_a_segment_that_holds_three_frames():
    environment: dict[str, str] = {}
    assert fast_dds.use_large_segment(environment) is None
    tree = ElementTree.parse(environment[fast_dds.VARIABLE])
    texts = {element.tag.split("}")[-1]: element.text or "" for element in tree.iter()}
    frame = 640 * 480 * 3
    assert int(texts["segment_size"]) == fast_dds.SEGMENT_BYTES > 3 * frame
    assert int(texts["maxMessageSize"]) > frame


@pytest.mark.parametrize(
    "environment",
    [
        {"FASTRTPS_DEFAULT_PROFILES_FILE": "/mine.xml"},
        {"FASTDDS_DEFAULT_PROFILES_FILE": "/mine.xml"},
        {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"},
    ],
)
def test_the_users_own_choice_of_profile_or_middleware_is_left_alone(environment):
    before = dict(environment)
    assert fast_dds.use_large_segment(environment) is None
    assert environment == before


def test_too_little_shared_memory_is_said_with_the_mend(tmp_path):
    environment: dict[str, str] = {}
    message = fast_dds.use_large_segment(environment, Path(tmp_path / "missing"))
    assert message is not None
    assert "--shm-size" in message
    assert "\n" not in message
    assert not environment


def test_settings_hold_every_declared_parameter():
    values = {**defaults(SIM_PARAMETERS), "cameras.wrist.enabled": False}
    chosen = settings(values)
    assert chosen.enabled == {"over_shoulder", "front"}
    assert chosen.camera_rate_hz == 15.0
    assert check(values) is None
    assert "publish_clock" in str(check({**values, "realtime_factor": 0.5}))
    assert check({**values, "realtime_factor": 0.5, "publish_clock": True}) is None


def test_a_camera_rate_that_cannot_be_drawn_is_refused():
    rate = next(p for p in SIM_PARAMETERS if p.name == "camera_rate_hz")
    with pytest.raises(ParameterRefused, match=r"allowed is 0\.5 to 30 Hz"):
        rate.check(500.0)


def test_the_view_slots_are_filled_as_the_demo_policy_was_trained():
    document = yaml.safe_load(resources.config_file("sim.yaml").read_text())
    slots = document[f"/**/{names.POLICY_NODE}"]["ros__parameters"]["cameras"]
    topics = [slots[str(slot)]["topic"] for slot in range(3)]
    assert topics == [*map(names.sim_camera, CAMERAS), ""]
    assert Recipe().cameras == CAMERAS
