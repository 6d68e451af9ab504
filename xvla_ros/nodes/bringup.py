"""What a running system consists of: processes, their parameters and their lifecycle. Free of ROS.

Described once, carried out by two: `launch_actions` for `ros2 launch`, and `supervisor` for a
machine without the launch package.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from xvla_ros import names, resources

PACKAGE = "xvla_ros"
# Loading a large checkpoint from a cold disk takes minutes.
_RECORDER_WAIT_S = 600
_SIM_DRIVERS = ("jtc", "xs")
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")

Value = bool | int | float | str


class BringUpError(ValueError):
    """Arguments that cannot be carried out; one line with the cause and the mend."""


def _says(description: str) -> dict[str, str]:
    return {"description": description}


@dataclass(frozen=True)
class Arguments:
    """The arguments of the launch files. An empty one leaves the parameter file's value."""

    robot_name: str = field(
        default="",
        metadata=_says(
            f"namespace of the driver's topics, prefix of the frames; e.g. {names.ROBOT}"
        ),
    )
    params_file: str = field(
        default="",
        metadata=_says("parameter file; empty = config/policy.yaml of the package"),
    )
    model: str = field(
        default="",
        metadata=_says("checkpoint folder; with sim:=true empty = the demonstration checkpoint"),
    )
    device: str = field(default="", metadata=_says("npu[:i], cuda[:i], cpu or auto"))
    backend: str = field(default="", metadata=_says("driver that is commanded: jtc, xs or none"))
    sim: bool = field(default=False, metadata=_says("start the simulated robot too"))
    autostart: bool = field(
        default=True,
        metadata=_says("configure and activate the nodes, again after a respawn"),
    )
    start_actuation: bool = field(
        default=False,
        metadata=_says("commands reach the arm from the start; never again after a respawn"),
    )
    namespace: str = field(default="", metadata=_says("namespace of the nodes"))
    use_sim_time: bool = field(
        default=False,
        metadata=_says("take the time from /clock; with sim:=true the simulated robot gives it"),
    )
    log_level: str = field(default="info", metadata=_says(" | ".join(LOG_LEVELS)))
    record: bool = field(
        default=False, metadata=_says("record everything needed to repeat the episode")
    )
    record_to: str = field(
        default="",
        metadata=_says("folder of that bag; empty = recording_<date>_<time> in the folder of now"),
    )
    bag: str = field(default="", metadata=_says("recording that is played, file or folder"))
    rate: str = field(default="1.0", metadata=_says("speed of the replay, 1.0 = as recorded"))
    out: str = field(default="out/replay", metadata=_says("folder of the replay's report"))

    def __post_init__(self) -> None:
        if self.log_level not in LOG_LEVELS:
            raise BringUpError(f"log_level '{self.log_level}' is none of {', '.join(LOG_LEVELS)}")


REPLAY_ARGUMENTS = ("bag", "rate", "out")
"""Those that mean something to a replay only."""


def argument_descriptions() -> dict[str, tuple[str, str]]:
    """By argument: default value as text for a command line, and description."""
    return {
        f.name: (
            str(f.default).lower() if isinstance(f.default, bool) else str(f.default),
            f.metadata["description"],
        )
        for f in fields(Arguments)
    }


def parse_arguments(texts: Mapping[str, str]) -> Arguments:
    """Arguments from the texts of a command line; those that are missing have their defaults.

    Raises:
        BringUpError: an unknown name, or a value that is not allowed.
    """
    defaults = {f.name: f.default for f in fields(Arguments)}
    values: dict[str, bool | str] = {}
    for name, text in texts.items():
        if name not in defaults:
            raise BringUpError(f"no argument '{name}'; known: {', '.join(defaults)}")
        values[name] = _flag(name, text) if isinstance(defaults[name], bool) else text
    return Arguments(**values)  # type: ignore[arg-type]


def _flag(name: str, text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise BringUpError(f"{name}:={text}: write true or false")
    return known[text.lower()]


@dataclass(frozen=True)
class Process:
    """One node in a process of its own."""

    executable: str
    """Name below lib/xvla_ros, and of the module below xvla_ros.nodes unless `module` is given."""
    node: str
    namespace: str
    params_files: tuple[Path, ...]
    """Read in this order: a later one goes first."""
    parameters: Mapping[str, Value]
    """Go before every file."""
    log_level: str
    lifecycle: bool
    """Has lifecycle states, and so follows the transitions of the bring-up."""
    respawn: bool
    respawn_delay: float = 1.0
    """Seconds between a death and the next start."""
    respawn_parameters: Mapping[str, Value] = field(default_factory=dict)
    """Differ from `parameters` in a process that was started again after its death."""
    module: str = ""
    """The Python module, where it is not one of xvla_ros.nodes."""
    arguments: tuple[str, ...] = ()
    """Stand before the arguments of ROS."""
    essential: bool = True
    """Its end is the end of all, unless it is started again."""

    @property
    def full_name(self) -> str:
        """The node's name with its namespace, from the root."""
        return "/".join(("", *filter(None, self.namespace.split("/")), self.node))

    def ros_arguments(self, *, respawned: bool = False) -> list[str]:
        """The arguments from `--ros-args` on."""
        parameters = {**self.parameters, **(self.respawn_parameters if respawned else {})}
        arguments = ["--ros-args", "--remap", f"__node:={self.node}"]
        if self.namespace:
            arguments += ["--remap", f"__ns:={self.full_name.rpartition('/')[0]}"]
        for path in self.params_files:
            arguments += ["--params-file", str(path)]
        for name, value in parameters.items():
            arguments += ["--param", f"{name}:={_yaml(value)}"]
        return [*arguments, *self.log_arguments()]

    def log_arguments(self) -> list[str]:
        """The node's own log level; that of the libraries below it stays."""
        logger = self.full_name.strip("/").replace("/", ".")
        return ["--log-level", f"{logger}:={self.log_level}"]

    def command(self, *, respawned: bool = False, python: str = sys.executable) -> list[str]:
        """The command line for a machine without `ros2 run`."""
        module = self.module or f"{PACKAGE}.nodes.{self.executable}"
        ros = self.ros_arguments(respawned=respawned)
        return [python, "-m", module, *self.arguments, *ros]


@dataclass(frozen=True)
class Transition:
    """A lifecycle request that follows from an event of the same node."""

    start_state: str
    """State that was left; empty for a process that has just started."""
    goal_state: str
    """State that was reached."""
    request: str
    """Label of the transition to ask for."""


CONFIGURE_AT_START = Transition("", "unconfigured", "configure")
# Not at every way into `inactive`: a node that was deactivated on purpose stays so.
ACTIVATE_WHEN_CONFIGURED = Transition("configuring", "inactive", "activate")


@dataclass(frozen=True)
class BringUp:
    """Processes, and the transitions that every lifecycle node among them follows."""

    processes: tuple[Process, ...]
    transitions: tuple[Transition, ...]

    def process(self, node: str) -> Process:
        """The process of a node."""
        return next(process for process in self.processes if process.node == node)


def describe(arguments: Arguments) -> BringUp:
    """Policy and scheduler, and the simulated robot if asked for.

    Raises:
        BringUpError: a file or folder that does not exist, or values that do not fit together.
    """
    params_files = _params_files(arguments)
    processes = [_policy(arguments, params_files), _scheduler(arguments, params_files)]
    if arguments.sim:
        processes.insert(0, _sim(arguments, params_files))
    if arguments.record:
        # First, because what is started first is ended last.
        processes.insert(0, _recorder(arguments))
    autostart = (CONFIGURE_AT_START, ACTIVATE_WHEN_CONFIGURED)
    return BringUp(tuple(processes), autostart if arguments.autostart else ())


def describe_sim(arguments: Arguments) -> BringUp:
    """The simulated robot alone, as a stand-in for the real one's driver."""
    return BringUp((_sim(arguments, _params_files(arguments)),), ())


def _params_files(arguments: Arguments) -> tuple[Path, ...]:
    path = Path(arguments.params_file).expanduser().absolute()
    if not arguments.params_file:
        path = resources.config_file("policy.yaml")
    if not path.is_file():
        raise BringUpError(f"params_file: no file {path}")
    return (path, resources.config_file("sim.yaml")) if arguments.sim else (path,)


def _policy(arguments: Arguments, params_files: Sequence[Path]) -> Process:
    parameters: dict[str, Value] = {}
    model = arguments.model or (str(resources.demo_model()) if arguments.sim else "")
    if model:
        folder = Path(model).expanduser().absolute()
        if arguments.model and not folder.is_dir():
            raise BringUpError(f"model: no folder {folder}")
        parameters["model_path"] = str(folder)
    if arguments.device:
        parameters["device"] = arguments.device
    return _process(
        arguments, "policy_node", names.POLICY_NODE, params_files, parameters, respawn=True
    )


def _scheduler(arguments: Arguments, params_files: Sequence[Path]) -> Process:
    parameters: dict[str, Value] = {"start_actuation": arguments.start_actuation}
    if arguments.backend:
        parameters["backend"] = arguments.backend
    return _process(
        arguments,
        "scheduler_node",
        names.SCHEDULER_NODE,
        params_files,
        parameters,
        respawn=True,
        respawn_parameters={"start_actuation": False},
    )


def _sim(arguments: Arguments, params_files: Sequence[Path]) -> Process:
    return _process(
        arguments,
        "sim_node",
        names.SIM_NODE,
        params_files,
        {
            "publish_clock": arguments.use_sim_time,
            # The simulated driver speaks what the scheduler is told to.
            **({"driver": arguments.backend} if arguments.backend in _SIM_DRIVERS else {}),
        },
        # A robot that came back by itself, in another pose, would be no test of anything.
        respawn=False,
        lifecycle=False,
    )


def _recorder(arguments: Arguments) -> Process:
    """`xvla record`, which waits until the policy node tells it the cameras."""
    out = ("--out", str(Path(arguments.record_to).expanduser().absolute()))
    return Process(
        executable="xvla",
        node=names.RECORDER_NODE,
        namespace=arguments.namespace,
        params_files=(),
        parameters={"use_sim_time": arguments.use_sim_time},
        log_level=arguments.log_level,
        lifecycle=False,
        respawn=False,
        module=f"{PACKAGE}.cli",
        arguments=(
            "record",
            "--wait",
            str(_RECORDER_WAIT_S),
            *(out if arguments.record_to else ()),
        ),
        # An arm that works goes on without it.
        essential=False,
    )


def _process(
    arguments: Arguments,
    executable: str,
    node: str,
    params_files: Sequence[Path],
    parameters: Mapping[str, Value],
    *,
    respawn: bool,
    lifecycle: bool = True,
    respawn_parameters: Mapping[str, Value] | None = None,
) -> Process:
    return Process(
        executable=executable,
        node=node,
        namespace=arguments.namespace,
        params_files=tuple(params_files),
        parameters={
            **({"robot_name": arguments.robot_name} if arguments.robot_name else {}),
            "use_sim_time": arguments.use_sim_time and node != names.SIM_NODE,
            **parameters,
        },
        log_level=arguments.log_level,
        lifecycle=lifecycle,
        respawn=respawn,
        respawn_parameters=respawn_parameters or {},
    )


def _yaml(value: Value) -> str:
    """The value as ROS reads it from a command line: as YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
