"""Demonstrations: the scripted expert drives a disturbed arm, and every picture is labelled.

The expert is a rule without memory, so its answer is right in any state, however the arm got
there: commands drift, the gripper snaps shut at the wrong time, episodes start anywhere. That is
where the policy will find itself after its own errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xvla_ros.arm.gripper import finger_from_closed
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.geometry import Array, Pose, interpolate, so3_exp, so3_log
from xvla_ros.sim.expert import Label, label
from xvla_ros.sim.world import SimWorld
from xvla_ros.training.recipe import TASKS
from xvla_ros.training.recorder import Recorder, episode_rng
from xvla_ros.training.samples import Samples

_TICK = 0.02
_DOWN = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
_TASK_SHARES = (0.25, 0.75)
_LIMIT_S = {"reach": 3.5, "pick": 7.0}
# How long a finished episode goes on.
_LINGER_S = 0.7
# A joint that must turn by more than this in one tick (rad) is near a singular pose.
_LARGEST_JOINT_STEP = 0.2
# Where commands may be sent while demonstrating, in the base frame (m).
_BOX_LOW = np.array([0.11, -0.19, 0.012])
_BOX_HIGH = np.array([0.42, 0.19, 0.27])


@dataclass(frozen=True)
class Disturbance:
    """How the demonstrations go wrong."""

    drift_speed: float = 0.03
    """Standard deviation of the command's drift, m/s (an Ornstein-Uhlenbeck process)."""
    turn_speed: float = 0.25
    """The same for its rotation about the vertical, rad/s."""
    correlation_s: float = 0.4
    slips_per_s: float = 0.12
    """How often the gripper's command is inverted for a while."""
    wide_start: float = 0.6
    """Share of the episodes that do not start near home."""
    calm: float = 0.3
    """Share of the episodes without drift."""


def demonstrate(
    world: SimWorld, folder: Path, episodes: Sequence[int], cameras: tuple[str, ...]
) -> list[Samples]:
    """Disturbed demonstrations, one entry per episode (see `collect.Job`)."""
    parts = []
    for seed in episodes:
        recorder = Recorder.of_folder(folder, cameras, episode_rng(seed))
        Demonstrator(world, recorder, episode_rng(seed + 1)).run(seed)
        parts.append(recorder.samples())
    return parts


class _Drift:
    """A slowly wandering velocity: three of translation and one of rotation about the vertical."""

    def __init__(self, settings: Disturbance, rng: np.random.Generator) -> None:
        self._scale = np.array([settings.drift_speed] * 3 + [settings.turn_speed])
        self._decay = np.exp(-_TICK / settings.correlation_s)
        self._rng = rng
        self._velocity = np.zeros(4)

    def step(self) -> Array:
        kick = np.sqrt(1.0 - self._decay**2) * self._scale * self._rng.normal(size=4)
        self._velocity = self._decay * self._velocity + kick
        return self._velocity * _TICK


class Demonstrator:
    """Drives the arm of a world by the expert, with disturbances."""

    def __init__(
        self,
        world: SimWorld,
        recorder: Recorder,
        rng: np.random.Generator,
        settings: Disturbance | None = None,
    ) -> None:
        self._world = world
        self._arm = WidowX250s()
        self._recorder = recorder
        self._rng = rng
        self._settings = settings or Disturbance()
        self._drift: _Drift | None = None
        self._joints = world.commanded_joints()
        self._pose = self._arm.fk(self._joints)
        self._slip_until = 0.0

    def run(self, seed: int) -> bool:
        """One episode; returns whether its task was done at the end."""
        rng, world = self._rng, self._world
        task = str(rng.choice(TASKS, p=_TASK_SHARES))
        limit = _LIMIT_S[task]
        self._start(seed, task)
        next_record = next_answer = 0.0
        done_at = None
        while world.time < limit and (done_at is None or world.time < done_at + _LINGER_S):
            now = world.time
            if now >= next_record:
                self._recorder.record(world, self._pose)
                next_record = now + rng.uniform(0.12, 0.30)
            if now >= next_answer:
                answer = _Answer.ask(world, task, self._pose, self._recorder.step_dt)
                next_answer = now + rng.uniform(0.25, 0.6)
            self._command(answer, now)
            world.step(_TICK)
            if done_at is None and world.state().success:
                done_at = world.time
        return done_at is not None

    def _start(self, seed: int, task: str) -> None:
        """Resets the world, the drift and the command."""
        rng, settings = self._rng, self._settings
        self._world.reset(seed, task)
        if rng.random() < settings.wide_start:
            self._start_anywhere()
        self._drift = None if rng.random() < settings.calm else _Drift(settings, rng)
        self._joints = self._world.commanded_joints()
        self._pose = self._arm.fk(self._joints)
        self._slip_until = -1.0

    def _command(self, answer: _Answer, now: float) -> None:
        """One tick: the expert's own motion and gripper, and what disturbs them."""
        pose = self._moved(answer.at(now), answer.at(now + _TICK))
        joints = self._arm.ik(pose, self._joints)
        if joints is None or np.abs(joints - self._joints).max() > _LARGEST_JOINT_STEP:
            self._pose = self._arm.fk(self._joints)
        else:
            self._pose, self._joints = pose, joints
        closed = answer.closed(now)
        if self._drift is not None and self._rng.random() < self._settings.slips_per_s * _TICK:
            self._slip_until = now + self._rng.uniform(0.2, 0.9)
        slipping = now < self._slip_until
        self._world.command_arm(self._joints)
        self._world.command_gripper(finger_from_closed(float(closed ^ slipping)))

    def _start_anywhere(self) -> None:
        """Puts the arm at a random pose that is clear of the cube, the gripper at any opening."""
        rng = self._rng
        cube = self._world.state().cube.position
        for _ in range(100):
            position = rng.uniform([0.15, -0.17, 0.03], [0.37, 0.17, 0.23])
            if position[2] < 0.09 and np.linalg.norm(position[:2] - cube[:2]) < 0.08:
                continue
            yaw = rng.uniform(-1.1, 1.1)
            tilt = rng.normal(0.0, 0.08, 2)
            rotation = so3_exp([tilt[0], tilt[1], 0.0]) @ so3_exp([0.0, 0.0, yaw]) @ _DOWN
            joints = self._arm.ik(Pose(position, rotation), self._world.joints())
            if joints is not None:
                closed = 0.0 if rng.random() < 0.7 else rng.uniform(0.0, 1.0)
                self._world.set_arm(joints, finger_from_closed(closed))
                return

    def _moved(self, current: Pose, wanted: Pose) -> Pose:
        """The command one tick on: moved as the expert moves, and drifted."""
        position = self._pose.position + wanted.position - current.position
        rotation = wanted.rotation @ current.rotation.T @ self._pose.rotation
        if self._drift is not None:
            shift = self._drift.step()
            position = position + shift[:3]
            rotation = so3_exp([0.0, 0.0, shift[3]]) @ rotation
        # Rounding adds up over hundreds of products: the nearest rotation.
        return Pose(np.clip(position, _BOX_LOW, _BOX_HIGH), so3_exp(so3_log(rotation)))


@dataclass(frozen=True, eq=False)
class _Answer:
    """What the expert said, as a function of time."""

    chunk: Label
    origin: Pose
    """The commanded pose from which the chunk starts."""
    asked_at: float
    step_dt: float

    @staticmethod
    def ask(world: SimWorld, task: str, pose: Pose, step_dt: float) -> _Answer:
        chunk = label(world.state(), pose, task, step_dt=step_dt)
        return _Answer(chunk, pose, world.time, step_dt)

    def at(self, time: float) -> Pose:
        """Where the chunk is at a time."""
        x = (time - self.asked_at) / self.step_dt
        k = int(x)
        chunk = self.chunk
        before = self.origin if k == 0 else Pose(chunk.positions[k - 1], chunk.rotations[k - 1])
        return interpolate(before, Pose(chunk.positions[k], chunk.rotations[k]), x - k)

    def closed(self, time: float) -> bool:
        """Whether the gripper should be closed at a time."""
        return bool(self.chunk.gripper[int((time - self.asked_at) / self.step_dt)] > 0.5)
