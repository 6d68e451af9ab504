"""What has been played already: a run that was ended goes on where it was."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from xvla_ros.evaluation.result import versions
from xvla_ros.evaluation.soak.judge import Findings
from xvla_ros.evaluation.soak.sequence import Outcome


class Journal:
    """Blocks of sequences and what came of them, one line each.

    Args:
        path: of the file; one of other versions is begun anew.
        fresh: begins it anew.
    """

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self._path = path
        self.blocks: dict[tuple[int, int], Outcome] = {}
        header = {"versions": versions()}
        text = "" if fresh or not path.is_file() else path.read_text(encoding="utf-8")
        lines = text.splitlines()
        if lines and _parsed(lines[0]) == header:
            for entry in filter(None, map(_parsed, lines[1:])):
                self.blocks[entry["first"], entry["count"]] = _outcome(entry["outcome"])
            if not text.endswith("\n"):
                self._append("")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(header) + "\n", encoding="utf-8")

    def add(self, first: int, count: int, outcome: Outcome) -> None:
        """Keeps a block of `count` seeds from `first` on."""
        self.blocks[first, count] = outcome
        values = vars(outcome) | {"findings": vars(outcome.findings)}
        self._append(json.dumps({"first": first, "count": count, "outcome": values}))

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _parsed(line: str) -> dict[str, Any] | None:
    """A line, unless it was being written when the run ended."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _outcome(values: dict[str, Any]) -> Outcome:
    findings = values["findings"]
    counters = {name: Counter(values[name]) for name in ("refused", "limited", "events")}
    found = Findings(**(findings | {"violations": Counter(findings["violations"])}))
    return Outcome(**(values | counters | {"findings": found}))
