"""Watches the motors of an arm whose driver says nothing when one of them dies.

Time is an argument. Two ways of telling. The registers of the motors, asked for one at a time,
because the driver does nothing else while it reads one: about 2 ms. And the joint states: a motor
without torque draws no current however far it is from its command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.xs_driver import HARDWARE_ERROR, SHADOWS, Expected, motor_fault

Array = NDArray[np.float64]

ANSWER_S = 3.0
"""A driver that takes longer for one register does not answer, seconds. It also stops to publish
joint states then, which brings the arm to rest much earlier."""
SUSPECT_RAD = 0.15
"""The motors of a joint that is further from its command are asked first."""
_APART_RAD = 0.12
_STILL_RAD = 0.01
_NO_CURRENT_MA = 20.0
_SILENT_S = 0.4


@dataclass(frozen=True)
class Question:
    """One register of one motor."""

    motor: str
    register: str


class MotorWatch:
    """Asks every motor in turn and keeps what is wrong until an answer says otherwise.

    Every motor's error status comes up once in `period`; the other registers, one after another,
    share as many questions again.

    Args:
        expected: what must be in the registers.
        period: seconds in which every motor's error status is asked for.

    Attributes:
        answers: answers taken so far.
    """

    def __init__(self, expected: Expected, period: float) -> None:
        self._expected = expected
        self._interval = period / (2 * len(expected))
        self._turns = self._endless()
        self._first: list[Question] = []
        self._wrong: dict[Question, str] = {}
        self._asked: tuple[Question, float] | None = None
        self._next = 0.0
        self._silent = ""
        self.answers = 0
        self._suspect_from = 0

    @property
    def motors(self) -> int:
        """Number of motors."""
        return len(self._expected)

    @property
    def fault(self) -> str:
        """What is wrong, or empty; the error that a motor itself reports goes first."""
        faults = sorted(self._wrong, key=lambda question: question.register != HARDWARE_ERROR)
        return self._wrong[faults[0]] if faults else self._silent

    def questions(self) -> list[Question]:
        """Every register of every motor, once."""
        return [Question(m, register) for m, of in self._expected.items() for register in of]

    def suspect(self, joint: str) -> None:
        """Asks the joint's motors first."""
        if self._first or self.answers < self._suspect_from:
            return
        motors = [joint, *filter(None, [SHADOWS.get(joint)])]
        self._first = [q for q in self.questions() if q.motor in motors]
        # As many of the others in between, so that a joint that lags hides no other motor.
        self._suspect_from = self.answers + 2 * len(self._first)

    def due(self, now: float) -> Question | None:
        """What is to be asked now, or None; an answer or its absence comes before the next."""
        if self._asked is not None:
            if now - self._asked[1] <= ANSWER_S:
                return None
            self._silent = "the driver does not answer get_motor_registers: is it still running?"
        if now < self._next:
            return None
        question = self._first.pop(0) if self._first else next(self._turns)
        self._asked, self._next = (question, now), now + self._interval
        return question

    def answer(self, question: Question, values: Sequence[int]) -> None:
        """Takes the driver's answer; one that comes too late counts as well."""
        if self._asked is not None and self._asked[0] == question:
            self._asked = None
        self._silent = ""
        self.answers += 1
        expected = self._expected[question.motor][question.register]
        fault = motor_fault(question.motor, question.register, values, expected)
        if fault:
            self._wrong[question] = fault
        else:
            self._wrong.pop(question, None)

    def _endless(self) -> Iterator[Question]:
        """Error statuses, each followed by a question from the round of the other registers."""
        others = [q for q in self.questions() if q.register != HARDWARE_ERROR]
        turn = 0
        while True:
            for motor in self._expected:
                yield Question(motor, HARDWARE_ERROR)
                yield others[turn % len(others)]
                turn += 1


class SilentJoints:
    """Finds a joint that neither follows its command nor draws current."""

    def __init__(self) -> None:
        self._since: Array | None = None
        self._at = np.zeros(6)

    def reset(self) -> None:
        """Forgets: nothing is being commanded."""
        self._since = None

    def update(
        self, now: float, commanded: Array, measured: Array, efforts: Array | None
    ) -> int | None:
        """Index of the joint whose motor is dead, or None.

        Args:
            now: seconds.
            commanded: (6,) rad.
            measured: (6,) rad.
            efforts: (6,) mA; None where the driver gives none, and nothing can be told.
        """
        if efforts is None:
            self.reset()
            return None
        if self._since is None:
            self._since, self._at = np.full(6, now), measured.copy()
        dead = (
            (np.abs(commanded - measured) > _APART_RAD)
            & (np.abs(measured - self._at) < _STILL_RAD)
            & (np.abs(efforts) < _NO_CURRENT_MA)
        )
        self._since[~dead] = now
        self._at[~dead] = measured[~dead]
        longest = int(np.argmin(self._since))
        return longest if now - self._since[longest] > _SILENT_S else None
