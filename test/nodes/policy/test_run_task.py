"""The action RunTask over DDS: how a task ends, and what is told about it."""

import time

import pytest
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient

from xvla_ros import names
from xvla_ros.action import RunTask
from xvla_ros.msg import PolicyStatus, SchedulerStatus
from xvla_ros.nodes import qos
from xvla_ros.nodes.policy_state import State
from xvla_ros.nodes.task_monitor import End


class Client:
    def __init__(self, ros, stage):
        self._ros = ros
        self._client = ActionClient(stage, RunTask, names.of(names.POLICY_NODE, names.RUN_TASK))
        self.feedback = []

    def send(self, instruction="pick up the red cube", max_duration=0.0):
        """The goal's handle; None if it was rejected."""
        self._ros.wait_for(self._client.server_is_ready, what="action server")
        goal = RunTask.Goal(instruction=instruction, max_duration=max_duration)
        future = self._client.send_goal_async(goal, lambda m: self.feedback.append(m.feedback))
        self._ros.wait_for(future.done, what="answer to the goal")
        handle = future.result()
        return handle if handle.accepted else None

    def result(self, handle, timeout=15.0):
        future = handle.get_result_async()
        self._ros.wait_for(future.done, timeout, "result")
        return future.result().status, future.result().result


@pytest.fixture
def client(ros, stage):
    return Client(ros, stage)


def test_the_numbers_are_those_of_the_interfaces():
    for end in End:
        assert getattr(RunTask.Result, end.name) == end
    for state in State:
        assert getattr(PolicyStatus, state.name) == state


def test_a_task_runs_its_instruction_until_its_time_is_up(ros, stage, run, client):
    policy = run(instruction="")
    policy.start()
    handle = client.send("reach the block", max_duration=3.0)
    status, result = client.result(handle)
    assert status == GoalStatus.STATUS_ABORTED
    assert result.reason == RunTask.Result.TIMEOUT
    assert 3.0 <= result.elapsed < 10.0
    assert result.chunks >= 1
    assert {m.instruction for _, m in stage.chunks} == {"reach the block"}
    assert client.feedback
    assert client.feedback[-1].chunks >= 1
    # Nothing else to do, so nothing is done.
    ros.wait_for(lambda: stage.state() == PolicyStatus.IDLE, what="IDLE")


def test_the_tasks_instruction_goes_before_the_parameter_and_ends_with_it(ros, stage, run, client):
    policy = run(instruction="wait")
    policy.start()
    handle = client.send("reach the block")
    ros.wait_for(lambda: stage.chunks and stage.chunks[-1][1].instruction == "reach the block")
    ros.wait_for(lambda: stage.status.instruction == "reach the block", what="status")
    handle.cancel_goal_async()
    status, result = client.result(handle)
    assert status == GoalStatus.STATUS_CANCELED
    assert result.reason == RunTask.Result.CANCELLED
    ros.wait_for(lambda: stage.chunks[-1][1].instruction == "wait", what="the parameter's")


def test_a_task_has_settled_when_no_motion_is_commanded_any_more(ros, stage, run, client):
    stage.plan = stage.holding(stage.ready_pose(), sequence=10**6)
    policy = run(task__settle_s=0.5)
    policy.start()
    begun = time.monotonic()
    status, result = client.result(client.send())
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert result.reason == RunTask.Result.SETTLED
    assert time.monotonic() - begun >= 0.5
    assert result.chunks >= 1


def test_a_stop_of_the_scheduler_ends_the_task(ros, stage, run, client):
    stage.plan = stage.holding(stage.ready_pose(), epoch=3)
    policy = run()
    policy.start()
    ros.wait_for(lambda: stage.chunks and stage.chunks[-1][1].epoch == 3, what="the epoch")
    # The goal may be taken before the policy hears of the epoch that is already there.
    stage.plan = stage.holding(stage.ready_pose(), epoch=4)
    handle = client.send()
    ros.wait_for(lambda: client.feedback and client.feedback[-1].elapsed > 1.0, what="a second")
    stage.plan = stage.holding(stage.ready_pose(), epoch=5, holding=True)
    _, result = client.result(handle)
    assert result.reason == RunTask.Result.STOPPED


def test_a_stop_before_the_first_plan_of_the_task_ends_it_too(ros, stage, run, client):
    policy = run()
    policy.start()
    scheduler = ros.node("scheduler")
    output = scheduler.create_publisher(
        SchedulerStatus, names.of(names.SCHEDULER_NODE, names.STATUS), qos.STATUS
    )
    # No plan comes at all; what the scheduler was doing before does not matter.
    output.publish(SchedulerStatus(state=SchedulerStatus.EXECUTING))
    handle = client.send()
    ros.wait_for(lambda: client.feedback, what="the task")
    reason = "stopped: call ~/clear_stop to go on"
    output.publish(SchedulerStatus(state=SchedulerStatus.STOPPED, message=reason))
    _, result = client.result(handle)
    assert result.reason == RunTask.Result.STOPPED
    assert reason in result.message


def test_an_arm_that_was_frozen_ends_the_task_with_a_reason_of_its_own(ros, stage, run, client):
    stage.plan = stage.holding(stage.ready_pose(), epoch=3)
    policy = run()
    policy.start()
    ros.wait_for(lambda: stage.chunks and stage.chunks[-1][1].epoch == 3, what="the epoch")
    scheduler = ros.node("scheduler")
    output = scheduler.create_publisher(
        SchedulerStatus, names.of(names.SCHEDULER_NODE, names.STATUS), qos.STATUS
    )
    handle = client.send()
    ros.wait_for(lambda: client.feedback and client.feedback[-1].chunks, what="a chunk of the task")
    reason = "the arm is blocked (tracking_error)"
    output.publish(SchedulerStatus(state=SchedulerStatus.EXECUTING, message=reason))
    # The status alone ends nothing.
    told = len(client.feedback)
    ros.wait_for(lambda: len(client.feedback) > told + 2, what="feedback after the status")
    stage.plan = stage.holding(stage.ready_pose(), epoch=4, holding=True)
    _, result = client.result(handle)
    assert result.reason == RunTask.Result.BLOCKED
    assert reason in result.message


def test_a_task_without_its_camera_ends_as_stalled_with_the_topic(ros, stage, run, client):
    policy = run(task__stall_s=0.5, observation__max_image_age_s=0.5)
    policy.start()
    handle = client.send()
    ros.wait_for(lambda: stage.chunks, what="a chunk")
    stage.silent.add("main/image_raw")
    _, result = client.result(handle)
    assert result.reason == RunTask.Result.STALLED
    assert "/main/image_raw" in result.message


def test_deactivation_ends_the_task(ros, stage, run, client):
    policy = run()
    policy.start()
    handle = client.send()
    ros.wait_for(lambda: stage.chunks, what="a chunk")
    assert policy.transition("deactivate")
    status, result = client.result(handle)
    assert status == GoalStatus.STATUS_ABORTED
    assert result.reason == RunTask.Result.DEACTIVATED


def test_what_cannot_be_run_is_rejected(ros, stage, run, client):
    policy = run()
    assert client.send() is None  # not active
    policy.start()
    assert client.send("  ") is None
    assert client.send(max_duration=-1.0) is None
    assert client.send(max_duration=float("nan")) is None
    first = client.send()
    assert first is not None
    assert client.send("another") is None  # one at a time
    first.cancel_goal_async()
    client.result(first)
    ros.wait_for(lambda: client.send("another", 0.1), what="a task after the first")
