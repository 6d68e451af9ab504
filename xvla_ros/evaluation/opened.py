"""A recording opened for its evaluation, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from xvla_ros.evaluation.bag.discovery import Found, View, discover
from xvla_ros.evaluation.bag.files import LEROBOT, BagFiles
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.bag.source import BagRecording
from xvla_ros.evaluation.bag_settings import Plan
from xvla_ros.evaluation.events import Recording
from xvla_ros.evaluation.lerobot.layout import Dataset
from xvla_ros.evaluation.lerobot.source import (
    LeRobotRecording,
    find_views,
    longest_pause,
    within_frames,
)
from xvla_ros.evaluation.lerobot.state import STATE
from xvla_ros.evaluation.open_loop import OpenLoopSettings
from xvla_ros.evaluation.result import COMPLETE, PARTIAL


@dataclass(frozen=True, eq=False)
class Opened:
    """What the engine runs on, and what the summary says about it."""

    recording: Recording
    settings: OpenLoopSettings
    facts: Callable[[], dict[str, Any]]
    """Part of the entry in `summary.json`; complete after all events."""
    fault: Callable[[], str]
    """Why nothing can be evaluated, as far as the format knows; empty = it does not know."""


def open_recording(stack: ExitStack, files: BagFiles, plan: Plan, num_views: int) -> Opened:
    """Opens a bag or a dataset; the stack closes it.

    Raises:
        BagError, ParameterRefused, UsageError: it cannot be evaluated.
    """
    if files.format == LEROBOT:
        return _dataset(files, plan, num_views)
    return _bag(stack.enter_context(Bag(files)), plan, num_views)


def _bag(bag: Bag, plan: Plan, num_views: int) -> Opened:
    own = plan.for_bag(bag.custom)
    found = discover(bag, own.wanted, num_views)
    instruction = own.settings.instruction or ("" if found.instruction else own.told)
    recording = BagRecording(bag, found, own.clock, instruction)
    return Opened(recording, own.settings, lambda: _bag_facts(bag, found), lambda: "")


def _bag_facts(bag: Bag, found: Found) -> dict[str, Any]:
    return {
        "status": PARTIAL if bag.partial else COMPLETE,
        "start_ns": bag.start_ns,
        "duration_s": round(bag.duration, 6),
        "storage": bag.storage,
        "views": [_view(view) for view in found.views],
        "joint_states": found.joint_states,
        "instruction_topic": found.instruction.name if found.instruction else None,
        "episode_topic": found.episode.name if found.episode else None,
        "topics": {t.name: {"type": t.type_name, "count": t.count} for t in bag.topics.values()},
    }


def _dataset(files: BagFiles, plan: Plan, num_views: int) -> Opened:
    dataset = Dataset(files.path)
    views, notes = find_views(dataset, plan.wanted, num_views)
    recording = LeRobotRecording(dataset, views, notes)
    settings = replace(
        plan.settings,
        limits=within_frames(plan.settings.limits, dataset.fps),
        truth_max_gap_s=longest_pause(dataset.fps),
        episodes_told=True,
    )
    return Opened(
        recording,
        settings,
        lambda: _dataset_facts(dataset, recording),
        lambda: _fault(recording.skipped),
    )


def _fault(skipped: Sequence[str]) -> str:
    """The first reason why episodes were left out; the others are warnings."""
    return skipped[0] + ("; and others, see the warnings" if skipped[1:] else "") if skipped else ""


def _dataset_facts(dataset: Dataset, recording: LeRobotRecording) -> dict[str, Any]:
    frames = sum(episode.length for episode in dataset.episodes)
    return {
        "status": PARTIAL if recording.skipped else COMPLETE,
        # When the frames were taken a dataset does not say.
        "start_ns": None,
        "duration_s": round(recording.duration, 6),
        "storage": f"lerobot {dataset.version}",
        "views": [_view(view) for view in recording.views],
        "joint_states": STATE,
        "instruction_topic": "task_index" if "task_index" in dataset.features else None,
        "episode_topic": "episode_index",
        "topics": {
            name: {"type": str(feature.get("dtype")), "count": frames}
            for name, feature in dataset.features.items()
        },
    }


def _view(view: View) -> dict[str, Any]:
    return {
        "slot": view.slot,
        "topic": view.topic,
        "type": view.type_name,
        "required": view.required,
        "rotate_180": view.rotate_180,
    }
