"""The arm's forward and inverse kinematics against published numbers and two other engines."""

import warnings

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.sim.cameras import import_mujoco

ARM = WidowX250s()
# interbotix_ros_manipulators, wx250s.urdf.xacro: axis and origin of each joint.
URDF = [
    ("waist", (0, 0, 1), (0, 0, 0.072)),
    ("shoulder", (0, 1, 0), (0, 0, 0.03865)),
    ("elbow", (0, 1, 0), (0.04975, 0, 0.25)),
    ("forearm_roll", (1, 0, 0), (0.175, 0, 0)),
    ("wrist_angle", (0, 1, 0), (0.075, 0, 0)),
    ("wrist_rotate", (1, 0, 0), (0.065, 0, 0)),
]
EE = (0.093575, 0.0, 0.0)
# interbotix_ros_toolboxes, mr_descriptions.py, class wx250s: screw axes (w, v) in the base frame.
SCREWS = np.array(
    [
        [0, 0, 1, 0, 0, 0],
        [0, 1, 0, -0.11065, 0, 0],
        [0, 1, 0, -0.36065, 0, 0.04975],
        [1, 0, 0, 0, 0.36065, 0],
        [0, 1, 0, -0.36065, 0, 0.29975],
        [1, 0, 0, 0, 0.36065, 0],
    ]
)
HOME = np.array([0.458325, 0.0, 0.36065])
inside = st.tuples(
    *(st.floats(lo, hi) for lo, hi in zip(ARM.lower.tolist(), ARM.upper.tolist(), strict=True))
).map(np.array)


def random_joints(count, seed=0):
    return np.random.default_rng(seed).uniform(ARM.lower, ARM.upper, (count, 6))


def product_of_exponentials(joints):
    pose = Pose(HOME, np.eye(3))
    for (wx, wy, wz, *v), q in zip(SCREWS[::-1], joints[::-1], strict=True):
        w, v = np.array([wx, wy, wz]), np.array(v)
        rotation = so3_exp(w * q)
        # All six are pure rotations: the translation is that of a turn about a point r with
        # v = -w x r, and w x v is the nearest such point.
        point = np.cross(w, v)
        pose = Pose(point - rotation @ point, rotation) @ pose
    return pose


def test_the_limits_are_the_published_ones():
    degrees = np.degrees(np.stack([ARM.lower, ARM.upper]))
    assert degrees[0] == pytest.approx([-180, -108, -123, -180, -100, -180], abs=1e-3)
    assert degrees[1] == pytest.approx([180, 114, 92, 180, 123, 180], abs=1e-3)
    assert ARM.max_speed == pytest.approx([np.pi] * 6)


@pytest.mark.parametrize(
    ("joints", "position", "pitch"),
    [
        ([0, 0, 0, 0, 0, 0], (0.4583, 0, 0.3607), 0.0),
        ([0, -1.80, 1.55, 0, 0.8, 0], (0.1227, 0, 0.0813), 0.55),
    ],
)
def test_home_and_sleep_are_where_the_vendor_says(joints, position, pitch):
    pose = ARM.fk(joints)
    assert pose.position == pytest.approx(position, abs=1e-4)
    assert pose.rotation == pytest.approx(so3_exp([0, pitch, 0]), abs=1e-9)


def test_bridge_neutral_joints_give_the_neutral_pose():
    pose = ARM.fk([-0.13192, -0.76239, 0.44485, -0.01994, 1.75641, -0.15953])
    assert pose.position == pytest.approx((0.1202, -0.0191, 0.2467), abs=1e-4)


def test_forward_kinematics_equal_the_published_screw_axes():
    for joints in random_joints(300):
        assert max(ARM.fk(joints).distance(product_of_exponentials(joints))) < 1e-7


def test_forward_kinematics_equal_mujoco():
    mujoco = import_mujoco()
    body = f'<site name="ee" pos="{EE[0]} {EE[1]} {EE[2]}"/>'
    for name, axis, origin in reversed(URDF):
        numbers = [" ".join(map(str, v)) for v in (origin, axis)]
        body = (
            f'<body pos="{numbers[0]}"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
            f'<joint name="{name}" axis="{numbers[1]}"/>{body}</body>'
        )
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    for joints in random_joints(300, seed=1):
        data.qpos[:] = joints
        mujoco.mj_kinematics(model, data)
        other = Pose(data.site("ee").xpos, data.site("ee").xmat.reshape(3, 3))
        assert max(ARM.fk(joints).distance(other)) < 1e-7


def test_forward_kinematics_equal_pinocchio():
    model = pin.Model()
    parent = 0
    for name, axis, origin in URDF:
        joint = pin.JointModelRevoluteUnaligned(np.array(axis, dtype=float))
        placement = pin.SE3(np.eye(3), np.array(origin, dtype=float))
        parent = model.addJoint(parent, joint, placement, name)
    data = model.createData()
    for joints in random_joints(300, seed=2):
        pin.forwardKinematics(model, data, joints)
        other = data.oMi[parent] * pin.SE3(np.eye(3), np.array(EE))
        assert max(ARM.fk(joints).distance(Pose(other.translation, other.rotation))) < 1e-7


@settings(max_examples=300, deadline=None)
@given(inside)
def test_a_reached_pose_leads_back_to_its_joints(joints):
    pose = ARM.fk(joints)
    found = ARM.ik(pose, joints)
    assert found is not None
    singular = abs(joints[4]) < 1.1e-3
    position, angle = ARM.fk(found).distance(pose)
    assert position < 1e-7
    assert angle < (1e-3 if singular else 1e-7)
    assert ARM.within_limits(found)
    assert np.sum((found - joints) ** 2) <= 1e-6


@settings(max_examples=200, deadline=None)
@given(inside, inside)
def test_the_solution_is_the_nearest_of_all_whatever_the_seed(joints, seed):
    pose = ARM.fk(joints)
    every = ARM.ik_all(pose, seed)
    found = ARM.ik(pose, seed)
    assert found is not None
    assert 1 <= len(every) <= 8
    distances = np.linalg.norm(every - seed, axis=1)
    assert np.linalg.norm(found - seed) == pytest.approx(distances.min())
    for solution in every:
        position, angle = ARM.fk(solution).distance(pose)
        singular = abs(solution[4]) < 1.1e-3
        assert position < (2e-4 if singular else 1e-6)
        assert angle < (1e-3 if singular else 1e-6)
        assert ARM.within_limits(solution)


def test_a_pose_can_have_four_and_more_solutions():
    counts = [len(ARM.ik_all(ARM.fk(q))) for q in random_joints(400, seed=3)]
    assert max(counts) >= 4
    assert min(counts) >= 1


@pytest.mark.parametrize(
    "pose",
    [
        Pose(np.array([1.0, 0.0, 0.3]), np.eye(3)),
        Pose(np.array([0.458325 + 1e-3, 0.0, 0.6]), np.eye(3)),
        Pose(np.array([0.0, 0.0, -0.5]), np.eye(3)),
        Pose(np.array([np.nan, 0.0, 0.2]), np.eye(3)),
        Pose(np.array([0.3, 0.0, 0.2]), np.full((3, 3), np.nan)),
        # The hand would have to bend 180 degrees back onto the forearm.
        Pose(np.array([0.05, 0.0, 0.36065]), np.diag([-1.0, -1.0, 1.0])),
    ],
)
def test_what_cannot_be_reached_has_no_solution_and_no_warning(pose):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ARM.ik(pose, np.zeros(6)) is None
        assert ARM.ik_all(pose).shape == (0, 6)


def test_an_unknown_present_posture_gives_no_solution():
    pose = ARM.fk([0, -0.8, 0.5, 0, 1.7, 0])
    assert ARM.ik(pose, [0, np.nan, 0, 0, 0, 0]) is None


def test_no_solution_leaves_the_joint_limits_at_the_edge():
    for joints in (ARM.lower, ARM.upper):
        found = ARM.ik(ARM.fk(joints), joints)
        assert found is not None
        assert (found >= ARM.lower).all()
        assert (found <= ARM.upper).all()
        assert found == pytest.approx(joints, abs=1e-6)


def test_the_stretched_arm_is_still_reached():
    stretched = np.array([0.3, 0.4, -np.arctan2(0.25, 0.04975), 0.2, 0.5, -0.1])
    found = ARM.ik(ARM.fk(stretched), stretched)
    assert found is not None
    assert found == pytest.approx(stretched, abs=1e-6)


@pytest.mark.parametrize("roll", [0.0, 1.2, -2.9])
def test_the_wrist_passes_its_singularity_without_a_flip(roll):
    """Bending through the straight wrist: the roll stays, only wrist_angle moves."""
    joints = np.array([0.2, -0.5, 0.6, roll, 0.05, 0.4])
    for angle in np.linspace(0.05, -0.05, 401):
        wanted = joints.copy()
        wanted[4] = angle
        found = ARM.ik(ARM.fk(wanted), joints)
        assert found is not None
        assert np.abs(found - joints).max() < 1e-3
        joints = found
    assert joints == pytest.approx([0.2, -0.5, 0.6, roll, -0.05, 0.4], abs=1e-6)


def test_a_turn_of_the_straight_wrist_is_left_to_the_last_joint():
    joints = np.array([0.1, -0.5, 0.6, 1.0, 0.0, -2.0])
    wanted = np.add(joints, [0, 0, 0, 0.3, 0, 0.2])
    found = ARM.ik(ARM.fk(wanted), joints)
    assert found == pytest.approx(np.add(joints, [0, 0, 0, 0, 0, 0.5]), abs=1e-9)


def test_the_roll_takes_over_where_the_last_joint_ends():
    joints = np.array([0.1, -0.5, 0.6, 1.0, 0.0, 3.0])
    found = ARM.ik(ARM.fk(np.add(joints, [0, 0, 0, 0.5, 0, 0])), joints)
    assert found is not None
    assert found[5] == pytest.approx(ARM.upper[5])
    assert found[3] + found[5] == pytest.approx(4.5)
    assert ARM.fk(found).distance(ARM.fk(np.add(joints, [0, 0, 0, 0.5, 0, 0])))[1] < 1e-9


def test_noise_of_single_precision_does_not_shake_the_straight_wrist():
    """Poses arrive as float32; an exact solution would turn such noise into wild rolls."""
    rng = np.random.default_rng(4)
    joints = np.array([0.2, -0.6, 0.7, 0.9, 0.0, -0.3])
    exact = ARM.fk(joints)
    for _ in range(100):
        noise = so3_exp(rng.normal(0, 1e-7, 3))
        found = ARM.ik(
            Pose(exact.position + rng.normal(0, 1e-8, 3), exact.rotation @ noise), joints
        )
        assert found is not None
        assert np.abs(found - joints).max() < 1e-5


def test_a_hand_above_the_waist_keeps_the_waist_where_it_is():
    """With the wrist centre on the waist's axis every waist angle reaches the point."""

    def posture(shoulder):
        return np.array([0.7, shoulder, 1.2, 0.0, 0.3, 0.0])

    def forward(shoulder):
        pose = ARM.fk(posture(shoulder))
        centre = pose.position - 0.158575 * pose.rotation[:, 0]
        return centre[0] * np.cos(0.7) + centre[1] * np.sin(0.7)

    low, high = -1.8, 1.5
    assert forward(low) < 0.0 < forward(high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if forward(middle) < 0.0 else (low, middle)
    joints = posture(low)
    found = ARM.ik(ARM.fk(joints), joints)
    assert found is not None
    assert ARM.fk(found).distance(ARM.fk(joints))[0] < 1e-6
    assert found == pytest.approx(joints, abs=1e-4)


def test_a_straight_path_at_fifty_hertz_has_no_jumps():
    start = ARM.fk([-0.13192, -0.76239, 0.44485, -0.01994, 1.75641, -0.15953])
    joints = ARM.ik(start, np.zeros(6))
    assert joints is not None
    for step in range(200):
        turn = so3_exp([0.0, 0.0, 0.002 * step])
        target = Pose(start.position + np.array([0.001, 0.0005, 0.0]) * step, turn @ start.rotation)
        found = ARM.ik(target, joints)
        assert found is not None
        assert np.abs(found - joints).max() < 0.02
        joints = found
