"""The one object behind which every torch.npu and torch.cuda call lives.

Whoever wants to compute on something asks `resolve_device` and uses what the `Device` offers.
Random numbers are not among it: noise is drawn on the CPU, so that a seed means the same
prediction everywhere. torch itself is imported only when a device is asked for.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xvla_ros.runtime import npu_faults, npu_probe

if TYPE_CHECKING:
    import torch

PROBE_TIMEOUT = 120.0
"""Seconds; the first use of a card may compile for a while."""
_MEANT = {"npu": "npu:0", "ascend": "npu:0", "gpu": "cuda:0", "cuda": "cuda:0", "cpu": "cpu"}


class DeviceError(RuntimeError):
    """A device that was asked for cannot be used: one line with the cause and its mend."""


@dataclass(frozen=True)
class Memory:
    """Bytes of a device: held by tensors, taken from the device, free on it, and its size."""

    allocated: int
    reserved: int
    free: int
    total: int


@dataclass(frozen=True)
class Device:
    """A device that is known to work."""

    kind: str
    """cpu, cuda or npu."""
    index: int
    model: str
    """What the vendor calls it."""
    note: str = ""
    """What the user should know: a doubtful pairing of versions, or why it is the CPU."""

    @property
    def name(self) -> str:
        """As torch writes it: cpu, cuda:0, npu:1."""
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.index}"

    @property
    def torch_device(self) -> torch.device:
        """The torch.device of this name."""
        import torch

        return torch.device(self.name)

    def activate(self) -> None:
        """Makes this the device of the calling thread; each thread that computes calls it first.

        A card's context belongs to a thread, and one that never chose a card gets card 0.
        """
        backend = self._backend()
        if backend is None:
            return
        backend.set_device(self.name)
        if self.kind == "npu":
            # Compiling operators at their first use takes minutes on inference cards.
            backend.set_compile_mode(jit_compile=False)

    def synchronize(self) -> None:
        """Waits until everything queued on the device is done."""
        backend = self._backend()
        if backend is not None:
            backend.synchronize(self.name)

    def empty_cache(self) -> None:
        """Gives memory that no tensor uses back to the device."""
        backend = self._backend()
        if backend is not None:
            backend.empty_cache()

    def memory(self) -> Memory | None:
        """Memory of an accelerator now; None on the CPU, whose memory is the process' own."""
        backend = self._backend()
        if backend is None:
            return None
        free, total = backend.mem_get_info(self.name)
        allocated = backend.memory_allocated(self.name)
        return Memory(allocated, backend.memory_reserved(self.name), free, total)

    def describe(self) -> str:
        """One line for logs and reports: name, vendor's name, versions, note."""
        import torch

        parts = [self.name, self.model, f"torch {torch.__version__}"]
        if self.kind == "npu":
            parts.append(f"torch_npu {sys.modules['torch_npu'].__version__}")
        if self.kind == "cpu":
            parts.append(f"{torch.get_num_threads()} threads")
        line = ", ".join(part for part in parts if part)
        return f"{line}; {self.note}" if self.note else line

    def _backend(self) -> Any:
        """torch.cuda or torch.npu; None for the CPU."""
        import torch

        return None if self.kind == "cpu" else getattr(torch, self.kind)


def resolve_device(spec: str, *, timeout: float = PROBE_TIMEOUT) -> Device:
    """The device that `npu[:i] | cuda[:i] | cpu | auto` names.

    `auto` takes an NPU if one works, else a CUDA GPU, else the CPU, and `Device.note` says why
    it did not take the ones before. Nothing else ever falls back to the CPU.

    Args:
        spec: the device, upper or lower case.
        timeout: seconds that a card may take to show that it works.

    Raises:
        DeviceError: no such device, or it cannot be used.
    """
    wanted = spec.strip().lower()
    if wanted == "cpu":
        return _cpu()
    if wanted == "auto":
        return _auto(timeout)
    match = re.fullmatch(r"(npu|cuda)(?::(\d+))?", wanted)
    if match is None:
        hint = next((f" (did you mean {b}?)" for a, b in _MEANT.items() if a in wanted), "")
        raise DeviceError(f"device {spec!r} is none of npu[:i], cuda[:i], cpu, auto{hint}")
    index = int(match.group(2) or 0)
    return _npu(index, timeout) if match.group(1) == "npu" else _cuda(index)


def probe_npu(index: int, timeout: float = PROBE_TIMEOUT) -> dict[str, Any]:
    """What a fresh process saw of card `index`; see `npu_probe.look` for the fields."""
    source = Path(npu_probe.__file__).read_text(encoding="utf-8")
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-c", source, str(index)]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _silent(f"no answer within {timeout:.0f} s")
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(npu_probe.MARK):
            report: dict[str, Any] = json.loads(line[len(npu_probe.MARK) :])
            return report
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return _silent(f"the process ended with {done.returncode}: {last}")


def _silent(error: str) -> dict[str, Any]:
    return {"stage": "use", "error": error}


def _cpu(note: str = "") -> Device:
    return Device("cpu", 0, "", note)


def _npu(index: int, timeout: float) -> Device:
    report = probe_npu(index, timeout)
    fault = npu_faults.fault(report, index)
    if fault is None:
        try:
            importlib.import_module("torch_npu")
        except Exception as error:
            # The probe could import it, so this process differs: most likely torch was there
            # first, with auto-load on and half a torch_npu in it.
            fault = f"torch_npu works in a fresh process but not in this one: {error}"
    if fault is not None:
        raise DeviceError(f"npu:{index} is not usable: {' '.join(fault.split())}")
    return Device("npu", index, str(report["name"]), "; ".join(npu_faults.warnings(report)))


def _cuda(index: int) -> Device:
    import torch

    if torch.version.cuda is None:
        fault = f"torch {torch.__version__} is a CPU build (install a CUDA build of torch)"
    elif not torch.cuda.is_available():
        fault = "no GPU is visible (check nvidia-smi and CUDA_VISIBLE_DEVICES)"
    elif index >= torch.cuda.device_count():
        fault = f"only {torch.cuda.device_count()} GPU(s) are visible, counted from cuda:0"
    else:
        return Device("cuda", index, torch.cuda.get_device_name(index))
    raise DeviceError(f"cuda:{index} is not usable: {fault}")


def _auto(timeout: float) -> Device:
    reasons = []
    if _installed("torch-npu"):
        try:
            return _npu(0, timeout)
        except DeviceError as error:
            reasons.append(str(error))
    try:
        device = _cuda(0)
    except DeviceError as error:
        reasons.append(str(error))
        return _cpu("auto chose the CPU: " + "; ".join(reasons))
    return Device(device.kind, device.index, device.model, "; ".join(reasons))


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
