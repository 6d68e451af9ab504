"""What the scheduler node tells about itself: its status, and things to look at."""

from __future__ import annotations

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from std_msgs.msg import Header

from xvla_ros.chunk import Plan
from xvla_ros.geometry import Pose
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes.conversions import pose_msg, time_msg
from xvla_ros.nodes.period import PeriodMeter
from xvla_ros.scheduler.arm_io import ArmCommand
from xvla_ros.scheduler.executor import ArmExecutor


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
