"""The committed part of a plan, for a denoiser that is to go on from it: strategy `inpaint`.

While a network computes, the old plan is executed. The steps of the new chunk that fall into that
time are known, and those soon after are likely; both are imposed on what the network predicts
(Black et al., "Real-Time Execution of Action Chunking Flow Policies", arXiv:2506.07339, whose soft
mask this is). X-VLA re-mixes its prediction with the same noise at every step, so imposing steps on
the prediction and imposing them on the noisy actions are the same thing.

How much the network notices is another matter: its actions are metres under noise of unit
variance. At t = 0.1, the last step of ten, the noise on a position is 0.1 m, and a prefix that lies
a centimetre off has a signal-to-noise ratio of 0.008. Rotations, whose numbers are larger, are seen
better. The gripper is not: X-VLA zeroes its channel.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from xvla_ros import ee6d
from xvla_ros.chunk import Plan, Provenance
from xvla_ros.runtime.interface import Prefix

STRATEGY = "inpaint"
# At the end of a plan the arm comes to rest because nothing else is known, not because it should.
_RESTING_S = 0.4
# A step that is due by this much later than the chunk arrives counts as executed.
_DUE_SLACK = 1e-6


def committed(
    plan: Plan, stamp: float, t_ref: float, step_dt: float, horizon: int, strength: float
) -> Prefix | None:
    """The steps of a chunk that the plan knows already; None if there are none.

    Args:
        plan: what is being commanded.
        stamp: of the observation, seconds.
        t_ref: time from which the chunk's steps count, seconds.
        step_dt: seconds between two steps.
        horizon: steps of the chunk.
        strength: factor of all weights, in [0, 1].
    """
    end = plan.start + (len(plan.poses) - 1) * plan.dt - _RESTING_S
    count = min(_steps_until(end - t_ref, step_dt), horizon)
    executed = min(_steps_until(stamp + plan.latency - t_ref, step_dt), count)
    if count == 0 or strength <= 0.0:
        return None
    known = [plan.at(t_ref + (k + 1) * step_dt) for k in range(count)]
    return Prefix(
        positions=np.stack([pose.position for pose, _ in known]),
        rotations=np.stack([pose.rotation for pose, _ in known]),
        gripper=np.array([gripper for _, gripper in known]),
        weights=strength * soft_mask(count, executed),
    )


def soft_mask(count: int, executed: int) -> np.ndarray:
    """Weights (count,): 1 for what is executed meanwhile, then falling exponentially."""
    c = (count - np.arange(count)) / (count - executed + 1.0)
    soft = c * np.expm1(c) / np.expm1(1.0)
    return np.where(np.arange(count) < executed, 1.0, soft)


def of_provenance(origin: Provenance) -> Prefix | None:
    """The prefix that a chunk was made with, to make it again."""
    if not origin.prefix_weights:
        return None
    numbers = np.array(origin.prefix).reshape(len(origin.prefix_weights), ee6d.DIM)
    return Prefix(*ee6d.unpack(numbers), np.array(origin.prefix_weights))


def _steps_until(seconds: float, step_dt: float) -> int:
    """How many steps, the first one due after step_dt, are due within a time."""
    return max(ceil(seconds / step_dt + _DUE_SLACK) - 1, 0)
