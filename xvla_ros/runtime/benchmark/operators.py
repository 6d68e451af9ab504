"""What a prediction spends its time on, by torch's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile

_MOST = 15


def operator_times(run: Callable[[], Any]) -> dict[str, Any]:
    """Share of the CPU's time of the operators with the most of it, and how often each ran.

    The profiler itself takes time, mostly where operators are many and small; the shares are to be
    read as such.
    """
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        run()
    events = sorted(recorded.key_averages(), key=lambda e: e.self_cpu_time_total, reverse=True)
    total = sum(event.self_cpu_time_total for event in events)
    return {
        event.key: {"share": event.self_cpu_time_total / total, "calls": event.count}
        for event in events[:_MOST]
    }
