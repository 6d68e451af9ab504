"""What state the policy is in and how it is doing. Free of ROS; the time is an argument."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from xvla_ros.streams import Problem

# Problems that last shorter than this are the hiccups of a busy machine, not a stall.
_GRACE_S = 0.3
# A policy that has just been activated waits for a moment, which is not worth a word.
_PATIENCE_S = 1.0
# While the state stays, other topics at fault are told no more often than this.
_REPEAT_S = 5.0
_LATENCIES = 100
_RESTS = 1000
_RATE_CHUNKS = 10


class State(IntEnum):
    """State of the policy; the numbers are those of PolicyStatus."""

    IDLE = 0
    WAITING = 1
    RUNNING = 2
    STALLED = 3
    ERROR = 4


@dataclass(frozen=True)
class Assessment:
    """State, the reason for it in words, and the topics at fault."""

    state: State
    message: str = ""
    missing_topics: tuple[str, ...] = ()

    def differs(self, other: Assessment) -> bool:
        """Whether subscribers should hear of it at once; wording alone is no difference."""
        return (self.state, self.missing_topics) != (other.state, other.missing_topics)


@dataclass
class PolicyState:
    """Follows one activation."""

    seen: bool = False
    """Whether there was a complete observation since activation."""
    error: str = ""
    """Why the last inference gave no chunk; empty if it did."""
    _problem_since: float = field(default=math.inf)

    def assess(
        self,
        now: float,
        *,
        active: bool,
        instruction: str,
        problems: Sequence[Problem],
        inference_s: float,
        inference_timeout_s: float,
    ) -> Assessment:
        """The state at `now`.

        Args:
            now: seconds on the ROS clock; zero where simulated time has not begun.
            active: the lifecycle state.
            instruction: what to do; empty = nothing.
            problems: why there is no observation.
            inference_s: how long the running inference has taken; 0 = none is running.
            inference_timeout_s: how long it may take.
        """
        self._follow(now, problems)
        if not active:
            return Assessment(State.IDLE, "not active")
        if not instruction:
            return Assessment(State.IDLE, "no instruction")
        if now == 0.0:
            return Assessment(State.WAITING, "use_sim_time is set, but no /clock has arrived")
        if inference_s > inference_timeout_s:
            return Assessment(State.ERROR, f"inference has not ended for {inference_s:.1f} s")
        lasting = now - self._problem_since >= _GRACE_S
        if problems and (lasting or not self.seen):
            message = "; ".join(str(problem) for problem in problems)
            topics = tuple(dict.fromkeys(problem.topic for problem in problems))
            state = State.STALLED if self.seen else State.WAITING
            return Assessment(state, message, topics)
        if self.error:
            return Assessment(State.ERROR, self.error)
        return Assessment(State.RUNNING if self.seen else State.WAITING)

    def _follow(self, now: float, problems: Sequence[Problem]) -> None:
        if not problems:
            self._problem_since = math.inf
            self.seen = True
        elif now < self._problem_since:  # the first one, or the clock went back
            self._problem_since = now


class Announcer:
    """Decides what an operator should read: each change of state once, whatever flickers."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._since = 0.0
        self._said: Assessment | None = None
        self._said_at = 0.0

    def is_news(self, assessment: Assessment, steady: float) -> bool:
        """Whether to log it at this steady time; true counts as said."""
        if assessment.state is not self._state:
            self._state, self._since = assessment.state, steady
        if assessment.state is State.WAITING and steady - self._since < _PATIENCE_S:
            return False
        said = self._said
        news = said is None or said.state is not assessment.state
        if said is not None and not news:
            other = said.missing_topics != assessment.missing_topics
            news = other and steady - self._said_at >= _REPEAT_S
        if news:
            self._said, self._said_at = assessment, steady
        return news


class Figures:
    """Durations of the last inferences and rate of the last chunks."""

    def __init__(self) -> None:
        self._durations: deque[float] = deque(maxlen=_LATENCIES)
        self._times: deque[float] = deque(maxlen=_RATE_CHUNKS)
        self._rests: deque[float] = deque(maxlen=_RESTS)
        self.chunks = 0
        self.refused = 0
        self.observation_age = 0.0

    def published(self, steady: float, duration: float, age: float) -> None:
        """Notes a chunk: steady time now, seconds it took, age of its observation at the start."""
        self._durations.append(duration)
        self._times.append(steady)
        self.chunks += 1
        self.observation_age = age

    def beside(self, rest: float) -> None:
        """Notes the seconds from choosing an observation to its chunk, without the network's."""
        self._rests.append(rest)

    @property
    def rests(self) -> tuple[float, ...]:
        """What `beside` was told, the last thousand."""
        return tuple(self._rests)

    def percentile(self, q: float) -> float:
        """Of the durations, seconds; 0 before the first."""
        return float(np.percentile(self._durations, q)) if self._durations else 0.0

    def rate(self, steady: float) -> float:
        """Chunks per second over the last ten; falls as soon as none comes."""
        if len(self._times) < 2:
            return 0.0
        return (len(self._times) - 1) / max(steady - self._times[0], 1e-9)
