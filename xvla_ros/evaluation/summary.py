"""What a set of lockstep episodes amounts to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from xvla_ros.evaluation.closed_loop import EpisodeResult
from xvla_ros.evaluation.statistics import Proportion


@dataclass(frozen=True, eq=False)
class Summary:
    """Results of one task under one condition."""

    task: str
    condition: str
    """"seeing", or the blindfold."""
    results: Sequence[EpisodeResult]

    @property
    def success(self) -> Proportion:
        """Successful episodes of all."""
        return Proportion(sum(result.success for result in self.results), len(self.results))

    @property
    def seconds_to_success(self) -> float:
        """Mean simulated time of the successful episodes; NaN without one."""
        times = [result.seconds for result in self.results if result.success]
        return float(np.mean(times)) if times else float("nan")

    def inference_ms(self, percentile: float) -> float:
        """Wall time of a prediction; NaN without one."""
        times = [seconds for result in self.results for seconds in result.inference_s]
        return 1e3 * float(np.percentile(times, percentile)) if times else float("nan")

    def line(self) -> str:
        """One line for a person."""
        text = f"{self.task}, {self.condition}: {self.success}"
        if self.success.successes:
            text += f", {self.seconds_to_success:.1f} s to success"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON; numbers that do not exist are null."""
        low, high = self.success.interval()
        return {
            "task": self.task,
            "condition": self.condition,
            "episodes": self.success.trials,
            "successes": self.success.successes,
            "success_rate": self.success.rate,
            "success_interval_95": [low, high],
            "seconds_to_success": _number(self.seconds_to_success),
            "inference_ms_p50": _number(self.inference_ms(50.0)),
            "inference_ms_p95": _number(self.inference_ms(95.0)),
            "largest_command_step_m": max((r.largest_step_m for r in self.results), default=0.0),
            "largest_command_step_rad": max(
                (r.largest_step_rad for r in self.results), default=0.0
            ),
            "chunks_refused": sum(result.refused for result in self.results),
            "results": [asdict(result) for result in self.results],
        }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
