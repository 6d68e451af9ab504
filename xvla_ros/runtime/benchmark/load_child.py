"""Loads a policy in a process of its own, so that its peak memory is that of loading alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from xvla_ros.errors import UsageError

_TIMEOUT = 1800.0


def measure_loading(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds and bytes of loading a policy and of its first two predictions.

    `load_s` ends when the policy can be asked; `ready_s` has what its first prediction takes
    longer than the second, too, and is how long it takes until the policy has its full speed.

    Args:
        folder: of the model.
        options: for `load_policy`.

    Raises:
        UsageError: the child could not load it; its own last line.
    """
    task = json.dumps({"folder": str(folder), "options": dict(options)})
    command = [sys.executable, "-m", __name__, task]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UsageError(f"loading {folder} in a process of its own failed: {last}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def count_parameters(folder: Path) -> int:
    """Numbers in the weights of a model folder.

    Counted in its files: a network that is made ready to run may keep them in another form.
    """
    from xvla_ros.model.weights import stored_tensors, weight_files

    return sum(prod(tensor.shape) for tensor in stored_tensors(weight_files(folder)))


def peak_bytes() -> int:
    """The most memory that this program has had at once.

    Not getrusage's, which a child begins with its parent's.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def _main(task: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    if task["options"].get("threads"):
        torch.set_num_threads(task["options"]["threads"])
    bare = peak_bytes()
    begun = time.perf_counter()
    from xvla_ros.runtime.policy import load_policy

    imported = time.perf_counter()
    policy = load_policy(task["folder"], view_cache=False, **task["options"])
    loaded = time.perf_counter()
    loaded_peak = peak_bytes()
    kept = count_parameters(Path(task["folder"])) * policy.options.torch_dtype.itemsize
    _ = policy.model_hash  # computed beside the call otherwise
    hashed = time.perf_counter()
    first = policy.warm_up()
    peak = peak_bytes()
    second = policy.warm_up()
    return {
        "import_s": imported - begun,
        "load_s": loaded - imported,
        "hash_s": hashed - loaded,
        "first_call_s": first,
        "second_call_s": second,
        # Some weights are laid out for the matrix products at their first use.
        "ready_s": loaded - imported + max(first - second, 0.0),
        "bare_bytes": bare,
        "peak_bytes_after_loading": loaded_peak,
        # Weights that stay mapped from the file count from their first use on.
        "peak_bytes": peak,
        "weights_bytes": kept,
        "peak_above_bare_per_weights": (peak - bare) / kept,
    }


if __name__ == "__main__":
    print(json.dumps(_main(json.loads(sys.argv[1]))))
