"""`xvla doctor`: what this machine offers, and what a device or a model folder lacks."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from xvla_ros.runtime import model_report
from xvla_ros.runtime.check import Check, Problem

# Bytes of shared memory: 8 MiB for a process that publishes images, as config/fastdds_images.xml
# says, and half a MiB for every other one.
_SHM_WANTED = 16 << 20
_CAP_SYS_NICE = 23
_RMW = "import rclpy; print(rclpy.get_rmw_implementation_identifier())"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla doctor`."""
    parser = subparsers.add_parser(
        "doctor",
        description="Reports what this machine offers, and what a model folder holds: one line "
        "each, with the mend where something is wrong. Ends with 0 when all is well, else with 2.",
    )
    parser.add_argument("--device", default="auto", help="npu[:i] | cuda[:i] | cpu | auto")
    model_report.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints one line per check; 2 when one of them failed."""
    checks: dict[str, Check] = {
        "python": lambda: f"{platform.python_version()}, {platform.platform()}",
        "numpy": lambda: _version("numpy"),
        "ROS 2": _ros,
        "messages": _messages,
        "libraries": _libraries,
        "device": lambda: _device(arguments.device),
        "shared memory": _shared_memory,
        "priority": _priority,
    }
    if arguments.model is not None:
        checks |= model_report.checks(arguments)
    sound = True
    for name, check in checks.items():
        try:
            text, mark = check(), "ok"
        except Problem as problem:
            text, mark, sound = str(problem), "WRONG", False
        print(f"{mark:5}  {name:13}  {text}", flush=True)
    return 0 if sound else 2


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _ros() -> str:
    """Distribution and middleware; asked in a child, because a broken ROS may end the process."""
    distro = os.environ.get("ROS_DISTRO")
    wheels = [d for d in ("jazzy", "kilted") if _version(f"ros-{d}-rclpy") != "missing"]
    origin = f"{distro} (installation)" if distro else f"{wheels[0]} (wheels)" if wheels else ""
    command = [sys.executable, "-c", _RMW]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Problem(f"{origin or 'no ROS 2'}: {last} (source the setup.bash of ROS 2)")
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    return f"{origin or 'unknown distribution'}, {done.stdout.strip()}, domain {domain}"


def _messages() -> str:
    if importlib.util.find_spec("xvla_ros.msg") is None:
        raise Problem("xvla_ros.msg is not built (colcon build, then source the workspace)")
    return "xvla_ros.msg found"


def _libraries() -> str:
    names = ("torch", "safetensors", "tokenizers", "mujoco", "rosbags", "ruckig")
    return ", ".join(f"{name} {_version(name)}" for name in names)


def _device(spec: str) -> str:
    from xvla_ros.runtime.device import DeviceError, resolve_device

    try:
        return resolve_device(spec).describe()
    except ImportError as error:
        raise Problem(f"{error} (pip install 'xvla-ros[policy]')") from error
    except DeviceError as error:
        raise Problem(str(error)) from error


def _shared_memory() -> str:
    """Images go through /dev/shm between processes of one machine."""
    try:
        status = os.statvfs("/dev/shm")
    except OSError as error:
        raise Problem(f"/dev/shm: {error.strerror}; images will be lost") from error
    size, free = (n * status.f_frsize for n in (status.f_blocks, status.f_bavail))
    text = f"/dev/shm {size >> 20} MiB, {free >> 20} MiB free"
    if free < _SHM_WANTED:
        raise Problem(f"{text}; images will be lost (containers: --shm-size=256m)")
    return text


def _priority() -> str:
    """Which priority the command process may take, without taking it."""
    return next(_priorities())


def _priorities() -> Iterator[str]:
    capabilities = Path("/proc/self/status").read_text(encoding="ascii").split("CapEff:")[1]
    if int(capabilities.split()[0], 16) >> _CAP_SYS_NICE & 1:
        yield "real time (CAP_SYS_NICE)"
    if resource.getrlimit(resource.RLIMIT_RTPRIO)[1] >= 20:
        yield "real time (rtprio limit)"
    if resource.getrlimit(resource.RLIMIT_NICE)[1] >= 35:
        yield "nice -15 (nice limit)"
    yield "normal only: commands jitter while inference is busy (raise the rtprio limit to 20)"
