"""Who among the subscribers of a command topic is a driver, and who only looks on."""

from __future__ import annotations

from collections.abc import Sequence

from rclpy.node import Node
from rclpy.topic_endpoint_info import TopicEndpointInfo

from xvla_ros import names


def drivers(node: Node, topic: str, robot: str, evidence: Sequence[str] = ()) -> list[str]:
    """Full names of the nodes that carry the topic's commands out.

    A recorder, `ros2 topic echo` or a plot subscribes too, but only a driver says what the arm
    does: its node publishes the joint states, or a topic of `evidence`, or owns the command topic.

    Args:
        node: through which the graph is seen.
        topic: of the commands.
        robot: name of the robot.
        evidence: further topics that only a driver of this kind publishes.
    """
    owner = topic.rpartition("/")[0]
    says = {
        _full_name(publisher)
        for told in (names.joint_states(robot), *evidence)
        for publisher in node.get_publishers_info_by_topic(told)
    }
    return [name for name in subscribers(node, topic) if name == owner or name in says]


def subscribers(node: Node, topic: str) -> list[str]:
    """Full names of all nodes that subscribe to the topic."""
    return [_full_name(info) for info in node.get_subscriptions_info_by_topic(topic)]


def absence(node: Node, topic: str, what: str) -> str:
    """One line that says that no driver listens, and who does."""
    others = ", ".join(subscribers(node, topic))
    others = f" (only {others}, which is no driver of the arm)" if others else ""
    return f"no driver listens: no {what} on {topic}{others}: start the robot's driver"


def _full_name(info: TopicEndpointInfo) -> str:
    return f"{info.node_namespace.rstrip('/')}/{info.node_name}"
