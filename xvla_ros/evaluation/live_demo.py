"""The demo as it runs: the three nodes, episodes in real time, a recorder beside them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from xvla_ros import names
from xvla_ros.evaluation.bag import storage as bag
from xvla_ros.evaluation.demo import BAG, Run
from xvla_ros.evaluation.episode import Episode
from xvla_ros.evaluation.live_conductor import LiveConductor, NotRunning
from xvla_ros.evaluation.live_record import ask_all, custom_data, recorder_of, spinning
from xvla_ros.evaluation.live_recorder import LiveRecorder
from xvla_ros.nodes.bringup import Arguments, BringUp, describe
from xvla_ros.nodes.supervisor import Supervisor

LOGS = "log"
_START_S = 120.0
# Domains above 101 collide with ephemeral ports on Linux.
_DOMAINS = 100


@dataclass(frozen=True)
class Options:
    """What is run."""

    out: Path
    episodes: int = 10
    seed: int = 0
    """Of the first episode; the others follow one by one."""
    task: str = "pick"
    limit: float = 15.0
    """Seconds of an episode."""
    model: str = ""
    """Checkpoint folder; empty = the demonstration checkpoint."""
    device: str = ""
    """Empty = what the parameter file says."""


def run(options: Options, said: Callable[[str], None], done: Callable[[Episode], None]) -> Run:
    """Runs the episodes and leaves their bag in `options.out`.

    Args:
        options: what to run.
        said: told what is going on before the first episode.
        done: told of each episode at its end.

    Raises:
        BringUpError: the nodes could not be started.
        NotRunning: a node does not answer before the first episode.
    """
    domain = choose_domain()
    arguments = Arguments(sim=True, model=options.model, device=options.device)
    bringup = _without_instruction(describe(arguments))
    said(f"starting {len(bringup.processes)} nodes in ROS domain {domain} ...")
    with contextlib.ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(bringup, options.out / LOGS))
        supervisor.wait_until_up(_START_S)
        node = stack.enter_context(spinning("xvla_demo"))
        conductor = LiveConductor(node, lambda: _complain(supervisor))
        conductor.wait_until_ready(_START_S)
        asked = ask_all(node, _START_S, threading.Event())
        rate = conductor.parameters(names.SCHEDULER_NODE, ["command_rate_hz"])[0]
        recorder = recorder_of(node, asked[names.POLICY_NODE])
        episodes, fault = _play(conductor, recorder, options, done)
    bag.write(options.out / BAG, recorder.close(), custom_data(asked))
    return Run(options.task, episodes, recorder.images_dropped, float(rate), fault)


def _play(
    conductor: LiveConductor,
    recorder: LiveRecorder,
    options: Options,
    done: Callable[[Episode], None],
) -> tuple[tuple[Episode, ...], str]:
    """All episodes; after a fault the remaining ones count as failed. The fault, or nothing."""
    episodes: list[Episode] = []
    fault = ""
    for seed in range(options.seed, options.seed + options.episodes):
        recorder.keep_images = True
        begun = time.time()
        try:
            if not fault:
                episodes.append(conductor.run(seed, options.task, options.limit))
        except NotRunning as error:
            fault = str(error)
        if fault:
            episodes.append(Episode(seed, options.task, begun, time.time(), None, fault))
        recorder.keep_images = False
        done(episodes[-1])
    return tuple(episodes), fault


def choose_domain() -> int:
    """A domain of its own on this machine alone, unless the user has chosen one."""
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % _DOMAINS))
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    return int(os.environ["ROS_DOMAIN_ID"] or 0)


def _without_instruction(bringup: BringUp) -> BringUp:
    """The policy waits for the task of each episode."""
    processes = tuple(
        replace(process, parameters={**process.parameters, "instruction": ""})
        if process.node == names.POLICY_NODE
        else process
        for process in bringup.processes
    )
    return replace(bringup, processes=processes)


def _complain(supervisor: Supervisor) -> None:
    if supervisor.faults:
        raise NotRunning(supervisor.faults[0])
