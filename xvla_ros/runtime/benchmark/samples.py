"""What a set of measured times amounts to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# A percentile that fewer samples lie beyond is the largest of them under another name.
_FOR_P99 = 100


def figures(seconds: Sequence[float]) -> dict[str, Any]:
    """n, median, min, p95 and, of a hundred samples or more, p99; seconds."""
    values = np.asarray(seconds, dtype=np.float64)
    if not len(values):
        raise ValueError("nothing was measured")
    found: dict[str, Any] = {
        "n": len(values),
        "median": float(np.median(values)),
        "min": float(values.min()),
        "p95": float(np.percentile(values, 95.0)),
    }
    if len(values) >= _FOR_P99:
        found["p99"] = float(np.percentile(values, 99.0))
    return found
