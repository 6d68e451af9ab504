"""The page of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xvla_ros.evaluation.report.page import assemble

COMPARISON_PAGE = "comparison.html"
_SCRIPTS = ("charts.js", "comparison.js")


def write_comparison(
    folder: Path, comparison: Mapping[str, Any], labels: Mapping[str, str]
) -> Path:
    """Writes comparison.html.

    Args:
        folder: where to.
        comparison: see `evaluation.comparison.compare`.
        labels: names of the differences for a reader.
    """
    title = f"{comparison['a']['model']} and {comparison['b']['model']}"
    target = folder / COMPARISON_PAGE
    content = {"comparison": comparison, "labels": labels}
    target.write_text(assemble(title, content, _SCRIPTS), encoding="utf-8")
    return target
