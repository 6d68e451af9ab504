"""Parameters of the scheduler and of the executor, with the defaults for a WidowX 250S.

A nested group `limits` with a field `max_linear_speed` is the ROS parameter
`limits.max_linear_speed`; ranges and descriptions belong to the ROS declaration. What is checked
here is what a range cannot say: how two parameters fit together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Strategy = Literal["anchor_fade", "crossfade", "ensemble", "inpaint", "timestamp", "sync"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
Vector3 = tuple[float, float, float]
Vector6 = tuple[float, float, float, float, float, float]


@dataclass(frozen=True)
class GripperParams:
    """From a probability of closed to a command that is open or closed."""

    close_above: float = 0.8
    """Close when the probability is above this; a chunk's own threshold replaces it."""
    open_below: float = 0.6
    """Open when the probability is below this; the band to close_above is kept."""
    dwell_s: float = 0.25
    """Least time in seconds between two changes of the command."""

    def __post_init__(self) -> None:
        if not self.open_below <= self.close_above:
            raise ValueError(
                f"gripper.open_below {self.open_below} is above "
                f"gripper.close_above {self.close_above}"
            )


@dataclass(frozen=True)
class ChunkParams:
    """What a chunk must satisfy; otherwise it is refused whole.

    The step bounds are twice what the BridgeData controller allows (5 cm and 0.25 rad per step
    of 5 Hz, github.com/rail-berkeley/bridge_data_robot): a chunk is meant to be slowed by the
    speed limits, and refused only when it is no motion of an arm.
    """

    max_linear_speed: float = 0.6
    """m/s between two steps."""
    max_angular_speed: float = 3.0
    """rad/s between two steps."""
    step_slack_m: float = 0.01
    """Metres allowed on top, so that noise between very short steps passes."""
    step_slack_rad: float = 0.05
    """Radians allowed on top."""
    min_step_dt_s: float = 0.01
    max_step_dt_s: float = 1.0
    max_age_s: float = 5.0
    """Oldest plausible observation stamp at arrival, seconds; older means clocks differ."""
    max_future_s: float = 0.1
    """How far a stamp may lie in the future, seconds; further means clocks differ."""
    max_lead_s: float = 2.0
    """How far t_ref may lie after the observation stamp, seconds."""

    def __post_init__(self) -> None:
        if not self.min_step_dt_s <= self.max_step_dt_s:
            raise ValueError(
                f"chunk.min_step_dt_s {self.min_step_dt_s} is above "
                f"chunk.max_step_dt_s {self.max_step_dt_s}"
            )


@dataclass(frozen=True)
class SpliceParams:
    """How an offset between the command and a new chunk is taken."""

    blend_linear_speed: float = 0.2
    """m/s; an offset larger than this times fade_s fades longer."""
    blend_angular_speed: float = 0.5
    """rad/s; the same for rotations."""
    max_fade_s: float = 0.8
    """Longest fade, seconds."""
    max_jump_m: float = 0.08
    """A chunk that starts further from the command is refused, metres."""
    max_jump_rad: float = 0.5
    """The same for rotations, radians."""


@dataclass(frozen=True)
class RateParams:
    """Bounds on the rate of plan time (1 = real time), which make starts and stops smooth."""

    acceleration: float = 5.0
    """1/s^2, for starts and for the end of the trusted horizon."""
    jerk: float = 50.0
    """1/s^3."""
    stop_acceleration: float = 15.0
    """1/s^2, where the arm rests at once: stop, joint states or policy lost."""
    stop_jerk: float = 450.0
    """1/s^3."""


@dataclass(frozen=True)
class SchedulerParams:
    """Parameters of `ChunkScheduler`."""

    strategy: Strategy = "anchor_fade"
    fade_s: float = 0.4
    """Seconds over which the offset at a splice fades out, or two chunks are mixed."""
    ensemble_decay: float = 0.01
    """Of the weights exp(-decay * k) of `ensemble`, k = 0 for the oldest chunk."""
    execution_horizon_s: float = 1.7
    """Seconds of a chunk executed after its splice; then the arm rests along the path."""
    arm_lag_s: float = 0.0
    """Seconds by which the arm follows its command, as `xvla calibrate latency` measures it."""
    gripper_lag_s: float = 0.0
    """The same of the gripper."""
    command_rate_hz: float = 50.0
    """Rate at which `sample` is called; plan time advances by at most two periods per call."""
    clock_jump_s: float = 0.1
    """A clock that goes back by more than this is a jump: hold."""
    base_frame: str = "base_link"
    """Chunks whose poses are in another frame are refused; a node adds its robot's prefix."""
    ee_frame: str = "ee_gripper_link"
    """Chunks of another frame's poses are refused."""
    gripper: GripperParams = field(default_factory=GripperParams)
    chunk: ChunkParams = field(default_factory=ChunkParams)
    splice: SpliceParams = field(default_factory=SpliceParams)
    rate: RateParams = field(default_factory=RateParams)

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy {self.strategy!r} is none of {', '.join(STRATEGIES)}")

    @property
    def period(self) -> float:
        """Seconds between two calls of `sample`."""
        return 1.0 / self.command_rate_hz

    @property
    def gripper_lead_s(self) -> float:
        """Seconds by which the gripper is commanded ahead of the arm so that both arrive together.

        Negative where the gripper is the faster one.
        """
        return self.gripper_lag_s - self.arm_lag_s


@dataclass(frozen=True)
class LimitParams:
    """Limits of every command, in the order in which they act.

    Workspace: OpenVLA's BridgeData V2 evaluation; speeds: BridgeData's 5 cm and 0.25 rad per
    step of 5 Hz.
    """

    workspace_min: Vector3 = (0.10, -0.20, -0.01)
    """Lower corner of the box for the end effector in the base frame, metres."""
    workspace_max: Vector3 = (0.45, 0.25, 0.30)
    """Upper corner, metres."""
    max_linear_speed: float = 0.25
    """m/s of the end effector."""
    max_angular_speed: float = 1.25
    """rad/s of the end effector."""
    joint_margin_rad: float = 0.05
    """Radians kept to each joint limit."""
    max_joint_speed: float = 2.0
    """rad/s of every joint, where the arm's own limit is not lower."""
    max_effort: Vector6 = (1360.0, 1700.0, 1020.0, 1020.0, 1020.0, 1190.0)
    """Per joint in the unit of joint_states (mA on a WidowX); 0 switches a joint's check off."""

    def __post_init__(self) -> None:
        for axis, low, high in zip("xyz", self.workspace_min, self.workspace_max, strict=True):
            if not low < high:
                raise ValueError(
                    f"limits.workspace_min {low} is not below limits.workspace_max {high} in {axis}"
                )


@dataclass(frozen=True)
class TrackingParams:
    """When an arm that does not follow is blocked, and how the command backs off."""

    max_error_m: float = 0.06
    """Metres between command and measurement; a lag of 0.12 s at full speed is 0.03 m."""
    max_error_rad: float = 0.35
    """Radians between command and measurement."""
    max_duration_s: float = 0.5
    """Seconds above a bound (also of effort) after which the arm freezes."""
    freeze_s: float = 0.3
    """Seconds frozen before the command backs off to the measured pose."""


@dataclass(frozen=True)
class MoveParams:
    """Joint moves on request (ready and sleep pose, backing off)."""

    max_speed: float = 0.5
    """rad/s of each joint."""
    max_acceleration: float = 1.0
    """rad/s^2."""
    max_jerk: float = 5.0
    """rad/s^3."""


@dataclass(frozen=True)
class ExecutorParams:
    """Parameters of `ArmExecutor`."""

    joint_states_max_age_s: float = 0.3
    """Older joint states suspend actuation, seconds."""
    resume_tolerance_rad: float = 0.05
    """An arm within this of the last command continues from it, else from where it is."""
    limits: LimitParams = field(default_factory=LimitParams)
    tracking: TrackingParams = field(default_factory=TrackingParams)
    move: MoveParams = field(default_factory=MoveParams)
