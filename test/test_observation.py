"""An observation holds only what belongs together, and says why there is none."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xvla_ros.observation import (
    Limits,
    ObservationBuffer,
    ObservationRefused,
    Reason,
    ViewSpec,
)

JOINTS = ("waist", "shoulder", "elbow")
T = 1000.0


def make(views=None, limits=None):
    views = views or [ViewSpec("/main"), None, ViewSpec("/wrist", required=False)]
    return ObservationBuffer(views, JOINTS, "/joint_states", limits)


def joints(buffer, stamp, positions=(0.1, 0.2, 0.3), now=None):
    buffer.add_joints(stamp, stamp if now is None else now, JOINTS, positions)


def refusal(buffer, now):
    with pytest.raises(ObservationRefused) as caught:
        buffer.snapshot(now)
    return caught.value


def test_images_and_joints_of_one_moment_make_an_observation():
    buffer = make()
    joints(buffer, T)
    buffer.add_image(0, T, T, "main")
    buffer.add_image(2, T + 0.01, T + 0.01, "wrist")
    joints(buffer, T + 0.02)
    seen = buffer.snapshot(T + 0.03)
    assert seen.stamp == T
    assert seen.images == ("main", None, "wrist")
    assert seen.view_stamps[0] == T
    assert math.isnan(seen.view_stamps[1])
    assert seen.view_stamps[2] == T + 0.01
    np.testing.assert_allclose(seen.joints, [0.1, 0.2, 0.3])


def test_without_a_required_view_there_would_be_no_reference_time():
    with pytest.raises(ValueError, match="required"):
        make([ViewSpec("/main", required=False), None, None])


def test_the_reference_is_the_oldest_of_the_newest_required_images():
    buffer = make([ViewSpec("/main"), ViewSpec("/front"), None])
    for stamp in (T, T + 0.06, T + 0.12):
        joints(buffer, stamp)
        buffer.add_image(0, stamp, stamp, f"main {stamp - T:.2f}")
    buffer.add_image(1, T + 0.05, T + 0.125, "front")
    seen = buffer.snapshot(T + 0.13)
    assert seen.stamp == T + 0.05
    # Of the main images only the one at 0.06 s lies within the skew of 0.05 s and is newest.
    assert seen.images[:2] == ("main 0.06", "front")


def test_an_optional_view_does_not_move_the_reference_and_is_masked_when_out_of_step():
    buffer = make()
    buffer.add_image(2, T - 0.2, T - 0.2, "old wrist")
    joints(buffer, T)
    buffer.add_image(0, T, T, "main")
    seen = buffer.snapshot(T + 0.01)
    assert seen.stamp == T
    assert seen.images == ("main", None, None)


def test_a_required_view_without_an_image_is_missing_since_the_buffer_waits():
    buffer = make()
    assert refusal(buffer, T).reason is Reason.MISSING_VIEW
    joints(buffer, T + 0.9)
    error = refusal(buffer, T + 0.9)
    assert (error.reason, error.topic, error.since) == (Reason.MISSING_VIEW, "/main", T)


def test_a_camera_that_stops_is_stale_since_its_last_image():
    buffer = make()
    buffer.add_image(0, T, T, "main")
    for k in range(25):
        joints(buffer, T + 0.01 * k)
    assert buffer.snapshot(T + 0.25).images[0] == "main"
    joints(buffer, T + 0.25)
    error = refusal(buffer, T + 0.27)
    assert (error.reason, error.topic, error.since) == (Reason.STALE_VIEW, "/main", T)
    assert "/main" in str(error)


def test_required_views_out_of_step_are_refused_with_the_view_that_has_no_partner():
    buffer = make([ViewSpec("/main"), ViewSpec("/front"), None])
    joints(buffer, T)
    buffer.add_image(1, T, T, "front")
    buffer.add_image(0, T + 0.1, T + 0.1, "main")
    joints(buffer, T + 0.1)
    error = refusal(buffer, T + 0.11)
    assert (error.reason, error.topic) == (Reason.SKEWED, "/main")
    assert "0.100 s" in str(error)


def test_all_reasons_are_told_at_once():
    buffer = make([ViewSpec("/main"), ViewSpec("/front"), None])
    error = refusal(buffer, T)
    assert [p.topic for p in error.problems] == ["/main", "/front", "/joint_states"]
    assert buffer.problems(T) == error.problems


def test_joints_are_interpolated_at_the_reference_time():
    buffer = make()
    joints(buffer, T, (0.0, 1.0, -1.0))
    buffer.add_image(0, T + 0.004, T + 0.004, "main")
    joints(buffer, T + 0.01, (1.0, 2.0, 0.0))
    np.testing.assert_allclose(buffer.snapshot(T + 0.02).joints, [0.4, 1.4, -0.6], atol=1e-9)


def ahead_of_the_joints():
    """Joint states at 100 Hz up to T - 0.01, images of T - 0.03 and T."""
    buffer = make()
    for k in range(10, 0, -1):
        joints(buffer, T - 0.01 * k, (k, k, k))
    buffer.add_image(0, T - 0.03, T - 0.03 + 0.005, "before")
    buffer.add_image(0, T, T + 0.005, "newest")
    return buffer


def test_an_image_newer_than_the_joints_waits_for_the_next_joint_state():
    buffer = ahead_of_the_joints()
    assert refusal(buffer, T + 0.01).reason is Reason.AWAITED_JOINTS
    joints(buffer, T + 0.002, (0.0, 0.0, 0.0), now=T + 0.011)
    seen = buffer.snapshot(T + 0.011)
    assert (seen.stamp, seen.images[0]) == (T, "newest")
    np.testing.assert_allclose(seen.joints, [1 / 6] * 3, atol=1e-6)


def test_to_wait_for_a_joint_state_is_no_problem_to_tell():
    buffer = ahead_of_the_joints()
    assert refusal(buffer, T + 0.01).topic == "/joint_states"
    assert buffer.problems(T + 0.01) == ()


def test_after_one_period_of_the_joints_the_image_before_is_taken_and_nothing_is_held():
    seen = ahead_of_the_joints().snapshot(T + 0.0151)
    assert (seen.stamp, seen.images[0]) == (T - 0.03, "before")
    np.testing.assert_allclose(seen.joints, [3.0, 3.0, 3.0], atol=1e-6)


def test_a_view_ahead_of_the_joints_does_not_wait_where_another_view_is_older():
    buffer = make([ViewSpec("/main"), ViewSpec("/front"), None])
    joints(buffer, T)
    buffer.add_image(0, T, T, "main")
    buffer.add_image(1, T + 0.02, T + 0.02, "front")
    assert buffer.snapshot(T + 0.02).stamp == T


def test_images_that_no_joint_state_follows_are_refused_when_they_are_old():
    buffer = make(limits=Limits(joints_max_age=10.0))
    joints(buffer, T - 0.3)
    buffer.add_image(0, T - 0.29, T - 0.29, "main")
    buffer.add_image(0, T - 0.1, T - 0.1, "main")
    error = refusal(buffer, T)
    assert (error.reason, error.topic, error.since) == (
        Reason.STALE_JOINTS,
        "/joint_states",
        T - 0.3,
    )
    assert "none as new as the images" in str(error)


@pytest.mark.parametrize("joints_first", [True, False])
def test_the_joints_of_a_stamp_do_not_depend_on_what_has_come_when_one_looks(joints_first):
    buffer = make()
    joints(buffer, T - 0.004, (0.0, 0.0, 0.0))
    if joints_first:
        joints(buffer, T + 0.006, (1.0, 1.0, 1.0))
        buffer.add_image(0, T, T + 0.007, "main")
    else:
        buffer.add_image(0, T, T + 0.001, "main")
        joints(buffer, T + 0.006, (1.0, 1.0, 1.0), now=T + 0.007)
    joints(buffer, T + 0.016, (9.0, 9.0, 9.0))
    np.testing.assert_allclose(buffer.snapshot(T + 0.017).joints, [0.4, 0.4, 0.4], atol=1e-6)


def test_each_view_is_seen_in_its_image_nearest_to_the_reference():
    buffer = make([ViewSpec("/main"), ViewSpec("/front"), None])
    joints(buffer, T)
    joints(buffer, T + 0.05)
    for stamp in (T - 0.01, T + 0.02):
        buffer.add_image(1, stamp, stamp, f"front {stamp - T:+.2f}")
    buffer.add_image(0, T, T + 0.03, "main")
    assert buffer.snapshot(T + 0.05).images[:2] == ("main", "front -0.01")


def test_an_observation_can_be_repeated_by_its_reference_time():
    buffer = ahead_of_the_joints()
    joints(buffer, T + 0.002)
    assert buffer.snapshot(T + 0.011).images[0] == "newest"
    seen = buffer.snapshot(T + 0.011, T - 0.03)
    assert (seen.stamp, seen.images[0]) == (T - 0.03, "before")


def test_joints_are_taken_by_name_in_any_order_with_others_beside_them():
    buffer = make()
    buffer.add_image(0, T, T, "main")
    names = ["left_finger", "elbow", "waist", "gripper", "shoulder"]
    buffer.add_joints(T, T, names, [0.03, 3.0, 1.0, 0.9, 2.0])
    np.testing.assert_array_equal(buffer.snapshot(T).joints, [1.0, 2.0, 3.0])


def test_missing_joints_are_named():
    buffer = make()
    buffer.add_image(0, T, T, "main")
    buffer.add_joints(T, T, ["waist", "joint_2"], [1.0, 2.0])
    error = refusal(buffer, T)
    assert (error.reason, error.topic) == (Reason.MISSING_JOINTS, "/joint_states")
    assert "shoulder, elbow" in str(error)


def test_fewer_positions_than_names_count_as_missing():
    buffer = make()
    buffer.add_image(0, T, T, "main")
    buffer.add_joints(T, T, JOINTS, [1.0, 2.0])
    assert "elbow" in str(refusal(buffer, T))
    buffer.add_joints(T + 0.01, T + 0.01, JOINTS, [])
    assert refusal(buffer, T + 0.01).reason is Reason.MISSING_JOINTS


def test_messages_of_another_robot_on_the_same_topic_are_ignored():
    buffer = make()
    buffer.add_image(0, T, T, "main")
    joints(buffer, T)
    buffer.add_joints(T + 0.001, T + 0.001, ["pan", "tilt"], [0.0, math.nan])
    np.testing.assert_allclose(buffer.snapshot(T + 0.001).joints, [0.1, 0.2, 0.3])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_joint_that_is_not_finite_is_refused_by_name_until_a_whole_message_comes(bad):
    buffer = make()
    joints(buffer, T - 0.01)
    buffer.add_image(0, T, T, "main")
    joints(buffer, T, (0.1, bad, 0.3))
    error = refusal(buffer, T)
    assert error.reason is Reason.NON_FINITE_JOINTS
    assert "shoulder" in str(error)
    joints(buffer, T + 0.01)
    assert np.isfinite(buffer.snapshot(T + 0.01).joints).all()


def test_joints_that_stop_are_stale_since_their_last_message():
    buffer = make()
    joints(buffer, T)
    buffer.add_image(0, T + 0.1, T + 0.1, "main")
    error = refusal(buffer, T + 0.11)
    assert (error.reason, error.topic, error.since) == (Reason.STALE_JOINTS, "/joint_states", T)


def test_no_interpolation_across_a_gap_in_the_joint_states():
    buffer = make()
    joints(buffer, T)
    buffer.add_image(0, T + 0.1, T + 0.1, "main")
    joints(buffer, T + 0.2)
    error = refusal(buffer, T + 0.2)
    assert (error.reason, error.since) == (Reason.STALE_JOINTS, T)
    assert "gap" in str(error)


def test_no_joints_are_invented_for_a_time_before_the_first_message():
    buffer = make()
    buffer.add_image(0, T, T, "main")
    joints(buffer, T + 0.05)
    assert refusal(buffer, T + 0.05).reason is Reason.MISSING_JOINTS


@pytest.mark.parametrize("offset", [-5.0, 5.0, 3600.0])
def test_a_stamp_from_another_clock_says_that_clocks_differ(offset):
    buffer = make()
    joints(buffer, T)
    buffer.add_image(0, T + offset, T, "main")
    error = refusal(buffer, T)
    assert (error.reason, error.topic) == (Reason.CLOCKS_DIFFER, "/main")


def test_joint_states_from_another_clock_say_so_too():
    buffer = make()
    buffer.add_image(0, T, T, "main")
    joints(buffer, T - 100.0, now=T)
    error = refusal(buffer, T)
    assert (error.reason, error.topic) == (Reason.CLOCKS_DIFFER, "/joint_states")


def test_a_camera_whose_clock_is_put_right_is_used_again_at_once():
    buffer = make()
    joints(buffer, T)
    buffer.add_image(0, T + 3600.0, T, "wrong")
    buffer.add_image(0, T + 0.01, T + 0.01, "right")
    joints(buffer, T + 0.01)
    assert buffer.snapshot(T + 0.01).images[0] == "right"


def test_unstamped_messages_get_their_arrival_time_with_one_warning_per_topic():
    buffer = make()
    for k in range(3):
        now = T + 0.01 * k
        buffer.add_joints(0.0, now, JOINTS, (0.0, 0.0, 0.0))
        buffer.add_image(0, 0.0, now, k)
    seen = buffer.snapshot(T + 0.02)
    assert (seen.stamp, seen.images[0]) == (T + 0.02, 2)
    warnings = buffer.take_warnings()
    assert len(warnings) == 2
    assert any("/main" in warning for warning in warnings)
    assert buffer.take_warnings() == []


def test_a_clock_that_goes_back_clears_what_was_stored():
    buffer = make()
    joints(buffer, T)
    buffer.add_image(0, T, T, "before")
    assert buffer.snapshot(T).images[0] == "before"
    error = refusal(buffer, T - 60.0)
    assert {p.reason for p in error.problems} == {Reason.MISSING_VIEW, Reason.MISSING_JOINTS}
    assert any("went back" in warning for warning in buffer.take_warnings())
    joints(buffer, T - 59.9)
    buffer.add_image(0, T - 59.9, T - 59.9, "after")
    assert buffer.snapshot(T - 59.9).images[0] == "after"


def test_a_small_step_back_of_the_clock_is_only_two_threads_overtaking():
    buffer = make()
    joints(buffer, T)
    buffer.add_image(0, T, T, "main")
    assert buffer.snapshot(T - 0.05).images[0] == "main"


def test_duplicates_and_late_images_are_dropped_and_counted():
    buffer = make()
    joints(buffer, T)
    buffer.add_image(0, T, T, "first")
    buffer.add_image(0, T, T, "duplicate")
    buffer.add_image(0, T - 0.03, T + 0.001, "late")
    assert buffer.snapshot(T + 0.001).images[0] == "first"
    assert buffer.counts()["/main"] == (3, 2)


def test_late_joint_states_do_not_disturb_the_order():
    buffer = make()
    joints(buffer, T, (0.0, 0.0, 0.0))
    joints(buffer, T + 0.02, (2.0, 2.0, 2.0))
    joints(buffer, T + 0.01, (9.0, 9.0, 9.0), now=T + 0.02)
    buffer.add_image(0, T + 0.01, T + 0.02, "main")
    np.testing.assert_allclose(buffer.snapshot(T + 0.02).joints, [1.0, 1.0, 1.0], atol=1e-9)


def test_clear_forgets_messages_and_faults():
    buffer = make()
    buffer.add_image(0, T, T, "main")
    joints(buffer, T, (math.nan, 0.0, 0.0))
    buffer.clear()
    reasons = {p.reason for p in buffer.problems(T)}
    assert reasons == {Reason.MISSING_VIEW, Reason.MISSING_JOINTS}


def test_limits_can_be_changed_while_running():
    buffer = make()
    joints(buffer, T)
    buffer.add_image(0, T, T, "main")
    joints(buffer, T + 0.4)
    assert refusal(buffer, T + 0.4).reason is Reason.STALE_VIEW
    buffer.limits = Limits(max_image_age=1.0, joints_max_age=0.5)
    assert buffer.snapshot(T + 0.4).images[0] == "main"


def test_ages_are_infinite_before_the_first_message():
    buffer = make()
    buffer.add_image(0, T, T, "main")
    ages = buffer.ages(T + 0.1)
    assert ages["/main"] == pytest.approx(0.1)
    assert ages["/wrist"] == math.inf
    assert ages["/joint_states"] == math.inf


def test_a_slot_without_a_view_takes_no_image():
    with pytest.raises(IndexError):
        make().add_image(1, T, T, "nobody's")


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["main", "front", "joints", "tick"]),
        st.floats(0.0, 0.12),  # time that passes
        st.floats(0.0, 0.15),  # delay of the message
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(EVENTS)
def test_whatever_arrives_an_observation_is_fresh_and_together(events):
    limits = Limits()
    buffer = make([ViewSpec("/main"), ViewSpec("/front"), None], limits)
    now = T
    for what, passed, delay in events:
        now += passed
        if what == "joints":
            joints(buffer, now - delay, (now, now, now), now=now)
        elif what != "tick":
            buffer.add_image(("main", "front").index(what), now - delay, now, what)
        try:
            seen = buffer.snapshot(now)
        except ObservationRefused:
            continue
        for stamp in seen.view_stamps[:2]:
            assert now - stamp <= limits.max_image_age + 1e-9
            assert abs(stamp - seen.stamp) <= limits.max_skew + 1e-9
        assert seen.images[:2] == ("main", "front")
        assert np.isfinite(seen.joints).all()
