"""What a model folder holds and what it lacks, for `xvla doctor --model`.

Each part is looked at by itself, so that one missing file does not hide the others' faults.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING

from xvla_ros.model.config import VIEWS, XVLAConfig
from xvla_ros.model.conventions import read_conventions, why_not_executable
from xvla_ros.model.domain import BRIDGE, load_domains
from xvla_ros.model.errors import CheckpointError
from xvla_ros.runtime.check import Check, Problem

if TYPE_CHECKING:
    from xvla_ros.model.weights import StoredTensor

_BESIDE = "beside"
_MOST_FAULTS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what concerns a model folder."""
    parser.add_argument("--model", type=Path, help="model folder to look at; no weights are loaded")
    parser.add_argument(
        "--domain", type=int, help="embodiment to be run; the WidowX (Bridge) if not given"
    )
    parser.add_argument(
        "--verify-sha256",
        nargs="?",
        const=_BESIDE,
        metavar="HASH|FILE",
        help="compare the weights with a hash, a file of sha256sum or, without a value, with "
        "SHA256SUMS, model.safetensors.sha256 or the record of the download in the folder",
    )


def checks(arguments: argparse.Namespace) -> dict[str, Check]:
    """The checks of the folder `arguments.model`, by the name of their line."""
    folder = arguments.model
    out: dict[str, Check] = {
        "model": partial(_network, folder),
        "weights": partial(_weights, folder),
        "tensors": partial(_tensors, folder),
        "actions": partial(_actions, folder, arguments.domain),
        "domains": partial(_domains, folder),
        "inputs": partial(_inputs, folder),
    }
    if arguments.verify_sha256 is not None:
        expected = None if arguments.verify_sha256 == _BESIDE else arguments.verify_sha256
        out["sha256"] = partial(_hash, folder, expected)
    return {name: _guarded(check) for name, check in out.items()}


def _guarded(check: Check) -> Check:
    """The check with the folder's errors as problems."""

    @wraps(check.func if isinstance(check, partial) else check)
    def run() -> str:
        try:
            return check()
        except CheckpointError as error:
            raise Problem(str(error)) from error
        except ImportError as error:
            raise Problem(f"{error} (pip install 'xvla-ros[policy]')") from error

    return run


def _network(folder: Path) -> str:
    """Sizes of the network."""
    config = XVLAConfig.from_folder(folder)
    return (
        f"{folder}: action transformer {config.depth} x {config.hidden_size}, text encoder "
        f"{config.text.encoder_layers} x {config.text.d_model}, vision "
        f"{'-'.join(map(str, config.vision.dim_embed))}, {config.num_domains} domains"
    )


def _stored(folder: Path) -> tuple[list[Path], list[StoredTensor]]:
    from xvla_ros.model.weights import stored_tensors, weight_files

    files = weight_files(folder)
    return files, stored_tensors(files)


def _weights(folder: Path) -> str:
    """Size, number format and names of the files."""
    from xvla_ros.model import key_names

    files, stored = _stored(folder)
    numbers: Counter[str] = Counter()
    for item in stored:
        numbers[item.dtype] += math.prod(item.shape)
    total = sum(numbers.values())
    formats = " and ".join(
        name if count == total else f"{name} ({count / total:.0%})"
        for name, count in numbers.most_common()
    )
    size = sum(file.stat().st_size for file in files)
    where = files[0].name if len(files) == 1 else f"{len(files)} shards"
    return (
        f"{where}, {_bytes(size)}, {total / 1e6:.1f} million numbers, {formats}, "
        f"{key_names.layout(item.key for item in stored)}"
    )


def _tensors(folder: Path) -> str:
    """Whether the files have what config.json asks for."""
    from xvla_ros.model.checkpoint import empty_network, tensor_faults

    config = XVLAConfig.from_folder(folder)
    files, stored = _stored(folder)
    faults = tensor_faults(empty_network(config), stored, files)
    if faults:
        more = len(faults) - _MOST_FAULTS
        rest = [f"and {more} more"] if more > 0 else []
        raise Problem(("\n" + " " * 22).join(faults[:_MOST_FAULTS] + rest))
    return f"all {len(stored)} are what config.json asks for"


def _actions(folder: Path, domain_id: int | None) -> str:
    """What the numbers mean, and whether this arm can execute them."""
    conventions = read_conventions(folder, domain_id)
    doubts = "".join(f"\n{'':22}note: {doubt}" for doubt in conventions.doubts())
    return conventions.describe() + doubts


def _domains(folder: Path) -> str:
    """Domains whose conventions are known and that the network has."""
    config, table = XVLAConfig.from_folder(folder), load_domains(folder)
    if why_not_executable(config):
        raise Problem("none can be executed on this arm (see actions)")
    known = [domain for number, domain in table.items() if number < config.num_domains]
    if not known:
        raise Problem(f"none of the {config.num_domains} has conventions; write domains.json")
    return ", ".join(
        f"{d.id} {d.name} ({d.step_dt:.4g} s, {d.rotation_layout})"
        + (" <- used by default" if d.id == BRIDGE.id else "")
        for d in known
    )


def _inputs(folder: Path) -> str:
    """Images, instruction and state."""
    from xvla_ros.model.fit import check_fit
    from xvla_ros.model.processor import Processor

    config = XVLAConfig.from_folder(folder)
    processor = Processor.from_folder(folder, config.text_length)
    check_fit(folder, config, processor, VIEWS)
    return (
        f"{VIEWS} images of {processor.image_size} px, {config.text_length} ids of "
        f"{processor.vocab_size}, state of {config.dim_proprio} numbers"
    )


def _hash(folder: Path, expected: str | None) -> str:
    """Whether the weights have their hash."""
    from xvla_ros.model.weights_hash import check_hash, hash_weights

    with _bar() as progress:
        found = hash_weights(folder, progress)
    source = check_hash(folder, found, expected)
    return f"{found.whole}, as {source} says"


class _bar:  # noqa: N801 - used as a function
    """A progress bar on a terminal; nothing elsewhere."""

    def __enter__(self) -> Callable[[int, int], None]:
        from tqdm import tqdm

        self._bar = tqdm(
            unit="B", unit_scale=True, desc="sha256", leave=False, disable=not sys.stderr.isatty()
        )
        return self._show

    def _show(self, done: int, total: int) -> None:
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def __exit__(self, *exception: object) -> None:
        self._bar.close()


def _bytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
