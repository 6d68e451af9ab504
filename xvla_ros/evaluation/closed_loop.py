"""Lockstep episodes: a policy, the scheduler and the simulated arm on one simulated clock.

The same pure code as in the nodes, without processes: every run of a seed gives the same result,
and inference takes exactly the simulated time that was asked for, whatever the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.gripper import closed_from_finger, finger_from_closed
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Chunk, ChunkRefused
from xvla_ros.evaluation.link import Link, LinkFaults
from xvla_ros.geometry import Pose
from xvla_ros.runtime.interface import Policy
from xvla_ros.runtime.prediction import Request, predict_chunk
from xvla_ros.runtime.proprio import ProprioParams, ProprioSelector
from xvla_ros.scheduler.arm_io import ArmCommand, JointMeasurement
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.latency import LatencyWindow
from xvla_ros.scheduler.params import ExecutorParams, SchedulerParams
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.sim.world import SimWorld

Images = tuple[NDArray[np.uint8] | None, ...]
Sight = Callable[[Images], Images]
"""What the policy is shown in place of what the cameras saw."""
Observer = Callable[[SimWorld, Pose, Images], None]
"""Told of every observation: the world, the pose given as proprio, the pictures taken."""


class Watcher(Protocol):
    """Told everything about episodes."""

    def begin(self, seed: int) -> None:
        """An episode begins."""

    def moved(self, measured: JointMeasurement) -> None:
        """The joints, once in each command period, before a chunk of the same time."""

    def predicted(self, chunk: Chunk, images: Images, measured: JointMeasurement) -> None:
        """A chunk has been computed from what was shown, while the arm was there."""

    def end(self, result: EpisodeResult) -> None:
        """What came of the episode."""


class Probe(Protocol):
    """Looks into the executor at work."""

    def scheduler(self, params: SchedulerParams) -> ChunkScheduler:
        """The scheduler that an episode is to use."""

    def ticked(
        self, now: float, world: SimWorld, executor: ArmExecutor, command: ArmCommand
    ) -> None:
        """A command has been given, and the world has not yet moved on."""


CAMERAS = ("front", "wrist")
"""Simulator camera of each filled view slot."""
_LEFT_FINGER = 7


@dataclass(frozen=True)
class LoopSettings:
    """Timing of an episode; everything in simulated seconds."""

    latency_s: float = 0.1
    """From an observation to the arrival of its chunk."""
    policy_rate_hz: float = 2.0
    limit_s: float = 15.0
    """An episode that has not succeeded by then has failed."""
    cameras: tuple[str, ...] = CAMERAS
    scheduler: SchedulerParams = field(default_factory=SchedulerParams)
    executor: ExecutorParams = field(default_factory=ExecutorParams)
    proprio: ProprioParams = field(default_factory=ProprioParams)
    faults: LinkFaults = field(default_factory=LinkFaults)
    latency_estimate: float = 1.0
    """What the scheduler believes the latency to be, over what it measures."""

    def __post_init__(self) -> None:
        if not self.latency_s >= 0.0 or not self.policy_rate_hz > 0.0 or not self.limit_s > 0.0:
            raise ValueError(
                f"latency {self.latency_s} s, policy rate {self.policy_rate_hz} Hz and limit "
                f"{self.limit_s} s must be positive"
            )


class MisjudgedLatency(LatencyWindow):
    """A measured latency that is wrong by a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor

    @property
    def p95(self) -> float:
        """Seconds; 0 before the first measurement."""
        return self._factor * super().p95


@dataclass(frozen=True)
class EpisodeResult:
    """What came of one episode."""

    task: str
    seed: int
    success: bool
    seconds: float
    """Simulated time to success, or the limit."""
    chunks: int
    """Chunks accepted."""
    refused: int
    """Chunks refused."""
    limited: int
    """Commands on which a limit acted."""
    largest_step_m: float
    """Largest change of the commanded position between two commands."""
    largest_step_rad: float
    inference_s: tuple[float, ...]
    """Wall time of each prediction."""


class Episode:
    """One run of one task from one seed."""

    def __init__(
        self,
        world: SimWorld,
        policy: Policy,
        task: str,
        seed: int,
        settings: LoopSettings,
        sight: Sight | None = None,
        observer: Observer | None = None,
        watcher: Watcher | None = None,
        probe: Probe | None = None,
    ) -> None:
        self._watcher = watcher
        self._probe = probe
        self._world = world
        self._policy = policy
        self._settings = settings
        self._sight = sight
        self._observer = observer
        self._seed = seed
        self._instruction = world.reset(seed, task)
        self._task = task
        self._arm = WidowX250s()
        make = ChunkScheduler if probe is None else probe.scheduler
        scheduler = make(settings.scheduler)
        scheduler.latency = MisjudgedLatency(settings.latency_estimate)
        self._executor = ArmExecutor(scheduler, self._arm, settings.executor)
        self._selector = ProprioSelector(settings.proprio)
        period = 1.0 / settings.policy_rate_hz
        self._link = Link(settings.latency_s, period, settings.faults, seed)
        self._next_inference = 0.0
        self._predictions: list[float] = []
        self._sequence = 0
        self._limited = 0
        self._largest = (0.0, 0.0)
        self._last_pose: Pose | None = None

    def run(self) -> EpisodeResult:
        """Runs to success or to the limit."""
        period = self._settings.scheduler.period
        ticks = math.ceil(self._settings.limit_s / period)
        measured = self._measure()
        self._executor.tick(0.0, measured)
        outcome = self._executor.set_actuation(True, 0.0, measured)
        if not outcome.accepted:
            raise RuntimeError(f"seed {self._seed}: {outcome.message}")
        for tick in range(ticks):
            self._step(tick * period, (tick + 1) * period)
            if self._world.state().success:
                break
        truth = self._world.state()
        scheduler = self._executor.scheduler
        return EpisodeResult(
            self._task,
            self._seed,
            truth.success,
            truth.time,
            scheduler.accepted,
            sum(scheduler.refusals.values()),
            self._limited,
            *self._largest,
            tuple(self._predictions),
        )

    def _step(self, now: float, until: float) -> None:
        """One command period."""
        if self._watcher is not None:
            self._watcher.moved(self._measure())
        self._deliver(now)
        if self._link.free(now) and now >= self._next_inference - 1e-9:
            self._infer(now)
            self._deliver(now)
        command = self._executor.tick(now, self._measure())
        if command.publish and command.joints is not None:
            self._world.command_arm(command.joints)
            self._world.command_gripper(finger_from_closed(command.gripper_closed))
        self._note(command.pose, bool(command.limits))
        if self._probe is not None:
            self._probe.ticked(now, self._world, self._executor, command)
        self._world.step_to(until)

    def _deliver(self, now: float) -> None:
        """Hands over the chunks whose time has come."""
        for chunk in self._link.arrived(now):
            try:
                self._executor.submit(chunk, now)
            except ChunkRefused:
                continue  # counted by the scheduler; the old plan goes on
            self._selector.add_plan(self._executor.plan(now), now)

    def _infer(self, now: float) -> None:
        """Observes, and computes the chunk that will arrive after the latency."""
        self._next_inference = now + 1.0 / self._settings.policy_rate_hz
        self._selector.add_plan(self._executor.plan(now), now)
        measured = self._arm.fk(self._world.joints())
        proprio = self._selector.choose(now, measured, now)
        taken: Images = tuple(self._world.render(name) for name in self._settings.cameras)
        if self._observer is not None:
            self._observer(self._world, proprio.pose, taken)
        shown = taken if self._sight is None else self._sight(taken)
        empty = self._policy.num_views - len(shown)
        self._sequence += 1
        request = Request(
            stamp=now,
            images=shown + (None,) * empty,
            view_stamps=(now,) * len(shown) + (math.nan,) * empty,
            proprio=proprio,
            instruction=self._instruction,
            seed=self._seed * 1000 + self._sequence,
            prefix=self._selector.prefix(
                now, proprio, now, self._policy.step_dt, self._policy.horizon
            ),
            epoch=self._executor.scheduler.epoch,
            sequence=self._sequence,
            frame_id=self._settings.scheduler.base_frame,
            ee_frame=self._settings.scheduler.ee_frame,
        )
        # The network's own time is of interest, but must not enter the simulated one.
        chunk = predict_chunk(self._policy, request, time.perf_counter)
        origin = chunk.provenance
        self._predictions.append(origin.inference_end - origin.inference_start)
        if self._watcher is not None:
            self._watcher.predicted(chunk, request.images, self._measure())
        self._link.send(chunk, now)

    def _measure(self) -> JointMeasurement:
        state = self._world.joint_state()
        return JointMeasurement(
            state.time,
            state.position[:6].copy(),
            state.effort[:6].copy(),
            closed_from_finger(float(state.position[_LEFT_FINGER])),
        )

    def _note(self, pose: Pose | None, limited: bool) -> None:
        self._limited += limited
        if pose is not None and self._last_pose is not None:
            step = pose.distance(self._last_pose)
            self._largest = (max(self._largest[0], step[0]), max(self._largest[1], step[1]))
        self._last_pose = pose


def evaluate(
    world: SimWorld,
    policy: Policy,
    task: str,
    seeds: Iterable[int],
    settings: LoopSettings | None = None,
    sight: Sight | None = None,
    observer: Observer | None = None,
    watcher: Watcher | None = None,
    probe: Probe | None = None,
) -> Iterator[EpisodeResult]:
    """Runs one episode per seed and yields each result when it is there."""
    for seed in seeds:
        chosen = settings or LoopSettings()
        episode = Episode(world, policy, task, seed, chosen, sight, observer, watcher, probe)
        if watcher is not None:
            watcher.begin(seed)
        result = episode.run()
        if watcher is not None:
            watcher.end(result)
        yield result
