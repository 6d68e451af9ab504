"""What the scheduler node says on /diagnostics: one state for each thing that an operator mends.

Counters say what has happened since the start; whether something is wrong is judged by what has
happened since the message before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

from xvla_ros import names
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes.command_loop import CommandLoop
from xvla_ros.nodes.diagnostics import Level, diagnostic, diagnostic_array
from xvla_ros.nodes.period import PeriodMeter
from xvla_ros.scheduler.arm_io import ArmCommand
from xvla_ros.scheduler.limits import IK, NAMES
from xvla_ros.scheduler.rate import PlanRate, stop_distance
from xvla_ros.scheduler.setpoint import SchedulerState

# What the command stream may be late by without the servos noticing, seconds.
_LATE_S = 0.010
# Where the error is this part of what blocks the arm, someone should look.
_NEAR = 0.5

_LEVELS = {
    SchedulerState.HOLDING: Level.OK,
    SchedulerState.EXECUTING: Level.OK,
    SchedulerState.STARVED: Level.WARN,
    SchedulerState.STOPPED: Level.WARN,
    SchedulerState.SUSPENDED: Level.ERROR,
}


class SchedulerDiagnostics:
    """Judges what has happened between two messages.

    Args:
        loop: whose state is told.
        meter: of the commands.
    """

    def __init__(self, loop: CommandLoop, meter: PeriodMeter) -> None:
        self._loop = loop
        self._meter = meter
        self._counts: Counter[str] = Counter()
        self._last: tuple[int, float] = (0, 0.0)
        self._overlaps: list[float] = []
        self._overlap_before = 0.0
        self._steady = float("nan")

    def observe(self, command: ArmCommand) -> None:
        """Takes note of a command: when one chunk takes over from another."""
        sequence, remaining = self._last
        if command.sequence != sequence and sequence > 0 and command.sequence > 0:
            self._overlaps.append(remaining)
        self._last = (command.sequence, command.remaining)

    def report(self, stamp: Time, status: SchedulerStatus, steady: float) -> DiagnosticArray:
        """The message, at a time of the steady clock in seconds.

        Args:
            stamp: of the message.
            status: the figures of the node's own status.
            steady: seconds.
        """
        return diagnostic_array(
            stamp,
            [
                self._commands(status),
                self._stream(status),
                self._limits(status),
                self._tracking(status),
                self._chunks(status),
                self._joint_states(status, steady),
                *self._motors(),
            ],
        )

    def _commands(self, status: SchedulerStatus) -> DiagnosticStatus:
        state, listeners = SchedulerState(status.state), self._loop.backend.listeners()
        level, text = _LEVELS[state], status.message or state.name.lower()
        if status.actuating and listeners == 0:
            level, text = Level.ERROR, "no driver listens to the commands"
        return _about(
            "commands",
            level,
            text,
            {
                "state": state.name,
                "actuating": status.actuating,
                "drivers": listeners,
                "plan rate": status.rate,
                "epoch": status.epoch,
            },
        )

    def _stream(self, status: SchedulerStatus) -> DiagnosticStatus:
        """How evenly commands are sent."""
        late = self._meter.lateness()
        missed = self._new("missed", self._meter.missed)
        level, text = Level.OK, f"even to {1e3 * late:.1f} ms ({status.priority})"
        if missed or late > _LATE_S:
            level = Level.WARN
            text = f"late by {1e3 * late:.0f} ms, {missed} periods missed ({status.priority})"
            if status.priority == "normal":
                text += ": permit a higher priority, see docs/operation.md"
        return _about(
            "command stream",
            level,
            text,
            {
                "period p50 [s]": status.period_p50,
                "period p99 [s]": status.period_p99,
                "late p99 [s]": late,
                "missed periods": self._meter.missed,
                "priority": status.priority,
            },
        )

    def _limits(self, status: SchedulerStatus) -> DiagnosticStatus:
        """Limits that act; unreachable poses among them."""
        counts = dict(zip(status.limit_names, status.limit_counts, strict=True))
        new = {name: self._new(f"limit {name}", counts.get(name, 0)) for name in NAMES}
        acted = {name: count for name, count in new.items() if count}
        text = ", ".join(f"{name} {count} times" for name, count in acted.items())
        level = Level.WARN if new[IK] else Level.OK
        values = {name: counts.get(name, 0) for name in NAMES}
        return _about("limits", level, text or "no limit acts", values)

    def _tracking(self, status: SchedulerStatus) -> DiagnosticStatus:
        """How far the arm is from its command."""
        metres, radians = status.tracking_error_m, status.tracking_error_rad
        bounds = self._loop.executor.params.tracking
        level, text = Level.OK, f"{1e3 * metres:.0f} mm, {radians:.2f} rad"
        if metres > _NEAR * bounds.max_error_m or radians > _NEAR * bounds.max_error_rad:
            level = Level.WARN
            text += f" of {1e3 * bounds.max_error_m:.0f} mm, {bounds.max_error_rad:.2f} rad"
        if "blocked" in status.message:
            level, text = Level.ERROR, status.message
        values = {"tracking error [m]": metres, "tracking error [rad]": radians}
        return _about("tracking", level, text, values)

    def _chunks(self, status: SchedulerStatus) -> DiagnosticStatus:
        """What comes from the policy, and how timely."""
        counts = dict(zip(status.refusal_reasons, status.refusal_counts, strict=True))
        new = {reason: self._new(f"refused {reason}", n) for reason, n in counts.items()}
        refused = {reason: count for reason, count in new.items() if count}
        overlap = min(self._overlaps, default=self._overlap_before)
        level = Level.OK
        text = f"{status.chunks_accepted} accepted, {status.chunks_refused} refused"
        if self._overlaps and overlap <= self._stop_s():
            level = Level.WARN
            text = f"chunks come late: {overlap:.2f} s of the one before was left"
        if refused:
            level = Level.WARN
            text = "; ".join(f"{count} refused: {reason}" for reason, count in refused.items())
        self._overlap_before = overlap
        self._overlaps = []
        return _about(
            "chunks",
            level,
            text,
            {
                "latency p95 [s]": status.latency_p95,
                "overlap [s]": overlap,
                "largest seam [m]": status.largest_splice_step_m,
                "largest seam [rad]": status.largest_splice_step_rad,
                **{f"refused: {reason}": count for reason, count in counts.items()},
            },
        )

    def _stop_s(self) -> float:
        """Seconds of plan in which the arm comes to rest: with less left it has begun to brake."""
        running = PlanRate(rate=1.0, resting=False)
        return stop_distance(running, self._loop.executor.scheduler.params.rate)

    def _joint_states(self, status: SchedulerStatus, steady: float) -> DiagnosticStatus:
        joints = self._loop.joints
        new = self._new("joint states", joints.count)
        rate = new / (steady - self._steady) if steady > self._steady else 0.0
        self._steady = steady
        level, text = Level.OK, f"{rate:.0f} Hz"
        if status.state == SchedulerStatus.SUSPENDED:
            level, text = Level.STALE, status.message
        elif joints.rejection:
            level, text = Level.WARN, joints.rejection
        values = {"age [s]": joints.age(steady), "rate [Hz]": rate, "rejected": joints.rejected}
        return _about("joint states", level, text, values)

    def _motors(self) -> Iterator[DiagnosticStatus]:
        """What the driver tells of its motors, if it does."""
        health = self._loop.backend.health()
        if health is not None:
            text = health.fault or health.message
            yield _about("motors", health.level, text, health.values, health.hardware_id)

    def _new(self, what: str, count: int) -> int:
        """By how much a counter has risen since it was asked for last."""
        risen = count - self._counts[what]
        self._counts[what] = count
        return int(risen)


def _about(
    what: str, level: Level, text: str, values: Mapping[str, object], hardware_id: str = ""
) -> DiagnosticStatus:
    return diagnostic(f"{names.SCHEDULER_NODE}: {what}", level, text, values, hardware_id)
