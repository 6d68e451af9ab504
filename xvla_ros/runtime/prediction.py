"""From an observation to a chunk: one call of a policy with everything that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros import ee6d
from xvla_ros.chunk import Chunk, Provenance
from xvla_ros.runtime.interface import Policy, PolicyInput, Prefix
from xvla_ros.runtime.proprio import Proprio


@dataclass(frozen=True, eq=False)
class Request:
    """What a prediction is made of, and what the chunk says about where it came from."""

    stamp: float
    """Reference time of the observation, seconds."""
    images: tuple[NDArray[np.uint8] | None, ...]
    """RGB (height, width, 3) by view slot."""
    view_stamps: tuple[float, ...]
    """Seconds by view slot; NaN where there is no image."""
    proprio: Proprio
    instruction: str
    seed: int
    prefix: Prefix | None = None
    """What the chunk is to go on from."""
    epoch: int = 0
    sequence: int = 0
    frame_id: str = "base_link"
    ee_frame: str = "ee_gripper_link"


def predict_chunk(policy: Policy, request: Request, clock: Callable[[], float]) -> Chunk:
    """The policy's chunk in canonical form, with its provenance.

    Args:
        policy: used by the calling thread alone.
        request: the views beyond the policy's must be empty.
        clock: the time now in seconds, on the clock of the stamps.

    Raises:
        PredictionError: the network's numbers are not finite, or are no poses.
        ValueError: the observation cannot be given to the policy.
    """
    inputs = PolicyInput(
        images=request.images[: policy.num_views],
        pose=request.proprio.pose,
        instruction=request.instruction,
        seed=request.seed,
        prefix=request.prefix,
    )
    start = clock()
    prediction = policy.predict(inputs)
    return Chunk.from_ee6d(
        ee6d.pack(prediction.positions, prediction.rotations, prediction.gripper),
        stamp=request.stamp,
        t_ref=request.proprio.t_ref,
        step_dt=policy.step_dt,
        frame_id=request.frame_id,
        ee_frame=request.ee_frame,
        gripper_threshold=policy.gripper_threshold,
        gripper_open_below=policy.open_below,
        sequence=request.sequence,
        epoch=request.epoch,
        provenance=Provenance(
            view_stamps=request.view_stamps,
            proprio=tuple(float(v) for v in prediction.proprio),
            proprio_source=request.proprio.source,
            noise_seed=request.seed,
            time_grid=tuple(policy.time_grid),
            approximation=policy.approximation,
            model_hash=policy.model_hash,
            instruction=request.instruction,
            domain_id=policy.domain_id,
            **_prefix(request.prefix),
            inference_start=start,
            inference_end=clock(),
        ),
    )


def _prefix(prefix: Prefix | None) -> dict[str, tuple[float, ...]]:
    """What the provenance says of a prefix."""
    if prefix is None:
        return {}
    numbers = ee6d.pack(prefix.positions, prefix.rotations, prefix.gripper)
    return {
        "prefix": tuple(float(v) for v in numbers.ravel()),
        "prefix_weights": tuple(float(w) for w in prefix.weights),
    }
