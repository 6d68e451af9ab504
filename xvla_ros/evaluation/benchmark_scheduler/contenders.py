"""What is compared: our strategies, with other parameters if wanted, and other schedulers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import cast

import yaml

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.benchmark_scheduler.player import ChunkPlayer, PlayerScheduler
from xvla_ros.evaluation.benchmark_scheduler.trace import TracedScheduler
from xvla_ros.parameters.parameter import ParameterRefused, Values, defaults, unknown_name
from xvla_ros.parameters.scheduler import SCHEDULER_PARAMETERS, build
from xvla_ros.scheduler.params import STRATEGIES, ExecutorParams, SchedulerParams

_NODE = "chunk_scheduler"


@dataclass(frozen=True)
class Contender:
    """One way of executing chunks."""

    label: str
    """As it was written on the command line."""
    scheduler: SchedulerParams = field(default_factory=SchedulerParams)
    executor: ExecutorParams = field(default_factory=ExecutorParams)
    player: str = ""
    """module:Class of another project's scheduler; empty for ours."""

    def make(self, params: SchedulerParams) -> TracedScheduler:
        """The scheduler for one episode."""
        if not self.player:
            return TracedScheduler(params)
        return PlayerScheduler(_player_class(self.player)(), params)


def contender(text: str) -> Contender:
    """What a word of the command line means.

    `anchor_fade`, `anchor_fade,fade_s=0.2,limits.max_linear_speed=0.5`, or `module:Class`.

    Raises:
        UsageError: no such strategy, parameter, value, module or class.
    """
    name, *settings = text.split(",")
    values: Values = defaults(SCHEDULER_PARAMETERS)
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"'{text}': write parameter=value after the comma, not '{setting}'")
        parameter = next((p for p in SCHEDULER_PARAMETERS if p.name == key), None)
        if parameter is None:
            raise UsageError(unknown_name(key, SCHEDULER_PARAMETERS, _NODE))
        try:
            values[key] = parameter.check(yaml.safe_load(value))
        except ParameterRefused as error:
            raise UsageError(f"'{text}': {error}") from error
    player = name if ":" in name else ""
    if player:
        _player_class(player)
    elif name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise UsageError(
            f"no strategy '{name}'; known: {known}, and module:Class of another project's"
        )
    else:
        values["strategy"] = name
    try:
        scheduler, executor = build(values)
    except ValueError as error:
        raise UsageError(f"'{text}': {error}") from error
    return Contender(text, scheduler, executor, player)


def contenders(texts: Sequence[str]) -> tuple[Contender, ...]:
    """All of them, each once.

    Raises:
        UsageError: as `contender`.
    """
    return tuple(contender(text) for text in dict.fromkeys(texts))


def _player_class(spec: str) -> Callable[[], ChunkPlayer]:
    """The class behind module:Class, from the working folder too.

    Raises:
        UsageError: it cannot be imported, or is no player.
    """
    module_name, _, class_name = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise UsageError(f"'{spec}': {error}; is its folder in PYTHONPATH?") from error
    made = getattr(module, class_name, None)
    if made is None:
        raise UsageError(f"'{spec}': {module_name} has no class {class_name}")
    missing = [name for name in ("reset", "submit", "sample") if not hasattr(made, name)]
    if missing:
        raise UsageError(f"'{spec}' is no ChunkPlayer: it has no {', '.join(missing)}")
    return cast(Callable[[], ChunkPlayer], made)
