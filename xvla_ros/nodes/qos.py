"""Every quality-of-service profile of the package, once.

A best-effort subscription hears reliable and best-effort publishers alike, so everything that
comes from a driver is taken best effort (REP 2003). Depth decides how old a message can get while
it waits: where only the newest counts, the depth is 1.
"""

from __future__ import annotations

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile
from rclpy.qos import ReliabilityPolicy as Reliability

CHUNK_LEASE_S = 1.0
"""A policy process that does not show signs of life for so long counts as lost, seconds."""


def _profile(depth: int, reliability: Reliability, *, latched: bool = False) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=reliability,
        durability=(DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE),
    )


IMAGE = _profile(4, Reliability.BEST_EFFORT)
"""Images, publisher and subscriber: an old frame is never sent again. The queue bridges a pause of
the subscriber, whose callbacks only store; with a depth of 1 a busy machine loses 4 % of them."""

JOINT_STATES = _profile(5, Reliability.BEST_EFFORT)
"""Subscription to joint states of who needs the newest one; a few bridge a pause."""

JOINT_TRACK = _profile(20, Reliability.BEST_EFFORT)
"""Subscription to joint states of who interpolates them: one that is lost leaves a gap. The queue
bridges a pause of 0.2 s at 100 Hz."""

JOINT_STATES_PUBLISHER = _profile(10, Reliability.RELIABLE)
"""As the Interbotix driver and joint_state_broadcaster offer them."""

CHUNK = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=Reliability.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
    liveliness=LivelinessPolicy.AUTOMATIC,
    liveliness_lease_duration=Duration(seconds=CHUNK_LEASE_S),
)
"""Chunks, both sides: never replayed to late joiners; the lease tells of the policy's death."""

PLAN = _profile(1, Reliability.RELIABLE)

STATUS = _profile(1, Reliability.RELIABLE, latched=True)
"""Status and ground truth: a late joiner gets the last one."""

POSE = _profile(1, Reliability.RELIABLE)

DISPLAY = _profile(1, Reliability.RELIABLE, latched=True)
"""Things to look at in RViz or Foxglove."""

COMMAND = _profile(1, Reliability.RELIABLE)
"""Motion commands: never latched, and an overtaken command is not delivered late."""

INSTRUCTION = _profile(1, Reliability.RELIABLE, latched=True)

JOY = _profile(1, Reliability.BEST_EFFORT)
"""Subscription to a gamepad: only what it says now counts."""

JOY_PUBLISHER = _profile(1, Reliability.RELIABLE)

DIAGNOSTICS = _profile(10, Reliability.RELIABLE)
