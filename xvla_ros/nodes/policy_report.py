"""What the policy node tells about itself: PolicyStatus and diagnostics."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

from xvla_ros import names
from xvla_ros.msg import PolicyStatus
from xvla_ros.nodes.diagnostics import Level, diagnostic, diagnostic_array
from xvla_ros.nodes.policy_inputs import PolicyInputs
from xvla_ros.nodes.policy_loop import PolicyLoop
from xvla_ros.nodes.policy_state import Assessment, State
from xvla_ros.runtime.benchmark import samples

_LEVELS = {
    State.IDLE: Level.OK,
    State.WAITING: Level.WARN,
    State.RUNNING: Level.OK,
    State.STALLED: Level.ERROR,
    State.ERROR: Level.ERROR,
}


def status(
    stamp: Time, assessment: Assessment, loop: PolicyLoop | None, proprio_source: str
) -> PolicyStatus:
    """The status message; without a loop the node is not configured."""
    message = PolicyStatus(
        state=int(assessment.state),
        message=assessment.message,
        missing_topics=list(assessment.missing_topics),
        proprio_source=proprio_source,
    )
    message.header.stamp = stamp
    if loop is not None:
        figures = loop.figures
        message.instruction = loop.settings.instruction
        message.device = loop.policy.device
        message.model_hash = loop.policy.model_hash
        message.chunks = figures.chunks
        message.refused_observations = figures.refused
        message.inference_p50 = figures.percentile(50.0)
        message.inference_p95 = figures.percentile(95.0)
        message.observation_age = figures.observation_age
        message.rate = figures.rate(time.monotonic())
    return message


def _rests(seconds: tuple[float, ...]) -> dict[str, object]:
    """From observation to chunk without the network."""
    found = samples.figures(seconds) if seconds else {}
    unit = {"n": ""}
    return {f"{names.BESIDE_NETWORK} {k}{unit.get(k, ' [s]')}": v for k, v in found.items()}


class Diagnostics:
    """Rates, ages and latencies; rates are counted between two calls."""

    def __init__(self, inputs: PolicyInputs) -> None:
        self._inputs = inputs
        self._counts = inputs.buffer.counts()
        self._time = time.monotonic()

    def report(
        self, stamp: Time, now: float, assessment: Assessment, loop: PolicyLoop | None
    ) -> DiagnosticArray:
        """The message at `now` (seconds on the ROS clock)."""
        statuses = [self._policy(assessment, loop), *self._streams(now)]
        return diagnostic_array(stamp, statuses)

    def _policy(self, assessment: Assessment, loop: PolicyLoop | None) -> DiagnosticStatus:
        values: dict[str, object] = {"state": assessment.state.name}
        if loop is not None:
            figures = loop.figures
            values |= {
                "chunks": figures.chunks,
                "refused observations": figures.refused,
                "inference p50 [s]": figures.percentile(50.0),
                "inference p95 [s]": figures.percentile(95.0),
                "observation age [s]": figures.observation_age,
                "chunk rate [Hz]": figures.rate(time.monotonic()),
                **_rests(figures.rests),
                "model hash": loop.policy.model_hash,
            }
        return diagnostic(
            f"{names.POLICY_NODE}: inference",
            _LEVELS[assessment.state],
            assessment.message or assessment.state.name.lower(),
            values,
            "" if loop is None else loop.policy.device,
        )

    def _streams(self, now: float) -> Iterator[DiagnosticStatus]:
        """One state per camera and one for the joint states."""
        counts, steady = self._inputs.buffer.counts(), time.monotonic()
        elapsed = max(steady - self._time, 1e-9)
        faults = {problem.topic: problem for problem in self._inputs.buffer.problems(now)}
        for topic, age in self._inputs.buffer.ages(now).items():
            received, dropped = counts[topic]
            rate = (received - self._counts.get(topic, (0, 0))[0]) / elapsed
            values = {
                "rate [Hz]": rate,
                "age [s]": age,
                "received": received,
                "dropped": dropped,
            }
            fault = faults.get(topic)
            if math.isinf(age):
                level, message = Level.STALE, "nothing has arrived"
            elif fault is not None:
                level, message = Level.ERROR, str(fault)
            else:
                level, message = Level.OK, f"{rate:.1f} Hz"
            yield diagnostic(f"{names.POLICY_NODE}: {topic}", level, message, values)
        self._counts, self._time = counts, steady
