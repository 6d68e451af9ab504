"""What a joint_trajectory_controller gets."""

from __future__ import annotations

import numpy as np
import pytest

from xvla_ros.nodes.backends.base import BackendError, make_backend
from xvla_ros.nodes.backends.jtc import BRAKE_S, arm_points, trajectory

JOINTS = np.array([0.1, -0.5, 0.4, 0.0, 1.2, -0.1])


def test_a_command_ends_at_rest_because_the_controller_refuses_one_that_does_not():
    velocities = np.array([0.5, -0.2, 0.0, 0.1, 0.0, 1.0])
    message = trajectory(arm_points(JOINTS, velocities, 0.03))
    first, last = message.points
    assert list(first.positions) == pytest.approx(JOINTS)
    assert list(first.velocities) == pytest.approx(velocities)
    assert list(last.velocities) == [0.0] * 6
    # Braking evenly from v within T takes v T / 2.
    assert list(last.positions) == pytest.approx(JOINTS + 0.5 * velocities * BRAKE_S)
    assert first.time_from_start.nanosec == 30_000_000
    assert last.time_from_start.nanosec == 130_000_000
    assert message.header.stamp.sec == message.header.stamp.nanosec == 0


def test_an_arm_at_rest_is_sent_to_where_it_is():
    first, last = arm_points(JOINTS, np.zeros(6), 0.03)
    assert first.positions == last.positions == pytest.approx(tuple(JOINTS))


def test_braking_stays_inside_the_joint_limits():
    joints = np.array([0.0, 1.98, 0.0, 0.0, 0.0, 0.0])
    _, last = arm_points(joints, np.full(6, 2.0), 0.03)
    assert last.positions[1] == pytest.approx(np.radians(114))


def test_an_unknown_back_end_names_those_there_are(ros):
    with pytest.raises(BackendError, match="no back end 'moveit'; there is jtc, xs, none"):
        make_backend("moveit", ros.node(), {})
