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
from numpy.typing import NDArray

from xvla_ros.arm.gripper import finger_from_closed
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.geometry import Array, Pose, interpolate, so3_exp, so3_log
from xvla_ros.model.config import XVLAConfig
from xvla_ros.model.domain import BRIDGE, Domain, find_domain
from xvla_ros.model.processor import ImageTransform, Processor
from xvla_ros.sim.expert import Label, label
from xvla_ros.sim.world import SimWorld
from xvla_ros.training.collect import episode_rng
from xvla_ros.training.recipe import TASKS
from xvla_ros.training.samples import Samples

_TICK = 0.02
_DOWN = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
_GRIPPER_THRESHOLD = 0.5
# Where commands may be sent while demonstrating, in the base frame (m).
_BOX_LOW = np.array([0.11, -0.19, 0.012])
_BOX_HIGH = np.array([0.42, 0.19, 0.27])


class Recorder:
    """Keeps labelled pictures of a world.

    Args:
        cameras: simulator camera of each filled view slot.
        lag: size of the second commanded pose's offset from the first, metres and radians.
    """

    def __init__(
        self,
        transform: ImageTransform,
        domain: Domain,
        horizon: int,
        cameras: tuple[str, ...],
        rng: np.random.Generator,
        lag: tuple[float, float] = (0.008, 0.06),
    ) -> None:
        self._transform = transform
        self._domain = domain
        self._horizon = horizon
        self._cameras = cameras
        self._rng = rng
        self._lag = lag
        self._images: list[NDArray[np.uint8]] = []
        self._proprio: list[Array] = []
        self._labels: list[Array] = []

    @staticmethod
    def of_folder(folder: Path, cameras: tuple[str, ...], rng: np.random.Generator) -> Recorder:
        """A recorder for the image size, horizon and domain of a model folder."""
        config = XVLAConfig.from_folder(folder)
        transform = Processor.from_folder(folder, config.text_length).transform
        return Recorder(transform, find_domain(folder, BRIDGE.id), config.num_actions, cameras, rng)

    @property
    def step_dt(self) -> float:
        """Seconds between two steps of a label."""
        return self._domain.step_dt

    def record(self, world: SimWorld, commanded: Pose) -> None:
        """Takes and keeps pictures of the world as it is now."""
        self.keep(world, commanded, [world.render(camera) for camera in self._cameras])

    def keep(self, world: SimWorld, commanded: Pose, images: Sequence[NDArray[np.uint8]]) -> None:
        """Keeps pictures of the world as it is now, with the expert's answers for every task.

        The answers start from the commanded pose and from a second one near it: how far the arm
        lags behind its command must not be read as a sign of what to do.
        """
        views = [self._transform.squash(image) for image in images]
        poses = (commanded, self._near(commanded))
        self._images.append(np.stack(views))
        self._proprio.append(np.stack([self._domain.encode_proprio(pose) for pose in poses]))
        self._labels.append(
            np.stack([[self._label(world, task, pose) for task in TASKS] for pose in poses])
        )

    def samples(self) -> Samples:
        """Everything recorded so far."""
        return Samples(
            np.stack(self._images),
            np.stack(self._proprio).astype(np.float32),
            np.stack(self._labels).astype(np.float32),
        )

    def _label(self, world: SimWorld, task: str, pose: Pose) -> Array:
        answer = label(world.state(), pose, task, self._horizon, self._domain.step_dt)
        return self._domain.encode_actions(answer.positions, answer.rotations, answer.gripper)

    def _near(self, pose: Pose) -> Pose:
        shift, turn = self._lag
        yaw = so3_exp([0.0, 0.0, self._rng.normal(0.0, turn)])
        return Pose(pose.position + self._rng.normal(0.0, shift, 3), yaw @ pose.rotation)


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
        self._step_dt = recorder.step_dt
        self._rng = rng
        self._settings = settings or Disturbance()

    def run(self, seed: int, limit_s: float = 7.0) -> bool:
        """One episode; returns whether its task was done at the end."""
        rng, settings = self._rng, self._settings
        task = str(rng.choice(TASKS, p=[0.25, 0.75]))
        limit = limit_s if task == "pick" else 0.5 * limit_s
        self._world.reset(seed, task)
        if rng.random() < settings.wide_start:
            self._start_anywhere()
        drift = None if rng.random() < settings.calm else _Drift(settings, rng)
        joints = self._world.commanded_joints()
        pose = self._arm.fk(joints)
        next_record = next_answer = 0.0
        slip_until = -1.0
        done_at = None
        while self._world.time < limit and (done_at is None or self._world.time < done_at + 0.7):
            now = self._world.time
            if now >= next_record:
                self._recorder.record(self._world, pose)
                next_record = now + rng.uniform(0.12, 0.30)
            if now >= next_answer:
                answer, answered = self._answer(task, pose), now
                origin = pose
                next_answer = now + rng.uniform(0.25, 0.6)
            wanted = _along(origin, answer, self._step_dt, now - answered + _TICK)
            current = _along(origin, answer, self._step_dt, now - answered)
            pose = self._moved(pose, current, wanted, drift)
            solution = self._arm.ik(pose, joints)
            if solution is None or np.abs(solution - joints).max() > 0.2:
                pose = self._arm.fk(joints)
            else:
                joints = solution
            closed = answer.gripper[int((now - answered) / self._step_dt)] > _GRIPPER_THRESHOLD
            if drift is not None and rng.random() < settings.slips_per_s * _TICK:
                slip_until = now + rng.uniform(0.2, 0.9)
            self._world.command_arm(joints)
            self._world.command_gripper(finger_from_closed(float(closed ^ (now < slip_until))))
            self._world.step(_TICK)
            if done_at is None and self._world.state().success:
                done_at = self._world.time
        return done_at is not None

    def _answer(self, task: str, pose: Pose) -> Label:
        return label(self._world.state(), pose, task, step_dt=self._step_dt)

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

    def _moved(self, pose: Pose, current: Pose, wanted: Pose, drift: _Drift | None) -> Pose:
        """The pose after one tick: the expert's own motion and the drift."""
        position = pose.position + wanted.position - current.position
        rotation = wanted.rotation @ current.rotation.T @ pose.rotation
        if drift is not None:
            shift = drift.step()
            position = position + shift[:3]
            rotation = so3_exp([0.0, 0.0, shift[3]]) @ rotation
        return Pose(np.clip(position, _BOX_LOW, _BOX_HIGH), _orthonormal(rotation))


def _along(origin: Pose, answer: Label, step_dt: float, elapsed: float) -> Pose:
    """Where a chunk that started from `origin` is after `elapsed` seconds."""
    x = elapsed / step_dt
    k = int(x)
    before = origin if k == 0 else Pose(answer.positions[k - 1], answer.rotations[k - 1])
    return interpolate(before, Pose(answer.positions[k], answer.rotations[k]), x - k)


def _orthonormal(rotation: Array) -> Array:
    """The nearest rotation: rounding adds up over hundreds of products."""
    return so3_exp(so3_log(rotation))
