"""Live and offline on the same messages: the same observations, the same actions."""

from dataclasses import replace

import numpy as np
import pytest

from xvla_ros.evaluation.bag import files
from xvla_ros.evaluation.bag.discovery import discover
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.bag.source import BagRecording
from xvla_ros.evaluation.events import ImageSeen, JointsSeen, StoredImage
from xvla_ros.evaluation.open_loop import OpenLoopSettings, stamp_ns
from xvla_ros.evaluation.replay_check import Agreement, LiveChunk, ReplayLoop
from xvla_ros.observation import Limits, ViewSpec
from xvla_ros.runtime.observer import Frames, Observer
from xvla_ros.runtime.prediction import predict_chunk
from xvla_ros.runtime.proprio import ProprioParams

SECONDS = 8.0


def swing(time):
    return np.sin(9.0 * (time % 1000.0))


@pytest.fixture(scope="module")
def folder(bags, tmp_path_factory):
    """Cameras out of step, joint states in step with neither, and an arm that swings."""
    joints = [
        bags.Message(bags.JOINTS, t + 0.002, bags.joint_state(t, bags.angles(t) + 0.1 * swing(t)))
        for t in bags.times(SECONDS, 100.0)
    ]
    front = bags.camera(SECONDS, bags.FRONT, 29.7, phase=0.0013)
    wrist = bags.camera(SECONDS, bags.WRIST, 15.1, phase=0.0207)
    return bags.write(
        tmp_path_factory.mktemp("steps") / "bag", [*bags.told(), *joints, *front, *wrist]
    )


def live_chunks(folder, policy, seed=0, lose=lambda event: False):
    """What a node would publish: messages come late by other times than in the bag, it looks when
    its timer fires and when a joint state comes that it has waited for."""
    random = np.random.default_rng(seed)
    found: dict[float, LiveChunk] = {}
    with Bag(files.find([folder])[0]) as bag:
        recording = BagRecording(bag, discover(bag))
        observer: Observer[StoredImage] = Observer(
            [*(ViewSpec(view.topic) for view in recording.views), None],
            [False, False, False],
            lambda image, _topic: image.decode(),
            "joints",
            Limits(),
            ProprioParams(source="measured"),
        )
        arrivals = sorted(
            (event.time + random.uniform(0.0, 0.009), number, event)
            for number, event in enumerate(recording.events())
            if isinstance(event, (ImageSeen, JointsSeen))
        )
        due = arrivals[0][0] + random.uniform(0.0, 0.5)
        for now, _, event in arrivals:
            if now >= due:
                observer.ask()
                due += 0.5
            if lose(event):
                continue
            if isinstance(event, ImageSeen):
                observer.buffer.add_image(event.slot, event.stamp, now, event.image)
            else:
                observer.buffer.add_joints(event.stamp, now, event.names, event.positions)
            seen = observer.look(now)
            if seen is None:
                continue
            request = observer.request(
                seen,
                now,
                policy=policy,
                instruction="pick up the red cube",
                seed=len(found),
                sequence=len(found) + 1,
                frames=Frames("base", "ee"),
            )
            request = replace(request, images=observer.rgb(seen))
            chunk = predict_chunk(policy, request, iter((now, now)).__next__)
            found[chunk.stamp] = LiveChunk(chunk, tuple(map(stamp_ns, seen.images)))
    return found


def compare(folder, policy, live):
    agreement = Agreement()
    with Bag(files.find([folder])[0]) as bag:
        recording = BagRecording(bag, discover(bag))
        engine = ReplayLoop(policy, recording, OpenLoopSettings(), live=live, agreement=agreement)
        outcomes = list(engine.run())
    return agreement, outcomes


@pytest.mark.parametrize("seed", range(4))
def test_whenever_messages_arrive_live_and_offline_agree_in_everything(folder, turner, seed):
    policy = turner.Turner(noise=0.01)
    live = live_chunks(folder, policy, seed)
    agreement, outcomes = compare(folder, policy, live)
    assert len(live) >= 14
    assert agreement.live == agreement.found == agreement.same_views == len(live)
    assert agreement.same_proprio == agreement.same_actions == len(live)
    assert agreement.largest_difference == 0.0
    assert agreement.others == []
    assert [outcome.moment.stamp for outcome in outcomes] == sorted(live)
    assert all(o.moment.chunks[0] is live[o.moment.stamp].chunk for o in outcomes)


def test_a_joint_state_that_the_node_did_not_get_explains_another_proprio(folder, turner):
    policy = turner.Turner()
    whole = sorted(live_chunks(folder, policy))
    stamp = whole[5]

    def lose(event):
        return isinstance(event, JointsSeen) and stamp - 0.011 < event.stamp <= stamp

    live = live_chunks(folder, policy, lose=lose)
    agreement, _ = compare(folder, policy, live)
    assert (agreement.same_proprio, agreement.lost_joints) == (len(live) - 1, 1)
    assert (agreement.same_actions, agreement.others) == (len(live), [])

    chunk = live[stamp].chunk
    own = np.asarray(chunk.provenance.proprio)
    shifted = replace(chunk.provenance, proprio=tuple(own + 0.001 * np.eye(20)[0]))
    live[stamp] = LiveChunk(replace(chunk, provenance=shifted), live[stamp].view_stamps_ns)
    agreement, _ = compare(folder, policy, live)
    assert agreement.explained == len(live) - 1
    (line,) = agreement.others
    assert line.endswith("other proprio")


def test_other_images_other_actions_and_unknown_stamps_are_told_apart(folder, turner):
    policy = turner.Turner()
    live = live_chunks(folder, policy)
    first, second, third = sorted(live)[:3]
    views = live[first].view_stamps_ns
    live[first] = LiveChunk(live[first].chunk, (views[0], views[1] + 66_225_166, 0))
    moved = live[second].chunk
    live[second] = LiveChunk(
        replace(moved, positions=moved.positions + 0.002), live[second].view_stamps_ns
    )
    live[third + 0.0101] = LiveChunk(
        replace(live[third].chunk, stamp=third + 0.0101), live[third].view_stamps_ns
    )
    agreement, _ = compare(folder, policy, live)
    count = len(live)
    assert (agreement.live, agreement.found) == (count, count - 1)
    assert (agreement.same_views, agreement.same_actions) == (count - 2, count - 3)
    assert agreement.largest_difference == pytest.approx(0.002)
    assert sorted(line.split(" s: ")[1] for line in agreement.others) == [
        "not observed in the recording",
        "other images",
    ]


def test_a_prediction_is_repeated_with_its_own_noise_and_instruction(folder, turner):
    live = live_chunks(folder, turner.Turner())
    policy = turner.Turner()
    compare(folder, policy, live)
    assert [seen.seed for seen in policy.seen] == list(range(len(live)))
    assert {seen.instruction for seen in policy.seen} == {"pick up the red cube"}
