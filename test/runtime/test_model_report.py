"""`xvla doctor --model` says what a folder holds and what it lacks."""

from __future__ import annotations

import argparse
import json

import pytest
from safetensors.torch import load_file, save_file

from xvla_ros.model.weights_hash import weights_hash
from xvla_ros.runtime import model_report
from xvla_ros.runtime.check import Check, Problem


@pytest.fixture
def folder(make, tmp_path):
    return make.folder(tmp_path)


def report(folder, *words: str) -> dict[str, str]:
    """Lines by name; a problem begins with WRONG."""
    parser = argparse.ArgumentParser()
    model_report.add_arguments(parser)
    checks = model_report.checks(parser.parse_args(["--model", str(folder), *words]))
    return {name: line(check) for name, check in checks.items()}


def line(check: Check) -> str:
    try:
        return check()
    except Problem as problem:
        return f"WRONG {problem}"


def wrong(lines: dict[str, str]) -> set[str]:
    return {name for name, text in lines.items() if text.startswith("WRONG")}


def test_a_whole_folder_is_described(folder) -> None:
    lines = report(folder)

    assert not wrong(lines)
    assert "action transformer 2 x 48" in lines["model"]
    assert "12 domains" in lines["model"]
    assert "model.safetensors" in lines["weights"]
    assert "MB" in lines["weights"]
    assert "F32, X-VLA's names" in lines["weights"]
    assert "30 steps of 0.1667 s" in lines["actions"]
    assert "0 Bridge (0.1667 s, interleaved) <- used by default" in lines["domains"]
    assert "3 images of 48 px, 50 ids of 288" in lines["inputs"]


def test_half_precision_and_other_names_are_seen(folder) -> None:
    path = folder / "model.safetensors"
    state = load_file(path)
    state = {f"model.{name}": tensor.half() for name, tensor in state.items()}
    save_file(state, path)

    assert "F16, LeRobot's names" in report(folder)["weights"]


def test_all_faults_of_the_tensors_are_listed(folder) -> None:
    path = folder / "model.safetensors"
    state = load_file(path)
    del state["transformer.norm.bias"]
    state["spare"] = state["transformer.norm.weight"].clone()
    save_file(state, path)
    lines = report(folder)

    assert wrong(lines) == {"tensors"}
    assert "unexpected key spare [48]" in lines["tensors"]
    assert "key transformer.norm.bias [48] is missing" in lines["tensors"]


def test_one_missing_file_does_not_hide_the_other_faults(folder) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "model.safetensors").write_bytes(b"")
    lines = report(folder)

    assert wrong(lines) == {"weights", "tensors", "inputs"}
    assert "tokenizer.json: no such file" in lines["inputs"]
    assert "not a whole safetensors file" in lines["weights"]


def test_what_the_arm_cannot_execute_is_wrong(folder) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"action_mode": "auto"}))
    lines = report(folder)

    assert wrong(lines) == {"actions", "domains"}
    assert "nothing says what its 20 numbers are" in lines["actions"]


def test_another_domain_can_be_asked_about(folder) -> None:
    assert "note: domain 3 libero was recorded on" in report(folder, "--domain", "3")["actions"]
    assert "domain 40" in report(folder, "--domain", "40")["actions"]


def test_the_hash_is_compared_when_asked_for(folder) -> None:
    digest = weights_hash(folder)

    assert "sha256" not in report(folder)
    right = report(folder, "--verify-sha256", digest)
    assert right["sha256"] == f"{digest}, as the given hash says"
    other = report(folder, "--verify-sha256", "0" * 64)
    assert wrong(other) == {"sha256"}
    assert f"SHA-256 is {digest}" in other["sha256"]
    assert "nothing says which it should be" in report(folder, "--verify-sha256")["sha256"]
