"""What the scheduler node tells about itself: status, diagnostics and things to look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from std_msgs.msg import Header

from xvla_ros import names
from xvla_ros.chunk import Plan
from xvla_ros.geometry import Pose
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes.backends.base import Health
from xvla_ros.nodes.command_loop import CommandLoop
from xvla_ros.nodes.conversions import pose_msg, time_msg
from xvla_ros.nodes.diagnostics import Level, diagnostic, diagnostic_array
from xvla_ros.nodes.period import PeriodMeter
from xvla_ros.scheduler.arm_io import ArmCommand
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.setpoint import SchedulerState

_LEVELS = {
    SchedulerState.HOLDING: Level.OK,
    SchedulerState.EXECUTING: Level.OK,
    SchedulerState.STARVED: Level.WARN,
    SchedulerState.STOPPED: Level.WARN,
    SchedulerState.SUSPENDED: Level.ERROR,
}


def status(
    header: Header,
    executor: ArmExecutor,
    command: ArmCommand | None,
    meter: PeriodMeter,
    priority: str,
) -> SchedulerStatus:
    """The status message; without a command the node is not active."""
    state = executor.status()
    scheduler = executor.scheduler
    p50, p99 = meter.percentiles()
    return SchedulerStatus(
        header=header,
        state=int(command.state if command else state.state),
        message=command.message if command else _inactive(state.message),
        actuating=state.actuating,
        chunk_sequence=command.sequence if command else 0,
        epoch=scheduler.epoch,
        remaining=command.remaining if command else 0.0,
        rate=command.rate if command else 0.0,
        latency_p95=scheduler.latency.p95,
        tracking_error_m=state.tracking_error[0],
        tracking_error_rad=state.tracking_error[1],
        chunks_accepted=scheduler.accepted,
        chunks_refused=sum(scheduler.refusals.values()),
        refusal_reasons=[reason.value for reason in scheduler.refusals],
        refusal_counts=list(scheduler.refusals.values()),
        limit_names=list(executor.limits),
        limit_counts=list(executor.limits.values()),
        largest_splice_step_m=scheduler.splice_step[0],
        largest_splice_step_rad=scheduler.splice_step[1],
        period_p50=p50,
        period_p99=p99,
        priority=priority,
    )


def _inactive(message: str) -> str:
    return f"not active; {message}" if message else "not active"


def diagnostics(
    stamp: Time, message: SchedulerStatus, loop: CommandLoop, steady: float
) -> DiagnosticArray:
    """The figures of the status, and those of the topics on both sides."""
    state = SchedulerState(message.state)
    joints, listeners = loop.joints, loop.backend.listeners()
    level, text = _LEVELS[state], message.message or state.name.lower()
    if message.actuating and listeners == 0:
        level, text = Level.ERROR, "no driver listens to the commands"
    return diagnostic_array(
        stamp,
        [
            *_hardware(loop.backend.health()),
            diagnostic(
                f"{names.SCHEDULER_NODE}: commands",
                level,
                text,
                {
                    "state": state.name,
                    "actuating": message.actuating,
                    "drivers": listeners,
                    "period p50 [s]": message.period_p50,
                    "period p99 [s]": message.period_p99,
                    "priority": message.priority,
                    "plan rate": message.rate,
                    "tracking error [m]": message.tracking_error_m,
                    "tracking error [rad]": message.tracking_error_rad,
                    **_counts("limit", message.limit_names, message.limit_counts),
                },
            ),
            diagnostic(
                f"{names.SCHEDULER_NODE}: chunks",
                Level.OK,
                f"{message.chunks_accepted} accepted, {message.chunks_refused} refused",
                {
                    "latency p95 [s]": message.latency_p95,
                    "largest splice step [m]": message.largest_splice_step_m,
                    "largest splice step [rad]": message.largest_splice_step_rad,
                    **_counts("refused", message.refusal_reasons, message.refusal_counts),
                },
            ),
            diagnostic(
                f"{names.SCHEDULER_NODE}: joint states",
                Level.STALE if state is SchedulerState.SUSPENDED else Level.OK,
                f"{joints.count} messages",
                {"age [s]": joints.age(steady), "rejected": joints.rejected},
            ),
        ],
    )


def _hardware(health: Health | None) -> Iterator[DiagnosticStatus]:
    """What the driver tells of its motors, if it does."""
    if health is not None:
        text = health.fault or health.message
        name = f"{names.SCHEDULER_NODE}: motors"
        yield diagnostic(name, health.level, text, health.values, health.hardware_id)


def _counts(what: str, keys: Iterable[str], counts: Iterable[int]) -> dict[str, object]:
    return {f"{what}: {key}": count for key, count in zip(keys, counts, strict=True)}


def pose_stamped(header: Header, pose: Pose) -> PoseStamped:
    """The pose as a message."""
    return PoseStamped(header=header, pose=pose_msg(pose))


def path(header: Header, plan: Plan, every: int = 4) -> Path:
    """Every n-th pose of the plan, and the last, for display."""
    last = len(plan.poses) - 1
    steps = [*range(0, last, every), last]
    return Path(
        header=header,
        poses=[
            pose_stamped(
                Header(frame_id=header.frame_id, stamp=time_msg(plan.start + i * plan.dt)),
                plan.poses[i],
            )
            for i in steps
        ],
    )
