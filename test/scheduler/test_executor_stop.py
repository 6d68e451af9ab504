"""A stop works from every state, and nothing else does while it is latched."""

from __future__ import annotations

import numpy as np
import pytest

from xvla_ros.arm import constants
from xvla_ros.chunk import ChunkRefused, Refusal
from xvla_ros.scheduler.setpoint import SchedulerState

SLEEP = np.array(constants.SLEEP)
READY = np.array(constants.READY)


def off(rig, kit):
    rig.run(0.1)


def holding(rig, kit):
    rig.enable()
    rig.run(0.1)
    assert rig.last.state is SchedulerState.HOLDING


def executing(rig, kit):
    rig.enable()
    rig.send(kit, (0.08, 0.0, 0.0))
    rig.run(0.6)
    assert rig.last.state is SchedulerState.EXECUTING


def starved(rig, kit):
    rig.enable()
    rig.send(kit, (0.04, 0.0, 0.0))
    rig.run(4.0)
    assert rig.last.state is SchedulerState.STARVED


def suspended(rig, kit):
    executing(rig, kit)
    rig.joint_states = False
    rig.run(0.5)
    assert rig.last.state is SchedulerState.SUSPENDED


def moving(rig, kit):
    rig.enable()
    assert rig.executor.go_to(SLEEP, rig.now, rig.measured(), "the sleep pose").accepted
    rig.run(0.8)
    assert rig.executor.moving


def blocked(rig, kit):
    rig.enable()
    rig.stiff = False
    rig.send(kit, (0.12, 0.0, 0.0))
    for _ in range(200):
        rig.tick()
        if "blocked" in rig.last.message:
            break
    assert "blocked" in rig.last.message


def backing_off(rig, kit):
    blocked(rig, kit)
    for _ in range(100):
        rig.tick()
        if "backing off" in rig.last.message:
            break
    assert rig.executor.moving


def stopped(rig, kit):
    executing(rig, kit)
    rig.executor.stop(rig.now)
    rig.run(0.5)


STATES = (off, holding, executing, starved, suspended, moving, blocked, backing_off, stopped)


@pytest.mark.parametrize("state", STATES)
def test_a_stop_brakes_at_the_next_command_latches_and_ends_the_epoch(kit, state):
    rig = kit.Rig()
    state(rig, kit)
    epoch = rig.scheduler.epoch
    in_flight = kit.line_chunk(rig.scheduler.pose, stamp=rig.now, epoch=epoch, sequence=10**6)
    speed = np.abs(rig.last.velocities).max()
    rig.executor.stop(rig.now)
    assert rig.scheduler.epoch > epoch
    command = rig.tick()
    assert command.state is SchedulerState.STOPPED
    assert "stopped" in command.message
    # From the first command on it is no faster than before.
    assert np.abs(command.velocities).max() <= speed + 1e-3
    rig.run(1.0)
    still = rig.run(0.3)
    assert np.ptp([c.joints for c in still], axis=0).max() < 1e-9
    with pytest.raises(ChunkRefused) as refused:
        rig.executor.submit(in_flight, rig.now)
    assert refused.value.reason is Refusal.OLD_EPOCH
    rig.joint_states = True
    rig.run(0.1)
    for move in (SLEEP, READY):
        outcome = rig.executor.go_to(move, rig.now, rig.measured())
        assert not outcome.accepted
        assert "stopped" in outcome.message
    assert rig.last.state is SchedulerState.STOPPED


@pytest.mark.parametrize("state", [blocked, backing_off, suspended, moving])
def test_a_move_on_request_is_refused_with_the_reason_where_the_arm_has_something_to_do(kit, state):
    rig = kit.Rig()
    state(rig, kit)
    measured = rig.measured() if rig.joint_states else rig._measured
    outcome = rig.executor.go_to(READY, rig.now, measured, "the ready pose")
    assert not outcome.accepted
    assert outcome.message.startswith(("not now: ", "joint states are"))


def test_a_move_from_a_start_outside_the_workspace_ends_inside_and_then_actuation_is_possible(kit):
    rig = kit.Rig(joints=np.array(constants.HOME))
    rig.tick()
    refused = rig.executor.set_actuation(True, rig.now, rig.measured())
    assert not refused.accepted
    assert "~/go_ready" in refused.message
    assert rig.executor.go_to(READY, rig.now, rig.measured(), "the ready pose").accepted
    while rig.executor.moving:
        rig.tick()
    rig.run(0.5)
    assert np.abs(rig.joints - READY).max() < 0.01
    assert rig.executor.set_actuation(True, rig.now, rig.measured()).accepted
