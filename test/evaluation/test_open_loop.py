"""The offline engine: what the policy is shown, when, and what comes of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.evaluation.bag import files, storage
from xvla_ros.evaluation.bag.discovery import discover
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.bag.source import BagRecording
from xvla_ros.evaluation.bag_settings import ModelOptions, Plan
from xvla_ros.evaluation.open_loop import OpenLoop, OpenLoopSettings, noise_seed
from xvla_ros.msg import PolicyStatus
from xvla_ros.scheduler.params import ExecutorParams, LimitParams

ARM = WidowX250s()


@pytest.fixture(scope="module")
def folder(bags, tmp_path_factory):
    return bags.write(tmp_path_factory.mktemp("good") / "bag", bags.normal())


def outcomes(folder, policy, **options):
    settings = options.pop("settings", OpenLoopSettings())
    (bag_files,) = files.find([folder])
    with Bag(bag_files) as bag:
        engine = OpenLoop(policy, BagRecording(bag, discover(bag)), settings, **options)
        return list(engine.run())


def policy_rows(rows):
    return [row for row in rows if row["method"] == "policy"]


def rows_of(rows, method):
    return {row["index"]: row for row in rows if row["method"] == method}


def test_proprio_is_the_measured_pose_at_the_stamp_of_the_images(folder, bags, turner):
    policy = turner.Turner()
    found = outcomes(folder, policy)
    for outcome, seen in zip(found, policy.seen, strict=True):
        truth = ARM.fk(bags.angles(outcome.moment.stamp))
        metres, radians = truth.distance(seen.pose)
        # The buffer interpolates joints between messages that are 20 ms apart.
        assert metres < 1e-6
        assert radians < 1e-6


def test_the_policy_sees_the_picture_of_the_stamp_in_red_green_and_blue(folder, bags, turner):
    policy = turner.Turner()
    found = outcomes(folder, policy)
    for outcome, seen in zip(found, policy.seen, strict=True):
        front, wrist, empty = seen.images
        assert np.array_equal(front, bags.picture(outcome.moment.stamp))
        assert np.array_equal(wrist, bags.picture(outcome.moment.stamp))
        assert empty is None
        assert seen.instruction == bags.INSTRUCTION


def test_frames_can_be_found_again(folder, bags, turner):
    moment = outcomes(folder, turner.Turner())[3].moment
    (bag_files,) = files.find([folder])
    with Bag(bag_files) as bag:
        (raw,) = [r for r in bag.messages([bags.FRONT]) if r.time_ns == moment.view_log_ns[0]]
        stamp = bag.decode(raw).header.stamp
    assert stamp.sec * 1_000_000_000 + stamp.nanosec == moment.view_stamps_ns[0] == moment.stamp_ns
    assert moment.view_log_ns[2] == 0


def test_predictions_follow_the_rate_of_the_policy(folder, turner):
    for rate, count in ((1.0, 8), (4.0, 32)):
        found = outcomes(folder, turner.Turner(), settings=OpenLoopSettings(policy_rate_hz=rate))
        stamps = [outcome.moment.stamp for outcome in found]
        assert len(stamps) == pytest.approx(count, abs=1)
        assert np.diff(stamps) == pytest.approx(1.0 / rate, abs=0.11)


def test_a_policy_that_is_wrong_is_wrong_by_as_much(folder, bags, turner):
    """One that does not turn errs by the arc that the gripper goes: radius times angle."""
    _, rows = turner.evaluate(folder, turner.Turner(speed=0.0))
    pose = ARM.fk(bags.READY)
    radius = np.hypot(pose.position[0], pose.position[1])
    for row in policy_rows(rows)[:5]:
        chord = 2e3 * radius * np.sin(0.5 * bags.TURNING * np.array([1.0 / 6.0, 1.0]))
        assert row["position_error_mm_dt"] == pytest.approx(chord[0], abs=0.02)
        assert row["position_error_mm_1s"] == pytest.approx(chord[1], abs=0.02)
        assert row["rotation_error_deg_1s"] == pytest.approx(np.degrees(0.2), abs=0.01)


def test_baselines_are_in_the_table_with_errors_known_by_hand(bags, turner, tmp_path):
    folder = bags.write(tmp_path / "bag", bags.normal())
    _, rows = turner.evaluate(folder, turner.Turner())
    radius = np.hypot(*ARM.fk(bags.READY).position[:2])
    still = rows_of(rows, "hold_still")
    going = rows_of(rows, "constant_velocity")
    before = rows_of(rows, "previous_chunk")
    assert len(still) == len(going) == len(policy_rows(rows))
    assert min(before) == 1
    for index in range(2, 6):
        assert still[index]["position_error_mm_1s"] == pytest.approx(
            2e3 * radius * np.sin(0.1), abs=0.05
        )
        # The secant of 0.2 s before, gone on straight for a second: off by v^2/r (t^2 + t w)/2.
        expected = 1e3 * radius * bags.TURNING**2 * 0.5 * (1.0 + 0.2)
        assert going[index]["position_error_mm_1s"] == pytest.approx(expected, rel=0.05)
        # The policy is right, so its chunk of half a second ago is right too, until it ends.
        assert before[index]["position_error_mm_1s"] < 0.2
        assert before[index]["position_error_mm_end"] is None or (
            before[index]["position_error_mm_end"] > 10.0
        )


def test_without_closed_form_there_are_no_baselines(bags, turner, tmp_path):
    folder = bags.write(tmp_path / "bag", bags.normal())
    _, rows = turner.evaluate(folder, turner.Turner(), baselines=False)
    assert {row["method"] for row in rows} == {"policy"}


def test_the_end_of_a_recording_has_no_error_and_the_rest_has(folder, turner):
    found = outcomes(folder, turner.Turner())
    last = found[-1]
    first_unknown = int(np.argmin(last.truth.known))
    assert not last.truth.known[first_unknown:].any()
    assert found[0].truth.known.all()
    assert np.isnan(last.judged[0].errors.position_at["end"])


def test_seeds_give_other_noise_and_the_spread_is_theirs(bags, turner, tmp_path):
    folder = bags.write(tmp_path / "bag", bags.normal())
    _, rows = turner.evaluate(folder, turner.Turner(noise=0.01), seeds=4)
    first = [row for row in policy_rows(rows) if row["index"] == 2]
    assert [row["seed_index"] for row in first] == [0, 1, 2, 3]
    assert len({row["noise_seed"] for row in first}) == 4
    ends = np.array([row["predicted_position"][-3:] for row in first])
    deviation = 1e3 * np.linalg.norm(ends - ends.mean(axis=0), axis=1)
    assert first[0]["spread_mm_end"] == pytest.approx(np.sqrt(np.mean(deviation**2)), rel=1e-4)
    assert first[1]["spread_mm"] is None


def test_noise_follows_from_the_stamp_alone(folder, turner):
    slow, fast = turner.Turner(), turner.Turner()
    outcomes(folder, slow, settings=OpenLoopSettings(policy_rate_hz=1.0))
    found = outcomes(folder, fast, settings=OpenLoopSettings(policy_rate_hz=2.0))
    assert {seen.seed for seen in slow.seen} <= {seen.seed for seen in fast.seen}
    assert fast.seen[3].seed == noise_seed(0, found[3].moment.stamp, 0)


def test_a_fixed_seed_is_given_to_every_chunk_as_by_the_node(folder, turner):
    policy = turner.Turner()
    outcomes(folder, policy, settings=OpenLoopSettings(fixed_seed=7))
    assert {seen.seed for seen in policy.seen} == {7}


def test_while_the_recorded_policy_had_nothing_to_do_nothing_is_predicted(
    bags, live_bag, turner, tmp_path
):
    told = [(0.0, ""), (2.0, "lift the cube"), (5.0, ""), (6.0, "put it down")]
    status = [
        live_bag.record("/xvla_policy/status", PolicyStatus(instruction=text), bags.START + time)
        for time, text in told
    ]
    normal = [
        storage.Record(
            m.topic,
            m.message.__msgtype__,
            bags.ns(m.time),
            bytes(bags.STORE.serialize_cdr(m.message, m.message.__msgtype__)),
        )
        for m in bags.normal(8.0)
        if m.topic != bags.TOLD
    ]
    storage.write(tmp_path / "bag", [*normal, *status])
    policy = turner.Turner()
    found = outcomes(tmp_path / "bag", policy)
    spans = {
        text: [
            o.moment.stamp - bags.START
            for o in found
            if o.moment.chunks[0].provenance.instruction == text
        ]
        for _, text in told
    }
    assert spans[""] == []
    lifting = spans["lift the cube"]
    np.testing.assert_allclose(lifting, 1.9 + 0.5 * np.arange(7), atol=1e-6)
    assert min(spans["put it down"]) >= 5.9
    # What the arm did when the policy's task was over says nothing about the policy.
    last = next(o for o in found if o.moment.stamp - bags.START == lifting[-2])
    known = np.isfinite(last.truth.positions[:, 0])
    assert known.tolist() == [True] * 3 + [False] * 27


def test_what_is_known_is_not_predicted_again_and_the_rest_is_the_same(folder, turner):
    whole = outcomes(folder, turner.Turner(noise=0.01))
    policy = turner.Turner(noise=0.01)
    rest = outcomes(folder, policy, skip=range(6))
    assert [outcome.moment.index for outcome in rest] == list(range(6, len(whole)))
    # The last known one once more, as the chunk before.
    assert len(policy.seen) == len(rest) + 1
    for again, before in zip(rest, whole[6:], strict=True):
        for one, other in zip(again.judged, before.judged, strict=True):
            assert one.method == other.method
            assert np.array_equal(one.motion.positions, other.motion.positions)
            assert np.array_equal(one.errors.position_mm, other.errors.position_mm, equal_nan=True)


def test_the_limits_that_a_chunk_would_meet_are_told_with_their_step(bags, turner, tmp_path):
    narrow = ExecutorParams(limits=LimitParams(workspace_max=(0.45, 0.01, 0.30)))
    folder = bags.write(tmp_path / "bag", bags.normal())
    settings = OpenLoopSettings(executor=narrow)
    _, rows = turner.evaluate(
        folder, turner.Turner(speed=0.5), Plan(ModelOptions(Path()), settings)
    )
    pose = ARM.fk(bags.READY)
    radius, angle = np.hypot(*pose.position[:2]), np.arctan2(pose.position[1], pose.position[0])
    met = 0
    for row in policy_rows(rows):
        start = angle + bags.TURNING * row["time_s"]
        crossing = np.arcsin(0.01 / radius) - start
        if 0.15 < crossing < 0.5 * 1.2:
            met += 1
            assert row["limits"] == ["workspace"]
            assert row["limit_steps"][0] == pytest.approx(crossing / 0.5 * 6.0, abs=1.5)
    assert met
    slow = replace(settings, executor=ExecutorParams(limits=LimitParams(max_linear_speed=0.02)))
    _, rows = turner.evaluate(
        bags.write(tmp_path / "slow", bags.normal(3.0)),
        turner.Turner(speed=0.5),
        Plan(ModelOptions(Path()), slow),
    )
    assert all("linear_speed" in row["limits"] for row in policy_rows(rows))


def test_a_chunk_that_the_scheduler_would_refuse_says_why(bags, turner, tmp_path):
    folder = bags.write(tmp_path / "bag", bags.normal(3.0))
    _, rows = turner.evaluate(folder, turner.Turner(speed=12.0))
    assert {row["refusal"] for row in policy_rows(rows)} == {"IMPLAUSIBLE_STEP"}


def test_gripper_agreement_compares_the_command_with_the_fingers(bags, turner, tmp_path):
    messages = [
        m
        if m.topic != bags.JOINTS
        else bags.Message(m.topic, m.time, bags.joint_state(m.time, bags.angles(m.time), 0.02))
        for m in bags.normal(4.0)
    ]
    folder = bags.write(tmp_path / "bag", messages)
    _, rows = turner.evaluate(folder, turner.Turner(closed=1.0))
    assert all(row["gripper_agreement"] == 1.0 for row in policy_rows(rows)[:4])
    _, rows = turner.evaluate(bags.write(tmp_path / "b", messages), turner.Turner(closed=0.0))
    assert all(row["gripper_agreement"] < 0.1 for row in policy_rows(rows)[:4])


def test_memory_does_not_grow_with_the_recording(bags, turner, tmp_path):
    folder = bags.write(tmp_path / "bag", bags.normal(40.0))
    (bag_files,) = files.find([folder])
    kept = []
    with Bag(bag_files) as bag:
        engine = OpenLoop(turner.Turner(), BagRecording(bag, discover(bag)), OpenLoopSettings())
        buffer = engine._observer.buffer
        for _ in engine.run():
            joints, images = len(buffer._joints.items), max(len(v.items) for v in buffer._views)
            kept.append((len(engine._pending), len(engine._track._stamps), joints, images))
    pending, stamps, joints, images = np.max(kept, axis=0)
    # Five seconds of chunk and a little more, at 2 Hz and 50 Hz.
    assert pending <= 12
    assert stamps <= 2 * 50 * 10
    # Two seconds of joint states at 50 Hz, half a second of images at 10 Hz.
    assert joints <= 2 * 50 + 1
    assert images <= 7
    assert len(engine.episodes) == 1
