"""Where a point in space lies in a picture, against projections done by hand."""

import cv2
import numpy as np
import pytest

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.evaluation.bag import files
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.report import calibration
from xvla_ros.evaluation.video import project
from xvla_ros.geometry import Pose, quaternion_from_matrix
from xvla_ros.sim.cameras import FRONT

# Looks along the base's x axis from behind: right is -y, down is -z.
FORWARD = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
HERE = Pose(np.array([0.2, 0.0, 0.1]), np.eye(3))


def values(**changed):
    given = {
        "intrinsics": (400.0, 500.0, 320.0, 240.0),
        "size": (640.0, 480.0),
        "distortion": (0.0, 0.0, 0.0, 0.0),
        "position": (-1.0, 0.0, 0.0),
        "orientation": tuple(quaternion_from_matrix(FORWARD)),
        **changed,
    }
    return {f"calibration.1.{key}": value for key, value in given.items()}


def test_a_camera_described_in_a_parameter_file_sees_where_geometry_says():
    camera = calibration.from_values(values(), 1)
    assert camera is not None
    # Two metres ahead, 0.5 m to the left and 0.3 m up.
    pixels = camera.project([[1.0, 0.5, 0.3]], HERE)
    assert pixels[0] * (640, 480) == pytest.approx([320 - 400 * 0.25, 240 - 500 * 0.15])
    assert calibration.from_values(values(), 0) is None


def test_what_is_behind_the_camera_has_no_pixel():
    camera = calibration.from_values(values(), 1)
    assert camera is not None
    assert np.isnan(camera.project([[-1.5, 0.0, 0.0], [np.nan, 0.0, 0.0]], HERE)).all()


def test_a_camera_on_the_gripper_moves_with_it():
    on_gripper = values(parent="ee", position=(0.0, 0.0, 0.05))
    camera = calibration.from_values(on_gripper, 1)
    assert camera is not None
    turned = Pose(np.array([0.2, 0.1, 0.1]), np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]]))
    # Half a metre ahead of the camera along the gripper's x axis, which is the base's y now.
    pixels = camera.project([[0.2, 0.6, 0.15]], turned)
    assert pixels[0] == pytest.approx([0.5, 0.5])


def test_distortion_moves_a_pixel_as_the_formula_says():
    camera = calibration.from_values(values(distortion=(0.1, 0.0, 0.0, 0.0)), 1)
    assert camera is not None
    x, y = -0.25, -0.15
    stretch = 1.0 + 0.1 * (x * x + y * y)
    pixels = camera.project([[1.0, 0.5, 0.3]], HERE)
    expected = [320 + 400 * x * stretch, 240 + 500 * y * stretch]
    assert pixels[0] * (640, 480) == pytest.approx(expected)


def test_numbers_that_are_no_camera_are_refused():
    with pytest.raises(ValueError, match=r"calibration\.1\.orientation is no unit quaternion"):
        calibration.from_values(values(orientation=(0.0, 0.0, 0.0, 2.0)), 1)
    with pytest.raises(ValueError, match=r"calibration\.1\.intrinsics .* must be positive"):
        calibration.from_values(values(intrinsics=(-400.0, 500.0, 320.0, 240.0)), 1)


def test_the_simulators_cameras_are_known_by_their_topics():
    model = calibration.of_simulator("/sim/front/image_raw/compressed")
    assert model is not None
    points = np.array([[0.25, 0.05, 0.02], [0.3, -0.1, 0.1]])
    assert model.project(points, HERE) * (640, 480) == pytest.approx(
        project(FRONT, points, 640, 480)
    )
    assert calibration.of_simulator("/d435/color/image_raw") is None


def test_the_simulators_wrist_camera_sees_its_target_in_the_middle():
    arm = WidowX250s()
    pose = arm.fk(np.array([0.3, -0.7, 0.4, 0.1, 1.6, 0.2]))
    model = calibration.of_simulator("/sim/wrist/image_raw")
    assert model is not None
    # gripper_link lies 93.575 mm behind the end effector; the camera looks at (0.116, 0, 0.012).
    target = pose.rotation @ np.array([0.116 - 0.093575, 0.0, 0.012]) + pose.position
    assert model.project([target], pose)[0] == pytest.approx([0.5, 0.5], abs=1e-6)


def transform(bags, parent, child, position, quaternion):
    t = bags.T
    return t["geometry_msgs/msg/TransformStamped"](
        header=t["std_msgs/msg/Header"](stamp=bags.header(bags.START).stamp, frame_id=parent),
        child_frame_id=child,
        transform=t["geometry_msgs/msg/Transform"](
            translation=t["geometry_msgs/msg/Vector3"](**dict(zip("xyz", position, strict=True))),
            rotation=t["geometry_msgs/msg/Quaternion"](
                **dict(zip("xyzw", quaternion, strict=True))
            ),
        ),
    )


def camera_info(bags, frame):
    t = bags.T
    return t["sensor_msgs/msg/CameraInfo"](
        header=t["std_msgs/msg/Header"](stamp=bags.header(bags.START).stamp, frame_id=frame),
        height=480,
        width=640,
        distortion_model="plumb_bob",
        d=np.array([0.05, -0.02, 0.001, 0.0, 0.0]),
        k=np.array([400.0, 0, 320, 0, 410, 240, 0, 0, 1]),
        r=np.eye(3).ravel(),
        p=np.zeros(12),
        binning_x=0,
        binning_y=0,
        roi=t["sensor_msgs/msg/RegionOfInterest"](0, 0, 0, 0, False),
    )


def test_a_bag_with_camera_info_and_static_transforms_calibrates_itself(bags, tmp_path):
    optical = quaternion_from_matrix(FORWARD).tolist()
    static = bags.T["tf2_msgs/msg/TFMessage"](
        transforms=[
            # The chain is told from the camera's side and from the robot's.
            transform(bags, "camera_link", "wx250s/base_link", (1.0, 0.0, -0.2), (0, 0, 0, 1.0)),
            transform(bags, "camera_link", "camera_optical", (0.0, 0.0, 0.0), optical),
            transform(bags, "elsewhere", "lost_optical", (0.0, 0.0, 0.0), optical),
        ]
    )
    messages = [
        *bags.normal(1.0),
        bags.Message("/tf_static", bags.START, static),
        bags.Message("/front/camera_info", bags.START + 0.1, camera_info(bags, "camera_optical")),
        bags.Message("/wrist/camera_info", bags.START + 0.1, camera_info(bags, "lost_optical")),
    ]
    folder = bags.write(tmp_path / "bag", messages)
    with Bag(files.find([folder])[0]) as bag:
        found = calibration.from_bag(bag, [bags.FRONT, bags.WRIST])
    assert set(found) == {bags.FRONT}
    point = np.array([1.0, 0.3, 0.1])
    # The camera stands one metre behind the base and 0.2 m above it.
    local = FORWARD.T @ (point - [-1.0, 0.0, 0.2])
    info = camera_info(bags, "")
    expected = cv2.projectPoints(
        local[None], np.zeros(3), np.zeros(3), info.k.reshape(3, 3), info.d
    )
    pixels = found[bags.FRONT].project([point], HERE)
    assert pixels[0] * (640, 480) == pytest.approx(expected[0].ravel())
