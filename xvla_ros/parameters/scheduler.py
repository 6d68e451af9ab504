"""Parameters of the node `chunk_scheduler`.

Names and defaults are the fields of the scheduler's own dataclasses; what is added here is what a
reader and a check need: description, unit, range. What cannot change while the arm moves is read
at configuration only.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from xvla_ros import names
from xvla_ros.parameters.parameter import Parameter, Value, Values
from xvla_ros.parameters.xs import XS_PARAMETERS, xs_params
from xvla_ros.scheduler.params import STRATEGIES, ExecutorParams, SchedulerParams

BACKENDS = ("jtc", "xs", "none")
"""Drivers that can be commanded; see `nodes/backends`."""


def _flatten(params: object, prefix: str = "") -> Values:
    """Field values by dotted name, nested dataclasses included."""
    flat: Values = {}
    for field in fields(params):  # type: ignore[arg-type]
        value = getattr(params, field.name)
        if is_dataclass(value):
            flat.update(_flatten(value, f"{prefix}{field.name}."))
        else:
            flat[prefix + field.name] = value
    return flat


_DEFAULTS: Values = {**_flatten(SchedulerParams()), **_flatten(ExecutorParams())}


def _own(
    name: str,
    description: str,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    **options: Any,
) -> Parameter:
    """The parameter of a field, with the field's default."""
    default = _DEFAULTS[name]
    if isinstance(default, tuple):
        options["length"] = len(default)
    return Parameter(name, default, description, unit, minimum, maximum, **options)


SCHEDULER_PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "robot_name",
        names.ROBOT,
        "Namespace of the driver's topics and prefix of the frames.",
        read_only=True,
    ),
    Parameter(
        "backend",
        "jtc",
        "Driver that gets the commands: jtc = joint_trajectory_controller topics; "
        "xs = Interbotix' xs_sdk itself; none = nobody.",
        choices=BACKENDS,
        read_only=True,
    ),
    Parameter(
        "start_actuation",
        False,
        "Actuation is on from the first activation of the process. Whatever starts the process "
        "again after its death must set it to false, as the launch files here do.",
        read_only=True,
    ),
    Parameter(
        "deadman.enabled",
        False,
        "The arm moves only while a button is held: a gamepad's on the topic `joy`, or the space "
        "bar's (xvla deadman).",
        read_only=True,
    ),
    Parameter(
        "deadman.button",
        0,
        "Index of that button in the message.",
        minimum=0,
        maximum=63,
        read_only=True,
    ),
    Parameter(
        "deadman.timeout_s",
        0.3,
        "Without a message for so long the button counts as let go.",
        "s",
        0.05,
        2.0,
        read_only=True,
    ),
    Parameter(
        "point_periods",
        1.5,
        "How far ahead each point is sent, in command periods; the controller interpolates to it.",
        minimum=1.0,
        maximum=10.0,
    ),
    Parameter(
        "path_rate_hz",
        1.0,
        "Rate of ~/planned_path, which is for display only; 0 = none.",
        "Hz",
        0.0,
        10.0,
    ),
    _own("command_rate_hz", "Rate of the commands.", "Hz", 5.0, 200.0, read_only=True),
    _own(
        "strategy",
        "How a new chunk takes over: anchor_fade = at once, with the offset fading out; "
        "crossfade = mixed with the old one for fade_s; ensemble = mean of all that cover a time; "
        "inpaint = as anchor_fade, the policy being asked to go on from the plan; "
        "timestamp = at once, as stamped; sync = after the old one has ended.",
        choices=STRATEGIES,
    ),
    _own(
        "fade_s",
        "Time over which the offset at a splice fades out, or two chunks are mixed.",
        "s",
        0.05,
        2.0,
    ),
    _own(
        "ensemble_decay",
        "Weights of `ensemble` are exp(-decay * k), k = 0 for the oldest chunk; below 0 the newest "
        "weighs most.",
        "",
        -5.0,
        5.0,
    ),
    _own(
        "execution_horizon_s",
        "How long a chunk is executed at most, by plan time and by the clock; then the arm rests "
        "along its path.",
        "s",
        0.2,
        10.0,
    ),
    _own(
        "arm_lag_s",
        "How long the arm takes to follow its command (xvla calibrate latency); a chunk that "
        "starts from a measured pose is commanded earlier by this.",
        "s",
        0.0,
        1.0,
    ),
    _own(
        "gripper_lag_s",
        "How long the gripper takes; it is commanded ahead of the arm by what it takes longer.",
        "s",
        0.0,
        1.0,
    ),
    _own("clock_jump_s", "A clock that goes back by more is a jump: hold.", "s", 0.0, 10.0),
    _own(
        "gripper.close_above",
        "Close above this probability of closed; the checkpoint's domain overrides it.",
        "",
        0.0,
        1.0,
    ),
    _own(
        "gripper.open_below",
        "Open below this probability; with the domain's threshold the distance is kept.",
        "",
        0.0,
        1.0,
    ),
    _own("gripper.dwell_s", "Least time between two gripper changes.", "s", 0.0, 5.0),
    _own(
        "chunk.max_linear_speed",
        "A chunk with steps faster than this is refused.",
        "m/s",
        0.01,
        5.0,
    ),
    _own(
        "chunk.max_angular_speed",
        "A chunk with steps faster than this is refused.",
        "rad/s",
        0.01,
        20.0,
    ),
    _own("chunk.step_slack_m", "Allowed on top of the linear bound.", "m", 0.0, 0.1),
    _own("chunk.step_slack_rad", "Allowed on top of the angular bound.", "rad", 0.0, 1.0),
    _own("chunk.min_step_dt_s", "Shortest step time of a chunk.", "s", 0.001, 1.0),
    _own("chunk.max_step_dt_s", "Longest step time of a chunk.", "s", 0.01, 10.0),
    _own(
        "chunk.max_age_s",
        "A chunk whose observation is older at arrival is refused: clocks differ.",
        "s",
        0.1,
        60.0,
    ),
    _own(
        "chunk.max_future_s",
        "A chunk stamped further in the future is refused: clocks differ.",
        "s",
        0.0,
        10.0,
    ),
    _own("chunk.max_lead_s", "How far t_ref may lie after the observation.", "s", 0.0, 10.0),
    _own(
        "splice.blend_linear_speed",
        "A splice offset that would fade faster than this fades longer.",
        "m/s",
        0.01,
        1.0,
    ),
    _own(
        "splice.blend_angular_speed",
        "A splice offset that would fade faster than this fades longer.",
        "rad/s",
        0.01,
        5.0,
    ),
    _own("splice.max_fade_s", "Longest fade.", "s", 0.05, 5.0),
    _own(
        "splice.max_jump_m",
        "A chunk that starts further from the command is refused.",
        "m",
        0.001,
        0.5,
    ),
    _own(
        "splice.max_jump_rad",
        "A chunk that starts further from the command is refused.",
        "rad",
        0.01,
        3.0,
    ),
    _own("rate.acceleration", "Bound of the plan rate's change.", "1/s^2", 0.1, 100.0),
    _own("rate.jerk", "Bound of the plan rate's second derivative.", "1/s^3", 1.0, 10000.0),
    _own("rate.stop_acceleration", "The same where the arm rests at once.", "1/s^2", 0.1, 100.0),
    _own("rate.stop_jerk", "The same where the arm rests at once.", "1/s^3", 1.0, 10000.0),
    _own(
        "joint_states_max_age_s",
        "Older joint states suspend actuation and bring the arm to rest.",
        "s",
        0.02,
        2.0,
    ),
    _own(
        "resume_tolerance_rad",
        "An arm within this of the last command goes on from it, else from where it is.",
        "rad",
        0.0,
        0.5,
    ),
    _own("limits.workspace_min", "Lower corner of the box for the end effector.", "m", -1.0, 1.0),
    _own("limits.workspace_max", "Upper corner of the box for the end effector.", "m", -1.0, 1.0),
    _own("limits.max_linear_speed", "Speed limit of the end effector.", "m/s", 0.01, 1.0),
    _own("limits.max_angular_speed", "Speed limit of the end effector.", "rad/s", 0.01, 5.0),
    _own("limits.joint_margin_rad", "Distance kept to each joint limit.", "rad", 0.0, 0.5),
    _own("limits.max_joint_speed", "Speed limit of every joint.", "rad/s", 0.05, 3.1415),
    _own(
        "limits.max_effort",
        "Effort per joint above which the arm counts as blocked, in the unit of joint_states; "
        "0 = no check.",
        "mA",
        0.0,
        5000.0,
    ),
    _own(
        "tracking.max_error_m",
        "An arm further from its command counts as blocked.",
        "m",
        0.005,
        0.5,
    ),
    _own(
        "tracking.max_error_rad",
        "An arm further from its command counts as blocked.",
        "rad",
        0.02,
        3.0,
    ),
    _own("tracking.max_duration_s", "For so long before the arm freezes.", "s", 0.0, 5.0),
    _own("tracking.freeze_s", "Time frozen before the command backs off.", "s", 0.0, 10.0),
    _own("move.max_speed", "Joint speed of ready and sleep moves.", "rad/s", 0.05, 3.1415),
    _own("move.max_acceleration", "Joint acceleration of such moves.", "rad/s^2", 0.1, 10.0),
    _own("move.max_jerk", "Joint jerk of such moves.", "rad/s^3", 0.1, 100.0),
    *XS_PARAMETERS,
)


def build(values: Values) -> tuple[SchedulerParams, ExecutorParams]:
    """The dataclasses of the values.

    Raises:
        ValueError: two values do not fit together.
    """
    robot = str(values["robot_name"])
    scheduler = replace(
        _fill(SchedulerParams(), values, ""),
        base_frame=names.base_frame(robot),
        ee_frame=names.ee_frame(robot),
    )
    return scheduler, _fill(ExecutorParams(), values, "")


def check(values: Values) -> str | None:
    """Why the values cannot be so together, or None."""
    try:
        build(values)
        xs_params(values)
    except ValueError as error:
        return str(error)
    return None


def _fill(params: Any, values: Values, prefix: str) -> Any:
    changed: dict[str, Value | object] = {}
    for field in fields(params):
        value = getattr(params, field.name)
        name = prefix + field.name
        changed[field.name] = (
            _fill(value, values, f"{name}.") if is_dataclass(value) else values.get(name, value)
        )
    return type(params)(**changed)
