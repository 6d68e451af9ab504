"""From what the probe saw to one line of cause and mend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Report = Mapping[str, Any]

# CANN that each torch_npu release was made for: Ascend/pytorch, COMPATIBILITY.en.md.
_CANN_OF = {
    "2.12.0": "9.1.0",
    "2.11.0": "9.1.0",
    "2.10.0.post4": "9.1.0",
    "2.9.0.post6": "9.1.0",
    "2.9.0.post2": "9.0.0",
    "2.9.0": "8.5.0",
    "2.8.0.post4": "9.0.0",
    "2.8.0.post2": "8.5.0",
    "2.8.0": "8.3.RC1",
    "2.7.1.post8": "9.1.0",
    "2.7.1.post4": "9.0.0",
    "2.7.1.post2": "8.5.0",
    "2.7.1": "8.3.RC1",
    "2.6.0.post5": "8.5.0",
    "2.6.0.post3": "8.3.RC1",
    "2.6.0": "8.2.RC1",
    "2.5.1.post1": "8.2.RC1",
    "2.5.1": "8.1.RC1",
}
_DRIVER = re.compile(r"libascend_hal\.so|libdcmi\.so|libdrvdsmi_host\.so")
_LIBRARY = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")


def fault(report: Report, index: int) -> str | None:
    """Why card `index` cannot be used, with its mend, in one line; None when it can."""
    stage, error = report["stage"], report.get("error")
    if stage == "ready":
        return None
    if stage == "torch":
        return f"torch cannot be imported: {error} (install the extra xvla_ros[policy])"
    if stage == "package":
        wanted = _base(report["torch"])
        return f"there is no torch_npu package in this Python (pip install torch-npu=={wanted})"
    if stage == "import":
        return _import_fault(report, str(error))
    if stage == "count" and error is None:
        return _count_fault(report, index)
    if _major(report.get("numpy")) >= 2:
        return (
            f"the card does not start and numpy is {report['numpy']}, which CANN's compiler may "
            f"not accept (pip install numpy==1.26.4): {error}"
        )
    return f"the card does not start: {error} (npu-smi info shows its health)"


def warnings(report: Report) -> list[str]:
    """What may be wrong although the card works."""
    notes = []
    if not _paired(report):
        notes.append(
            f"torch_npu {report['torch_npu']} was not built for torch {report['torch']} "
            f"(pip install torch-npu=={_base(report['torch'])})"
        )
    paired = _CANN_OF.get(report.get("torch_npu") or "")
    if paired and report.get("cann") and report["cann"] != paired:
        notes.append(
            f"torch_npu {report['torch_npu']} was made for CANN {paired}, not {report['cann']}"
        )
    return notes


def _import_fault(report: Report, error: str) -> str:
    if _DRIVER.search(error):
        return (
            f"the Ascend driver's library is not found: {error} "
            f"({_source(report)}; the driver itself must be installed)"
        )
    library = _LIBRARY.search(error)
    if library:
        return (
            f"torch_npu does not find {library.group(1)}: the CANN environment is not sourced "
            f"({_source(report)})"
        )
    if "Two accelerators" in error or report.get("torch_cuda"):
        return (
            f"torch {report['torch']} is built for CUDA and cannot be used with torch_npu "
            f"(install the CPU build of torch {_base(report['torch'])}): {error}"
        )
    if not _paired(report):
        return (
            f"torch_npu {report['torch_npu']} was not built for torch {report['torch']} "
            f"(pip install torch-npu=={_base(report['torch'])}): {error}"
        )
    if _major(report.get("numpy")) >= 2:
        return (
            f"torch_npu cannot be imported and numpy is {report['numpy']} "
            f"(pip install numpy==1.26.4): {error}"
        )
    return f"torch_npu cannot be imported: {error} (python -c 'import torch, torch_npu')"


def _count_fault(report: Report, index: int) -> str:
    count, visible = report["count"], report.get("visible")
    if count > 0:
        known = "only npu:0 is" if count == 1 else f"only npu:0 to npu:{count - 1} are"
        chosen = f" with ASCEND_RT_VISIBLE_DEVICES={visible}" if visible is not None else ""
        return f"{known} visible{chosen} (choose one of them)"
    if visible is not None:
        return _visibility_fault(visible)
    if not report["nodes"]:
        return (
            "no card is visible: there is no /dev/davinci* (load the Ascend driver, or start the "
            "container with --device=/dev/davinci0 and the davinci_manager, devmm_svm and "
            "hisi_hdc devices)"
        )
    if report["closed_nodes"]:
        return (
            f"no card is visible: {report['closed_nodes'][0]} may not be opened by this user "
            "(add the user to the group HwHiAiUser)"
        )
    return "no card is visible although device nodes exist (npu-smi info shows their health)"


def _visibility_fault(visible: str) -> str:
    """ASCEND_RT_VISIBLE_DEVICES hides every card when it is empty or not ascending."""
    digits = re.match(r"[\d,]*", visible)
    ids = [int(part) for part in (digits.group() if digits else "").split(",") if part]
    if not ids:
        why = "names none (unset it or list card numbers, like 0,1)"
    elif ids != sorted(set(ids)):
        why = f"is not ascending (write {','.join(map(str, sorted(set(ids))))})"
    else:
        why = "names no existing card (its numbers are those of npu-smi info)"
    return f"no card is visible: ASCEND_RT_VISIBLE_DEVICES={visible!r} {why}"


def _source(report: Report) -> str:
    if report.get("set_env"):
        return f"source {report['set_env']}"
    version = _CANN_OF.get(report.get("torch_npu") or "")
    return f"install CANN{' ' + version if version else ''} and source its set_env.sh"


def _paired(report: Report) -> bool:
    """Whether torch and torch_npu are of the same release; unknown versions count as paired."""
    versions = (report.get("torch"), report.get("torch_npu"))
    if not all(versions):
        return True
    first, second = (str(version).split(".")[:2] for version in versions)
    return first == second


def _base(version: str) -> str:
    """Release without its build: 2.13.0 of 2.13.0+cpu."""
    return version.split("+")[0]


def _major(version: str | None) -> int:
    return int(version.split(".")[0]) if version else 0
