"""One bag of an evaluation: opened, predicted, and written away in parts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag.discovery import Found, discover
from xvla_ros.evaluation.bag.files import BagError, BagFiles
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.bag.source import BagRecording
from xvla_ros.evaluation.bag_settings import Plan
from xvla_ros.evaluation.open_loop import NO_INSTRUCTION, OpenLoop
from xvla_ros.evaluation.result import COMPLETE, FAILED, PARTIAL
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
            bag = stack.enter_context(Bag(self._files))
            own = plan.for_bag(bag.custom)
            found = discover(bag, own.wanted, policy.num_views)
            recording = BagRecording(bag, found, own.clock, own.settings.instruction)
            shards = Shards(self._folder, schema(policy.horizon, policy.step_dt))
            engine = self._engine(policy, recording, own.settings, skip=shards.known())
            try:
                for outcome in engine.run(progress):
                    shards.add(rows(self._files.name, outcome, policy.step_dt))
            finally:
                # Also where somebody interrupts: what is done stays done.
                shards.flush()
            entry = _entry(self._files, bag, found, recording, engine)
        if not entry["episodes"]:
            entry |= {"status": FAILED, "message": _why_nothing(engine)}
        return entry


def _entry(
    files: BagFiles, bag: Bag, found: Found, recording: BagRecording, engine: OpenLoop
) -> dict[str, Any]:
    start = (recording.start_ns - recording.shift_ns) * 1e-9
    counts = engine.received
    return {
        "name": files.name,
        "path": str(files.path),
        "status": PARTIAL if bag.partial else COMPLETE,
        "message": "",
        "warnings": [*recording.warnings, *dict.fromkeys(engine.warnings)],
        "start_ns": bag.start_ns,
        "duration_s": round(bag.duration, 6),
        "storage": bag.storage,
        "views": [
            {
                "slot": view.slot,
                "topic": view.topic,
                "type": view.type_name,
                "required": view.required,
                "rotate_180": view.rotate_180,
            }
            for view in found.views
        ],
        "joint_states": found.joint_states,
        "instruction_topic": found.instruction.name if found.instruction else None,
        "episode_topic": found.episode.name if found.episode else None,
        "topics": {t.name: {"type": t.type_name, "count": t.count} for t in bag.topics.values()},
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
