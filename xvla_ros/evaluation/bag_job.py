"""One bag of an evaluation: opened, predicted, and written away in parts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag.files import BagError, BagFiles
from xvla_ros.evaluation.bag_settings import Plan
from xvla_ros.evaluation.open_loop import NO_INSTRUCTION, OpenLoop
from xvla_ros.evaluation.opened import Opened, open_recording
from xvla_ros.evaluation.result import FAILED
from xvla_ros.evaluation.table import Shards, rows, schema, shard_paths
from xvla_ros.parameters.parameter import ParameterRefused
from xvla_ros.runtime.interface import Policy

_ENTRY = "bag.json"


class BagJob:
    """The evaluation of one bag.

    Args:
        files: the bag.
        folder: of its parts; what an earlier run has left there is not done again.
        engine: makes the engine, with the arguments of `OpenLoop`.
    """

    def __init__(
        self, files: BagFiles, folder: Path, engine: Callable[..., OpenLoop] = OpenLoop
    ) -> None:
        self._files = files
        self._folder = folder
        self._engine = engine

    @property
    def done(self) -> dict[str, Any] | None:
        """The bag's entry of `summary.json` if its parts are complete."""
        path = self._folder / _ENTRY
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def parts(self) -> list[Path]:
        """Finished parts of the table."""
        return shard_paths(self._folder)

    def run(
        self, policy: Policy, plan: Plan, progress: Callable[[float], None] | None = None
    ) -> dict[str, Any]:
        """The entry; a bag that cannot be evaluated is an entry too."""
        try:
            entry = self._evaluate(policy, plan, progress)
        except (BagError, ParameterRefused, UsageError, OSError) as error:
            entry = _failure(self._files, str(error))
        except Exception as error:
            # One bag that nobody thought of must not end the evaluation of a hundred others.
            entry = _failure(self._files, f"{type(error).__name__}: {error}")
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f"{_ENTRY}.tmp"
        temporary.write_text(json.dumps(entry), encoding="utf-8")
        os.replace(temporary, self._folder / _ENTRY)
        return entry

    def _evaluate(
        self, policy: Policy, plan: Plan, progress: Callable[[float], None] | None
    ) -> dict[str, Any]:
        with ExitStack() as stack:
            opened = open_recording(stack, self._files, plan, policy.num_views)
            shards = Shards(self._folder, schema(policy.horizon, policy.step_dt))
            engine = self._engine(policy, opened.recording, opened.settings, skip=shards.known())
            try:
                for outcome in engine.run(progress):
                    shards.add(rows(self._files.name, outcome, policy.step_dt))
            finally:
                # Also where somebody interrupts: what is done stays done.
                shards.flush()
            entry = _entry(self._files, opened, engine)
        if not entry["episodes"]:
            entry |= {"status": FAILED, "message": opened.fault() or _why_nothing(engine)}
        return entry


def _entry(files: BagFiles, opened: Opened, engine: OpenLoop) -> dict[str, Any]:
    recording = opened.recording
    start = (recording.start_ns - recording.shift_ns) * 1e-9
    counts = engine.received
    return {
        "name": files.name,
        "path": str(files.path),
        "message": "",
        "warnings": [*recording.warnings, *dict.fromkeys(engine.warnings)],
        **opened.facts(),
        "received": {topic: count[0] for topic, count in sorted(counts.items())},
        "dropped": {topic: count[1] for topic, count in sorted(counts.items()) if count[1]},
        "no_observation": dict(sorted(engine.no_observation.items())),
        "episodes": [
            {
                "index": episode.index,
                "start_s": round(episode.start - start, 6),
                "end_s": round(episode.end - start, 6),
                "instruction": episode.instruction,
                "predictions": episode.predictions,
            }
            for episode in engine.episodes
        ],
    }


def _why_nothing(engine: OpenLoop) -> str:
    """The most frequent reason why there is no prediction, with a mend where there is one."""
    if not engine.no_observation:
        return "no prediction: the recording is shorter than one period of the policy"
    reason, count = engine.no_observation.most_common(1)[0]
    mend = ": give one with --instruction" if reason == NO_INSTRUCTION else ""
    return f"no prediction: {reason}{mend} ({count} times)"


def _failure(files: BagFiles, message: str) -> dict[str, Any]:
    return {
        "name": files.name,
        "path": str(files.path),
        "status": FAILED,
        "message": " ".join(message.split()),
        "warnings": [],
        "start_ns": None,
        "duration_s": None,
        "storage": None,
        "views": [],
        "joint_states": None,
        "instruction_topic": None,
        "episode_topic": None,
        "topics": {},
        "received": {},
        "dropped": {},
        "no_observation": {},
        "episodes": [],
    }
