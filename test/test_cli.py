"""The `xvla` command: help with the core install alone, exit codes, one line per error."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from xvla_ros import __version__, cli

OPTIONAL = [
    "torch", "safetensors", "tokenizers", "PIL", "mujoco", "rosbags", "matplotlib", "pyarrow",
    "tqdm", "rich", "transformers", "einops", "rclpy",
]  # fmt: skip
CORE_ONLY = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from xvla_ros.cli import main
sys.exit(main(sys.argv[1:]))
"""


def xvla(*words, code="import sys; from xvla_ros.cli import main; sys.exit(main(sys.argv[1:]))"):
    """The finished process of an `xvla` command line."""
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[1],
    )


def test_help_lists_every_command_with_the_core_install_alone():
    done = xvla("--help", code=CORE_ONLY)
    assert done.returncode == 0, done.stderr
    for command in ("demo", "doctor", "evaluate", "parameters", "train-demo"):
        assert command in done.stdout


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_every_command_explains_itself_with_the_core_install_alone(command):
    done = xvla(command, "--help", code=CORE_ONLY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: xvla {command}")


@pytest.mark.parametrize("words", [[], ["dance"], ["doctor", "--colour", "red"]])
def test_wrong_usage_ends_with_two(words):
    done = xvla(*words)
    assert done.returncode == 2
    assert "usage: xvla" in done.stderr


def test_the_version_is_that_of_the_package():
    assert xvla("--version").stdout.strip() == f"xvla {__version__}"


def test_the_doctor_reports_on_this_machine():
    done = xvla("doctor", "--device", "cpu")
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    assert sys.version.split()[0] in lines["python"]
    assert lines["device"].startswith("ok")
    assert lines["ROS"].startswith("ok")
    assert "/dev/shm" in lines["shared"]


def test_the_doctor_ends_with_two_and_says_what_is_wrong(tmp_path):
    done = xvla("doctor", "--device", "npu:7", "--model", str(tmp_path))
    wrong = [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
    assert done.returncode == 2
    assert "npu:7 is not usable" in wrong[0]
    assert f"{tmp_path}/config.json" in wrong[1]


def test_the_doctor_needs_no_optional_library_to_name_what_is_missing():
    done = xvla("doctor", code=CORE_ONLY)
    assert done.returncode == 2
    assert "No module named 'torch' (pip install 'xvla-ros[policy]')" in done.stdout


def run_with(monkeypatch, capsys, outcome):
    """Exit code and error text of a command whose work ends with `outcome`."""

    def work(_arguments):
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def add_parser(subparsers):
        subparsers.add_parser("doctor").set_defaults(run=work)

    module = cli.COMMANDS["doctor"][0]
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(add_parser=add_parser))
    code = cli.main(["doctor"])
    return code, capsys.readouterr().err


def test_the_result_of_the_work_is_the_exit_code(monkeypatch, capsys):
    assert run_with(monkeypatch, capsys, 0) == (0, "")
    assert run_with(monkeypatch, capsys, 1) == (1, "")


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("torch", "policy"),
        ("mujoco", "sim"),
        ("rosbags.rosbag2", "eval"),
        ("transformers", "bench"),
    ],
)
def test_a_missing_library_is_told_with_its_extra(module, extra, monkeypatch, capsys):
    error = ModuleNotFoundError(f"No module named {module!r}", name=module)
    code, text = run_with(monkeypatch, capsys, error)
    assert code == 2
    assert text == f"xvla: error: No module named {module!r} (pip install 'xvla-ros[{extra}]')\n"


def test_missing_ros_and_unbuilt_messages_are_told_apart(monkeypatch, capsys):
    error = ModuleNotFoundError("No module named 'rclpy'", name="rclpy")
    assert "source the setup.bash of ROS 2" in run_with(monkeypatch, capsys, error)[1]
    error = ModuleNotFoundError("No module named 'xvla_ros.msg'", name="xvla_ros.msg")
    assert "colcon build" in run_with(monkeypatch, capsys, error)[1]


def test_an_error_of_the_environment_is_one_line_and_two(monkeypatch, capsys):
    from xvla_ros.errors import UsageError
    from xvla_ros.model.errors import CheckpointError
    from xvla_ros.runtime.device import DeviceError

    for kind in (UsageError, CheckpointError, DeviceError):
        code, text = run_with(monkeypatch, capsys, kind("first\nsecond (mend)"))
        assert (code, text) == (2, "xvla: error: first second (mend)\n")


def test_an_error_of_the_program_keeps_its_trace(monkeypatch, capsys):
    with pytest.raises(ZeroDivisionError):
        run_with(monkeypatch, capsys, ZeroDivisionError())
    error = ModuleNotFoundError("No module named 'xvla_ros.lost'", name="xvla_ros.lost")
    with pytest.raises(ModuleNotFoundError):
        run_with(monkeypatch, capsys, error)


def test_an_interrupt_is_no_error(monkeypatch, capsys):
    assert run_with(monkeypatch, capsys, KeyboardInterrupt()) == (130, "")
