"""The episodes of a benchmark: every contender meets the same seeds, latencies and faults."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from xvla_ros.evaluation.benchmark_scheduler.contenders import Contender
from xvla_ros.evaluation.closed_loop import CAMERAS, LoopSettings
from xvla_ros.evaluation.expert_policy import ChunkNoise
from xvla_ros.evaluation.link import LinkFaults
from xvla_ros.runtime.proprio import ProprioParams, ProprioSource

LATENCIES = (0.0, 0.135, 0.4, 0.8)
TASKS = ("pick", "reach_moving", "reach_jump")
LIMIT_S = {"pick": 12.0, "reach": 6.0, "reach_moving": 6.0, "reach_jump": 12.0}
NOISE = ChunkNoise(position_m=0.004, rotation_rad=0.04, growth_s=0.3)
"""Of the scripted policy: its chunks then disagree by about as much as the demo policy's."""
# What the outcome of an episode depends on besides libraries; parts and modules of the package.
_CODE = (
    *("*.py", "arm/*.py", "model/*.py", "runtime/*.py", "scheduler/*.py", "sim/*.py"),
    *("evaluation/closed_loop.py", "evaluation/expert_policy.py", "evaluation/link.py"),
    "evaluation/benchmark_scheduler/*.py",
)


@dataclass(frozen=True)
class Condition:
    """What goes wrong in an episode."""

    text: str
    faults: LinkFaults = field(default_factory=LinkFaults)
    proprio: ProprioSource = "commanded"
    latency_estimate: float = 1.0


NOMINAL = "nominal"
CONDITIONS: dict[str, Condition] = {
    NOMINAL: Condition("constant latency"),
    "jitter": Condition(
        "exponential jitter with a mean of 50 ms on top of the latency", LinkFaults(jitter_s=0.05)
    ),
    "drops": Condition("one chunk of five never arrives", LinkFaults(drop=0.2)),
    "out_of_order": Condition("one chunk of five is overtaken", LinkFaults(detour=0.2)),
    "estimate_x1": Condition(
        "the policy is told the pose commanded one latency ahead", proprio="commanded_future"
    ),
    "estimate_x0.5": Condition(
        "the same with half of the latency", proprio="commanded_future", latency_estimate=0.5
    ),
    "estimate_x1.5": Condition(
        "the same with 1.5 times the latency", proprio="commanded_future", latency_estimate=1.5
    ),
}


class Case(NamedTuple):
    """One episode."""

    task: str
    latency_s: float
    condition: str
    strategy: str
    """Label of the contender."""
    seed: int


@dataclass(frozen=True)
class Benchmark:
    """Everything that the figures depend on."""

    contenders: tuple[Contender, ...]
    tasks: tuple[str, ...] = TASKS
    latencies_s: tuple[float, ...] = LATENCIES
    conditions: tuple[str, ...] = tuple(CONDITIONS)
    episodes: int = 10
    seed: int = 0
    """Of the first episode."""
    policy_rate_hz: float = 2.0
    model: Path | None = None
    """Folder of a policy; None for the scripted one."""
    options: tuple[tuple[str, Any], ...] = ()
    """What else the model is loaded with; see `runtime.policy.load_policy`."""

    def cases(self) -> Iterator[Case]:
        """All episodes; an unfinished benchmark has done about the same for every contender.

        What goes wrong is tried on the first task only.
        """
        for seed in range(self.seed, self.seed + self.episodes):
            for task in self.tasks:
                for condition in self.conditions:
                    if condition != NOMINAL and task != self.tasks[0]:
                        continue
                    for latency in self.latencies_s:
                        for contender in self.contenders:
                            yield Case(task, latency, condition, contender.label, seed)

    def contender(self, case: Case) -> Contender:
        """The contender of a case."""
        return next(c for c in self.contenders if c.label == case.strategy)

    def settings(self, case: Case) -> LoopSettings:
        """The loop of a case."""
        condition, contender = CONDITIONS[case.condition], self.contender(case)
        return LoopSettings(
            latency_s=case.latency_s,
            policy_rate_hz=self.policy_rate_hz,
            limit_s=LIMIT_S[case.task],
            # The scripted policy looks at no picture.
            cameras=CAMERAS if self.model is not None else (),
            scheduler=contender.scheduler,
            executor=contender.executor,
            proprio=ProprioParams(source=condition.proprio),
            faults=condition.faults,
            latency_estimate=condition.latency_estimate,
        )

    def facts(self, model_hash: str) -> dict[str, Any]:
        """What makes two episodes of the same case comparable, for JSON."""
        return {
            "policy": "scripted expert" if self.model is None else self.model.absolute().name,
            "model_hash": model_hash,
            "options": dict(self.options),
            "noise": asdict(NOISE) if self.model is None else None,
            "policy_rate_hz": self.policy_rate_hz,
            "limit_s": LIMIT_S,
            "conditions": {name: asdict(condition) for name, condition in CONDITIONS.items()},
            "code": code_hash(),
        }


def code_hash() -> str:
    """SHA-256 of the package's code that decides what an episode comes to."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(path for pattern in _CODE for path in root.glob(pattern)):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
