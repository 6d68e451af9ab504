"""`xvla benchmark model` on the demo policy: what it writes, and what it refuses."""

from __future__ import annotations

import json
import sys

import pytest

from xvla_ros.cli import main
from xvla_ros.runtime.benchmark.model_run import Observations
from xvla_ros.runtime.benchmark.samples import figures
from xvla_ros.runtime.stages import STAGES

MODEL = ["benchmark", "model", "--size", "demo", "--threads", "1"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> dict:
    file = tmp_path_factory.mktemp("benchmark") / "new" / "figures.json"
    words = ["--views", "2", "--steps", "1,0.5", "--upstream-steps", "2", "--compare", "upstream"]
    words.append("--profile")
    assert main([*MODEL, *words, "--json", str(file)]) == 0
    return json.loads(file.read_text())


def test_the_comparison_has_its_speedup_at_the_top(compared) -> None:
    pairs = compared["compare"]
    assert pairs["pairs"] == pairs["ours_s"]["n"] == pairs["theirs_s"]["n"] == 7
    ratio = pairs["theirs_s"]["median"] / pairs["ours_s"]["median"]
    assert compared["speedup"] == pytest.approx(ratio)
    assert pairs["peer"].startswith("lerobot 0.4.4")


def test_both_networks_have_the_same_weights_noise_and_numbers(compared) -> None:
    agreement = compared["compare"]["agreement"]
    for part in ("encoder_features", "actions"):
        assert agreement[part]["relative"] < 1e-5, part
        assert agreement[part]["rms"] > 0.1


def test_stages_make_up_the_chunk(compared) -> None:
    assert set(compared["stages_s"]) == set(STAGES)
    stages = sum(compared["stages_s"][name]["min"] for name in STAGES)
    assert 0.0 < stages <= compared["chunk_s"]["p95"]
    assert compared["network_s"]["min"] < compared["chunk_s"]["p95"]
    assert compared["first_call_s"] > 0.0


def test_the_work_is_that_of_the_shapes(compared) -> None:
    least, most = compared["gflop"], compared["gflop_published"]
    assert least["total"] == pytest.approx(sum(v for k, v in least.items() if k != "total"))
    assert least["total"] < most["total"]
    gemm = compared["gemm"]
    assert gemm["fraction"] == pytest.approx(gemm["achieved_gflop_per_s"] / gemm["gflop_per_s"])
    assert gemm["gflop"] == pytest.approx(
        gemm["achieved_gflop_per_s"] * compared["network_s"]["median"]
    )


def test_products_alone_are_known_by_stage(compared) -> None:
    gemm = compared["gemm"]
    assert set(gemm["stages_s"]) == {"davit", "text_encoder", "denoising"}
    assert sum(gemm["stages_s"].values()) == pytest.approx(gemm["seconds"])


def test_operators_say_where_the_time_goes(compared) -> None:
    shares = [operator["share"] for operator in compared["operators"].values()]
    assert shares == sorted(shares, reverse=True)
    assert 0.5 < sum(shares) <= 1.0 + 1e-9


def test_loading_is_measured_in_a_process_of_its_own(compared) -> None:
    load = compared["load"]
    # The file has as many bytes, and one header.
    assert load["weights_bytes"] == pytest.approx(8.3e6, rel=0.02)
    assert load["peak_bytes"] > load["bare_bytes"] > 50e6
    assert 0.0 < load["load_s"] <= load["ready_s"] <= load["load_s"] + load["first_call_s"]
    assert load["second_call_s"] > 0.0


def test_the_file_says_what_was_run_where(compared) -> None:
    assert compared["schema"] == "xvla_ros.benchmark.model/1"
    assert compared["settings"]["steps"] == [1.0, 0.5]
    assert compared["settings"]["pictures"] == 2
    assert compared["settings"]["slots"] == 3
    assert "times" not in compared["approximation"] or "0.5" in compared["approximation"]
    assert compared["machine"]["versions"]["torch"]
    assert len(compared["model"]["hash"]) == 64


def test_pictures_are_new_at_each_call_unless_asked_otherwise() -> None:
    def pair(observations: Observations) -> list[bytes]:
        images = [observations.next().images[0] for _ in range(2)]
        return [image.tobytes() for image in images if image is not None]

    first, second = pair(Observations(1))
    assert first != second
    first, second = pair(Observations(1, fresh=False))
    assert first == second


def test_p99_needs_a_hundred_samples() -> None:
    few, many = figures([1.0] * 98 + [5.0]), figures(list(range(1, 101)))
    assert "p99" not in few
    assert (few["n"], few["median"], few["min"]) == (99, 1.0, 1.0)
    assert many["p95"] == pytest.approx(95.05)
    assert many["p99"] == pytest.approx(99.01)
    with pytest.raises(ValueError, match="nothing was measured"):
        figures([])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--views", "4"], "--views 4 pictures do not fit --slots 3"),
        (["--runs", "0"], "--runs is 0; at least 1"),
        (["--steps", "0.1,0.7"], "must descend"),
        (["--dtype", "float8"], "known: float32"),
        (["--quantize", "int2"], "known: none, int8"),
        (["--compare", "upstream", "--pairs", "3"], "--pairs is 3; fewer than 7"),
        (["--compare", "upstream", "--cached"], "nothing to compare"),
        (["--size", "/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(words, message, capsys) -> None:
    assert main([*MODEL, *words]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error
    assert error.startswith("xvla: error: ")


def test_a_missing_extra_is_named_with_what_installs_it(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "einops", None)
    assert main([*MODEL, "--compare", "upstream"]) == 2
    assert "pip install 'xvla-ros[bench]'" in capsys.readouterr().err
