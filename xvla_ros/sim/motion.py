"""How a cube moves over the table by itself, in tasks that a policy must keep up with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xvla_ros.geometry import Array

Range = tuple[float, float]
Course = Callable[[float], tuple[Array, Array]]
"""Position (2,) in m and velocity (2,) in m/s on the table at a time since the reset."""
Motion = Callable[[Array, np.random.Generator], Course]
"""A course from a start (2,); what is random in it is drawn from the generator."""

DRIFT_SPEED = 0.02
"""m/s."""
JUMP = 0.08
"""m, across the table: towards its middle."""


def drifting(x: Range, y: Range, speed: float = DRIFT_SPEED) -> Motion:
    """Goes straight on in a random direction, and is thrown back at the edges of a region."""

    def motion(start: Array, rng: np.random.Generator) -> Course:
        heading = rng.uniform(-np.pi, np.pi)
        velocity = speed * np.array([np.cos(heading), np.sin(heading)])
        low, size = np.array([x[0], y[0]]), np.array([x[1] - x[0], y[1] - y[0]])

        def course(time: float) -> tuple[Array, Array]:
            # A triangle wave with a period of twice the region's size.
            turn = np.mod(start - low + velocity * time, 2.0 * size)
            back = turn > size
            place = low + np.where(back, 2.0 * size - turn, turn)
            return place, np.where(back, -velocity, velocity)

        return course

    return motion


def jumping(between_s: Range, distance: float = JUMP) -> Motion:
    """Lies still, and once is somewhere else."""

    def motion(start: Array, rng: np.random.Generator) -> Course:
        when = rng.uniform(*between_s)
        after = start - np.array([0.0, distance if start[1] > 0.0 else -distance])

        def course(time: float) -> tuple[Array, Array]:
            return (after if time >= when else start), np.zeros(2)

        return course

    return motion
