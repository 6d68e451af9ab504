"""Everything the scheduler node publishes beside the commands, and when."""

from __future__ import annotations

import gc

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from std_msgs.msg import Header

from xvla_ros import names
from xvla_ros.msg import Plan as PlanMsg
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes import qos, scheduler_report
from xvla_ros.nodes.command_loop import CommandLoop
from xvla_ros.nodes.conversions import now_seconds, plan_msg, time_msg
from xvla_ros.nodes.lifecycle import LifecycleNode
from xvla_ros.nodes.period import PeriodMeter
from xvla_ros.nodes.scheduler_diagnostics import SchedulerDiagnostics
from xvla_ros.scheduler.arm_io import ArmCommand, ArmModel

_PLAN_S = 0.5
_STATUS_S = 0.2
_DIAGNOSTICS_S = 1.0
_GARBAGE_S = 1.0


class SchedulerPublishers:
    """Publishers of a configured node.

    Poses go out with every command. Plan, status, diagnostics and path are slower to make than a
    command may be late, so `housekeeping` makes at most one of them after each command. It collects
    garbage too, which would otherwise be done at any time.

    Args:
        node: gets the publishers.
        loop: whose state is published.
        arm: kinematics, for the measured pose.
        frame_id: base frame of all poses.
        priority: that the process obtained.

    Attributes:
        path_rate: Hz of the path for display; 0 = none.
        meter: measures the period of the commands.
    """

    def __init__(
        self,
        node: LifecycleNode,
        loop: CommandLoop,
        arm: ArmModel,
        frame_id: str,
        priority: str,
    ) -> None:
        self._node = node
        self._loop = loop
        self._arm = arm
        self._frame_id = frame_id
        self._priority = priority
        self.path_rate = 0.0
        self.meter = PeriodMeter()
        self._judge = SchedulerDiagnostics(loop, self.meter)
        managed = node.create_lifecycle_publisher
        self._plan = managed(PlanMsg, names.PLAN, qos.PLAN)
        self._target = managed(PoseStamped, names.TARGET_POSE, qos.POSE)
        self._current = managed(PoseStamped, names.CURRENT_POSE, qos.POSE)
        self._path = managed(Path, names.PLANNED_PATH, qos.DISPLAY)
        self._status = node.create_publisher(SchedulerStatus, names.STATUS, qos.STATUS)
        self._diagnostics = node.create_publisher(
            DiagnosticArray, names.DIAGNOSTICS, qos.DIAGNOSTICS
        )
        self._last = dict.fromkeys(
            ("plan", "status", "diagnostics", "garbage", "path"), float("-inf")
        )
        self._revision = -1
        self._blocked = False
        self._key: tuple[object, ...] = ()

    def close(self) -> None:
        """Frees the publishers."""
        for managed in (self._plan, self._target, self._current, self._path):
            self._node.destroy_lifecycle_publisher(managed)
        for plain in (self._status, self._diagnostics):
            self._node.destroy_publisher(plain)

    def poses(self, command: ArmCommand) -> None:
        """Publishes the commanded and the measured pose, as far as they are known."""
        header = self._header()
        if command.pose is not None:
            self._target.publish(scheduler_report.pose_stamped(header, command.pose))
        measured = self._loop.measurement()
        if measured is not None:
            stamped = Header(stamp=time_msg(measured.stamp), frame_id=self._frame_id)
            pose = self._arm.fk(measured.positions)
            self._current.publish(scheduler_report.pose_stamped(stamped, pose))

    def housekeeping(self, steady: float, command: ArmCommand | None) -> None:
        """Publishes the most urgent thing that is due at a time of the steady clock, if any.

        Args:
            steady: seconds.
            command: the last command; None while the node is not active.
        """
        known = command is not None and command.joints is not None
        if command is not None:
            self._judge.observe(command)
        scheduler = self._loop.executor.scheduler
        blocked = command is not None and command.message.startswith(names.BLOCKED)
        news, self._blocked = blocked and not self._blocked, blocked
        if news:
            # Before the plan of the new epoch, which it explains.
            self._publish_status(steady, command)
        elif known and (scheduler.revision != self._revision or self._due("plan", steady, _PLAN_S)):
            self._revision = scheduler.revision
            self._last["plan"] = steady
            now = now_seconds(self._node.get_clock())
            self._plan.publish(plan_msg(self._loop.executor.plan(now), now, self._frame_id))
        elif self._changed(command) or self._due("status", steady, _STATUS_S):
            self._publish_status(steady, command)
        elif self._due("diagnostics", steady, _DIAGNOSTICS_S):
            self._last["diagnostics"] = steady
            header = self._header()
            self._diagnostics.publish(
                self._judge.report(header.stamp, self.status(command), steady)
            )
        elif self._due("garbage", steady, _GARBAGE_S):
            self._last["garbage"] = steady
            gc.collect()
        elif known and self.path_rate > 0.0 and self._due("path", steady, 1.0 / self.path_rate):
            self._last["path"] = steady
            if self._path.get_subscription_count():
                now = now_seconds(self._node.get_clock())
                self._path.publish(
                    scheduler_report.path(self._header(), self._loop.executor.plan(now))
                )

    def status(self, command: ArmCommand | None) -> SchedulerStatus:
        """The status message."""
        return scheduler_report.status(
            self._header(), self._loop.executor, command, self.meter, self._priority
        )

    def _publish_status(self, steady: float, command: ArmCommand | None) -> None:
        self._last["status"] = steady
        self._status.publish(self.status(command))

    def _due(self, what: str, steady: float, period: float) -> bool:
        return steady - self._last[what] >= period

    def _changed(self, command: ArmCommand | None) -> bool:
        """Whether something that an observer waits for is not as in the last status."""
        scheduler = self._loop.executor.scheduler
        key = (
            command is None,
            command.state if command else None,
            self._loop.executor.actuating,
            scheduler.stopped,
            sum(scheduler.refusals.values()),
        )
        changed = key != self._key
        self._key = key
        return changed

    def _header(self) -> Header:
        return Header(stamp=self._node.get_clock().now().to_msg(), frame_id=self._frame_id)
