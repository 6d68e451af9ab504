"""SimWorld: a WidowX 250S at a table, stepped by whoever holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.constants import ARM_JOINTS, FINGER_LOWER, FINGER_UPPER, GRIPPER_JOINT
from xvla_ros.geometry import Array, Pose
from xvla_ros.sim import cameras, robot, scene, tasks
from xvla_ros.sim.motion import Course
from xvla_ros.sim.tasks import Task, WorldTruth

mujoco: Any = cameras.import_mujoco()

_TEST_PERIOD = 0.02
"""s of simulated time between two evaluations of the task's test."""


@dataclass(frozen=True, eq=False)
class JointState:
    """Joint state in the order of `arm.constants.JOINT_STATE_NAMES`, units as the driver's.

    Arm and gripper motor in rad, fingers in m (right = -left), effort in mA; the driver reports
    no velocity or effort for the fingers, so both are 0.
    """

    time: float
    position: Array
    velocity: Array
    effort: Array


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that a picture depends on, copied out of the running physics."""

    time: float
    qpos: Array


class SimWorld:
    """Physics, servos and cameras of the simulated robot.

    Args:
        task: name of a task in `tasks.TASKS`.
        seed: start state, and with `jitter` the light and the cameras' poses.
        jitter: vary light, colours and camera poses a little with the seed.
        distractor: put a blue cube beside the red one.
    """

    def __init__(
        self, task: str = "pick", seed: int = 0, *, jitter: bool = True, distractor: bool = False
    ) -> None:
        self.model = mujoco.MjModel.from_xml_string(scene.build_mjcf(distractor))
        self.data = mujoco.MjData(self.model)
        self._objects = scene.objects_of(distractor)
        self._jitter = jitter
        self._nominal = (
            self.model.cam_pos.copy(),
            self.model.cam_quat.copy(),
            self.model.light_diffuse.copy(),
        )
        self._arm_qpos = [self.model.joint(n).qposadr[0] for n in ARM_JOINTS]
        self._arm_dof = [self.model.joint(n).dofadr[0] for n in ARM_JOINTS]
        self._arm_ctrl = [self.model.actuator(n).id for n in ARM_JOINTS]
        self._finger_qpos = self.model.joint("left_finger").qposadr[0]
        self._finger_dof = self.model.joint("left_finger").dofadr[0]
        self._finger_ctrl = self.model.actuator(robot.GRIPPER_ACTUATOR).id
        self._gains = (self.model.actuator_gainprm.copy(), self.model.actuator_biasprm.copy())
        self._limp: set[str] = set()
        self._site = self.model.site(robot.EE_SITE).id
        self._arm_range = np.array([self.model.joint(n).range for n in ARM_JOINTS])
        self._scratch = mujoco.MjData(self.model)
        self._pictures: Any = None
        self._renderer: cameras.Renderer | None = None
        self.reset(seed, task)

    # ----------------------------------------------------------------- episode

    def reset(self, seed: int, task: str | None = None) -> str:
        """Puts the world into the start state of a seed and a task; time starts at 0 again.

        Returns the instruction that belongs to the task.

        Raises:
            ValueError: no such task.
        """
        self.task: Task = tasks.task_named(task) if task else self.task
        self.seed = seed
        rng = np.random.default_rng(seed)
        start = tasks.draw_start(rng, len(self._objects))
        mujoco.mj_resetData(self.model, self.data)
        for motor in tuple(self._limp):
            self.set_torque(motor, True)
        for name, (x, y, yaw) in zip(self._objects, start.cubes, strict=True):
            self.place(name, x, y, yaw)
        self._vary_looks(rng)
        self._held_s = 0.0
        self._course: Course | None = None
        if self.task.motion is not None:
            # Drawn apart, so that the start of a seed is the same in every task.
            generator = np.random.default_rng([seed, 1])
            self._course = self.task.motion(start.cubes[0][:2], generator)
        self.set_arm(start.joints, start.finger)
        return self.task.instruction

    def set_arm(self, joints: Array, finger: float) -> None:
        """Puts the arm (6,) and the fingers there at once, at rest, with the servos' targets."""
        d = self.data
        d.qvel[:] = 0.0
        d.qpos[self._arm_qpos] = joints
        d.qpos[self._finger_qpos] = finger
        d.qpos[self.model.joint("right_finger").qposadr[0]] = -finger
        self.command_arm(joints)
        self.command_gripper(finger)
        d.act[:] = d.ctrl
        mujoco.mj_forward(self.model, d)

    def place(self, name: str, x: float, y: float, yaw: float) -> None:
        """Lays an object on the table, at rest."""
        joint = self.data.joint(name)
        joint.qpos[:] = [x, y, scene.CUBE_HALF, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]
        joint.qvel[:] = 0.0
        mujoco.mj_forward(self.model, self.data)

    def _vary_looks(self, rng: np.random.Generator) -> None:
        """Draws light, table colour and camera errors of an episode (always the same number)."""
        cam_pos, cam_quat, diffuse = self._nominal
        shift = rng.normal(0.0, 0.002, cam_pos.shape)
        turn = rng.normal(0.0, 0.0015, cam_quat.shape)
        light = rng.uniform(0.75, 1.2)
        tint = rng.uniform(-0.04, 0.04, 3)
        if not self._jitter:
            return
        self.model.cam_pos[:] = cam_pos + shift
        quat = cam_quat + turn
        self.model.cam_quat[:] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
        self.model.light_diffuse[:] = diffuse * light
        self.model.geom(scene.TABLE).rgba[:3] = np.asarray(scene.TABLE_RGBA[:3]) + tint

    @property
    def instruction(self) -> str:
        """What the policy is told to do."""
        return self.task.instruction

    # ----------------------------------------------------------------- time

    @property
    def time(self) -> float:
        """Seconds of simulated time since the reset."""
        return float(self.data.time)

    def step(self, seconds: float) -> None:
        """Advances the physics by a time, rounded to whole time steps of 2 ms."""
        self.step_to(self.time + seconds)

    def step_to(self, time: float) -> None:
        """Advances the physics to a time since the reset; an earlier one does nothing."""
        dt = self.model.opt.timestep
        left = round((time - self.data.time) / dt)
        chunk = round(_TEST_PERIOD / dt)
        while left > 0:
            n = min(left, chunk)
            if self._limp:
                self._release_limp()
            mujoco.mj_step(self.model, self.data, n)
            left -= n
            self._move_cube()
            passed = self.task.test(self._truth(False))
            self._held_s = self._held_s + n * dt if passed else 0.0

    def _move_cube(self) -> None:
        """Puts the red cube where its course has it by now; height and turn stay the physics'."""
        if self._course is None:
            return
        joint = self.data.joint(scene.CUBE)
        joint.qpos[:2], joint.qvel[:2] = self._course(self.time)
        mujoco.mj_kinematics(self.model, self.data)

    # ----------------------------------------------------------------- commands

    def command_arm(self, joints: Array) -> None:
        """Position targets (6,) of the arm's servos, rad, clipped to the joint ranges.

        Raises:
            ValueError: wrong shape or a number that is not finite.
        """
        q = np.asarray(joints, dtype=np.float64)
        if q.shape != (6,) or not np.isfinite(q).all():
            raise ValueError(f"the arm takes 6 finite joint angles, not {q.tolist()}")
        self.data.ctrl[self._arm_ctrl] = np.clip(q, *self._arm_range.T)

    def command_gripper(self, finger: float) -> None:
        """Position target of a finger, m, clipped to its range.

        Raises:
            ValueError: not finite.
        """
        if not np.isfinite(finger):
            raise ValueError(f"the gripper takes a finite finger position, not {finger}")
        target = min(max(finger, FINGER_LOWER), FINGER_UPPER)
        self.data.ctrl[self._finger_ctrl] = target

    def set_torque(self, motor: str, on: bool) -> None:
        """Takes the torque of a motor, or gives it back to hold the motor where it is."""
        model, d = self.model, self.data
        actuator = self._actuator(motor)
        if on:
            model.actuator_gainprm[actuator] = self._gains[0][actuator]
            model.actuator_biasprm[actuator] = self._gains[1][actuator]
            here = d.qpos[model.jnt_qposadr[model.actuator_trnid[actuator, 0]]]
            d.ctrl[actuator] = d.act[model.actuator_actadr[actuator]] = here
            self._limp.discard(motor)
        else:
            model.actuator_gainprm[actuator] = 0.0
            model.actuator_biasprm[actuator] = 0.0
            self._limp.add(motor)
        d.qfrc_applied[:] = 0.0

    def has_torque(self, motor: str) -> bool:
        """Whether the motor holds."""
        return motor not in self._limp

    def _actuator(self, motor: str) -> int:
        if motor == GRIPPER_JOINT:
            return int(self._finger_ctrl)
        return int(self._arm_ctrl[ARM_JOINTS.index(motor)])

    def _limp_dofs(self) -> list[int]:
        return [self._arm_dof[ARM_JOINTS.index(m)] for m in self._limp if m != GRIPPER_JOINT]

    def _release_limp(self) -> None:
        """Lets gravity act where no motor holds against it (see `joint_state`)."""
        dofs = self._limp_dofs()
        self.data.qfrc_applied[dofs] = -self.data.qfrc_gravcomp[dofs]

    # ----------------------------------------------------------------- what is true

    def joint_state(self) -> JointState:
        """What the arm's driver would publish now."""
        d = self.data
        finger = float(d.qpos[self._finger_qpos])
        # Motor current follows the torque of the motor, gravity included: `gravcomp` stands
        # for the integrator of the real servo.
        drawn = d.qfrc_actuator + d.qfrc_gravcomp
        drawn[self._limp_dofs()] = 0.0
        torque = drawn[self._arm_dof]
        motor, motor_rate, motor_torque = robot.gripper_motor(
            finger, float(d.qvel[self._finger_dof]), float(d.qfrc_actuator[self._finger_dof])
        )
        position = np.concatenate([d.qpos[self._arm_qpos], [motor, finger, -finger]])
        velocity = np.concatenate([d.qvel[self._arm_dof], [motor_rate, 0.0, 0.0]])
        effort = np.concatenate([torque, [motor_torque, 0.0, 0.0]])
        return JointState(self.time, position, velocity, effort / robot.TORQUE_PER_MA)

    def joints(self) -> Array:
        """Measured angles (6,) of the arm."""
        return np.array(self.data.qpos[self._arm_qpos])

    def commanded_joints(self) -> Array:
        """Last position targets (6,) of the arm."""
        return np.array(self.data.ctrl[self._arm_ctrl])

    def commanded_finger(self) -> float:
        """Last position target of a finger, m."""
        return float(self.data.ctrl[self._finger_ctrl])

    def commanded_pose(self) -> Pose:
        """Pose of the ee frame that belongs to the last position targets."""
        self._scratch.qpos[:] = self.data.qpos
        self._scratch.qpos[self._arm_qpos] = self.commanded_joints()
        mujoco.mj_kinematics(self.model, self._scratch)
        return _site_pose(self._scratch, self._site)

    def state(self) -> WorldTruth:
        """The ground truth now."""
        return self._truth(self._held_s >= self.task.hold_s)

    def _truth(self, success: bool) -> WorldTruth:
        d = self.data
        objects = {
            name: Pose(d.body(name).xpos.copy(), d.body(name).xmat.reshape(3, 3).copy())
            for name in self._objects
        }
        return WorldTruth(
            self.time,
            self.seed,
            self.task.name,
            objects,
            _site_pose(d, self._site),
            float(d.qpos[self._finger_qpos]),
            success,
        )

    # ----------------------------------------------------------------- pictures

    def snapshot(self) -> Snapshot:
        """What `render` needs, so that another thread can draw while the physics goes on."""
        return Snapshot(self.time, self.data.qpos.copy())

    def render(self, camera: str, snapshot: Snapshot | None = None) -> NDArray[np.uint8]:
        """RGB picture (480, 640, 3) of a camera, now or at a snapshot.

        The first call makes the OpenGL context: call it, and `close`, from one thread only.

        Raises:
            RenderingUnavailable: no OpenGL here; the message says what to install.
            ValueError: no such camera.
        """
        if camera not in cameras.NAMES:
            raise ValueError(f"no camera '{camera}'; known: {', '.join(cameras.NAMES)}")
        if self._renderer is None or self._pictures is None:
            self._renderer = cameras.Renderer(self.model)
            self._pictures = mujoco.MjData(self.model)
        self._pictures.qpos[:] = (snapshot or self.snapshot()).qpos
        mujoco.mj_fwdPosition(self.model, self._pictures)
        return self._renderer.render(self._pictures, camera)

    def __enter__(self) -> SimWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the OpenGL context, in the thread that made it; the physics still works."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def _site_pose(data: Any, site: int) -> Pose:
    return Pose(data.site_xpos[site].copy(), data.site_xmat[site].reshape(3, 3).copy())
