"""The figures of a demo run: from its bag and its episodes to summary, table, plots and video."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xvla_ros.evaluation import plots, recording, video
from xvla_ros.evaluation.episode import Episode
from xvla_ros.evaluation.machine import machine
from xvla_ros.evaluation.metrics import FramesLost, Spread, frames_lost, within
from xvla_ros.evaluation.recording import Recording
from xvla_ros.evaluation.statistics import Proportion

if TYPE_CHECKING:
    from rich.table import Table

BAG = "bag"
SUMMARY = "summary.json"
VIDEO = "episode.gif"


@dataclass(frozen=True)
class Run:
    """What the figures cannot be read from the bag of."""

    task: str
    episodes: tuple[Episode, ...]
    images_dropped: int
    """Frames that the recorder, not the policy, did not keep."""
    command_rate_hz: float
    fault: str = ""
    """What ended the run before its end; empty if nothing did."""

    @property
    def successes(self) -> Proportion:
        """Episodes that succeeded."""
        done = sum(episode.success is not None for episode in self.episodes)
        return Proportion(done, len(self.episodes))

    @property
    def spans(self) -> list[tuple[float, float]]:
        """Start and end of each episode, seconds."""
        return [(episode.start, episode.end) for episode in self.episodes]

    @property
    def filmed(self) -> Episode | None:
        """The episode of plots and video: the first success, else the first."""
        succeeded = (e for e in self.episodes if e.success is not None)
        return next(succeeded, self.episodes[0] if self.episodes else None)


def write_report(folder: Path, run: Run, *, film: bool = True) -> dict[str, Any]:
    """Writes summary, plots and video of the bag in `folder`; returns the summary."""
    series = recording.load(folder / BAG)
    summary = summarise(series, run)
    episode = run.filmed
    if episode is not None:
        plots.write_all(folder, series, episode.start, episode.end)
        if film:
            caption = video.Caption(episode.instruction, episode.start, episode.success)
            video.write_episode(folder / VIDEO, series, episode.start, episode.end, caption)
    (folder / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def summarise(series: Recording, run: Run) -> dict[str, Any]:
    """All figures of a run; seconds, metres and radians throughout."""
    chunks = [c for c, kept in zip(series.chunks, _in_episodes(series, run), strict=True) if kept]
    scheduler, policy = series.scheduler_status, series.policy_status
    cameras = {topic: _lost(series, topic) for topic in sorted(series.frames)}
    total = sum(cameras.values(), FramesLost(0, 0))
    period = 1.0 / run.command_rate_hz
    return {
        "success_rate": run.successes.rate,
        "success_interval_95": list(run.successes.interval()),
        "task": run.task,
        "fault": run.fault or None,
        "episodes": [asdict(episode) for episode in run.episodes],
        "episode_time": asdict(Spread.of([e.success for e in run.episodes if e.success])),
        "inference": asdict(Spread.of([c.inference_end - c.inference_start for c in chunks])),
        "observation_to_chunk": asdict(Spread.of([c.received - c.stamp for c in chunks])),
        "policy_rate_hz": _policy_rate(series, run),
        "chunks": len(chunks),
        "command_period": {
            "nominal": period,
            "p50": float(scheduler.period_p50) if scheduler else None,
            "p99": float(scheduler.period_p99) if scheduler else None,
            "jitter_p99": float(scheduler.period_p99) - period if scheduler else None,
        },
        "priority": scheduler.priority if scheduler else "unknown",
        "largest_splice_step": {
            "m": float(scheduler.largest_splice_step_m) if scheduler else None,
            "rad": float(scheduler.largest_splice_step_rad) if scheduler else None,
        },
        "tracking_error": asdict(Spread.of(tracking_errors(series, run))),
        "limits": _counts(scheduler, "limit_names", "limit_counts"),
        "chunks_refused": _counts(scheduler, "refusal_reasons", "refusal_counts"),
        "frames_lost": {
            **asdict(total),
            "fraction": total.fraction,
            "by_topic": {topic: asdict(lost) for topic, lost in cameras.items()},
            "not_recorded": run.images_dropped,
        },
        "device": policy.device if policy else "unknown",
        "model_hash": policy.model_hash if policy else "unknown",
        "machine": machine(),
    }


def tracking_errors(series: Recording, run: Run) -> np.ndarray:
    """Distances in metres between commanded and measured position at each command."""
    commanded, measured = series.commanded, series.measured
    inside = within(commanded.times, run.spans)
    if not inside.any() or len(measured.times) == 0:
        return np.zeros(0)
    truth = measured.positions()
    times = commanded.times[inside]
    at = np.column_stack([np.interp(times, measured.times, column) for column in truth.T])
    return np.asarray(np.linalg.norm(commanded.positions()[inside] - at, axis=1))


def table(summary: dict[str, Any]) -> Table:
    """The summary for a terminal."""
    from rich.table import Table

    episodes = summary["episodes"]
    done = sum(episode["success"] is not None for episode in episodes)
    period, lost = summary["command_period"], summary["frames_lost"]
    rows = {
        "success": str(Proportion(done, len(episodes))),
        "time to success": _seconds(summary["episode_time"]),
        "inference": _milliseconds(summary["inference"]),
        "observation to chunk": _milliseconds(summary["observation_to_chunk"]),
        "policy rate": f"{summary['policy_rate_hz']:.2f} Hz, {summary['chunks']} chunks",
        "command period": "no status was heard"
        if period["p50"] is None
        else f"p50 {1000 * period['p50']:.2f} ms, p99 {1000 * period['p99']:.2f} ms",
        "command jitter": "no status was heard"
        if period["jitter_p99"] is None
        else f"p99 {1000 * period['jitter_p99']:.2f} ms at priority {summary['priority']}",
        "largest step at a chunk switch": _step(summary["largest_splice_step"]),
        "commanded to measured": f"p50 {1000 * summary['tracking_error']['p50']:.1f} mm, "
        f"p95 {1000 * summary['tracking_error']['p95']:.1f} mm",
        "frames lost": f"{lost['lost']} of {lost['published']} ({100 * lost['fraction']:.1f} %)",
        "device": str(summary["device"]),
    }
    result = Table("figure", "value", title=f"xvla demo: {summary['task']}", title_justify="left")
    for name, value in rows.items():
        result.add_row(name, value)
    return result


def _in_episodes(series: Recording, run: Run) -> list[bool]:
    return within([chunk.received for chunk in series.chunks], run.spans).tolist()


def _policy_rate(series: Recording, run: Run) -> float:
    """Chunks per second from the first to the last of each episode."""
    received = np.array([chunk.received for chunk in series.chunks])
    intervals, seconds = 0, 0.0
    for start, end in run.spans:
        times = received[(received >= start) & (received <= end)]
        if len(times) > 1:
            intervals += len(times) - 1
            seconds += float(times[-1] - times[0])
    return intervals / seconds if seconds else 0.0


def _lost(series: Recording, topic: str) -> FramesLost:
    """Frames of a topic that the simulator sent and the policy did not get."""
    parts = topic.split("/")
    camera = next((name for name in series.frames_published if name in parts), None)
    if camera is None or topic not in series.frames_received:
        return FramesLost(0, 0)
    return frames_lost(series.frames_published[camera], series.frames_received[topic])


def _counts(status: Any, names: str, counts: str) -> dict[str, int]:
    if status is None:
        return {}
    pairs: Sequence[tuple[str, Any]] = list(
        zip(getattr(status, names), getattr(status, counts), strict=True)
    )
    return {name: int(count) for name, count in pairs}


def _seconds(spread: dict[str, Any]) -> str:
    if not spread["count"]:
        return "-"
    return f"p50 {spread['p50']:.1f} s, p95 {spread['p95']:.1f} s"


def _milliseconds(spread: dict[str, Any]) -> str:
    return f"p50 {1000 * spread['p50']:.0f} ms, p95 {1000 * spread['p95']:.0f} ms"


def _step(step: dict[str, Any]) -> str:
    if step["m"] is None:
        return "no status was heard"
    return f"{1000 * step['m']:.1f} mm, {step['rad']:.3f} rad in one command period"
