"""What a fresh Python process sees of torch_npu and its cards; printed as one line of JSON.

Run as `python -c <text of this file> <index>`, never imported by the process that wants to know:
a torch_npu without its libraries breaks the import of torch itself, cannot be imported a second
time, and a card that hangs hangs its process. Uses the standard library only.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
from typing import Any

MARK = "xvla-npu-probe:"
SET_ENV = (
    "/usr/local/Ascend/ascend-toolkit/set_env.sh",
    "/usr/local/Ascend/cann/set_env.sh",
    os.path.expanduser("~/Ascend/ascend-toolkit/set_env.sh"),
)


def installed(distribution: str) -> str | None:
    """Version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def cann_version() -> str | None:
    """Version of the CANN toolkit whose environment is sourced, or None."""
    home = os.environ.get("ASCEND_TOOLKIT_HOME") or os.environ.get("ASCEND_HOME_PATH")
    for path in sorted(glob.glob(f"{home}/*-linux/ascend_toolkit_install.info")) if home else []:
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            found = re.search(r"^version=(\S+)", file.read(), re.MULTILINE)
            if found:
                return found.group(1)
    return None


def describe(error: BaseException) -> str:
    """Type and text of an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def look(index: int) -> dict[str, Any]:
    """The report; each step is taken only when the one before it went well."""
    nodes = sorted(glob.glob("/dev/davinci[0-9]*"))
    report: dict[str, Any] = {
        "numpy": installed("numpy"),
        "torch": installed("torch"),
        "torch_npu": installed("torch-npu"),
        "cann": cann_version(),
        "set_env": next(filter(os.path.exists, SET_ENV), None),
        "nodes": nodes,
        "closed_nodes": [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)],
        "visible": os.environ.get("ASCEND_RT_VISIBLE_DEVICES"),
        "stage": "torch",
    }
    try:
        import torch

        report["torch"] = torch.__version__
        report["torch_cuda"] = torch.version.cuda
        report["stage"] = "package"
        if importlib.util.find_spec("torch_npu") is None:
            return report
        report["stage"] = "import"
        torch_npu = importlib.import_module("torch_npu")
        report["torch_npu"] = getattr(torch_npu, "__version__", report["torch_npu"])
        npu = getattr(torch, "npu")  # noqa: B009 - exists only once torch_npu is imported
        report["stage"] = "count"
        report["count"] = npu.device_count()
        if index >= report["count"]:
            return report
        report["stage"] = "use"
        npu.set_device(f"npu:{index}")
        report["name"] = npu.get_device_name(index)
        npu.synchronize()
        report["stage"] = "ready"
    # A third party's start-up may raise anything; whatever it is, is the answer.
    except BaseException as error:
        report["error"] = describe(error)
    return report


if __name__ == "__main__":
    print("\n" + MARK + json.dumps(look(int(sys.argv[1]))), flush=True)
    # Static destructors of a half-loaded back end may hang the exit.
    os._exit(0)
