"""The closed-loop half of `xvla verify`: every variant on the same episodes as the reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xvla_ros.evaluation.verify.trial import Conditions, Trial, run_trials
from xvla_ros.evaluation.verify.variant import Variant
from xvla_ros.evaluation.verify.verdict import Verdict, judge


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """Outcomes of a reference and of variants on the same seeds of one task."""

    conditions: Conditions
    reference: Trial
    variants: Sequence[tuple[Variant, Trial]]
    margin: float

    def verdicts(self) -> list[tuple[Variant, Verdict]]:
        """Each variant against the reference."""
        return [
            (variant, judge(self.reference.outcomes, trial.outcomes, self.margin))
            for variant, trial in self.variants
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "conditions": asdict(self.conditions) | {"model": Path(self.conditions.model).name},
            "inference_ms_a": _milliseconds(self.reference),
            "variants": [
                {
                    "label": variant.label,
                    "options": variant.options,
                    "inference_ms": _milliseconds(trial),
                    **judge(self.reference.outcomes, trial.outcomes, self.margin).to_dict(),
                }
                for variant, trial in self.variants
            ],
        }


def compare_in_closed_loop(
    out: Path,
    conditions: Conditions,
    reference: Variant,
    variants: Iterable[Variant],
    seeds: Sequence[int],
    *,
    model_hash: str,
    margin: float,
    processes: int,
) -> ClosedLoop:
    """Runs what `out` does not hold yet, behind a progress bar."""
    from tqdm import tqdm

    base = Trial(out, conditions, reference)
    tried = [(variant, Trial(out, conditions, variant)) for variant in variants]
    trials = [base, *(trial for _, trial in tried)]
    for trial in trials:
        trial.begin(model_hash)
    total = len(trials) * len(seeds)
    left = sum(len(trial.missing(seeds)) for trial in trials)
    with tqdm(total=total, initial=total - left, desc=conditions.task, unit="episode") as bar:
        for trial, outcomes in run_trials(trials, seeds, processes):
            bar.set_postfix_str(trial.path.stem)
            bar.update(len(outcomes))
    return ClosedLoop(conditions, base, tried, margin)


def _milliseconds(trial: Trial) -> float:
    """Median over the episodes of the mean time of a prediction on the machine of the trial."""
    return float(np.median([outcome.inference_ms for outcome in trial.outcomes.values()]))
