"""What a replay of a recording consists of. Free of ROS."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from xvla_ros import names, resources
from xvla_ros.nodes.bringup import PACKAGE, Arguments, BringUp, BringUpError, Process, describe

NO_BACKEND = "none"
"""The back end that commands nobody; see nodes/backends."""


def describe_replay(arguments: Arguments) -> BringUp:
    """Policy and scheduler in the time of a recording; commands reach nobody.

    With a bag also the player, at whose end everything ends.

    Raises:
        BringUpError: see `describe`, and a bag that does not exist.
    """
    # A recorded chunk belongs to another epoch; only sensors are played.
    model = arguments.model
    if not model and not arguments.params_file:
        model = str(resources.demo_model())
    still = replace(
        arguments,
        model=model,
        sim=False,
        backend=NO_BACKEND,
        start_actuation=False,
        use_sim_time=True,
        record=False,
    )
    bringup = describe(still)
    if not arguments.bag:
        return bringup
    bag = Path(arguments.bag).expanduser().absolute()
    if not bag.exists():
        raise BringUpError(f"bag: no file or folder {bag}")
    player = Process(
        executable="xvla",
        node=names.REPLAY_NODE,
        namespace=arguments.namespace,
        params_files=(),
        parameters={},
        log_level=arguments.log_level,
        lifecycle=False,
        respawn=False,
        module=f"{PACKAGE}.cli",
        arguments=(
            *("replay", str(bag), "--attach", "--rate", arguments.rate),
            *("--out", str(Path(arguments.out).expanduser().absolute())),
        ),
    )
    return replace(bringup, processes=(*bringup.processes, player))


def with_cameras(bringup: BringUp, cameras: Path) -> BringUp:
    """The policy looks at the recording's own topics and waits for its instruction."""
    processes = tuple(
        replace(
            process,
            params_files=(*process.params_files, cameras),
            parameters={**process.parameters, "instruction": ""},
        )
        if process.node == names.POLICY_NODE
        else process
        for process in bringup.processes
    )
    return replace(bringup, processes=processes)
