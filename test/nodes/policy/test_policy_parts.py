"""The parts of the policy node that need no ROS: its state, the end of a task, its thread."""

import math
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import replace

import numpy as np
import pytest

from xvla_ros.chunk import Plan
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.nodes.inference_worker import InferenceWorker
from xvla_ros.nodes.policy_state import Announcer, Assessment, Figures, PolicyState, State
from xvla_ros.nodes.task_monitor import End, Progress, TaskMonitor, TaskParams
from xvla_ros.observation import ObservationBuffer, Problem, Reason, ViewSpec
from xvla_ros.parameters import policy as parameters
from xvla_ros.parameters.parameter import defaults

T = 1000.0
STALE = Problem(Reason.STALE_VIEW, "/wrist", T - 0.3)


def assess(state, now=T, problems=(), **changes):
    given = {"active": True, "instruction": "reach", "inference_s": 0.0, "inference_timeout_s": 10}
    return state.assess(now, problems=problems, **(given | changes))


def test_it_waits_before_the_first_observation_and_stalls_after_it():
    state = PolicyState()
    before = assess(state, problems=[STALE])
    assert (before.state, before.missing_topics) == (State.WAITING, ("/wrist",))
    assert assess(state).state is State.RUNNING
    assert assess(state, T + 1.0, [STALE]).state is State.RUNNING  # a hiccup
    stalled = assess(state, T + 1.31, [STALE])
    assert (stalled.state, stalled.missing_topics) == (State.STALLED, ("/wrist",))
    assert "/wrist" in stalled.message
    assert assess(state, T + 1.4).state is State.RUNNING


def test_with_the_default_limits_a_stopped_camera_is_told_well_within_a_second():
    views = [ViewSpec("/main"), ViewSpec("/wrist")]
    buffer: ObservationBuffer[str] = ObservationBuffer(views, ["waist"])
    state, told = PolicyState(), None
    for k in range(300):
        now = T + 0.01 * k
        buffer.add_joints(now, now, ["waist"], [0.0])
        if k % 7 == 0:
            buffer.add_image(0, now, now, "main")
            if now <= T + 1.0:
                buffer.add_image(1, now, now, "wrist")
                last = now
        if k % 5 == 0 and told is None:  # as often as the node looks
            seen = assess(state, now, buffer.problems(now))
            if seen.state is State.STALLED:
                told = now
                assert seen.missing_topics == ("/wrist",)
    assert told is not None
    assert 0.25 < told - last < 0.7


def test_hiccups_do_not_add_up_to_a_stall():
    state = PolicyState(seen=True)
    for k in range(10):
        assert assess(state, T + 0.1 * k, [STALE] if k % 2 else []).state is State.RUNNING


def test_a_stall_outlasts_a_clock_that_goes_back():
    state = PolicyState(seen=True)
    assess(state, T, [STALE])
    assert assess(state, T - 500.0, [STALE]).state is State.RUNNING
    assert assess(state, T - 499.0, [STALE]).state is State.STALLED


def test_nothing_to_do_is_idle_whatever_is_missing():
    state = PolicyState(seen=True, error="bad")
    assert assess(state, problems=[STALE], active=False).state is State.IDLE
    assert assess(state, problems=[STALE], instruction="").state is State.IDLE


def test_an_error_stays_until_the_next_chunk_and_a_stall_goes_before_it():
    state = PolicyState(seen=True, error="not finite")
    assert assess(state).message == "not finite"
    assert assess(state).state is State.ERROR
    assess(state, T, [STALE])
    assert assess(state, T + 1.0, [STALE]).state is State.STALLED


def test_an_inference_that_hangs_is_an_error():
    hanging = assess(PolicyState(seen=True), inference_s=11.0)
    assert hanging.state is State.ERROR
    assert "11.0 s" in hanging.message


def test_only_state_and_topics_make_a_change_worth_telling():
    state = PolicyState()
    first = assess(state, problems=[STALE])
    assert not first.differs(assess(state, problems=[replace(STALE, since=T)]))
    assert first.differs(assess(state, problems=[replace(STALE, topic="/main")]))


def test_each_change_of_state_is_announced_once_whatever_flickers():
    announcer = Announcer()
    stalled = Assessment(State.STALLED, "a", ("/a",))
    other = Assessment(State.STALLED, "b", ("/b",))
    assert announcer.is_news(Assessment(State.IDLE), T)
    assert not announcer.is_news(Assessment(State.WAITING, "", ("/a",)), T + 0.1)
    assert announcer.is_news(Assessment(State.RUNNING), T + 0.5)
    assert announcer.is_news(stalled, T + 1.0)
    assert not announcer.is_news(other, T + 1.1)
    assert not announcer.is_news(stalled, T + 6.1)
    assert announcer.is_news(other, T + 6.2)
    assert announcer.is_news(Assessment(State.RUNNING), T + 6.3)


def test_a_long_wait_is_announced():
    announcer = Announcer()
    waiting = Assessment(State.WAITING, "", ("/a",))
    assert not announcer.is_news(waiting, T)
    assert announcer.is_news(waiting, T + 1.0)
    assert not announcer.is_news(waiting, T + 2.0)


def test_figures_are_of_the_last_chunks_and_the_rate_falls_when_none_comes():
    figures = Figures()
    assert (figures.rate(T), figures.percentile(95)) == (0.0, 0.0)
    for k in range(20):
        figures.published(T + 0.5 * k, 0.1 + 0.01 * k, 0.05)
    assert figures.rate(T + 9.5) == pytest.approx(2.0)
    assert figures.rate(T + 19.5) == pytest.approx(9 / 14.5)
    assert figures.percentile(50) == pytest.approx(0.195)
    assert figures.chunks == 20


def plan(x=0.2, gripper=0.0, **changes):
    pose = Pose(np.array([x, 0.0, 0.2]), so3_exp([0.0, 1.5, 0.0]))
    fields = {"sequence": 5, "epoch": 1, "holding": False, "actuating": True} | changes
    return Plan(T, 0.1, (pose, pose), (gripper, gripper), **fields)


def progress(now, **changes):
    given = {"plan": plan(), "first_sequence": 5, "stalled": False, "failed": False}
    return Progress(now, **(given | changes))


def monitor(max_duration=0.0):
    return TaskMonitor(TaskParams(), max_duration, T)


def test_a_task_settles_after_two_seconds_without_commanded_motion():
    task = monitor()
    for k in range(20):
        assert task.update(progress(T + 0.1 * k, plan=plan(0.2 + 0.001 * k))) is None
    # It was within 5 mm of its end from 1.5 s on.
    for k in range(20, 35):
        assert task.update(progress(T + 0.1 * k, plan=plan(0.22))) is None
    outcome = task.update(progress(T + 3.55, plan=plan(0.22)))
    assert outcome is not None
    assert outcome.end is End.SETTLED


def test_a_slow_but_steady_motion_is_no_rest():
    task = monitor()
    # 4 mm/s: within 5 mm over any second, but not over two.
    assert all(
        task.update(progress(T + 0.1 * k, plan=plan(0.2 + 0.0004 * k))) is None for k in range(200)
    )


def test_a_moving_gripper_is_no_rest():
    task = monitor()
    assert all(
        task.update(progress(T + 0.1 * k, plan=plan(gripper=float(k // 15 % 2)))) is None
        for k in range(100)
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"first_sequence": 0},
        {"first_sequence": 6},
        {"plan": None},
        {"plan": plan(sequence=0)},
    ],
    ids=["no chunk yet", "older chunk", "no scheduler", "nothing executed"],
)
def test_rest_before_the_tasks_own_chunks_run_is_not_its_end(changes):
    task = monitor()
    assert all(task.update(progress(T + 0.1 * k, **changes)) is None for k in range(100))


def test_time_is_up_when_it_is_up():
    task = monitor(max_duration=1.0)
    assert task.update(progress(T + 0.99, plan=None)) is None
    outcome = task.update(progress(T + 1.0, plan=None))
    assert outcome is not None
    assert outcome.end is End.TIMEOUT


def test_a_clock_that_goes_back_neither_ends_nor_prolongs_a_task():
    task = monitor(max_duration=2.0)
    assert task.update(progress(T + 1.0, plan=None)) is None
    assert task.update(progress(T - 300.0, plan=None)) is None
    assert task.elapsed(T - 300.0) == pytest.approx(1.0)
    assert task.update(progress(T - 299.1, plan=None)) is None
    assert task.update(progress(T - 298.9, plan=None)).end is End.TIMEOUT


def test_another_epoch_means_that_the_scheduler_was_stopped():
    task = monitor()
    assert task.update(progress(T)) is None
    assert task.update(progress(T + 0.1, plan=plan(epoch=2))).end is End.STOPPED


def test_a_frozen_arm_is_a_reason_of_its_own_and_one_from_before_the_task_is_none():
    task, message = monitor(), "the arm is blocked (effort): backing off"
    assert task.update(progress(T, blocked=message)) is None
    outcome = task.update(progress(T + 0.1, plan=plan(epoch=2), blocked=message))
    assert (outcome.end, outcome.message) == (End.BLOCKED, f"the scheduler: {message}")
    # A stop goes before it.
    stop = monitor().update(progress(T, blocked=message, stop="stopped: call ~/clear_stop"))
    assert stop.end is End.STOPPED


def test_a_stop_before_the_tasks_first_chunk_ends_it():
    task = monitor()
    assert task.update(progress(T, first_sequence=0)) is None
    outcome = task.update(progress(T + 0.1, first_sequence=0, plan=plan(epoch=2)))
    assert outcome.end is End.STOPPED


def test_an_epoch_that_began_before_the_task_and_is_heard_of_later_does_not_end_it():
    """Actuation was switched on just before T; plans of before are still on their way."""
    task = monitor()
    assert task.update(progress(T, plan=replace(plan(epoch=1), start=T - 0.4))) is None
    assert task.update(progress(T + 0.1, plan=replace(plan(epoch=2), start=T - 0.1))) is None
    assert task.update(progress(T + 0.2, plan=replace(plan(epoch=3), start=T + 0.1))) is None
    assert task.update(progress(T + 0.3, plan=replace(plan(epoch=3), start=T + 0.2))) is None
    stopped = task.update(progress(T + 0.4, plan=replace(plan(epoch=4), start=T + 0.3)))
    assert stopped.end is End.STOPPED


def test_a_clock_that_goes_back_does_not_hide_a_stop():
    task = monitor()
    assert task.update(progress(T + 1.0, plan=None)) is None
    assert task.update(progress(T - 300.0, plan=None)) is None
    assert task.update(progress(T - 299.9, plan=replace(plan(), start=T - 299.9))) is None
    stopped = task.update(progress(T - 299.8, plan=replace(plan(epoch=2), start=T - 299.8)))
    assert stopped.end is End.STOPPED


@pytest.mark.parametrize(
    ("fault", "end"), [("stalled", End.STALLED), ("failed", End.ERROR)], ids=["stall", "error"]
)
def test_a_fault_is_borne_for_five_seconds(fault, end):
    task = monitor()
    bad = {fault: True, "message": "/wrist"}
    assert task.update(progress(T, **bad)) is None
    assert task.update(progress(T + 4.0, **bad)) is None
    assert task.update(progress(T + 4.5)) is None  # it recovers
    assert task.update(progress(T + 5.0, **bad)) is None
    assert task.update(progress(T + 9.9, **bad)) is None
    outcome = task.update(progress(T + 10.0, **bad))
    assert (outcome.end, outcome.message) == (end, "/wrist")


def test_one_thread_does_everything_in_order():
    worker = InferenceWorker()
    names = [worker.submit(lambda: threading.current_thread().name) for _ in range(5)]
    assert {future.result(5.0) for future in names} == {"inference"}
    assert worker.call(lambda: 7) == 7
    assert worker.close(5.0)


def test_an_exception_is_the_callers_and_the_thread_goes_on():
    worker = InferenceWorker()

    def fail():
        raise TimeoutError("the job's own")

    with pytest.raises(TimeoutError, match="own"):
        worker.call(fail)
    assert worker.call(lambda: "still here") == "still here"
    assert worker.close(5.0)


def test_a_job_that_hangs_delays_nobody_beyond_the_bound():
    worker, go_on = InferenceWorker(), threading.Event()
    threading.Timer(0.2, worker.abandon).start()
    with pytest.raises(CancelledError):
        worker.call(go_on.wait)
    start = time.monotonic()
    assert not worker.close(60.0)
    assert time.monotonic() - start < 30.0
    go_on.set()


def values(**changes):
    given = defaults(parameters.POLICY_PARAMETERS)
    return given | {name.replace("__", "."): value for name, value in changes.items()}


def test_views_are_the_slots_with_a_topic():
    chosen = parameters.views(values(cameras__2__topic="wrist", cameras__2__transport="compressed"))
    topics = [None if view is None else view.topic for view in chosen]
    assert topics == ["camera_0/image_raw", None, "wrist/compressed"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cameras__0__topic": ""}, "cameras.0.topic"),
        ({"cameras__0__required": False}, "view 0"),
        ({"cameras__1__topic": "x", "cameras__2__topic": "x"}, "'cameras.2.topic' is the topic of"),
    ],
)
def test_cameras_that_do_not_fit_together_are_refused(changes, words):
    assert parameters.check(values()) is None
    assert words in str(parameters.check(values(**changes)))


def test_limits_and_proprio_rules_come_from_their_parameters():
    given = values(
        observation__max_image_age_s=0.4, observation__max_skew_s=0.07, joint_states_max_age_s=0.3
    )
    limits = parameters.limits(given)
    assert (limits.max_image_age, limits.max_skew, limits.joints_max_age) == (0.4, 0.07, 0.3)
    assert parameters.proprio(values(proprio_source="measured")).source == "measured"
    assert math.isclose(parameters.proprio(given).max_plan_age_s, 1.5)
