"""The commanded pose counts while it is being followed; otherwise the measured one."""

from dataclasses import replace

import numpy as np
import pytest

from xvla_ros.chunk import Plan
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.runtime.proprio import ProprioParams, ProprioSelector

T = 1000.0


def at(x, angle=0.0):
    return Pose(np.array([x, 0.0, 0.2]), so3_exp([0.0, 0.0, angle]))


def moving(start=T, **changes):
    """0.2 m/s along x for a second, from x = 0.2."""
    poses = tuple(at(0.2 + 0.02 * k) for k in range(11))
    plan = Plan(start, 0.1, poses, (0.0,) * 11, sequence=3, epoch=1, holding=False, actuating=True)
    return replace(plan, **changes)


def selector(*plans, source="commanded", now=T):
    chosen = ProprioSelector(ProprioParams(source=source))
    for plan in plans:
        chosen.add_plan(plan, now)
    return chosen


def test_the_command_at_the_stamp_is_used_not_the_one_now():
    proprio = selector(moving()).choose(T + 0.25, at(0.24), T + 0.4)
    assert (proprio.source, proprio.t_ref) == ("commanded", T + 0.25)
    assert proprio.pose.position[0] == pytest.approx(0.25)


def test_what_was_commanded_by_an_earlier_plan_is_remembered():
    later = moving(start=T + 0.5, poses=tuple(at(0.5) for _ in range(11)), sequence=4)
    chosen = selector(moving())
    chosen.add_plan(later, T + 0.5)
    assert chosen.choose(T + 0.4, at(0.28), T + 0.6).pose.position[0] == pytest.approx(0.28)


def test_without_a_plan_the_measured_pose_is_used():
    proprio = selector().choose(T, at(0.3), T)
    assert (proprio.source, proprio.t_ref) == ("measured", T)
    assert proprio.pose.position[0] == 0.3


@pytest.mark.parametrize(
    ("plan", "measured", "now"),
    [
        (moving(actuating=False), at(0.2), T + 0.1),
        (moving(holding=True), at(0.2), T + 0.1),  # nothing executed in this epoch yet
        (moving(), at(0.2), T + 1.6),  # no plan for more than 1.5 s
        (moving(), at(0.27), T + 0.0),  # 7 cm behind
        (moving(), at(0.2, angle=0.4), T + 0.0),
        (moving(), at(0.2), T - 5.0),  # the clock went back
    ],
    ids=["actuation off", "after a stop", "stale", "far", "turned", "clock back"],
)
@pytest.mark.parametrize("source", ["commanded", "commanded_future"])
def test_a_command_that_is_not_being_followed_is_not_believed(plan, measured, now, source):
    proprio = selector(plan, source=source).choose(min(now, T), measured, now)
    assert proprio.source == "measured"
    assert proprio.pose is measured


def test_measured_can_be_asked_for():
    assert selector(moving(), source="measured").choose(T, at(0.2), T).source == "measured"


def test_a_new_epoch_begins_with_the_measured_pose_until_a_chunk_runs():
    chosen = selector(moving())
    stopped = moving(epoch=2, holding=True)
    chosen.add_plan(stopped, T + 0.1)
    assert chosen.choose(T + 0.1, at(0.21), T + 0.1).source == "measured"
    chosen.add_plan(replace(stopped, holding=False), T + 0.2)
    chosen.add_plan(stopped, T + 0.3)
    # Resting after a chunk of this epoch is a command like any other.
    assert chosen.choose(T + 0.1, at(0.21), T + 0.3).source == "commanded"


def test_the_future_command_counts_from_when_the_chunk_will_arrive():
    proprio = selector(moving(latency=0.3), source="commanded_future").choose(T + 0.1, at(0.21), T)
    assert proprio.source == "commanded_future"
    assert proprio.t_ref == pytest.approx(T + 0.4)
    assert proprio.pose.position[0] == pytest.approx(0.28)


def test_before_a_latency_is_measured_there_is_no_future_command():
    proprio = selector(moving(), source="commanded_future").choose(T, at(0.2), T)
    assert (proprio.source, proprio.t_ref) == ("commanded", T)


def test_a_plan_of_an_earlier_clock_is_forgotten():
    chosen = selector(moving(), now=T)
    before = moving(start=T - 100.0, holding=True)
    chosen.add_plan(before, T - 100.0)
    assert chosen.plan(T - 100.0) is before
    assert chosen.choose(T - 100.0, at(0.2), T - 100.0).source == "measured"
