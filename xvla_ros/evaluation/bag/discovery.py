"""Which topics of a bag are the cameras, the joint states, the instruction and the episodes.

A parameter file that names them decides; otherwise types and names do, and `as_yaml` writes down
what was found, to be kept and changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from xvla_ros import names
from xvla_ros.arm.constants import ARM_JOINTS
from xvla_ros.evaluation.bag.files import BagError
from xvla_ros.evaluation.bag.reader import Bag, Topic
from xvla_ros.parameters.policy import COMPRESSED, RAW, SLOTS

IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
JOINT_STATE = "sensor_msgs/msg/JointState"
STRING = "std_msgs/msg/String"
ACTION_CHUNK = "xvla_ros/msg/ActionChunk"
POLICY_STATUS = "xvla_ros/msg/PolicyStatus"
WORLD_STATE = "xvla_ros/msg/WorldState"
_IMAGES = (IMAGE, COMPRESSED_IMAGE)
_INSTRUCTION_FIELDS = {STRING: "data", ACTION_CHUNK: "instruction", POLICY_STATUS: "instruction"}
_INSTRUCTION_TYPES = tuple(_INSTRUCTION_FIELDS)
_EPISODE_TYPES = (
    STRING,
    "std_msgs/msg/Header",
    *(f"std_msgs/msg/{kind}" for kind in ("Bool", "Int8", "Int16", "Int32", "Int64")),
    *(f"std_msgs/msg/{kind}" for kind in ("UInt8", "UInt16", "UInt32", "UInt64")),
    WORLD_STATE,
)
INSTRUCTION_KEY = "instruction"
"""Key of a bag's custom data that may hold the instruction."""

NO_CAMERA = re.compile(
    r"depth|infra|disparity|mask|segment|debug|annotat|overlay|heatmap|confidence", re.IGNORECASE
)
# The main view first: the language model of an X-VLA policy reads the instruction together with
# it. Names of the cameras in BridgeData, DROID, ALOHA and of the simulated robot.
_MAIN_NAMES = (
    r"front",
    r"over_?shoulder|shoulder",
    r"main|primary|third|exterior|external|agent|scene|static|base_cam|head",
    r"d435|blue|cam_?high|top",
    r"(cam(era)?|image|view)_?0\b",
)
_WRIST_NAMES = re.compile(r"wrist|hand|gripper|eye_in|d405|tool|cam_?low", re.IGNORECASE)
_INSTRUCTION_NAMES = re.compile(r"instruction|prompt|language|task|goal", re.IGNORECASE)
_EPISODE_NAMES = re.compile(r"episode", re.IGNORECASE)
_SAMPLE = 20


@dataclass(frozen=True)
class View:
    """The topic that fills a view slot."""

    slot: int
    topic: str
    type_name: str
    required: bool = True
    rotate_180: bool = False


@dataclass(frozen=True)
class Wanted:
    """What a parameter file asks for; what is empty is looked for."""

    cameras: tuple[View, ...] = ()
    """Topics as the node subscribes to them: with /compressed where the transport is so."""
    joint_states: str = ""
    instruction: str = ""
    episode: str = ""
    any_transport: bool = False
    """A camera's other transport is as good: a recorder may have compressed what it heard raw."""


@dataclass(frozen=True)
class Found:
    """The topics of a bag that are used."""

    views: tuple[View, ...]
    joint_states: str
    instruction: Topic | None
    episode: Topic | None
    warnings: tuple[str, ...] = ()

    @property
    def topics(self) -> set[str]:
        """Names of all of them."""
        optional = [topic.name for topic in (self.instruction, self.episode) if topic is not None]
        return {*(view.topic for view in self.views), self.joint_states, *optional}


def discover(bag: Bag, wanted: Wanted | None = None, most_views: int = SLOTS) -> Found:
    """The topics to use.

    Raises:
        BagError: a topic that was asked for, all cameras or the joint states are missing; the
            message lists what the bag has.
    """
    wanted = wanted or Wanted()
    warnings: list[str] = []
    if wanted.cameras:
        notes: list[str] = [] if wanted.any_transport else warnings
        views = tuple(_given_view(bag, view, notes) for view in wanted.cameras)
        views = tuple(view for view in views if view.topic)
    else:
        views = _find_views(bag, most_views)
    if wanted.joint_states:
        joints = _given(bag, "joint_states_topic", wanted.joint_states).name
    else:
        joints = _find_joints(bag)
    instruction, episode = _find_instruction(bag), _find_episode(bag)
    if wanted.instruction:
        instruction = _given(bag, "instruction_topic", wanted.instruction, _INSTRUCTION_TYPES)
    if wanted.episode:
        episode = _given(bag, "episode_topic", wanted.episode, _EPISODE_TYPES)
    return Found(views, joints, instruction, episode, tuple(warnings))


def instruction_of(message: Any, type_name: str) -> str | None:
    """The instruction that a message of an instruction topic tells.

    Empty where it says that there is nothing to do, which only a policy's status does; None where
    it says nothing.
    """
    text = str(getattr(message, _INSTRUCTION_FIELDS[type_name])).strip()
    return text if text or type_name == POLICY_STATUS else None


def first_instruction(bag: Bag, found: Found) -> str:
    """The first instruction in a bag, or empty."""
    if found.instruction is not None:
        text = next(filter(None, _instructions(bag, found.instruction)), "")
        if text:
            return text
    return bag.custom.get(INSTRUCTION_KEY, "").strip()


def initial_instruction(bag: Bag, found: Found) -> str:
    """What holds at the beginning of a bag: the first that is told, be it that nothing is to do."""
    if found.instruction is not None:
        text = next((t for t in _instructions(bag, found.instruction) if t is not None), None)
        if text is not None:
            return text
    return first_instruction(bag, found)


def _instructions(bag: Bag, topic: Topic) -> Iterator[str | None]:
    for raw in bag.messages([topic.name]):
        yield instruction_of(bag.decode(raw), raw.type_name)


def as_yaml(found: Found, instruction: str = "") -> str:
    """The parameter file that asks for the topics found."""
    lines = [f"/**/{names.POLICY_NODE}:", "  ros__parameters:", "    cameras:"]
    by_slot = {view.slot: view for view in found.views}
    for slot in range(SLOTS):
        view = by_slot.get(slot)
        lines.append(f'      "{slot}":')
        if view is None:
            lines.append('        topic: ""')
            continue
        compressed = view.type_name == COMPRESSED_IMAGE
        topic = view.topic.removesuffix("/compressed") if compressed else view.topic
        if compressed and topic == view.topic:
            lines.append(f"        # Live, remap {topic}/compressed to {topic}.")
        lines += [
            f'        topic: "{topic}"',
            f'        transport: "{COMPRESSED if compressed else RAW}"',
            f"        required: {str(view.required).lower()}",
            f"        rotate_180: {str(view.rotate_180).lower()}",
        ]
    if instruction:
        lines.append(f"    instruction: {_quoted(instruction)}")
    lines += ["", "/**/xvla_evaluate:", "  ros__parameters:"]
    lines.append(f'    joint_states_topic: "{found.joint_states}"')
    for key, source in (
        ("instruction_topic", found.instruction),
        ("episode_topic", found.episode),
    ):
        lines.append(f'    {key}: "{source.name if source is not None else ""}"')
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def listing(topics: Mapping[str, Topic]) -> str:
    """All topics of a bag in one line."""
    return ", ".join(f"{t.name} ({t.type_name}, {t.count})" for t in topics.values())


def _missing(bag: Bag, what: str) -> BagError:
    return BagError(f"{what}; the bag has {listing(bag.topics)}")


def _resolve(bag: Bag, name: str) -> Topic | None:
    """A topic by its absolute name, or the only one that a relative name can mean."""
    absolute = name if name.startswith("/") else f"/{name}"
    if absolute in bag.topics:
        return bag.topics[absolute]
    if name.startswith("/"):
        return None
    ending = [topic for topic in bag.topics.values() if topic.name.endswith(absolute)]
    return ending[0] if len(ending) == 1 else None


def _given(bag: Bag, key: str, name: str, types: Sequence[str] = (JOINT_STATE,)) -> Topic:
    topic = _resolve(bag, name)
    if topic is None:
        raise _missing(bag, f"no topic '{name}' ({key})")
    if topic.type_name not in types:
        raise BagError(
            f"{topic.name} ({key}) is a {topic.type_name}, expected {' or '.join(types)}"
        )
    return topic


def _given_view(bag: Bag, view: View, warnings: list[str]) -> View:
    """A camera by name; where only its other transport was recorded, that is used."""
    plain = view.topic.removesuffix("/compressed")
    for name in (view.topic, names.compressed(plain), plain):
        topic = _resolve(bag, name)
        if topic is not None and topic.type_name in _IMAGES:
            if name != view.topic:
                warnings.append(f"{view.topic} was not recorded: {topic.name} is used instead")
            return View(view.slot, topic.name, topic.type_name, view.required, view.rotate_180)
    if view.required:
        raise _missing(bag, f"no image topic '{view.topic}' (cameras.{view.slot}.topic)")
    warnings.append(f"{view.topic} (cameras.{view.slot}.topic) was not recorded; it is optional")
    return View(view.slot, "", "")


def _find_views(bag: Bag, most: int) -> tuple[View, ...]:
    by_camera: dict[str, Topic] = {}
    for topic in bag.topics.values():
        if topic.type_name not in _IMAGES or not topic.count or NO_CAMERA.search(topic.name):
            continue
        camera = topic.name.removesuffix("/compressed")
        other = by_camera.get(camera)
        # Both transports of one camera: the fuller, raw if they are equal.
        if other is None or (topic.count, topic.type_name == IMAGE) > (
            other.count,
            other.type_name == IMAGE,
        ):
            by_camera[camera] = topic
    if not by_camera:
        raise _missing(bag, f"no camera: no topic of type {' or '.join(_IMAGES)}")
    ordered = sorted(by_camera, key=camera_rank)[:most]
    return tuple(
        View(slot, by_camera[camera].name, by_camera[camera].type_name)
        for slot, camera in enumerate(ordered)
    )


def camera_rank(name: str) -> tuple[int, str]:
    """Sorts cameras by their names: the main view first, those on the wrist last."""
    if _WRIST_NAMES.search(name):
        return len(_MAIN_NAMES) + 1, name
    for rank, pattern in enumerate(_MAIN_NAMES):
        if re.search(pattern, name, re.IGNORECASE):
            return rank, name
    return len(_MAIN_NAMES), name


def _find_joints(bag: Bag) -> str:
    candidates = [t for t in bag.topics.values() if t.type_name == JOINT_STATE and t.count]
    if not candidates:
        raise _missing(bag, f"no joint states: no topic of type {JOINT_STATE}")
    heard: dict[str, set[str]] = {}
    for topic in candidates:
        heard[topic.name] = set()
        for raw in islice(bag.messages([topic.name]), _SAMPLE):
            heard[topic.name].update(_joint_names(bag, raw))
    fitting = [t for t in candidates if heard[t.name].issuperset(ARM_JOINTS)]
    if not fitting:
        said = "; ".join(f"{name}: {_words(joints)}" for name, joints in sorted(heard.items()))
        raise BagError(
            f"no joint states of a WidowX 250S, which has {', '.join(ARM_JOINTS)}; found {said}"
        )
    return max(fitting, key=lambda topic: topic.count).name


def _joint_names(bag: Bag, raw: Any) -> Iterable[str]:
    try:
        return list(bag.decode(raw).name)
    except BagError:
        return []


def _words(items: Iterable[str]) -> str:
    return ", ".join(sorted(items)) or "nothing"


def _find_instruction(bag: Bag) -> Topic | None:
    for topic in bag.topics.values():
        # A policy's status also says when there was nothing to do.
        if topic.type_name == POLICY_STATUS and any(_instructions(bag, topic)):
            return topic
    named = [
        topic
        for topic in bag.topics.values()
        if topic.type_name == STRING and topic.count and _INSTRUCTION_NAMES.search(topic.name)
    ]
    # "instruction" itself before "task" and "goal".
    named.sort(key=lambda topic: ("instruction" not in topic.name.lower(), -topic.count))
    if named:
        return named[0]
    return next((t for t in bag.topics.values() if t.type_name == ACTION_CHUNK and t.count), None)


def _find_episode(bag: Bag) -> Topic | None:
    for topic in bag.topics.values():
        if topic.type_name in _EPISODE_TYPES and topic.count and _EPISODE_NAMES.search(topic.name):
            return topic
    return next((t for t in bag.topics.values() if t.type_name == WORLD_STATE and t.count), None)
