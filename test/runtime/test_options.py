"""How a network is run: from a command line or a parameter file to what the loader is given."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from xvla_ros.evaluation.bag_settings import plan
from xvla_ros.parameters.parameter import defaults
from xvla_ros.parameters.policy import POLICY_PARAMETERS, check, load_options
from xvla_ros.runtime.arguments import add_run_arguments, run_arguments
from xvla_ros.runtime.options import RunOptions, describe_grid, read_steps

COARSE = (1.0, 0.7, 0.4, 0.1)


def given(*words: str) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    add_run_arguments(parser)
    return run_arguments(parser.parse_args(words))


def test_the_defaults_are_the_published_arithmetic() -> None:
    options = RunOptions()

    assert options.approximation == "exact"
    assert (options.dtype, options.views, len(options.time_grid)) == ("float32", 3, 10)


def test_a_command_line_passes_on_only_what_it_says() -> None:
    assert given() == {}
    assert given("--steps", "4", "--dtype", "bfloat16", "--no-view-cache") == {
        "steps": 4,
        "dtype": "bfloat16",
        "view_cache": False,
    }
    assert given("--steps", "1,0.7,0.4,0.1", "--quantize", "int8")["steps"] == COARSE


@pytest.mark.parametrize("text", ["0", "ten", "0.4,0.7", "2,1", "1,x", ""])
def test_what_is_no_time_grid_is_refused(text, capsys) -> None:
    with pytest.raises(ValueError, match=r"step|times|descend"):
        read_steps(text)
    with pytest.raises(SystemExit):
        given("--steps", text)
    assert "--steps" in capsys.readouterr().err


def test_a_single_time_is_a_grid_of_its_own() -> None:
    assert read_steps("1.0") == (1.0,)
    assert read_steps("1") == 1
    assert (describe_grid((1.0,)), describe_grid((0.5,))) == ("1 step", "times 0.5")


def test_parameters_become_what_the_loader_takes() -> None:
    values = defaults(POLICY_PARAMETERS)
    plain = load_options(values)
    assert plain["steps"] == 10
    assert (plain["domain_id"], plain["threads"], plain["quantize"]) == (None, None, "none")

    values |= {"time_grid": COARSE, "domain_id": 3, "threads": 2, "quantize": "int8"}
    changed = load_options(values)
    assert changed["steps"] == COARSE
    assert (changed["domain_id"], changed["threads"], changed["quantize"]) == (3, 2, "int8")


def test_a_time_grid_that_does_not_descend_is_refused_by_name() -> None:
    values = defaults(POLICY_PARAMETERS)
    assert check(values | {"time_grid": COARSE}) is None
    assert "'time_grid'" in str(check(values | {"time_grid": (0.4, 0.7)}))


def test_an_evaluation_runs_the_network_as_the_file_says_unless_the_command_line_does(
    tmp_path,
) -> None:
    file = tmp_path / "robot.yaml"
    file.write_text(
        "/**/xvla_policy:\n  ros__parameters:\n    quantize: int8\n    time_grid: [1.0, 0.5]\n"
    )

    by_file = plan(file, Path("model"), Path(), {}).model
    by_command = plan(file, Path("model"), Path(), {"run": {"steps": 3, "device": "cpu"}}).model
    assert (by_file.options["quantize"], by_file.options["steps"]) == ("int8", (1.0, 0.5))
    assert (by_command.options["quantize"], by_command.options["steps"]) == ("int8", 3)
    assert by_command.options["device"] == "cpu"
