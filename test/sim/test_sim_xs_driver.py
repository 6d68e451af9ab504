"""The simulated xs_sdk surprises its users as the real one does."""

from __future__ import annotations

import numpy as np
import pytest

from xvla_ros.arm import constants as c
from xvla_ros.arm import xs_driver as xs
from xvla_ros.arm.xs_driver import arm_order, check_gripper
from xvla_ros.sim.device import COMMAND_PERIOD, SimulatedRobot
from xvla_ros.sim.world import SimWorld
from xvla_ros.sim.xs_driver import SimulatedXsSdk
from xvla_ros.sim.xs_kinds import FROZEN, OVERLOAD, UNPLUGGED

STREAM = (100, 40)


class Bench:
    """The arm behind its driver, with time that passes when told."""

    def __init__(self, **options) -> None:
        self.robot = SimulatedRobot(SimWorld("reach", 0))
        self.driver = SimulatedXsSdk(self.robot, **options)
        self.now = 1.0

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / COMMAND_PERIOD)):
            self.now += COMMAND_PERIOD
            self.driver.step(self.now)
            self.robot.advance(self.now, COMMAND_PERIOD)

    def read(self):
        names, state = self.driver.joint_state(self.robot.world.joint_state())
        return dict(zip(names, state.position, strict=True)), dict(
            zip(names, state.effort, strict=True)
        )

    def joints(self) -> np.ndarray:
        return self.robot.world.joints()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_it_is_the_arm_that_the_back_end_expects(bench):
    info = bench.driver.info("group", "arm")
    assert arm_order(info) == (0, 1, 2, 3, 4, 5)
    # As the driver's own mode file has it.
    assert (info.mode, info.profile_type) == ("position", "time")
    gripper = bench.driver.info("single", "gripper")
    check_gripper(gripper, info.ids)
    assert gripper.mode == "pwm"


def test_what_it_refuses_looks_like_anything_else(bench):
    assert bench.driver.info("group", "legs").joints == ()
    assert bench.driver.registers("single", "knee", xs.TORQUE) == []
    assert bench.driver.registers("group", "arm", "Torque") == []
    before = bench.joints()
    bench.driver.command_group("arm", [0.0] * 5, bench.now)
    bench.driver.command_group("arm", [float("nan")] * 6, bench.now)
    bench.run(0.3)
    assert bench.joints() == pytest.approx(before, abs=1e-3)


def test_a_group_command_is_run_to_in_the_profile_s_time_by_the_group_s_order():
    bench = Bench(order=c.ARM_JOINTS[::-1])
    bench.driver.set_registers("group", "arm", xs.PROFILE_VELOCITY, 400)
    start = bench.joints()
    goal = start + np.array([0.2, 0.1, -0.1, 0.2, 0.1, -0.3])
    bench.driver.command_group("arm", list(goal[::-1]), bench.now)
    bench.run(0.2)
    # The servo behind the profile follows about 0.1 s late.
    assert 0.05 < np.abs(bench.joints() - start)[5] < 0.25
    bench.run(0.6)
    assert bench.joints() == pytest.approx(goal, abs=3e-3)
    assert list(bench.read()[0])[:6] == list(c.ARM_JOINTS[::-1])


def test_joints_without_torque_sag_while_their_mode_is_changed(bench):
    before = bench.joints()
    bench.driver.set_modes("group", "arm", "position", "time", STREAM, bench.now)
    bench.run(0.05)
    assert not bench.robot.world.has_torque("shoulder")
    bench.run(0.5)
    assert all(bench.robot.world.has_torque(joint) for joint in c.ARM_JOINTS)
    sagged = np.abs(bench.joints() - before).max()
    assert sagged > 1e-4
    held = bench.joints()
    bench.run(0.5)
    assert bench.joints() == pytest.approx(held, abs=2e-3)
    assert bench.driver.registers("group", "arm", xs.PROFILE_VELOCITY) == [100] * 6
    assert bench.driver.registers("single", "elbow_shadow", xs.PROFILE_VELOCITY) == [100]


def test_in_velocity_mode_the_same_numbers_are_speeds(bench):
    bench.driver.set_modes("group", "arm", "velocity", "time", (0, 0), bench.now)
    bench.run(0.3)
    before = bench.joints()
    bench.driver.command_group("arm", [0.2, 0.0, 0.0, 0.0, 0.0, 0.0], bench.now)
    bench.run(1.0)
    assert bench.joints()[0] - before[0] == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("mode", ["pwm", "linear_position"])
def test_the_gripper_opens_and_closes(bench, mode):
    if mode == "linear_position":
        bench.driver.set_modes("single", "gripper", mode, "time", (300, 100), bench.now)
        bench.run(0.2)
    for command, finger in (
        ({"pwm": -250, "linear_position": 0.030}[mode], 0.015),
        ({"pwm": 250, "linear_position": 0.074}[mode], 0.037),
    ):
        bench.driver.command_single("gripper", command, bench.now)
        bench.run(1.0)
        assert bench.read()[0]["left_finger"] == pytest.approx(finger, abs=5e-4)
    if mode == "pwm":
        bench.driver.command_single("gripper", -250, bench.now)
        bench.run(0.08)
        bench.driver.command_single("gripper", 0, bench.now)
        bench.run(0.5)
        assert 0.017 < bench.read()[0]["left_finger"] < 0.036


def test_an_overloaded_motor_lets_go_and_says_so_in_a_register_only(bench):
    bench.driver.break_motor("shoulder", OVERLOAD, bench.now)
    before = bench.joints()
    bench.run(0.5)
    assert np.abs(bench.joints() - before)[1] > 0.05, "the upper arm falls"
    assert bench.read()[1]["shoulder"] == 0.0
    assert bench.driver.registers("single", "shoulder", xs.HARDWARE_ERROR) == [0x20]
    # Torque alone does not wake it; a reboot does, where the joint is now.
    bench.driver.torque_enable("group", "arm", True, bench.now)
    assert not bench.robot.world.has_torque("shoulder")
    bench.driver.reboot("group", "arm", True, True, bench.now)
    held = bench.joints()
    bench.run(0.5)
    assert bench.joints() == pytest.approx(held, abs=0.02)
    assert bench.driver.registers("single", "shoulder", xs.HARDWARE_ERROR) == [0]


def test_an_unplugged_motor_shortens_answers_and_spoils_every_joint_state(bench):
    bench.driver.break_motor("forearm_roll", UNPLUGGED, bench.now)
    assert bench.driver.registers("single", "forearm_roll", xs.HARDWARE_ERROR) == []
    assert bench.driver.registers("group", "arm", xs.HARDWARE_ERROR) == [0, 0, 0]
    positions, efforts = bench.read()
    assert all(positions[joint] == pytest.approx(-np.pi) for joint in c.ARM_JOINTS)
    assert set(efforts.values()) == {0.0}


def test_a_frozen_motor_keeps_saying_that_all_is_well(bench):
    before = bench.read()[0]["elbow"]
    bench.driver.break_motor("elbow", FROZEN, bench.now)
    bench.driver.command_single("elbow", before + 0.3, bench.now)
    bench.run(1.0)
    positions, efforts = bench.read()
    assert (positions["elbow"], efforts["elbow"]) == (before, 0.0)
    assert bench.driver.registers("single", "elbow", xs.HARDWARE_ERROR) == [0]
    bench.driver.reset(bench.now)
    assert bench.robot.world.has_torque("elbow")


def test_a_reset_of_the_world_gives_every_motor_its_torque_back(bench):
    bench.driver.break_motor("waist", OVERLOAD, bench.now)
    bench.robot.reset(1)
    bench.driver.reset(bench.now)
    held = bench.joints()
    bench.run(0.5)
    assert bench.joints() == pytest.approx(held, abs=2e-3)


def test_another_model_has_other_limits():
    with pytest.raises(xs.DriverMismatch, match=r"shoulder: .* -1\.85 to 1\.257"):
        arm_order(Bench(model="vx300s").driver.info("group", "arm"))
