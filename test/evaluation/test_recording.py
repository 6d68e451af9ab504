"""The series of a run are those that its messages carried."""

import numpy as np
import pytest

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.evaluation import recording


@pytest.fixture(scope="module")
def series(run_folder):
    return recording.load(run_folder / "bag")


def test_commands_and_measurements_are_joints_by_name(series, live_bag):
    commanded, measured = series.commanded, series.measured
    assert commanded.times == pytest.approx(np.arange(1000.0, 1006.0, 0.02))
    assert commanded.joints[50] == pytest.approx(live_bag.joints(1001.0))
    assert measured.joints[100, 0] == pytest.approx(live_bag.joints(1001.0)[0] - live_bag.LAG_RAD)
    assert measured.finger[0] == pytest.approx(0.02)


def test_a_gripper_command_holds_until_the_next(series):
    fingers = series.commanded.finger
    times = series.commanded.times
    assert fingers[times < 1000.99] == pytest.approx(0.037)
    assert fingers[times > 1001.01] == pytest.approx(0.015)


def test_positions_are_those_of_the_gripper(series, live_bag):
    expected = WidowX250s().fk(live_bag.READY).position
    assert series.commanded.positions()[0] == pytest.approx(expected)


def test_a_span_cuts_out_its_part(series):
    part = series.commanded.between(1001.0, 1002.0)
    assert part.times[0] >= 1001.0
    assert len(part.times) == pytest.approx(50, abs=1)
    assert len(part.finger) == len(part.joints) == len(part.times)


def test_chunks_keep_when_they_were_observed_computed_and_received(series, live_bag):
    first = series.chunks[0]
    assert first.sequence == 1
    assert first.inference_end - first.inference_start == pytest.approx(live_bag.INFERENCE_S)
    assert first.received - first.stamp == pytest.approx(0.13)
    assert len(series.chunks) == 11


def test_a_repeated_plan_is_no_change_of_chunk(series):
    assert series.switches() == pytest.approx(np.arange(1000.6, 1006.0, 0.5))


def test_what_is_ahead_of_a_plan_shrinks_with_time(series):
    plan = series.plan_at(1000.75)
    assert plan is not None
    assert plan.sequence == 1
    positions, gripper = plan.ahead(1000.75)
    assert positions[:, 2] == pytest.approx([0.1, 0.05])
    assert gripper.tolist() == [1.0, 1.0]
    assert len(plan.ahead(1002.0)[0]) == 0
    assert series.plan_at(999.0) is None


def test_frames_go_by_the_name_of_their_raw_topic(series):
    assert set(series.frames) == {"/sim/front/image_raw", "/sim/wrist/image_raw"}
    assert len(series.frames["/sim/front/image_raw"]) == 90


def test_the_last_statuses_are_kept(series):
    assert series.scheduler_status.priority == "SCHED_FIFO 20"
    assert series.policy_status.device == "cpu"
