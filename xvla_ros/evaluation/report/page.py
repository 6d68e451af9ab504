"""Puts a page together: one file with its data, its style and its scripts inside."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.report.content import COLUMNS, build
from xvla_ros.evaluation.report.frames import BagFrames, FrameSource
from xvla_ros.evaluation.result import PREDICTIONS, SUMMARY, TIMING

REPORT = "report.html"
_REPORT_SCRIPTS = ("charts.js", "space.js", "explorer.js", "report.js")


def write_report(folder: Path, source: FrameSource | None = None) -> Path:
    """Writes report.html beside the result in a folder.

    Args:
        folder: of summary.json, predictions.parquet and perhaps timing.json.
        source: of the pictures; None takes them from the bags that the summary names.

    Raises:
        UsageError: there is no result.
    """
    summary = read_json(folder / SUMMARY)
    timing = read_json(folder / TIMING) if (folder / TIMING).is_file() else {}
    path = folder / PREDICTIONS
    if not path.is_file():
        raise UsageError(f"{path}: no such file; the result of an evaluation has it")
    table = pq.read_table(path, columns=list(COLUMNS))
    if source is None:
        source = BagFrames(summary["parameters"].get("xvla_evaluate", {}))
    content = build(summary, timing, table, source)
    title = f"Evaluation of {summary['model']['name']}"
    target = folder / REPORT
    target.write_text(assemble(title, content, _REPORT_SCRIPTS), encoding="utf-8")
    return target


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file of a result.

    Raises:
        UsageError: it is not there, or no JSON.
    """
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; is this the --out of an evaluation?"
        ) from error
    except ValueError as error:
        raise UsageError(f"{path}: not the JSON of an evaluation ({error})") from error


def assemble(title: str, content: Mapping[str, Any], scripts: Sequence[str]) -> str:
    """The page."""
    parts = {
        "TITLE": _escaped(title),
        "STYLE": _text("page.css"),
        "DATA": _embedded(content),
        "SCRIPT": "\n".join(_text(name) for name in scripts),
    }
    # In one pass, so that nothing inside of the parts is taken for a place of another.
    return re.sub(r"@([A-Z]+)@", lambda place: parts[place[1]], _text("page.html"))


def _text(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _embedded(content: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
