"""The policy node over DDS: chunks from what it sees, and none from what it must not use."""

import math
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from std_msgs.msg import String

from xvla_ros import ee6d, names
from xvla_ros.geometry import Pose
from xvla_ros.model.weights_hash import weights_hash
from xvla_ros.msg import PolicyStatus
from xvla_ros.nodes import qos
from xvla_ros.nodes.conversions import seconds


def test_chunks_are_canonical_and_carry_their_provenance(ros, stage, run, model_folder):
    policy = run(seed=7)
    policy.start()
    ros.wait_for(lambda: len(stage.chunks) >= 3, what="chunks")
    heard = stage.heard_since(0)
    for chunk in heard:
        assert (chunk.frame_id, chunk.ee_frame) == ("wx250s/base_link", "wx250s/ee_gripper_link")
        assert chunk.horizon == 30
        assert chunk.step_dt == pytest.approx(1.0 / 6.0)
        assert chunk.t_ref == chunk.stamp
        assert chunk.gripper_threshold == pytest.approx(0.8)
        assert chunk.gripper_open_below == pytest.approx(0.6)
        origin = chunk.provenance
        # Each filled slot's stamp is that of an image, to the nanosecond; the third is empty.
        assert origin.view_stamps[0] in stage.sent["main/image_raw"]
        assert origin.view_stamps[1] in stage.sent["wrist/image_raw"]
        assert math.isnan(origin.view_stamps[2])
        # That of one of the two; the other is the nearest to it, before it or after.
        assert chunk.stamp in origin.view_stamps[:2]
        assert abs(origin.view_stamps[0] - origin.view_stamps[1]) <= 0.05
        assert chunk.stamp <= origin.inference_start <= origin.inference_end
        assert origin.proprio_source == "measured"
        ready = stage.ready_pose()
        expected = ee6d.pack(ready.position, ready.rotation, 0.0)
        np.testing.assert_allclose(origin.proprio, expected, atol=1e-6)
        assert origin.noise_seed == 7
        assert origin.time_grid == pytest.approx((1.0, 0.5))
        assert origin.approximation == "2 steps"
        assert origin.model_hash == weights_hash(model_folder)
        assert origin.instruction == "pick up the red cube"
        assert origin.domain_id == 0
    assert [chunk.sequence for chunk in heard] == list(range(1, len(heard) + 1))
    assert all(b.stamp > a.stamp for a, b in pairwise(heard))


def test_a_fresh_seed_for_each_chunk_unless_one_is_given(ros, stage, run):
    policy = run()
    policy.start()
    ros.wait_for(lambda: len(stage.chunks) >= 3, what="chunks")
    assert len({message.noise_seed for _, message in stage.chunks[:3]}) == 3
    assert policy.set("seed", 5) == (True, "")
    ros.wait_for(lambda: stage.chunks[-1][1].noise_seed == 5, what="the new seed")


def test_a_camera_that_stops_stalls_the_policy_within_a_second_and_no_chunk_is_old(ros, stage, run):
    policy = run(observation__max_image_age_s=0.25)
    policy.start()
    ros.wait_for(lambda: len(stage.chunks) >= 2, what="chunks")
    ros.wait_for(lambda: stage.state() == PolicyStatus.RUNNING, what="RUNNING")
    stage.silent.add("wrist/image_raw")
    stopped, start = stage.now(), time.monotonic()
    last = stage.sent["wrist/image_raw"][-1]

    def stalled():
        # On a busy machine everything may be late for a moment before.
        wanted = (PolicyStatus.STALLED, ["/wrist/image_raw"])
        said = [m for _, m in stage.statuses if (m.state, m.missing_topics) == wanted]
        return [m for m in said if seconds(m.header.stamp) > stopped]

    status = ros.wait_for(stalled, what="STALLED")[0]
    assert seconds(status.header.stamp) - last < 1.0 + 2.0 * ros.lost(start - 1.0)
    assert "/wrist/image_raw" in status.message
    assert f"since {last:.3f}" in status.message
    ros.wait_for(lambda: stage.now() - stopped > 1.2)
    for chunk in stage.heard_since(0):
        assert chunk.provenance.inference_start - chunk.provenance.view_stamps[1] < 1.0
        assert chunk.provenance.view_stamps[1] <= last
    count = len(stage.chunks)
    stage.silent.clear()
    ros.wait_for(lambda: len(stage.chunks) > count, what="chunks again")
    ros.wait_for(lambda: stage.state() == PolicyStatus.RUNNING, what="RUNNING again")
    assert stage.heard_since(count)[0].provenance.view_stamps[1] > last


def test_an_optional_view_that_is_absent_is_masked_not_invented(ros, stage, run):
    stage.silent.add("wrist/image_raw")
    policy = run(cameras__1__required=False, observation__max_image_age_s=0.5)
    policy.start()
    ros.wait_for(lambda: stage.chunks, what="a chunk without the wrist view")
    assert math.isnan(stage.heard_since(0)[0].provenance.view_stamps[1])
    stage.silent.clear()
    ros.wait_for(
        lambda: not math.isnan(stage.heard_since(0)[-1].provenance.view_stamps[1]),
        what="a chunk with the wrist view",
    )


def test_without_joint_states_it_waits_and_names_them(ros, stage, run):
    stage.silent.add("/wx250s/joint_states")
    policy = run()
    policy.start()
    ros.wait_for(
        lambda: (
            stage.state() == PolicyStatus.WAITING
            and stage.status.missing_topics == ["/wx250s/joint_states"]
        ),
        what="WAITING",
    )
    assert not stage.chunks
    stage.silent.clear()
    ros.wait_for(lambda: stage.chunks, what="a chunk")


def test_a_joint_that_is_not_a_number_is_refused_by_name(ros, stage, run):
    policy = run()
    policy.start()
    ros.wait_for(lambda: stage.state() == PolicyStatus.RUNNING, what="RUNNING")
    stage.joints["elbow"] = math.nan
    ros.wait_for(
        lambda: stage.state() == PolicyStatus.STALLED and "elbow is nan" in stage.status.message,
        what="STALLED",
    )
    count = len(stage.chunks)
    stage.joints["elbow"] = 0.5
    ros.wait_for(lambda: len(stage.chunks) > count, what="chunks again")
    for chunk in stage.heard_since(0):
        assert np.isfinite(chunk.provenance.proprio).all()


def test_images_from_another_clock_are_refused(ros, stage, run):
    stage.offset = -3600.0
    policy = run()
    policy.start()
    ros.wait_for(
        lambda: stage.state() == PolicyStatus.WAITING and "clocks differ" in stage.status.message,
        what="clocks differ",
    )
    assert not stage.chunks
    stage.offset = 0.0
    ros.wait_for(lambda: stage.chunks, what="a chunk")


def test_images_without_a_stamp_count_from_their_arrival(ros, stage, run):
    stage.stamped = False
    policy = run()
    policy.start()
    ros.wait_for(lambda: stage.chunks, what="a chunk")
    chunk = stage.heard_since(0)[0]
    assert abs(chunk.stamp - stage.now()) < 10.0


def test_an_image_that_cannot_be_converted_is_an_error_that_names_topic_and_encoding(
    ros, stage, run
):
    stage.encoding = "32FC1"
    policy = run()
    policy.start()
    ros.wait_for(lambda: stage.state() == PolicyStatus.ERROR, what="ERROR")
    assert "/main/image_raw" in stage.status.message
    assert "32FC1" in stage.status.message
    assert not stage.chunks
    stage.encoding = "rgb8"
    ros.wait_for(lambda: stage.chunks, what="a chunk")
    ros.wait_for(lambda: stage.state() == PolicyStatus.RUNNING, what="RUNNING")


def test_a_network_that_answers_nan_publishes_nothing_and_can_be_replaced(
    ros, stage, run, make, tmp_path, model_folder
):
    def spoil(parameters):
        for name, parameter in parameters.items():
            if "decoder" in name and name.startswith("transformer"):
                parameter.fill_(math.nan)

    policy = run(model_path=str(make.folder(tmp_path, change=spoil)))
    policy.start()
    ros.wait_for(lambda: stage.state() == PolicyStatus.ERROR, what="ERROR")
    assert "not finite" in stage.status.message
    assert policy.lifecycle_state() == "active"
    assert not stage.chunks
    assert policy.transition("deactivate")
    assert policy.transition("cleanup")
    assert policy.set("model_path", str(model_folder)) == (True, "")
    policy.start()
    ros.wait_for(lambda: stage.chunks, what="a chunk")


def test_a_scheduler_that_inpaints_gets_chunks_that_go_on_from_its_plan(ros, stage, run):
    ready = stage.ready_pose()
    still = stage.holding(ready, epoch=4, latency=0.2)
    stage.plan = replace(still, poses=(ready,) * 30, gripper=(0.0,) * 30, strategy="inpaint")
    run().start()
    ros.wait_for(
        lambda: stage.chunks and stage.heard_since(0)[-1].provenance.prefix, what="a prefix"
    )
    origin = stage.heard_since(0)[-1].provenance
    # Of steps every 1/6 s one is due before a chunk comes after 0.2 s.
    assert origin.prefix_weights[0] == 1.0
    assert 0.0 < origin.prefix_weights[1] < 1.0
    assert len(origin.prefix) == 20 * len(origin.prefix_weights)
    np.testing.assert_allclose(origin.prefix[:3], ready.position, atol=1e-6)

    stage.plan = replace(stage.plan, strategy="anchor_fade")
    ros.wait_for(
        lambda: not stage.heard_since(0)[-1].provenance.prefix, what="a chunk without a prefix"
    )


def test_the_commanded_pose_is_the_proprio_while_it_is_being_followed(ros, stage, run):
    ready = stage.ready_pose()
    commanded = Pose(ready.position + np.array([0.01, 0.0, 0.0]), ready.rotation)
    stage.plan = stage.holding(commanded, epoch=4, latency=0.2)
    policy = run()
    policy.start()
    ros.wait_for(
        lambda: stage.chunks and stage.heard_since(0)[-1].provenance.proprio_source == "commanded",
        what="commanded proprio",
    )
    chunk = stage.heard_since(0)[-1]
    assert chunk.epoch == 4
    np.testing.assert_allclose(chunk.provenance.proprio[:3], commanded.position, atol=1e-6)

    assert policy.set("proprio_source", "commanded_future") == (True, "")
    ros.wait_for(
        lambda: stage.heard_since(0)[-1].provenance.proprio_source == "commanded_future",
        what="future proprio",
    )
    chunk = stage.heard_since(0)[-1]
    assert chunk.t_ref == pytest.approx(chunk.stamp + 0.2, abs=1e-6)

    stage.plan = replace(stage.plan, actuating=False)
    ros.wait_for(
        lambda: stage.heard_since(0)[-1].provenance.proprio_source == "measured",
        what="measured proprio with actuation off",
    )
    np.testing.assert_allclose(
        stage.heard_since(0)[-1].provenance.proprio[:3], ready.position, atol=1e-6
    )


def test_the_instruction_comes_by_topic_and_none_means_idle(ros, stage, run):
    policy = run(instruction="")
    policy.start()
    ros.wait_for(
        lambda: stage.state() == PolicyStatus.IDLE and "no instruction" in stage.status.message,
        what="IDLE",
    )
    assert not stage.chunks
    topic = names.of(names.POLICY_NODE, names.INSTRUCTION)
    publisher = stage.create_publisher(String, topic, qos.INSTRUCTION)
    publisher.publish(String(data="put the spoon on the towel"))
    ros.wait_for(lambda: stage.chunks, what="a chunk")
    assert stage.chunks[-1][1].instruction == "put the spoon on the towel"
    parameter = ros.parameter(stage, names.POLICY_NODE, "instruction")
    assert parameter == "put the spoon on the towel"
    publisher.publish(String(data=""))
    ros.wait_for(lambda: stage.state() == PolicyStatus.IDLE, what="IDLE again")


def test_deactivation_ends_the_chunks_and_activation_brings_them_back(ros, stage, run):
    policy = run()
    policy.start()
    ros.wait_for(lambda: len(stage.chunks) >= 2, what="chunks")
    assert policy.transition("deactivate")
    count, since = len(stage.chunks), stage.now()
    ros.wait_for(lambda: stage.state() == PolicyStatus.IDLE, what="IDLE")
    ros.wait_for(lambda: stage.now() - since > 0.5)
    # One may have been on its way when the answer came.
    assert len(stage.chunks) <= count + 1
    count = len(stage.chunks)
    assert policy.transition("activate")
    ros.wait_for(lambda: len(stage.chunks) > count, what="chunks again")
    sequences = [message.sequence for _, message in stage.chunks]
    assert sequences == list(range(1, len(sequences) + 1))
