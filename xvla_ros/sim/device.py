"""The simulated robot as its driver shows it: a world behind two trajectory controllers."""

from __future__ import annotations

from xvla_ros.arm.constants import ARM_JOINTS, LEFT_FINGER
from xvla_ros.sim.controller import TrajectoryController
from xvla_ros.sim.world import SimWorld

COMMAND_PERIOD = 0.01
"""s of simulated time between two commands to the servos."""
LONGEST_ADVANCE = 0.05
"""s that are made up for at once after a stall; more is lost, so that the arm never hurries."""


class SimulatedRobot:
    """A world that follows trajectories; time is an argument.

    Not safe against several threads: whoever shares it holds a lock.

    Attributes:
        arm: controller of the six arm joints.
        gripper: controller of the left finger.
        lost: seconds of stalls that were not made up for.
    """

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.arm = TrajectoryController(ARM_JOINTS, world.commanded_joints())
        self.gripper = TrajectoryController((LEFT_FINGER,), [world.commanded_finger()])
        self.lost = 0.0

    def reset(self, seed: int, task: str | None = None) -> str:
        """Resets the world and holds its start state; returns the instruction.

        Raises:
            ValueError: no such task.
        """
        instruction = self.world.reset(seed, task)
        self.arm.hold(self.world.commanded_joints())
        self.gripper.hold([self.world.commanded_finger()])
        return instruction

    def advance(self, now: float, seconds: float) -> float:
        """Runs the physics up to now.

        Args:
            now: time on the clock of the trajectories, at the end of the advance.
            seconds: time since the last advance.

        Returns:
            Seconds actually advanced: at most `LONGEST_ADVANCE`, and 0 if time went back.
        """
        wanted = max(seconds, 0.0)
        left = min(wanted, LONGEST_ADVANCE)
        self.lost += wanted - left
        start = self.world.time
        end = start + left
        while left > 0.0:
            part = min(left, COMMAND_PERIOD)
            left -= part
            self.world.command_arm(self.arm.sample(now - left))
            self.world.command_gripper(float(self.gripper.sample(now - left)[0]))
            self.world.step_to(end - left)
        return self.world.time - start
