"""The number of CPU threads is measured: the fewest that are about as fast as any."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xvla_ros.geometry import Pose
from xvla_ros.runtime.interface import PolicyInput
from xvla_ros.runtime.policy import load_policy
from xvla_ros.runtime.threads import (
    describe_times,
    fewest_threads,
    halvings,
    times_by_threads,
)


@pytest.mark.parametrize(
    ("most", "tried"), [(1, [1]), (2, [2, 1]), (12, [12, 6, 3, 1]), (0, [1])], ids=str
)
def test_the_most_its_half_and_so_on_are_tried(most, tried):
    assert halvings(most) == tried


class Machine:
    """Work that takes so many seconds with so many threads, and now and then much longer."""

    def __init__(self, seconds: dict[int, float]) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.threads = 0
        self.calls: list[int] = []

    def use(self, threads: int) -> None:
        self.threads = threads

    def work(self) -> None:
        self.calls.append(self.threads)
        paused = 0.2 if len(self.calls) % 3 == 0 else 0.0
        self.now += self.seconds[self.threads] + paused


def test_pauses_of_the_machine_and_first_calls_are_not_counted():
    machine = Machine({4: 0.02, 2: 0.025, 1: 0.03})
    found = times_by_threads(4, machine.use, machine.work, lambda: machine.now)
    assert found == pytest.approx(machine.seconds)
    assert machine.calls == [4] * 4 + [2] * 4 + [1] * 4


def test_long_work_is_done_twice():
    machine = Machine({1: 0.8})
    assert times_by_threads(1, machine.use, machine.work, lambda: machine.now) == {
        1: pytest.approx(0.8)
    }
    assert len(machine.calls) == 2


def test_fewer_threads_are_not_tried_where_half_of_them_take_much_longer():
    machine = Machine({8: 0.02, 4: 0.04})
    assert set(times_by_threads(8, machine.use, machine.work, lambda: machine.now)) == {8, 4}


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({2: 1.0, 1: 1.9}, 2),
        ({2: 1.0, 1: 1.04}, 1),
        ({4: 1.2, 2: 1.0, 1: 1.3}, 2),
        ({1: 1.0}, 1),
    ],
    ids=str,
)
def test_the_fewest_that_are_about_as_fast_are_taken(seconds, chosen):
    assert fewest_threads(seconds) == chosen
    assert describe_times(seconds).startswith(f"{chosen}, ")


def test_a_policy_takes_what_it_has_measured_and_predicts_the_same(make, tmp_path):
    before = torch.get_num_threads()
    policy = load_policy(make.folder(tmp_path), device="cpu")
    image = np.random.default_rng(1).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    seen = PolicyInput((image, None, None), Pose.identity(), "pick up the red cube", 3)
    try:
        policy.warm_up()
        expected = policy.predict(seen)
        seconds = policy.choose_threads()
        assert torch.get_num_threads() == fewest_threads(seconds)
        assert min(seconds.values()) > 0.0
        np.testing.assert_allclose(policy.predict(seen).raw, expected.raw, atol=1e-5)
    finally:
        torch.set_num_threads(before)
        policy.close()
