"""The simulated arm against published numbers, closed-form kinematics and simple mechanics."""

import numpy as np
import pytest

from xvla_ros.arm.constants import ARM_JOINTS, FINGER_LOWER, FINGER_UPPER, JOINT_STATE_NAMES
from xvla_ros.arm.gripper import finger_from_motor
from xvla_ros.arm.kinematics import WidowX250s

ARM = WidowX250s()


@pytest.mark.parametrize(
    ("joints", "position", "pitch"),
    [
        # Interbotix' product-of-exponentials constants, and its home and sleep poses.
        ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (0.458325, 0.0, 0.36065), 0.0),
        ((0.0, -1.80, 1.55, 0.0, 0.8, 0.0), (0.1227, 0.0, 0.0813), 0.55),
    ],
)
def test_the_gripper_is_where_the_published_constants_put_it(world, joints, position, pitch):
    world.set_arm(np.array(joints), FINGER_UPPER)
    ee = world.state().ee
    assert ee.position == pytest.approx(position, abs=1e-4)
    expected = [np.cos(pitch), 0.0, -np.sin(pitch)]
    assert ee.rotation[:, 0] == pytest.approx(expected, abs=1e-4)


def test_mujoco_and_the_closed_form_agree_wherever_the_joints_are(world):
    rng = np.random.default_rng(0)
    for joints in rng.uniform(ARM.lower, ARM.upper, (50, 6)):
        world.set_arm(joints, FINGER_UPPER)
        metres, radians = world.state().ee.distance(ARM.fk(joints))
        assert metres < 1e-9
        assert radians < 1e-7


def test_the_joint_ranges_are_the_published_ones(world):
    ranges = np.array([world.model.joint(name).range for name in ARM_JOINTS])
    assert ranges[:, 0] == pytest.approx(ARM.lower, abs=2e-5)
    assert ranges[:, 1] == pytest.approx(ARM.upper, abs=2e-5)


def test_a_target_beyond_a_limit_stops_at_the_limit(world, put_above):
    put_above(world, 0.25, 0.0, 0.25)
    world.command_arm(world.joints() + np.array([0.0, 0.0, 0.0, 0.0, 0.0, 9.0]))
    assert world.commanded_joints()[5] == pytest.approx(np.pi, abs=1e-4)


@pytest.mark.parametrize("bad", [[0.0] * 5, [0.0] * 5 + [np.nan], [np.inf] + [0.0] * 5])
def test_a_wrong_target_is_refused_and_changes_nothing(world, bad):
    before = world.commanded_joints()
    with pytest.raises(ValueError, match="6 finite joint angles"):
        world.command_arm(np.array(bad))
    with pytest.raises(ValueError, match="finite finger position"):
        world.command_gripper(float("nan"))
    assert np.array_equal(world.commanded_joints(), before)


def test_the_arm_holds_against_gravity_and_arrives_where_it_was_sent(
    world, joints_above, put_above
):
    put_above(world, 0.22, -0.05, 0.15)
    goal = joints_above(world, 0.32, 0.10, 0.10)
    world.command_arm(goal)
    world.step(2.0)
    half_encoder_step = np.pi / 4096
    assert np.abs(world.joints() - goal).max() < half_encoder_step
    metres, radians = world.state().ee.distance(ARM.fk(goal))
    assert metres < 2e-4
    assert radians < 2e-4


def best_delay(command: np.ndarray, response: np.ndarray, dt: float) -> float:
    """Delay of the response by cross-correlation of two signals with the same sampling."""
    delays = np.arange(0, round(0.4 / dt))
    scores = [np.corrcoef(command[: len(command) - d], response[d:])[0, 1] for d in delays]
    return float(delays[int(np.argmax(scores))]) * dt


@pytest.mark.parametrize("joint", range(6), ids=ARM_JOINTS)
def test_every_joint_follows_its_command_about_a_tenth_of_a_second_late(world, joint, put_above):
    start = put_above(world, 0.26, 0.0, 0.2)
    dt, rng = 0.01, np.random.default_rng(joint)
    times = np.arange(0.0, 6.0, dt)
    tones = [(f, rng.uniform(0, 2 * np.pi)) for f in (0.2, 0.35, 0.6)]
    offsets = 0.05 * sum(np.sin(2 * np.pi * f * times + p) for f, p in tones)
    response = []
    for offset in offsets:
        target = start.copy()
        target[joint] += offset
        world.command_arm(target)
        world.step(dt)
        response.append(world.joints()[joint] - start[joint])
    late = best_delay(offsets[100:], np.array(response)[100:], dt)
    assert 0.08 <= late <= 0.13


def test_a_step_is_answered_without_overshoot(world, put_above):
    start = put_above(world, 0.26, 0.0, 0.2)
    for joint in range(6):
        world.set_arm(start, FINGER_UPPER)
        target = start.copy()
        target[joint] += 0.1
        world.command_arm(target)
        answer = []
        for _ in range(100):
            world.step(0.01)
            answer.append((world.joints()[joint] - start[joint]) / 0.1)
        assert max(answer) < 1.01
        assert 0.08 < 0.01 * np.searchsorted(answer, 0.63) < 0.15
        assert answer[-1] == pytest.approx(1.0, abs=0.02)


def test_fingers_close_onto_the_cube_and_stop_at_its_width(world, put_above):
    put_above(world, 0.26, 0.0, 0.028)
    world.place("red_cube", 0.26, 0.003, 0.0)
    world.command_gripper(FINGER_LOWER)
    world.step(1.0)
    assert world.state().gripper_gap == pytest.approx(0.035, abs=0.0015)


def test_fingers_close_to_ten_millimetres_on_nothing_and_open_again(world, put_above):
    put_above(world, 0.22, -0.1, 0.2)
    world.place("red_cube", 0.33, 0.13, 0.0)
    world.command_gripper(FINGER_LOWER)
    world.step(1.5)
    assert world.state().gripper_gap == pytest.approx(0.010, abs=0.001)
    world.command_gripper(FINGER_UPPER)
    world.step(1.5)
    assert world.state().gripper_gap == pytest.approx(0.054, abs=0.001)


def test_a_grasped_cube_stays_between_the_fingers_while_the_arm_shakes_it(
    world, joints_above, put_above
):
    put_above(world, 0.26, 0.0, 0.028)
    world.place("red_cube", 0.26, 0.0, 0.0)
    world.command_gripper(FINGER_LOWER)
    world.step(0.5)
    for k in range(40):
        y, z = 0.06 * np.sin(0.8 * k), 0.028 + min(0.004 * k, 0.12)
        world.command_arm(joints_above(world, 0.26, y, z))
        world.step(0.1)
    truth = world.state()
    assert np.linalg.norm(truth.cube.position - truth.ee.position) < 0.015


def test_joint_states_have_the_drivers_order_and_units(world, put_above):
    put_above(world, 0.26, 0.0, 0.2, finger=0.030)
    state = world.joint_state()
    assert len(state.position) == len(state.velocity) == len(state.effort) == 9
    named = dict(zip(JOINT_STATE_NAMES, state.position, strict=True))
    assert named["left_finger"] == pytest.approx(0.030)
    assert named["right_finger"] == pytest.approx(-0.030)
    assert finger_from_motor(named["gripper"]) == pytest.approx(0.030)
    assert state.position[:6] == pytest.approx(world.joints())
    assert not state.velocity[7:].any()
    assert not state.effort[7:].any()


@pytest.mark.parametrize("finger", [0.009, 0.0395])
def test_a_finger_that_is_pressed_beyond_its_range_still_has_a_motor_angle(world, finger):
    world.set_arm(world.joints(), finger)
    state = world.joint_state()
    assert np.isfinite(state.position).all()
    assert state.position[7] == pytest.approx(finger)


def test_effort_is_the_current_that_holds_the_arm_up(world, put_above):
    """Static balance: the shoulder carries every link's weight at its horizontal distance."""
    put_above(world, 0.33, 0.0, 0.2)
    world.step(1.0)
    data, model = world.data, world.model
    beyond = [b for b in range(model.nbody) if model.body(b).name in _BEYOND_SHOULDER]
    shoulder_x = data.body("upper_arm_link").xpos[0]
    moment = sum(9.81 * model.body_mass[b] * (data.xipos[b][0] - shoulder_x) for b in beyond)
    milliamps_per_newton_metre = 2300.0 / 4.1  # stall of a Dynamixel XM430-W350
    assert abs(world.joint_state().effort[1]) == pytest.approx(
        moment * milliamps_per_newton_metre, rel=0.02
    )


_BEYOND_SHOULDER = (
    "upper_arm_link",
    "upper_forearm_link",
    "lower_forearm_link",
    "wrist_link",
    "gripper_link",
    "left_finger_link",
    "right_finger_link",
)
