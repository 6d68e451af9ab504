"""Trouble upon trouble on one running scheduler, with every command that is heard in its limits."""

from __future__ import annotations

import time

import numpy as np

from xvla_ros import names
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Refusal
from xvla_ros.msg import SchedulerStatus

NODE = names.SCHEDULER_NODE
ARM = WidowX250s()
LOW, HIGH = np.array([0.10, -0.20, -0.01]), np.array([0.45, 0.25, 0.30])
MARGIN_RAD = 0.05


def assert_within_limits(rig) -> None:
    """Joint limits with their margin, the workspace, and no step faster than the arm may go."""
    joints = np.array([command[1] for command in rig.robot.commands])
    assert (joints >= ARM.lower + MARGIN_RAD - 1e-9).all()
    assert (joints <= ARM.upper - MARGIN_RAD + 1e-9).all()
    positions = np.array([ARM.fk(q).position for q in joints])
    assert (positions >= LOW - 1e-4).all()
    assert (positions <= HIGH + 1e-4).all()
    rig.assert_continuous()


def wait_refused(rig, reason: Refusal, since: dict[str, int]) -> None:
    before = since.get(reason.value, 0)
    rig.wait_for(lambda: rig.refusals().get(reason.value, 0) > before, what=reason.value)


def test_floods_old_chunks_gaps_and_changed_parameters_leave_every_command_in_its_limits(rig):
    rig.start("execution_horizon_s:=5.0")
    policy = rig.add_policy()
    rig.run_until_moving()

    # A thousand chunks a second for a second and a half.
    count, begun = len(rig.robot.commands), time.monotonic()
    while time.monotonic() < begun + 1.5:
        policy.send()
        time.sleep(0.001)
    arrivals = [command[0] for command in rig.robot.commands[count:]]
    assert np.diff(arrivals).mean() < 0.03
    assert_within_limits(rig)
    rig.wait_moving()

    # A chunk from ten seconds ago, and one for another robot.
    since = rig.refusals()
    old = policy.chunk()
    policy.send(old, stamp=old.stamp - 10.0, t_ref=old.t_ref - 10.0)
    wait_refused(rig, Refusal.CLOCKS_DIFFER, since)
    policy.send(frame_id="wx250/base_link")
    wait_refused(rig, Refusal.WRONG_FRAME, since)
    assert rig.status.actuating

    # Joint states that pause for as long as is borne: the arm goes on without being asked.
    rig.robot.silent = True
    time.sleep(0.3)
    rig.robot.silent = False
    rig.wait_status(lambda s: s.state == SchedulerStatus.EXECUTING, "EXECUTING")
    rig.wait_moving()

    # And for far longer: rest with the reason, nothing sent, and on from where the arm is.
    rig.robot.silent = True
    status = rig.wait_status(lambda s: s.state == SchedulerStatus.SUSPENDED, "SUSPENDED")
    assert "joint states are" in status.message
    time.sleep(1.0)
    count = len(rig.robot.commands)
    time.sleep(4.0)
    assert len(rig.robot.commands) == count
    rig.robot.silent = False
    rig.wait_moving()
    assert rig.status.actuating

    # Whatever is tuned while the arm moves.
    for name, value in (
        ("limits.max_linear_speed", 0.1),
        ("strategy", "timestamp"),
        ("fade_s", 0.1),
        ("strategy", "crossfade"),
        ("execution_horizon_s", 1.0),
        ("limits.max_joint_speed", 0.5),
        ("limits.max_linear_speed", 0.25),
        ("strategy", "anchor_fade"),
    ):
        assert rig.ros.set_parameter(rig.observer, NODE, name, value) == (True, "")
        rig.wait_moving()
    assert_within_limits(rig)
