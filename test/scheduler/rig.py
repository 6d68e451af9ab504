"""An executor on an arm that behaves like one, for the tests of this folder."""

from __future__ import annotations

import numpy as np

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.scheduler.arm_io import JointMeasurement
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.scheduler import ChunkScheduler

ARM = WidowX250s()
READY = np.array(constants.READY)
PERIOD = 0.02


class Rig:
    """An executor on an arm whose servos follow with a lag of about 0.1 s."""

    def __init__(self, joints=READY, params=None, scheduler=None, last_command=None):
        self.executor = ArmExecutor(
            ChunkScheduler(scheduler, epoch=1), ARM, params, last_command=last_command
        )
        self.joints = np.array(joints, dtype=float)
        self.efforts = np.zeros(6)
        self.gripper = 0.0
        self.now = 0.0
        self.stiff = True
        self.joint_states = True
        self.commands = []

    @property
    def scheduler(self):
        return self.executor.scheduler

    @property
    def last(self):
        return self.commands[-1]

    def measured(self):
        return JointMeasurement(self.now, self.joints.copy(), self.efforts, self.gripper)

    def tick(self):
        if self.joint_states:
            self._measured = self.measured()
        command = self.executor.tick(self.now, self._measured)
        self.commands.append(command)
        if command.publish and self.stiff:
            self.joints = self.joints + 0.18 * (command.joints - self.joints)
        self.now += PERIOD
        return command

    def run(self, seconds):
        return [self.tick() for _ in range(round(seconds / PERIOD))]

    def enable(self):
        self.tick()
        outcome = self.executor.set_actuation(True, self.now, self.measured())
        assert outcome.accepted, outcome.message

    def send(self, kit, velocity=(0.0, 0.0, 0.0), **fields):
        """A chunk of uniform motion from the present command, observed now."""
        fields = {"sequence": round(100 * self.now) + 1, **fields}
        chunk = kit.line_chunk(
            fields.pop("start", self.scheduler.pose),
            velocity,
            stamp=self.now,
            epoch=self.scheduler.epoch,
            **fields,
        )
        self.executor.submit(chunk, self.now)
        return chunk


def fractions(commands):
    """Largest joint speed of each command, rad/s."""
    return np.array([np.abs(c.velocities).max() for c in commands])
