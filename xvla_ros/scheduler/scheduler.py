"""Executes action chunks: a continuous command for whatever arrives, and rest when nothing does.

Pure: the time is an argument. One thread calls everything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from xvla_ros.chunk import Chunk, ChunkRefused, Plan, Refusal
from xvla_ros.geometry import Pose
from xvla_ros.scheduler import admission
from xvla_ros.scheduler.active import Pending, Running, Waiting
from xvla_ros.scheduler.blending import Box
from xvla_ros.scheduler.forecast import PLAN_DT, forecast
from xvla_ros.scheduler.gate import Gate
from xvla_ros.scheduler.gripper import GripperState
from xvla_ros.scheduler.latency import LatencyWindow
from xvla_ros.scheduler.params import SchedulerParams
from xvla_ros.scheduler.progress import ProgressLog
from xvla_ros.scheduler.rate import PlanTime, stop_distance
from xvla_ros.scheduler.setpoint import Advance, SchedulerState, Setpoint
from xvla_ros.scheduler.strategies import Splice, strategy
from xvla_ros.scheduler.trajectory import Trajectory

# A plan that limits have delayed by this much, in seconds, is another plan.
_PLAN_LAG = 0.05


class ChunkScheduler:
    """Turns chunks into one continuous command.

    Plan time is the scheduler's own: it advances by rate x min(elapsed, two periods), so speed
    limits, pauses and jumps of the clock are one mechanism. A new chunk takes over where the
    plan time executed since its t_ref says: steps that could not run are not skipped.

    `sample` is `propose` and `commit` in one; an executor that has limits to keep calls the two
    and commits the fraction of the advance that the limits allow.

    Attributes:
        params: may be replaced at any time; takes effect at the next chunk or command.
        refusals: how often each reason for a refusal occurred.
        accepted: number of chunks accepted.
        latency: from observation stamp to arrival.
        splice_step: largest step (m, rad) that a change of chunk asked for in one period, before
            any limit.
        revision: rises whenever `plan` changes other than by the passing of time.
    """

    def __init__(self, params: SchedulerParams | None = None, *, epoch: int = 1) -> None:
        """A scheduler without a pose; `epoch` must differ from those of earlier processes."""
        self.params = params or SchedulerParams()
        self.refusals: Counter[Refusal] = Counter()
        self.accepted = 0
        self.latency = LatencyWindow()
        self.splice_step = (0.0, 0.0)
        self.revision = 0
        self._gate = Gate(epoch)
        self._pose: Pose | None = None
        self._gripper = GripperState(0.0)
        self._now = 0.0
        self._running: Running | None = None
        self._waiting = Waiting()
        self._time = PlanTime()
        self._box: Box | None = None
        self._progress = ProgressLog()
        self._spliced = False
        self._lag = 0.0

    @property
    def epoch(self) -> int:
        """Chunks of any other epoch are refused."""
        return self._gate.epoch

    @property
    def stopped(self) -> bool:
        """Whether a stop is latched."""
        return self._gate.stopped

    @property
    def executing(self) -> bool:
        """Whether plan time moves, or is about to."""
        return self._running is not None and not self._time.state.still

    @property
    def state(self) -> SchedulerState:
        """State of the command stream."""
        if self._gate.stopped:
            return SchedulerState.STOPPED
        if self.executing:
            return SchedulerState.EXECUTING
        if self._running is not None and strategy(self.params.strategy).interrupts:
            return SchedulerState.STARVED
        return SchedulerState.HOLDING

    @property
    def pose(self) -> Pose:
        """Last commanded pose."""
        if self._pose is None:
            raise RuntimeError("the scheduler has no pose: call reset first")
        return self._pose

    @property
    def gripper(self) -> float:
        """Last gripper command, 0 = open, 1 = closed."""
        return self._gripper.command

    def set_workspace(self, box: Box | None) -> None:
        """Keeps the positions of all chunks, also of the running one, inside a box."""
        self._box = box
        if self._running is not None:
            path = replace(self._running.path, box=box)
            self._running = replace(self._running, path=path)

    def new_epoch(self) -> int:
        """Makes every chunk in flight invalid; returns the new epoch."""
        self._gate.epoch += 1
        self.revision += 1
        return self._gate.epoch

    def reset(self, pose: Pose, gripper: float, now: float) -> None:
        """Holds a pose and a gripper command from now on, in a new epoch."""
        self.follow(pose, gripper, now)
        self.new_epoch()

    def follow(self, pose: Pose, gripper: float, now: float) -> None:
        """Holds a pose in the same epoch: for an arm that is moved by someone else."""
        self._pose = pose
        if gripper != self._gripper.command:
            self._gripper = GripperState(gripper)
        self._now = now
        self._running = None
        self._waiting.clear()
        self._time = PlanTime()
        self._progress.clear()

    def set_busy(self, reason: str) -> None:
        """Refuses chunks for a reason until this is called with an empty one."""
        self._gate.busy = reason

    def stop(self, now: float) -> None:
        """Comes to rest with the stop bounds and latches, in a new epoch."""
        self._gate.stopped = True
        self.rest(hard=True)
        self.new_epoch()

    def clear_stop(self, now: float) -> None:
        """Releases a stop, in a new epoch; the pose stays."""
        if self._gate.stopped:
            self._gate.stopped = False
            if not self.executing:
                self._running = None
            self.new_epoch()

    def policy_lost(self, now: float) -> None:
        """Comes to rest at once; the next valid chunk goes on."""
        self.rest()
        self.latency.restart()

    def rest(self, hard: bool = False) -> None:
        """Comes to rest along the path; `hard` takes the stop bounds."""
        self._waiting.clear()
        if self._time.rest(hard):
            self.revision += 1

    def submit(self, chunk: Chunk, now: float) -> None:
        """Takes a chunk over, at once or at its t_ref.

        Raises:
            ChunkRefused: the chunk is not executed; only a counter has changed.
        """
        try:
            self._submit(chunk, now)
        except ChunkRefused as refusal:
            self.refusals[refusal.reason] += 1
            raise
        self.accepted += 1

    def _submit(self, chunk: Chunk, now: float) -> None:
        admission.check(chunk, now, self.params)
        self._gate.check(chunk)
        if self._pose is None:
            raise ChunkRefused(Refusal.BUSY, "the arm's pose is not known yet")
        if self.executing and not strategy(self.params.strategy).interrupts:
            raise ChunkRefused(Refusal.BUSY, "strategy sync finishes one chunk before the next")
        trajectory = admission.trajectory(chunk, self.params.chunk)
        begins = chunk.t_ref - self._lag_of(chunk)
        lead = begins - self._now if self.executing else 0.0
        lead = max(lead, 0.0) * self._time.state.rate
        phase = max(self._progress.since(begins), 0.0)
        self._check_splice(trajectory, phase, lead)
        if self._gate.accept(chunk):
            self.latency.restart()
        self.latency.add(now - chunk.stamp)
        due = self._progress.value + lead - phase
        self._waiting.add(Pending(chunk, trajectory, due))

    def _lag_of(self, chunk: Chunk) -> float:
        """Seconds by which its pose at t_ref had been commanded before.

        A measured pose is one that was commanded an arm's lag ago; a commanded pose is not.
        """
        measured = chunk.provenance.proprio_source == "measured"
        return self.params.arm_lag_s if measured else 0.0

    def _check_splice(self, trajectory: Trajectory, phase: float, lead: float) -> None:
        """Refuses a chunk without a future, or too far from the command at its beginning."""
        if trajectory.duration - phase <= stop_distance(
            self._time.state, self.params.rate, hard=True
        ):
            raise ChunkRefused(
                Refusal.EXPIRED, f"{phase:.2f} s of its {trajectory.duration:.2f} s have passed"
            )
        command = self.pose
        if self._running is not None and lead > 0.0:
            command = self._running.path.pose(min(self._time.phase + lead, self._time.end))
        admission.check_jump(command, trajectory.pose(phase), self.params.splice)

    def propose(self, now: float) -> Advance:
        """The next command period, to be committed whole or in part.

        Raises:
            RuntimeError: there was no `reset` yet.
        """
        held = self.pose
        elapsed = self._tick(now)
        self._activate(elapsed)
        if self._time.blind(self.params) and self._time.rest(hard=False):
            self.revision += 1
        time, running = self._time, self._running
        if running is None:
            return Advance(elapsed, 0.0, 0.0, time.state, None, 0.0, held)
        phase, rate = time.ahead(elapsed, self.params.rate)
        return Advance(elapsed, time.phase, phase - time.phase, rate, running.path, time.end, held)

    def commit(self, advance: Advance, fraction: float = 1.0, pose: Pose | None = None) -> Setpoint:
        """Executes a fraction of an advance; `pose` is the command that limits made of it."""
        before, elapsed = advance.held, advance.elapsed
        self._pose = pose or advance.pose(fraction)
        self._time.commit(elapsed, advance.step, fraction, advance.rate)
        self._progress.add(self._now, fraction * advance.step)
        self._lag += (1.0 - fraction) * advance.step
        if self._lag > _PLAN_LAG:
            self._lag = 0.0
            self.revision += 1
        self._advance_gripper(elapsed)
        metres, radians = before.distance(self._pose)
        if self._spliced:
            self._spliced = False
            whole = before.distance(advance.pose())
            self.splice_step = (
                max(self.splice_step[0], whole[0]),
                max(self.splice_step[1], whole[1]),
            )
        running = self._running
        return Setpoint(
            pose=self._pose,
            gripper=self._gripper.command,
            state=self.state,
            sequence=running.sequence if running else 0,
            rate=self._time.actual_rate,
            linear_speed=metres / elapsed if elapsed > 0.0 else 0.0,
            angular_speed=radians / elapsed if elapsed > 0.0 else 0.0,
            remaining=max(self._time.end - self._time.phase, 0.0) if running else 0.0,
        )

    def sample(self, now: float) -> Setpoint:
        """The command at a time, without any limit."""
        return self.commit(self.propose(now))

    def plan(self, now: float, actuating: bool = False) -> Plan:
        """What `sample` will yield from the last command on if no other chunk arrives."""
        poses: tuple[Pose, ...] = (self.pose,)
        gripper: tuple[float, ...] = (self._gripper.command,)
        running = self._running
        if running is not None and self.executing:
            poses, gripper = forecast(
                running.path, running.gripper, self._gripper, self._time, self.params
            )
        return Plan(
            start=self._now,
            dt=PLAN_DT,
            poses=poses,
            gripper=gripper,
            sequence=running.sequence if running else 0,
            epoch=self._gate.epoch,
            latency=self.latency.p95,
            holding=not self.executing,
            actuating=actuating,
            strategy=self.params.strategy,
        )

    def elapsed(self, now: float) -> float:
        """Seconds from the last command to a time, as plan time counts them."""
        return min(max(now - self._now, 0.0), 2.0 * self.params.period)

    def _tick(self, now: float) -> float:
        """Seconds since the last command; a clock that jumped back makes the arm rest."""
        elapsed = self.elapsed(now)
        if now - self._now < -self.params.clock_jump_s:
            self._progress.clear()
            self._gate.forget_order()
            self.rest(hard=True)
            self.new_epoch()
        self._now = now
        return elapsed

    def _activate(self, elapsed: float) -> None:
        """Splices the newest chunk whose beginning falls into this command period.

        At rest nothing is to be waited for: the newest chunk begins at once. One that has waited
        is held against the command once more: another may have taken over meanwhile.
        """
        executing = self.executing
        reached = self._progress.value + self._time.state.rate * elapsed if executing else None
        pending = self._waiting.take(reached)
        if pending is None:
            return
        phase = self._progress.value - pending.due
        if not executing:
            phase = max(phase, 0.0)
        trajectory, knots = pending.trajectory, pending.knots(self.params.gripper)
        try:
            admission.check_jump(self.pose, trajectory.pose(phase), self.params.splice)
        except ChunkRefused as refusal:
            self.refusals[refusal.reason] += 1
            return
        twist, previous = None, None
        if self._running is not None and executing:
            # A path may ask for more than any chunk may, where a fade is short: limits slow it
            # down, and a fade that kept that speed for longer would lead far away.
            most = self.params.chunk
            twist = self._running.path.twist(self._time.phase)
            twist = twist.within(most.max_linear_speed, most.max_angular_speed)
            previous = self._running.to_mix(self._gate.epoch, self._time)
        splice = Splice(self.pose, twist, previous, trajectory, knots, phase)
        joined = strategy(self.params.strategy).join(splice, self.params)
        self._running = Running(
            replace(joined.path, box=self._box),
            joined.gripper,
            trajectory,
            pending.chunk.sequence,
            self._gate.epoch,
        )
        end = min(phase + self.params.execution_horizon_s, trajectory.duration)
        self._time.start(phase, end)
        self._spliced = True
        self.revision += 1

    def _advance_gripper(self, elapsed: float) -> None:
        running = self._running
        if running is None or not self.executing:
            self._gripper = self._gripper.held(elapsed)
        else:
            due = self._time.phase + self.params.gripper_lead_s * self._time.actual_rate
            self._gripper = self._gripper.advanced(
                running.gripper, due, elapsed, self.params.gripper
            )
