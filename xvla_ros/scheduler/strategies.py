"""How a new chunk takes over from what is being commanded: the parameter `strategy`.

Each strategy answers two questions: whether a chunk may interrupt a running one, and what is
commanded from the present command on. They share one splice: an offset that fades out
(`anchored`), which is all there is where no other chunk is being executed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from xvla_ros.geometry import Pose
from xvla_ros.scheduler.blending import Path, Twist, faded
from xvla_ros.scheduler.gripper import Ballot, GripperKnots, GripperSource, GripperVote
from xvla_ros.scheduler.mixing import (
    LARGEST_SPREAD,
    Crossfade,
    Ensemble,
    Member,
    largest_angles,
    window,
)
from xvla_ros.scheduler.params import SchedulerParams, Strategy
from xvla_ros.scheduler.trajectory import Bundle, Curve, Trajectory

# Chunks of an ensemble, and fades within one another: a command takes no longer than its period
# however many chunks arrive.
_MOST_MEMBERS = 6
_DEEPEST_FADE = 3
# A command this near to the old path is on it; the old path is no way on for any other.
_ON_PATH_M = 1e-5
_ON_PATH_RAD = 1e-4


@dataclass(frozen=True, eq=False)
class Previous:
    """The chunk in execution that the new one may be mixed with."""

    path: Path
    trajectory: Trajectory
    gripper: GripperSource
    phase: float
    end: float
    """Phase at which its trusted horizon ends, seconds."""


@dataclass(frozen=True, eq=False)
class Splice:
    """Everything that is known at the change of chunk."""

    command: Pose
    """Last commanded pose."""
    twist: Twist | None
    """Velocity of the command per second of plan time; None at rest."""
    running: Previous | None
    """None when nothing is being executed, or nothing of this epoch."""
    trajectory: Trajectory
    """Of the new chunk."""
    gripper: GripperKnots
    """Of the new chunk."""
    phase: float
    """Where in the new chunk the command takes over, seconds."""


@dataclass(frozen=True, eq=False)
class Joined:
    """What is commanded from `Splice.phase` of the new chunk on."""

    path: Path
    gripper: GripperSource


class SpliceStrategy(Protocol):
    """One way of changing to a new chunk."""

    @property
    def interrupts(self) -> bool:
        """Whether a chunk may replace one that is still running."""

    def join(self, splice: Splice, params: SchedulerParams) -> Joined:
        """What to command."""


@dataclass(frozen=True)
class AnchorFade:
    """The new chunk at once, anchored to the command by an offset that fades out."""

    interrupts: bool = True

    def join(self, splice: Splice, params: SchedulerParams) -> Joined:
        """The faded path."""
        return Joined(anchored(splice.trajectory, splice, params), splice.gripper)


@dataclass(frozen=True)
class Timestamp:
    """Each step at its time, with the command free to jump (the speed limits catch it)."""

    interrupts: bool = True

    def join(self, splice: Splice, params: SchedulerParams) -> Joined:
        """The trajectory itself."""
        return Joined(Path(splice.trajectory), splice.gripper)


@dataclass(frozen=True)
class CrossfadeStrategy:
    """Both chunks, the weight going from the old one to the new one."""

    interrupts: bool = True

    def join(self, splice: Splice, params: SchedulerParams) -> Joined:
        """The mixed path, or the anchored one where there is no old chunk to mix with."""
        path = self._mixed(splice, params)
        return Joined(path or anchored(splice.trajectory, splice, params), splice.gripper)

    def _mixed(self, splice: Splice, params: SchedulerParams) -> Path | None:
        running = splice.running
        new = splice.trajectory.pose(splice.phase)
        wanted = fade_time(splice.trajectory, new, splice, params)
        if running is None or wanted <= 0.0:
            return None
        metres, radians = splice.command.distance(running.path.pose(running.phase))
        if metres > _ON_PATH_M or radians > _ON_PATH_RAD:
            return None
        old = _simplified(running.path, running.phase)
        length = min(wanted, old.duration - running.phase)
        ahead = running.phase - splice.phase
        if length < 0.5 * wanted or _depth(old) >= _DEEPEST_FADE:
            return None
        phases = window(splice.phase, splice.phase + length)
        turned = splice.trajectory.sample(phases)[1], old.sample(phases + ahead)[1]
        if largest_angles(*turned) > LARGEST_SPREAD:
            return None
        return Path(Crossfade(old, splice.trajectory, ahead, splice.phase, length))


@dataclass(frozen=True)
class EnsembleStrategy:
    """The mean of all chunks that cover a time; what it jumps by when one joins fades out."""

    interrupts: bool = True

    def join(self, splice: Splice, params: SchedulerParams) -> Joined:
        """The mean, anchored to the command, and the vote of its members."""
        old = [] if splice.running is None else _live(splice.running, splice)
        if not old:
            return Joined(anchored(splice.trajectory, splice, params), splice.gripper)
        newest_end = min(splice.phase + params.execution_horizon_s, splice.trajectory.duration)
        newest = (Member(splice.trajectory, 0.0, newest_end), splice.gripper)
        pairs = [*old, newest][-_MOST_MEMBERS:]
        members = [_leaving(member, splice, params) for member, _ in pairs]
        mean = Ensemble(members, params.ensemble_decay)
        ballots = [
            Ballot(knots, member.ahead, member.end, float(share))
            for (member, knots), share in zip(pairs, mean.shares, strict=True)
        ]
        return Joined(anchored(mean, splice, params), GripperVote(ballots))


_STRATEGIES: dict[Strategy, SpliceStrategy] = {
    "anchor_fade": AnchorFade(),
    "crossfade": CrossfadeStrategy(),
    "ensemble": EnsembleStrategy(),
    # The policy does the rest: see xvla_ros/runtime/inpainting.py.
    "inpaint": AnchorFade(),
    "timestamp": Timestamp(),
    "sync": AnchorFade(interrupts=False),
}


def strategy(name: Strategy) -> SpliceStrategy:
    """The strategy of a name."""
    return _STRATEGIES[name]


def fade_time(curve: Curve, new: Pose, splice: Splice, params: SchedulerParams) -> float:
    """Seconds of a fade into a curve that is at `new`: more for a large offset or a long chunk."""
    between = splice.command.distance(new)
    return min(_blend_time(between, params), curve.duration - splice.phase)


def _blend_time(between: tuple[float, float], params: SchedulerParams) -> float:
    """Seconds to go from one pose to another, so many metres and radians away."""
    if params.fade_s <= 0.0:
        return 0.0
    metres, radians = between
    needed = max(
        metres / params.splice.blend_linear_speed,
        radians / params.splice.blend_angular_speed,
    )
    return min(max(params.fade_s, needed), params.splice.max_fade_s)


def anchored(curve: Curve, splice: Splice, params: SchedulerParams) -> Path:
    """The curve, joined to the command by an offset that fades out."""
    new = Path(curve).pose(splice.phase)
    duration = fade_time(curve, new, splice, params)
    return faded(curve, splice.phase, new, duration, splice.command, splice.twist)


def _simplified(path: Path, phase: float) -> Path:
    """The same path from a phase on, without fades that are over by then."""
    curve = path.curve
    while isinstance(curve, Crossfade) and phase >= curve.end:
        curve = curve.new
    fade = path.fade if path.fade is not None and phase < path.fade.end else None
    return Path(curve, fade, path.box)


def _depth(curve: Curve) -> int:
    """How many fades lie within one another."""
    if isinstance(curve, Path):
        return _depth(curve.curve) + (curve.fade is not None)
    return 1 + _depth(curve.old) if isinstance(curve, Crossfade) else 0


def _leaving(member: Member, splice: Splice, params: SchedulerParams) -> Member:
    """The member, with time to leave for where the new chunk will be by then."""
    there = splice.trajectory.pose(member.end - member.ahead)
    between = member.trajectory.pose(member.end).distance(there)
    return replace(member, taper=_blend_time(between, params))


def _live(running: Previous, splice: Splice) -> list[tuple[Member, GripperKnots]]:
    """The chunks in execution that are still trusted and do not turn away from the new one."""
    curve, gripper = running.path.curve, running.gripper
    found: list[tuple[Member, GripperKnots]] = []
    if isinstance(curve, Ensemble) and isinstance(gripper, GripperVote):
        older = zip(curve.members[:-1], gripper.ballots[:-1], strict=True)
        found = [(member, ballot.knots) for member, ballot in older]
        gripper = gripper.ballots[-1].knots
    if isinstance(gripper, GripperKnots):
        found.append((Member(running.trajectory, 0.0, running.end), gripper))
    ahead = running.phase - splice.phase
    moved = [(Member(m.trajectory, m.ahead + ahead, m.end), knots) for m, knots in found]
    alive = [pair for pair in moved if pair[0].end - pair[0].ahead > splice.phase]
    if not alive:
        return []
    members = [member for member, _ in alive]
    phases = np.stack([window(splice.phase, m.end - m.ahead) for m in members])
    old = Bundle([m.trajectory for m in members]).sample(
        phases + np.array([m.ahead for m in members])[:, None]
    )[1]
    new = splice.trajectory.sample(phases.ravel())[1].reshape(old.shape)
    near = largest_angles(new, old) <= LARGEST_SPREAD
    return [pair for pair, kept in zip(alive, near, strict=True) if kept]
