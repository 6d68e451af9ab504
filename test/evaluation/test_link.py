"""The way of chunks in a lockstep episode, and what goes wrong on it."""

import numpy as np
import pytest

from xvla_ros.chunk import Chunk
from xvla_ros.evaluation.link import Link, LinkFaults


def chunk(sequence: int) -> Chunk:
    return Chunk(0.0, 0.0, 0.1, np.zeros((1, 3)), np.eye(3)[None], np.zeros(1), sequence=sequence)


def arrivals(link: Link, count: int, period: float = 0.5) -> list[tuple[float, int]]:
    """When which chunk arrives, of an inference in every period if the last one is done."""
    found = []
    sent = 0
    for tick in range(round(2.0 * count * period / 0.01) + 300):
        now = 0.01 * tick
        found += [(now, arrived.sequence) for arrived in link.arrived(now)]
        if sent < count and tick % round(period / 0.01) == 0 and link.free(now):
            sent += 1
            link.send(chunk(sent), now)
            found += [(now, arrived.sequence) for arrived in link.arrived(now)]
    return found


def test_chunks_arrive_after_the_latency_and_one_inference_runs_at_a_time():
    link = Link(0.3, 0.5, LinkFaults(), seed=0)
    link.send(chunk(1), 1.0)
    assert not link.free(1.29)
    assert link.arrived(1.29) == []
    assert [c.sequence for c in link.arrived(1.3)] == [1]
    assert link.free(1.3)
    assert link.arrived(2.0) == [], "once"


def test_without_latency_a_chunk_is_there_at_once():
    link = Link(0.0, 0.5, LinkFaults(), seed=0)
    link.send(chunk(1), 1.0)
    assert len(link.arrived(1.0)) == 1


def test_dropped_chunks_never_arrive_and_cost_their_inference_all_the_same():
    found = arrivals(Link(0.1, 0.5, LinkFaults(drop=0.3), seed=1), 200)
    assert 200 * 0.6 <= len(found) <= 200 * 0.8
    link = Link(0.1, 0.5, LinkFaults(drop=1.0), seed=1)
    link.send(chunk(1), 0.0)
    assert not link.free(0.05)
    assert link.arrived(9.0) == []


@pytest.mark.parametrize("latency", [0.0, 0.2, 0.8])
def test_a_chunk_on_a_detour_is_overtaken_by_the_next_one(latency):
    found = [s for _, s in arrivals(Link(latency, 0.5, LinkFaults(detour=0.2), seed=2), 100)]
    assert sorted(found) == list(range(1, 101))
    late = [i for i, s in enumerate(found[:-1]) if s > found[i + 1]]
    assert len(late) >= 8


def test_jitter_comes_on_top_of_the_latency():
    link = Link(0.2, 0.5, LinkFaults(jitter_s=0.05), seed=3)
    extra = [when % 0.5 - 0.2 for when, _ in arrivals(link, 300)]
    assert min(extra) >= -1e-9
    # To the tick of 10 ms: on average half of one is added.
    assert np.mean(extra) == pytest.approx(0.055, abs=0.02)


def test_the_same_seed_has_the_same_faults():
    faults = LinkFaults(0.05, 0.2, 0.2)
    assert arrivals(Link(0.1, 0.5, faults, 4), 50) == arrivals(Link(0.1, 0.5, faults, 4), 50)
    assert arrivals(Link(0.1, 0.5, faults, 4), 50) != arrivals(Link(0.1, 0.5, faults, 5), 50)


@pytest.mark.parametrize("wrong", [{"drop": 1.5}, {"detour": -0.1}, {"jitter_s": -1.0}])
def test_impossible_faults_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        LinkFaults(**wrong)
