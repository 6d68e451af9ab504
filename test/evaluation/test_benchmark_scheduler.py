"""`xvla benchmark scheduler`: its figures, its files, and schedulers of other projects in it."""

import json
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from xvla_ros import ee6d
from xvla_ros.chunk import Chunk, Provenance
from xvla_ros.cli import main
from xvla_ros.evaluation.benchmark_scheduler import runner
from xvla_ros.evaluation.benchmark_scheduler.cases import CONDITIONS, Benchmark, Case
from xvla_ros.evaluation.benchmark_scheduler.contenders import contender, contenders
from xvla_ros.evaluation.benchmark_scheduler.figures import FiguresProbe
from xvla_ros.evaluation.benchmark_scheduler.trace import TracedScheduler
from xvla_ros.geometry import Pose
from xvla_ros.scheduler.params import SchedulerParams, Strategy
from xvla_ros.scheduler.scheduler import ChunkScheduler

START = np.array([0.25, 0.0, 0.15])
TICK = 0.02


def still(offset: float, stamp: float, sequence: int) -> Chunk:
    """A chunk that stays at one place, so many metres beside the start."""
    positions = np.tile(START + np.array([0.0, offset, 0.0]), (30, 1))
    rotations = np.tile(np.eye(3), (30, 1, 1))
    return Chunk(
        stamp, stamp, 1.0 / 6.0, positions, rotations, np.zeros(30), sequence=sequence, epoch=2
    )


def moving(start: float, speed: float, stamp: float, sequence: int) -> Chunk:
    """A chunk that goes along y, from so many metres beside the start."""
    along = np.array([0.0, 1.0, 0.0])
    begin = START + start * along
    steps = speed / 6.0 * np.arange(1, 31, dtype=np.float64)
    told = tuple(ee6d.pack(begin, np.eye(3), 0.0))
    return replace(
        still(0.0, stamp, sequence),
        positions=begin + np.outer(steps, along),
        provenance=Provenance(proprio=told),
    )


def traced(strategy: Strategy, *chunks: Chunk, seconds: float = 1.0) -> FiguresProbe:
    """What a scheduler alone does with chunks that arrive at their stamps."""
    probe = FiguresProbe(TracedScheduler)
    scheduler = probe.scheduler(SchedulerParams(strategy=strategy))
    scheduler.reset(Pose(START, np.eye(3)), 0.0, 0.0)
    waiting = list(chunks)
    for tick in range(round(seconds / TICK)):
        now = tick * TICK
        if waiting and waiting[0].stamp <= now + 1e-9:
            scheduler.submit(waiting.pop(0), now)
        scheduler.sample(now)
    return probe


def commanded(chunk: Chunk, when: float) -> float:
    """Metres along y that a scheduler has gone by the last period before a time."""
    scheduler = ChunkScheduler(SchedulerParams(strategy="timestamp"))
    scheduler.reset(Pose(START, np.eye(3)), 0.0, 0.0)
    for tick in range(round(when / TICK)):
        if tick == round(chunk.stamp / TICK):
            scheduler.submit(chunk, tick * TICK)
        scheduler.sample(tick * TICK)
    return float(scheduler.pose.position[1] - START[1])


def test_the_step_at_a_seam_is_what_the_change_of_chunk_asks_for():
    chunks = still(0.0, 0.02, 1), still(0.03, 0.5, 2)
    jumped = traced("timestamp", *chunks).figures()
    assert jumped.seam_mm == pytest.approx((0.0, 30.0), abs=1e-3)
    assert jumped.seam_velocity_mm == pytest.approx((0.0, 30.0), abs=1e-3)
    faded = traced("anchor_fade", *chunks).figures()
    assert len(faded.seam_mm) == 2
    assert max(faded.seam_mm) < 0.1
    assert jumped.jerk_rms > 10.0 * faded.jerk_rms > 0.0


def test_motion_that_goes_on_has_a_step_at_a_seam_but_no_velocity_step():
    # 0.1 m/s are 2 mm in a period.
    first = moving(0.0, 0.1, 0.02, 1)
    reached = commanded(first, 1.02)
    figures = traced("timestamp", first, moving(reached, 0.1, 1.0, 2), seconds=1.4).figures()
    assert figures.seam_mm == pytest.approx((0.0, 2.0), abs=0.02)
    assert figures.step_mm == pytest.approx(2.0, abs=0.02)
    assert figures.seam_velocity_mm == pytest.approx((0.0, 0.0), abs=0.02)
    # One that turns round in the middle of a period: 1 mm on and 1 mm back.
    between = reached - 0.001
    back = traced("timestamp", first, moving(between, -0.1, 0.99, 2), seconds=1.4).figures()
    assert back.seam_mm == pytest.approx((0.0, 0.0), abs=0.02)
    assert back.seam_velocity_mm == pytest.approx((0.0, 2.0), abs=0.02)


def test_time_without_anything_to_execute_is_idle():
    figures = traced("anchor_fade", still(0.0, 0.1, 1), seconds=4.0).figures()
    # 1.7 s of the chunk and the time of speeding up; what was before it does not count.
    assert figures.idle_s == pytest.approx(4.0 - 0.1 - 1.7, abs=0.3)
    assert figures.idle_fraction == pytest.approx(figures.idle_s / 3.9, abs=0.01)
    assert figures.reaction_s is None


@pytest.fixture(scope="module")
def laboratory():
    made = runner.Laboratory(Benchmark(contenders(["anchor_fade", "timestamp"])))
    yield made
    made.close()


def test_the_reaction_is_from_the_jump_to_half_of_the_way(laboratory):
    record = laboratory.run(Case("reach_jump", 0.135, "nominal", "anchor_fade", 0))
    assert record["success"]
    # The observation comes within 0.5 s, its chunk 0.135 s later; 4 cm at 0.12 m/s take 0.33 s.
    assert 0.4 < record["reaction_s"] < 1.1


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_default_strategy_stays_continuous_under_every_fault(laboratory, condition):
    record = laboratory.run(Case("reach", 0.4, condition, "anchor_fade", 3))
    assert record["success"]
    assert max(record["seam_mm"]) <= 5.0
    assert max(record["seam_rad"]) <= 0.025
    assert record["idle_s"] <= (0.5 if condition == "drops" else 0.0)


def test_faults_are_met_by_every_contender_alike(laboratory):
    records = [
        laboratory.run(Case("reach", 0.2, "drops", label, 5))
        for label in ("anchor_fade", "timestamp")
    ]
    # Nothing is refused, so equal losses mean equally many chunks in the same time.
    shorter = min(record["seconds"] for record in records)
    assert all(record["refused"] == 0 for record in records)
    assert shorter > 0.5


QUEUE = textwrap.dedent(
    """
    class Queue:
        '''Plays the newest chunk step by step, as a queue of actions does.'''

        made = 0

        def __init__(self):
            Queue.made += 1
            self.chunk = None

        def reset(self, pose, gripper, now):
            self.chunk = None

        def submit(self, chunk, now):
            self.chunk = chunk

        def sample(self, now):
            chunk = self.chunk
            if chunk is None or now > chunk.due(chunk.horizon - 1):
                return None
            step = min(k for k in range(chunk.horizon) if chunk.due(k) >= now)
            return chunk.pose(step), float(chunk.gripper[step] > 0.5)
    """
)


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A module of another project in the working folder."""
    (tmp_path / "another_project.py").write_text(
        QUEUE + "\n\nclass Half:\n    reset = submit = 1\n"
    )
    monkeypatch.chdir(tmp_path)
    return "another_project:Queue"


def command(tmp_path, *words: str) -> int:
    small = ["--tasks", "reach", "--latencies", "0.135", "--episodes", "2", "--jobs", "1"]
    return main(["benchmark", "scheduler", *small, "--out", str(tmp_path / "out"), *words])


def test_a_scheduler_of_another_project_runs_beside_ours(tmp_path, queue, capsys):
    words = ["--strategies", "anchor_fade", "--strategy", queue, "--conditions", "nominal"]
    assert command(tmp_path, *words) == 0
    result = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    ours, theirs = result["cells"]
    assert (ours["strategy"], theirs["strategy"]) == ("anchor_fade", queue)
    assert theirs["n"] == theirs["successes"] == 2
    assert theirs["idle_fraction"]["max"] == 0.0
    # Steps of a queue are steps of the command; ours is continuous.
    assert theirs["jerk_rms"]["p50"] > 3.0 * ours["jerk_rms"]["p50"]
    assert theirs["seam_mm"]["max"] > 5.0 >= ours["seam_mm"]["max"]
    # What it may send to the arm is limited as ours is: 0.25 m/s at 50 Hz.
    assert theirs["against_first"]["pairs"] == 2
    assert queue in capsys.readouterr().out


def test_the_files_say_everything_and_a_repetition_runs_nothing_again(tmp_path, monkeypatch):
    words = ["--strategies", "anchor_fade", "timestamp,limits.max_linear_speed=0.2"]
    words += ["--conditions", "nominal", "drops"]
    assert command(tmp_path, *words) == 0
    out = tmp_path / "out"
    result = json.loads((out / "benchmark.json").read_text())
    assert result["complete"]
    assert result["machine"]["cpus"] >= 1
    assert result["machine"]["versions"]["numpy"] == np.__version__
    assert result["policy"] == "scripted expert"
    assert len(result["cells"]) == 4
    for cell in result["cells"]:
        assert cell["n"] == 2
        for figure in ("seconds", "seam_mm", "jerk_rms", "tracking_mm"):
            assert cell[figure]["p50"] <= cell[figure]["p95"] <= cell[figure]["max"]
    label = "timestamp,limits.max_linear_speed=0.2"
    assert result["strategies"][label]["executor"]["limits"]["max_linear_speed"] == 0.2
    assert (out / "benchmark.png").read_bytes().startswith(b"\x89PNG")
    assert "| anchor_fade | 2/2, " in (out / "tables.md").read_text()

    journal = out / "episodes.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    # Ended in the middle of a line: that episode, and no other, is run again.
    journal.write_text("".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
    ran = []
    real = runner.Laboratory.run

    def counted(self: runner.Laboratory, case: Case) -> runner.Record:
        ran.append(case)
        return real(self, case)

    monkeypatch.setattr(runner.Laboratory, "run", counted)
    assert command(tmp_path, *words) == 0
    assert len(ran) == 1
    again = json.loads((out / "benchmark.json").read_text())
    assert again["cells"] == result["cells"]


def test_processes_side_by_side_give_the_same_figures(laboratory):
    benchmark = Benchmark(contenders(["anchor_fade"]), tasks=("reach",), episodes=2)
    cases = [Case("reach", 0.135, "nominal", "anchor_fade", seed) for seed in (0, 1)]
    found = {}
    runner.run(benchmark, cases, 2, lambda record: found.update({record["seed"]: record}))
    for case in cases:
        expected = laboratory.run(case)
        assert {**found[case.seed], "wall_s": 0} == {**expected, "wall_s": 0}


def test_episodes_of_other_code_or_policy_are_not_mixed_in(tmp_path, capsys):
    words = ["--strategies", "anchor_fade", "--conditions", "nominal"]
    assert command(tmp_path, *words, "--episodes", "1") == 0
    facts = tmp_path / "out" / "facts.json"
    facts.write_text(facts.read_text().replace('"code": "', '"code": "0'))
    assert command(tmp_path, *words, "--episodes", "1") == 2
    assert "--fresh" in capsys.readouterr().err
    assert command(tmp_path, *words, "--episodes", "1", "--fresh") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--strategies", "magic"], "known: anchor_fade"),
        (["--strategies", "anchor_fade,fade=0.2"], "fade_s"),
        (["--strategies", "anchor_fade,fade_s=soon"], "fade_s"),
        (["--strategies", "anchor_fade,fade_s"], "parameter=value"),
        (["--strategies", "sync,gripper.close_above=0.1"], "gripper"),
        (["--strategy", "nowhere.at_all:Player"], "PYTHONPATH"),
        (["--strategy", "another_project:Player"], "has no class Player"),
        (["--strategy", "another_project:Half"], "it has no sample"),
        (["--tasks", "juggle"], "reach_moving"),
        (["--conditions", "rain"], "out_of_order"),
        (["--latencies", "-0.1"], "0 to 10 s"),
        (["--episodes", "0"], "at least one"),
        (["--jobs", "0"], "at least one"),
        (["--seed", "-1"], "negative"),
        (["--policy-rate", "0"], "positive"),
        (["--model", "/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(tmp_path, queue, words, message, capsys):
    assert command(tmp_path, *words) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_a_player_that_returns_nonsense_is_named(tmp_path, queue, capsys):
    text = QUEUE.replace(
        "chunk.pose(step)", "type(chunk.pose(0))([float('nan')] * 3, [[0.0] * 3] * 3)"
    )
    (tmp_path / "broken_project.py").write_text(text)
    words = ["--strategy", "broken_project:Queue", "--conditions", "nominal"]
    assert command(tmp_path, *words) == 2
    assert "Queue.sample" in capsys.readouterr().err


def test_parameters_of_a_contender_are_checked_as_those_of_the_node():
    made = contender("anchor_fade,fade_s=0.25,limits.max_linear_speed=0.5")
    assert made.scheduler.fade_s == 0.25
    assert made.executor.limits.max_linear_speed == 0.5
    assert made.scheduler.strategy == "anchor_fade"
