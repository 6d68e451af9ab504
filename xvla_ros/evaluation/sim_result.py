"""Lockstep episodes as a result: what each chunk said beside what the arm then did."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Chunk
from xvla_ros.evaluation.closed_loop import EpisodeResult, Images, LoopSettings
from xvla_ros.evaluation.limit_check import LimitChecker
from xvla_ros.evaluation.outcome import Judge, Moment
from xvla_ros.evaluation.report import calibration
from xvla_ros.evaluation.report.frames import Pictures, jpeg, width_of
from xvla_ros.evaluation.report.page import write_report
from xvla_ros.evaluation.result import (
    COMPLETE,
    SUMMARY,
    ModelFacts,
    write_json,
    write_result,
    write_timing,
)
from xvla_ros.evaluation.summary import Summary
from xvla_ros.evaluation.table import Shards, rows, schema, shard_paths
from xvla_ros.evaluation.truth import MotionTrack
from xvla_ros.runtime.interface import Policy
from xvla_ros.scheduler.arm_io import JointMeasurement

Array = NDArray[np.float64]

NAME = "simulation"
PARTS = "parts"
_NANO = 1_000_000_000
_MAX_GAP_S = 0.5
# Stamps of an episode follow from its seed, so that two results pair the same moments.
_SEED_S = 1000
# Pictures of so many episodes are kept; more would fill the memory and no page shows them.
_PICTURED = 150


class SimResult:
    """Watches episodes and writes their result; see `closed_loop.Watcher`.

    Args:
        policy: whose chunks they are.
        settings: of the loop.
        out: folder of the result; an earlier one in it is replaced.
    """

    def __init__(self, policy: Policy, settings: LoopSettings, out: Path) -> None:
        self._policy = policy
        self._settings = settings
        self._out = out
        self._arm = WidowX250s()
        self._limits = LimitChecker(settings.scheduler, settings.executor)
        shutil.rmtree(out / PARTS, ignore_errors=True)
        self._shards = Shards(out / PARTS, schema(policy.horizon, policy.step_dt))
        self._pictures = Pictures()
        for slot, camera in enumerate(settings.cameras):
            model = calibration.of_simulator(f"/sim/{camera}/image_raw")
            if model is not None:
                self._pictures.cameras[slot] = model
        self._episodes: list[dict[str, Any]] = []
        self._index = 0
        self._passed = 0.0

    def begin(self, seed: int) -> None:
        """An episode begins."""
        self._base_ns = (seed + 1) * _SEED_S * _NANO
        self._track = MotionTrack(_MAX_GAP_S)
        self._moments: list[Moment] = []

    def moved(self, measured: JointMeasurement) -> None:
        """The arm's joints; the first of an episode before its first chunk."""
        row = np.append(measured.positions, measured.gripper_or(np.nan))
        self._track.add(measured.stamp, row)

    def predicted(self, chunk: Chunk, images: Images, measured: JointMeasurement) -> None:
        """A chunk, what it was made of, and where the arm was."""
        stamp = self._base_ns + round(chunk.stamp * _NANO)
        filled = tuple(range(len(self._settings.cameras)))
        if len(self._episodes) < _PICTURED:
            for slot in filled:
                image = images[slot]
                if image is not None:
                    self._pictures.jpeg[slot, stamp] = jpeg(image, width_of(slot, filled))
        times = tuple(stamp if slot in filled else 0 for slot in range(self._policy.num_views))
        origin = chunk.provenance
        self._moments.append(
            Moment(
                index=self._index,
                episode=len(self._episodes),
                stamp_ns=stamp,
                time=self._passed + chunk.stamp,
                view_stamps_ns=times,
                view_log_ns=times,
                start=self._arm.fk(measured.positions),
                chunks=(chunk,),
                network_s=(origin.inference_end - origin.inference_start,),
                overhead_s=0.0,
                limits=self._limits.check(chunk, measured),
            )
        )
        self._index += 1

    def end(self, result: EpisodeResult) -> None:
        """The episode is over: its chunks are judged by what the arm did."""
        judge = Judge(self._policy.step_dt, self._settings.scheduler.gripper)
        for moment in self._moments:
            outcome = judge.judge(moment, self._track)
            self._shards.add(rows(NAME, outcome, self._policy.step_dt))
        instruction = ""
        if self._moments:
            instruction = self._moments[0].chunks[0].provenance.instruction
        self._episodes.append(
            {
                "index": len(self._episodes),
                "start_s": round(self._passed, 6),
                "end_s": round(self._passed + result.seconds, 6),
                "instruction": instruction,
                "predictions": len(self._moments),
                "seed": result.seed,
                "outcome": f"success after {result.seconds:.1f} s" if result.success else "failed",
            }
        )
        # A second between two episodes keeps them apart on the page.
        self._passed += result.seconds + 1.0

    def write(
        self, model: Path, summary: Summary, wall_s: float, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Writes the result with its report; returns the summary.

        Args:
            model: folder of the model.
            summary: of all episodes.
            wall_s: how long they took.
            settings: what was asked for.
        """
        self._shards.flush()
        closed_loop = summary.to_dict()
        # Times of this machine belong into timing.json.
        for name in ("inference_ms_p50", "inference_ms_p95"):
            closed_loop.pop(name)
        for episode in closed_loop["results"]:
            episode.pop("inference_s")
        written = write_result(
            self._out,
            "sim",
            ModelFacts.of(self._policy, model),
            [self._entry()],
            [shard_paths(self._out / PARTS)],
            settings=settings,
            parameters={},
        )
        complete = {**written, "closed_loop": closed_loop}
        write_json(self._out / SUMMARY, complete)
        write_timing(self._out, wall_s, 1)
        write_report(self._out, self)
        shutil.rmtree(self._out / PARTS)
        return complete

    def pictures(self, _bag: Mapping[str, Any], _wanted: Iterable[tuple[int, int]]) -> Pictures:
        """All that are kept; see `report.frames.FrameSource`."""
        return self._pictures

    def _entry(self) -> dict[str, Any]:
        return {
            "name": NAME,
            "path": NAME,
            "status": COMPLETE,
            "message": "",
            "warnings": [],
            "start_ns": 0,
            "duration_s": round(self._passed, 6),
            "storage": None,
            "views": [
                {
                    "slot": slot,
                    "topic": f"sim/{camera}",
                    "type": "",
                    "required": True,
                    "rotate_180": False,
                }
                for slot, camera in enumerate(self._settings.cameras)
            ],
            "joint_states": None,
            "instruction_topic": None,
            "episode_topic": None,
            "topics": {},
            "received": {},
            "dropped": {},
            "no_observation": {},
            "episodes": self._episodes,
        }
