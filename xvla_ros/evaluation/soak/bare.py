"""The scheduler without an arm, behind the part of the executor's interface that is used here."""

from __future__ import annotations

from collections import Counter

from xvla_ros.chunk import Chunk
from xvla_ros.geometry import Pose
from xvla_ros.scheduler.arm_io import ArmCommand, JointMeasurement, Outcome
from xvla_ros.scheduler.blending import Box
from xvla_ros.scheduler.scheduler import ChunkScheduler


class BareScheduler:
    """Commands poses: inside a box, but at any speed and with no joints.

    Attributes:
        scheduler: executes the chunks.
        limits: of the arm; none ever acts.
        moving: joint moves; there are none.
    """

    def __init__(self, scheduler: ChunkScheduler, start: Pose, box: Box) -> None:
        self.scheduler = scheduler
        self.limits: Counter[str] = Counter()
        self.moving = False
        scheduler.reset(start, 0.0, 0.0)
        scheduler.set_workspace(box)

    def set_actuation(self, on: bool, now: float, measured: JointMeasurement | None) -> Outcome:
        """Is always on."""
        return Outcome(on, "")

    def submit(self, chunk: Chunk, now: float) -> None:
        """Takes a chunk over."""
        self.scheduler.submit(chunk, now)

    def stop(self, now: float) -> None:
        """Latches."""
        self.scheduler.stop(now)

    def clear_stop(self, now: float) -> None:
        """Releases a stop."""
        self.scheduler.clear_stop(now)

    def policy_lost(self, now: float) -> None:
        """The policy's liveliness is lost."""
        self.scheduler.policy_lost(now)

    def tick(self, now: float, measured: JointMeasurement | None) -> ArmCommand:
        """One command period."""
        s = self.scheduler.sample(now)
        return ArmCommand(
            publish=True,
            joints=None,
            velocities=None,
            gripper_closed=s.gripper,
            pose=s.pose,
            state=s.state,
            sequence=s.sequence,
            rate=s.rate,
            remaining=s.remaining,
            limits=(),
            message="",
        )
