"""`xvla benchmark commands`: how evenly commands leave the scheduler; what deciding one takes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_EPILOG = """\
Starts the simulator, the demo policy and the scheduler, and threads of torch that keep every
processor busy besides and give way as inference does (parameter `nice` of the policy); listens to
the arm's commands for a while. Times are those that the middleware notes when the scheduler
publishes. `priority` says what the scheduler's process obtained (docs/operation.md tells how to
permit more), `fixed work` what the same machine makes of a third of a millisecond of arithmetic
every period, in a thread of the same priority: what it takes beyond its median is the machine's
doing.

    xvla benchmark commands
    xvla benchmark commands --seconds 600 --threads 2 --json commands.json
    prlimit --rtprio=0 --nice=0 xvla benchmark commands     without permission for a priority
    xvla benchmark commands --threads 0        what the policy adds to its network: beside_network
    xvla benchmark commands --seconds 0        only what deciding a command costs; needs no ROS
"""


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla benchmark commands`."""
    parser = kinds.add_parser(
        "commands",
        help="jitter of the command stream on a busy machine; time that a command takes",
        description="Measures the 50 Hz command stream over ROS 2, and deciding a command.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--seconds", type=float, default=60.0, help="of listening (60); 0 = no stream")
    add("--threads", type=int, default=2, help="of torch that keep the machine busy (2); 0 = none")
    add("--ticks", type=int, default=3000, help="commands whose decision is timed (3000)")
    add("--params-file", default="", help="of the nodes; default: that of the package")
    add("--out", type=Path, default=Path("out/commands"), help="folder for the nodes' logs")
    add("--json", type=Path, help="file for the figures; they are printed as well")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measures, prints and writes; 1 if a period went without a command."""
    import json
    import time
    from dataclasses import asdict

    from xvla_ros.errors import UsageError
    from xvla_ros.evaluation import tick_timing
    from xvla_ros.evaluation.machine import machine
    from xvla_ros.evaluation.result import write_json

    if arguments.seconds < 0.0 or arguments.threads < 0 or arguments.ticks < 100:
        raise UsageError("--seconds and --threads must not be negative, --ticks at least 100")
    decide = tick_timing.measure(time.perf_counter, arguments.ticks)
    content = {
        "schema": "xvla-benchmark-commands/1",
        "machine": machine(),
        "decide": {what: asdict(timing) for what, timing in decide.items()},
    }
    missed = 0
    if arguments.seconds:
        from xvla_ros.evaluation import live_commands

        content["fixed work"] = asdict(live_commands.fixed_work(arguments.seconds))
        stream = live_commands.measure(
            arguments.seconds,
            arguments.threads,
            arguments.out,
            lambda text: print(text, file=sys.stderr, flush=True),
            arguments.params_file,
        )
        content["stream"] = asdict(stream)
        missed = stream.missed
    print(json.dumps(content, indent=2))
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        write_json(arguments.json, content)
    return 1 if missed else 0
