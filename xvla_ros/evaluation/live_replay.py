"""A recording played into the real nodes: what they publish, and how it compares."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rclpy.node import Node
from rclpy.qos import QoSProfile

from xvla_ros import names
from xvla_ros.chunk import ChunkRefused
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag.discovery import Found, Wanted, discover
from xvla_ros.evaluation.bag.files import BagError, BagFiles, find
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.bag.source import BagRecording
from xvla_ros.evaluation.bag.stream import StreamWriter
from xvla_ros.evaluation.bag_run import BagRun
from xvla_ros.evaluation.bag_settings import PARAMETERS_KEY, plan
from xvla_ros.evaluation.live_cameras import write_cameras
from xvla_ros.evaluation.live_demo import choose_domain
from xvla_ros.evaluation.live_player import Player, Target
from xvla_ros.evaluation.live_record import ask_all, custom_data, spinning, topics_of
from xvla_ros.evaluation.live_recorder import LiveRecorder
from xvla_ros.evaluation.replay_check import Agreement, LiveChunk, ReplayLoop
from xvla_ros.evaluation.report.page import write_report
from xvla_ros.evaluation.result import SUMMARY, write_json
from xvla_ros.msg import ActionChunk
from xvla_ros.nodes import conversions
from xvla_ros.nodes.bringup import Arguments, BringUpError
from xvla_ros.nodes.bringup_replay import describe_replay, with_cameras
from xvla_ros.nodes.supervisor import Supervisor
from xvla_ros.parameters.parameter import Values
from xvla_ros.parameters.policy import COMPRESSED, SLOTS

BAG, LOGS, PARAMETERS = "bag", "log", "parameters.yaml"
_START_S = 180.0
# The last observation's chunk is still computed when the recording is over.
_TAIL_S = 0.5
_QUIET_S = 2.0
_LONGEST_TAIL_S = 30.0
_CHUNK_QOS = QoSProfile(depth=200)


@dataclass(frozen=True)
class ReplayOptions:
    """What is played, and to whom."""

    bag: Path
    out: Path
    params: Path | None = None
    model: str = ""
    device: str = ""
    rate: float = 1.0
    instruction: str = ""
    attach: bool = False
    """To nodes that run already, instead of own ones."""
    wait_s: float = 600.0
    """For nodes that run already."""
    ros_arguments: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Played:
    """What came of the live half."""

    chunks: dict[float, LiveChunk]
    parameters: dict[str, Values]
    found: Found


def replay(
    options: ReplayOptions,
    stop: threading.Event,
    said: Callable[[str], None],
    progress: Callable[[float], None],
) -> Agreement:
    """Plays a bag and leaves a result with a report in `options.out`.

    Args:
        options: see there.
        stop: ends it early.
        said: told what is going on.
        progress: told the fraction that has been played.

    Raises:
        UsageError: no such bag, the nodes could not be started, or no chunk came.
        BagError: the bag lacks what is needed.
        NotRunning: a node does not answer.
    """
    found = find([options.bag])
    if len(found) != 1:
        raise UsageError(f"{options.bag} holds {len(found)} bags: name one of them")
    _prepare(options.out)
    with Bag(found[0]) as bag:
        try:
            played = _play(options, bag, stop, said, progress)
        except BringUpError as error:
            raise UsageError(str(error)) from error
    if not played.chunks:
        raise UsageError(
            f"no chunk came: see the nodes' logs in {options.out / LOGS} and the recording's "
            "instruction (--instruction)"
        )
    said(f"{len(played.chunks)} chunks; judging them")
    return _judge(options, found[0], played)


def _prepare(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in (BAG, LOGS, "parts"):
        shutil.rmtree(out / name, ignore_errors=True)


def _play(
    options: ReplayOptions,
    bag: Bag,
    stop: threading.Event,
    said: Callable[[str], None],
    progress: Callable[[float], None],
) -> _Played:
    with contextlib.ExitStack() as stack:
        if not options.attach:
            found = discover(bag, _wanted(options))
            cameras = write_cameras(found, options.out)
            choose_domain()
            bringup = with_cameras(
                describe_replay(
                    Arguments(
                        model=options.model,
                        device=options.device,
                        params_file="" if options.params is None else str(options.params),
                    )
                ),
                cameras,
            )
            said("starting policy and scheduler, whose commands reach nobody ...")
            supervisor = stack.enter_context(Supervisor(bringup, options.out / LOGS))
            supervisor.wait_until_up(_START_S)
        node = stack.enter_context(spinning(names.REPLAY_NODE, options.ros_arguments))
        parameters = ask_all(node, options.wait_s, stop)
        policy = parameters[names.POLICY_NODE]
        if options.attach:
            found = discover(bag, most_views=sum(bool(t) for t in _topics(policy)))
        recording = BagRecording(bag, found)
        player = Player(
            node,
            bag,
            found,
            _targets(policy, found),
            str(policy["robot_name"]),
            recording.shift_ns,
            options.instruction,
        )
        chunks = stack.enter_context(_recorded(node, player, options, parameters))
        player.wait_for_listeners(stop)
        said(f"playing {bag.duration:.0f} s of {options.bag}")
        player.play(options.rate, stop, progress)
        _finish(player, chunks, options.rate, stop)
        return _Played(dict(chunks), parameters, found)


def _finish(
    player: Player, chunks: dict[float, LiveChunk], rate: float, stop: threading.Event
) -> None:
    """Lets the last inference come to its end."""
    end = time.monotonic() + _LONGEST_TAIL_S
    player.run_on(_TAIL_S, rate, stop)
    seen, since = len(chunks), time.monotonic()
    while time.monotonic() < min(end, since + _QUIET_S) and not stop.is_set():
        time.sleep(0.05)
        if len(chunks) != seen:
            seen, since = len(chunks), time.monotonic()


@contextlib.contextmanager
def _recorded(
    node: Node, player: Player, options: ReplayOptions, parameters: dict[str, Values]
) -> Iterator[dict[float, LiveChunk]]:
    """Everything but the images that were played goes to a bag; chunks are kept, too."""
    chunks: dict[float, LiveChunk] = {}

    def keep(message: ActionChunk) -> None:
        with contextlib.suppress(ChunkRefused):
            chunk = conversions.chunk_from_msg(message)
            stamps = tuple(s.sec * 1_000_000_000 + s.nanosec for s in message.view_stamps)
            chunks[chunk.stamp] = LiveChunk(chunk, stamps)

    subscription = node.create_subscription(ActionChunk, names.ACTION_CHUNK, keep, _CHUNK_QOS)
    writer = StreamWriter(options.out / BAG)
    topics, _ = topics_of(parameters[names.POLICY_NODE], raw=False)
    published = [(t, kind) for t, kind in topics if not t.endswith("/compressed")]
    recorder = LiveRecorder(node, published, (), sink=writer.put, clock=lambda: player.now_ns)
    try:
        yield chunks
    finally:
        recorder.close()
        node.destroy_subscription(subscription)
        writer.close(custom_data(parameters))


def _judge(options: ReplayOptions, files: BagFiles, played: _Played) -> Agreement:
    """The offline engine on the same stamps, and the result with its report."""
    params = options.out / PARAMETERS
    params.write_text(custom_data(played.parameters)[PARAMETERS_KEY], encoding="utf-8")
    chosen = plan(params, None, Path(), {"instruction": options.instruction or None})
    chosen = replace(chosen, wanted=_as_wanted(played.found), given=True)
    agreement = Agreement()
    engine = partial(ReplayLoop, live=played.chunks, agreement=agreement)
    run = BagRun([files], chosen, options.out, fresh=True, kind="replay", engine=engine)
    summary = run.run(1, lambda _name, _share: None)
    write_json(options.out / SUMMARY, {**summary, "replay": agreement.to_dict()})
    write_report(options.out)
    if summary["counts"]["bags_failed"]:
        raise BagError(summary["bags"][0]["message"])
    return agreement


def _topics(policy: Values) -> list[str]:
    return [str(policy[f"cameras.{slot}.topic"]) for slot in range(SLOTS)]


def _targets(policy: Values, found: Found) -> dict[int, Target]:
    """Where the views of a recording go: to the policy's slots of the same number.

    Raises:
        UsageError: the policy needs a view that the recording does not have.
    """
    available = {view.slot for view in found.views}
    targets = {}
    for slot, topic in enumerate(_topics(policy)):
        if not topic:
            continue
        if slot not in available:
            if policy[f"cameras.{slot}.required"]:
                raise UsageError(
                    f"the policy needs view {slot} ({topic}), which the recording does not have"
                )
            continue
        compressed = policy[f"cameras.{slot}.transport"] == COMPRESSED
        targets[slot] = Target(names.compressed(topic) if compressed else topic, compressed)
    return targets


def _wanted(options: ReplayOptions) -> Wanted:
    if options.params is None:
        return Wanted()
    return plan(options.params, None, Path(), {}).wanted


def _as_wanted(found: Found) -> Wanted:
    return Wanted(
        tuple(found.views),
        found.joint_states,
        found.instruction.name if found.instruction else "",
        found.episode.name if found.episode else "",
    )
