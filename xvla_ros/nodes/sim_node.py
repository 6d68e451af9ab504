"""The node `sim_wx250s`: a simulated WidowX 250S that looks like the real one's driver.

Not a lifecycle node: a robot is just there. Three threads share the world under one lock: the
physics (100 Hz, joint states), the cameras (one picture at a time, drawn outside the lock from
a copy of the state), and the executor (commands, services, ground truth).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter
from rclpy.publisher import Publisher
from rosgraph_msgs.msg import Clock as ClockMsg
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory

from xvla_ros import names
from xvla_ros.arm.constants import ARM_JOINTS, JOINT_STATE_NAMES
from xvla_ros.msg import WorldState
from xvla_ros.nodes import conversions, fast_dds, qos
from xvla_ros.nodes.diagnostics import Level, diagnostic, diagnostic_array
from xvla_ros.nodes.parameters.declaration import ParameterRefused, Values, declare
from xvla_ros.nodes.parameters.sim import SIM_PARAMETERS, check, settings
from xvla_ros.nodes.priority import giving_way
from xvla_ros.nodes.process import EXIT_FAILED, run
from xvla_ros.nodes.sim_loop import PeriodicThread
from xvla_ros.nodes.sim_pictures import image_msg, jpeg_msg
from xvla_ros.sim import cameras
from xvla_ros.sim.controller import TrajectoryController, TrajectoryRefused
from xvla_ros.sim.device import COMMAND_PERIOD, LONGEST_ADVANCE, SimulatedRobot
from xvla_ros.sim.world import SimWorld, Snapshot
from xvla_ros.sim.xs_driver import SimulatedXsSdk
from xvla_ros.srv import ResetWorld

if TYPE_CHECKING:
    from xvla_ros.nodes.sim_xs import XsInterface

_TRUTH_PERIOD = 0.1
_DIAGNOSTICS_PERIOD = 1.0
_WARN_PERIOD = 2.0


class SimNode(Node):
    """Physics and pictures start with the node and end with `shut_down`.

    Raises:
        ParameterRefused: a wrong parameter.
        RenderingUnavailable: no OpenGL to draw without a display.
    """

    def __init__(
        self,
        context: Context | None = None,
        parameter_overrides: Sequence[RosParameter] = (),
    ) -> None:
        super().__init__(
            names.SIM_NODE, context=context, parameter_overrides=list(parameter_overrides)
        )
        values = declare(self, SIM_PARAMETERS, check=check, on_change=self._changed)
        self._settings = settings(values)
        self._robot = SimulatedRobot(
            SimWorld(
                self._settings.task,
                self._settings.seed,
                jitter=self._settings.jitter,
                distractor=self._settings.distractor,
            )
        )
        self._xs = self._xs_sdk() if self._settings.driver == "xs" else None
        self._lock = threading.Lock()
        # Taken before `_lock`: a reset changes what a picture is drawn from.
        self._drawing = threading.Lock()
        self._wall = Clock(clock_type=ClockType.SYSTEM_TIME)
        self._simulated = self._settings.publish_clock
        # Starts one step after zero, because a stamp of zero means "now".
        self._now = COMMAND_PERIOD if self._simulated else self._wall_seconds()
        self._last_tick = time.monotonic()
        self._frames = dict.fromkeys(cameras.NAMES, 0)
        self._slot = 0
        self._last_report = (time.monotonic(), 0.0)
        self._advanced = 0.0
        self._make_interfaces()
        self._physics = PeriodicThread(
            "physics", lambda: COMMAND_PERIOD, self._step, self._thread_failed
        )
        self._camera_loop = PeriodicThread(
            "cameras",
            lambda: 1.0 / (self._settings.camera_rate_hz * len(cameras.NAMES)),
            self._draw_next,
            self._thread_failed,
            set_up=self._first_picture,
            tear_down=self._robot.world.close,
        )
        self._failure: Exception | None = None
        self._camera_loop.start()
        self._last_tick = time.monotonic()
        self._physics.start()
        world = self._robot.world
        self.get_logger().info(f"{world.task.name}, seed {world.seed}: {world.instruction}")

    def _make_interfaces(self) -> None:
        robot = self._settings.robot_name
        self._joint_states = self.create_publisher(
            JointState, names.joint_states(robot), qos.JOINT_STATES_PUBLISHER
        )
        self._raw: dict[str, Publisher] = {}
        self._compressed: dict[str, Publisher] = {}
        for name in cameras.NAMES:
            topic = names.sim_camera(name)
            self._raw[name] = self.create_publisher(Image, topic, qos.IMAGE)
            self._compressed[name] = self.create_publisher(
                CompressedImage, names.compressed(topic), qos.IMAGE
            )
        self._world_state = self.create_publisher(WorldState, names.WORLD_STATE, qos.STATUS)
        if self._simulated:
            self._clock_publisher = self.create_publisher(ClockMsg, "/clock", 1)
        if self._xs is None:
            self._make_controllers(robot)
        else:
            make = _xs_interface()
            make(self, robot, self._xs, self._lock, self._command_time)
        self.create_service(ResetWorld, names.RESET_WORLD, self._on_reset)
        self._diagnostics = self.create_publisher(
            DiagnosticArray, names.DIAGNOSTICS, qos.DIAGNOSTICS
        )
        wall = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_TRUTH_PERIOD, self._publish_truth, clock=wall)
        self.create_timer(_DIAGNOSTICS_PERIOD, self._publish_diagnostics, clock=wall)

    def _make_controllers(self, robot: str) -> None:
        for controller, topic in (
            (self._robot.arm, names.arm_trajectory(robot)),
            (self._robot.gripper, names.gripper_trajectory(robot)),
        ):
            receive = partial(self._on_trajectory, controller, topic)
            self.create_subscription(JointTrajectory, topic, receive, qos.COMMAND)

    def _xs_sdk(self) -> SimulatedXsSdk:
        order = ARM_JOINTS[::-1] if self._settings.reverse_joints else ARM_JOINTS
        return SimulatedXsSdk(self._robot, order, self._settings.robot_model)

    def shut_down(self) -> None:
        """Ends both threads and frees the OpenGL context."""
        self._physics.stop()
        self._camera_loop.stop()

    def _changed(self, values: Values) -> None:
        before, self._settings = self._settings, settings(values)
        motor = self._settings.broken_motor
        if self._xs is not None and motor not in ("none", before.broken_motor):
            with self._lock:
                self._xs.break_motor(motor, self._settings.failure, self._command_time())

    def _thread_failed(self, error: Exception) -> None:
        """Hands an exception of a thread to the executor, which ends the process."""
        self._failure = error

    def _wall_seconds(self) -> float:
        return conversions.now_seconds(self._wall)

    def _command_time(self) -> float:
        """Now, on the clock of the trajectories."""
        return self._now if self._simulated else self._wall_seconds()

    # ------------------------------------------------------------------ physics

    def _step(self) -> None:
        """One tick of the physics thread."""
        steady = time.monotonic()
        elapsed = (steady - self._last_tick) * self._settings.realtime_factor
        self._last_tick = steady
        with self._lock:
            if self._simulated:
                self._now += min(elapsed, LONGEST_ADVANCE)
            else:
                self._now = self._wall_seconds()
            if self._xs is not None:
                self._xs.step(self._now)
            self._advanced += self._robot.advance(self._now, elapsed)
            message = self._joint_state_message()
            stamp = conversions.time_msg(self._now)
        if self._simulated:
            self._clock_publisher.publish(ClockMsg(clock=stamp))
        message.header.stamp = stamp
        self._joint_states.publish(message)

    def _joint_state_message(self) -> JointState:
        state = self._robot.world.joint_state()
        order = list(JOINT_STATE_NAMES)
        if self._xs is not None:
            order, state = self._xs.joint_state(state)
        message = JointState(name=order, position=state.position.tolist())
        if not self._settings.positions_only:
            message.velocity, message.effort = state.velocity.tolist(), state.effort.tolist()
        return message

    def _on_trajectory(
        self, controller: TrajectoryController, topic: str, message: JointTrajectory
    ) -> None:
        stamp = conversions.seconds(message.header.stamp)
        with self._lock:
            now = self._command_time()
            try:
                controller.accept(
                    message.joint_names,
                    [
                        p.time_from_start.sec + p.time_from_start.nanosec * 1e-9
                        for p in message.points
                    ],
                    [p.positions for p in message.points],
                    [p.velocities for p in message.points],
                    start=stamp or now,
                    now=now,
                )
            except TrajectoryRefused as error:
                self.get_logger().warning(
                    f"{topic}: trajectory refused: {error}", throttle_duration_sec=_WARN_PERIOD
                )

    def _on_reset(
        self, request: ResetWorld.Request, response: ResetWorld.Response
    ) -> ResetWorld.Response:
        try:
            with self._drawing, self._lock:
                response.instruction = self._robot.reset(request.seed, request.task or None)
                if self._xs is not None:
                    self._xs.reset(self._command_time())
        except ValueError as error:
            response.success, response.message = False, str(error)
            return response
        response.success = True
        response.message = f"task '{self._robot.world.task.name}', seed {request.seed}"
        return response

    # ------------------------------------------------------------------ pictures

    def _first_picture(self) -> None:
        """Makes the OpenGL context in the thread that will use it, or says why it cannot."""
        self._robot.world.render(cameras.NAMES[0])

    def _draw_next(self) -> None:
        """One tick of the camera thread: the next camera in turn, so that the load is even."""
        name = cameras.NAMES[self._slot]
        self._slot = (self._slot + 1) % len(cameras.NAMES)
        raw = self._raw[name].get_subscription_count() > 0
        compressed = self._compressed[name].get_subscription_count() > 0
        if name not in self._settings.enabled or not (raw or compressed):
            return
        with self._drawing:
            with self._lock:
                snapshot: Snapshot = self._robot.world.snapshot()
                stamp = conversions.time_msg(self._now)
            picture = self._robot.world.render(name, snapshot)
        header = Header(stamp=stamp, frame_id=f"{self._settings.robot_name}/camera_{name}")
        if raw:
            self._raw[name].publish(image_msg(header, picture))
        if compressed:
            quality = self._settings.jpeg_quality
            self._compressed[name].publish(jpeg_msg(header, picture, quality))
        self._frames[name] += 1

    # ------------------------------------------------------------------ reports

    def _publish_truth(self) -> None:
        if self._failure is not None:
            raise self._failure
        with self._lock:
            truth = self._robot.world.state()
            stamp = conversions.time_msg(self._now)
        message = WorldState(
            seed=truth.seed,
            task=truth.task,
            elapsed=truth.time,
            object_names=list(truth.objects),
            object_poses=[conversions.pose_msg(pose) for pose in truth.objects.values()],
            ee_pose=conversions.pose_msg(truth.ee),
            gripper_gap=truth.gripper_gap,
            success=truth.success,
            camera_names=list(self._frames),
            frames_published=list(self._frames.values()),
        )
        message.header = Header(stamp=stamp, frame_id=names.base_frame(self._settings.robot_name))
        self._world_state.publish(message)

    def _publish_diagnostics(self) -> None:
        steady, advanced = time.monotonic(), self._advanced
        rate = (advanced - self._last_report[1]) / (steady - self._last_report[0])
        self._last_report = (steady, advanced)
        behind = rate < 0.95 * self._settings.realtime_factor
        status = diagnostic(
            f"{names.SIM_NODE}: physics",
            Level.WARN if behind else Level.OK,
            "slower than asked: the CPU is busy" if behind else "runs at its rate",
            {
                "real-time factor": rate,
                "lost seconds": self._robot.lost,
                **{f"frames {name}": count for name, count in self._frames.items()},
            },
        )
        self._diagnostics.publish(diagnostic_array(self._wall.now().to_msg(), [status]))


def _xs_interface() -> type[XsInterface]:
    """The interface, whose messages may not be installed."""
    try:
        from xvla_ros.nodes.sim_xs import XsInterface
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        raise ParameterRefused(
            f"'driver: xs' needs {package}, which is missing: build "
            "github.com/Interbotix/interbotix_ros_core, or in a clone of this package run "
            "make test-interfaces"
        ) from error
    return XsInterface


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the node; see `process.run` for the exit code."""
    warning = fast_dds.use_large_segment()
    if warning:
        print(f"{names.SIM_NODE}: {warning}", file=sys.stderr)
    try:
        return run(partial(giving_way, SimNode), names.SIM_NODE, SIM_PARAMETERS, argv)
    except cameras.RenderingUnavailable as error:
        print(f"{names.SIM_NODE}: {error}", file=sys.stderr)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
