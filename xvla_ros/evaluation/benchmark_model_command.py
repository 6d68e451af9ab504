"""`xvla benchmark model`: how fast a network is here, where its time goes, and beside LeRobot's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xvla_ros.errors import UsageError

if TYPE_CHECKING:
    from xvla_ros.evaluation.benchmark_command import Kinds

SCHEMA = "xvla_ros.benchmark.model/1"
_FEWEST_PAIRS = 7
_OPTIONS = ("dtype", "quantize", "images", "device", "threads")


def add_parser(kinds: Kinds) -> None:
    """Adds `xvla benchmark model`."""
    parser = kinds.add_parser(
        "model",
        help="one chunk of the network: load, memory, stages, arithmetic; beside LeRobot's",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="""\
Times one chunk of a network on this machine: loading and peak memory (in a process of its own), the
first call, then every stage of calls with new pictures each; counts its matrix products and
measures how fast the machine does products of the same shapes.""",
        epilog="""\
examples:
  xvla benchmark model --size demo
  xvla benchmark model --size full --views 3 --threads 2 --compare upstream --json full.json
  xvla benchmark model --size /models/X-VLA-WidowX --dtype bfloat16 --steps 1,0.7,0.4,0.1

--size full writes random weights of the published size (3.5 GB) to --cache once. --compare upstream
needs the extra [bench] and LeRobot 0.4.4 without its dependencies.""",
    )
    parser.add_argument("--size", default="demo", help="demo, full, or a model folder")
    parser.add_argument("--views", type=int, default=3, help="pictures of an observation; 3")
    parser.add_argument("--slots", type=int, default=3, help="view slots of the network; 3")
    parser.add_argument(
        "--steps", "--grid", default="10", help="denoising steps, or their times: 1,0.7,0.4,0.1"
    )
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 or float16")
    parser.add_argument("--quantize", default="none", help="none or int8")
    parser.add_argument("--images", default="exact", help="how images are made ready")
    parser.add_argument("--device", default="cpu", help="npu[:i] | cuda[:i] | cpu | auto")
    parser.add_argument("--threads", type=int, help="CPU threads; default: torch's own choice")
    parser.add_argument("--runs", type=int, default=10, help="calls after the first one; 10")
    parser.add_argument(
        "--cached", action="store_true", help="the same pictures at every call, caches on"
    )
    parser.add_argument(
        "--profile", action="store_true", help="one more call: what torch's operators take of it"
    )
    parser.add_argument(
        "--compare", choices=("upstream",), help="calls of LeRobot's network between ours"
    )
    parser.add_argument("--pairs", type=int, default=_FEWEST_PAIRS, help="with --compare, >= 7")
    parser.add_argument("--upstream-dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--upstream-steps", type=int, default=10)
    parser.add_argument(
        "--cache", type=Path, default=Path("out/benchmark"), help="folder of random weights"
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measures and prints."""
    from tqdm import tqdm

    from xvla_ros.evaluation.benchmark_model_report import print_report
    from xvla_ros.evaluation.machine import machine
    from xvla_ros.evaluation.result import write_json
    from xvla_ros.runtime.benchmark.lerobot_peer import LeRobot
    from xvla_ros.runtime.benchmark.load_child import count_parameters, measure_loading
    from xvla_ros.runtime.benchmark.model_run import ModelRun

    options = _options(arguments)
    if arguments.compare:
        # Says at once, and not after minutes, that the other network is not there.
        LeRobot.load()
    folder = _folder(arguments)
    calls = arguments.pairs * 2 if arguments.compare else arguments.runs
    with tqdm(total=calls + 3, unit="call", desc="loading") as bar:
        loading = measure_loading(folder, options)
        bar.update()
        measured = ModelRun(folder, options, arguments.views, arguments.cached)
        comparison = None
        bar.set_description("first call")
        if arguments.compare:
            comparison = _compare(arguments, measured, bar)
        else:
            measured.call()
            bar.update()
            bar.set_description("calls")
            for _ in range(arguments.runs):
                measured.call()
                bar.update()
        bar.set_description("matrix products")
        figures = measured.to_dict(not arguments.cached, lambda done, total: None)
        if arguments.profile:
            figures["operators"] = measured.profile()
        bar.update()
    policy = measured.policy
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "machine": machine() | {"device": policy.device_description},
        "model": {
            "size": arguments.size if arguments.size in ("demo", "full") else folder.name,
            "hash": measured.model_hash,
            "parameters": count_parameters(folder),
        },
        "settings": {
            **options,
            "steps": list(policy.time_grid),
            "pictures": arguments.views,
            "slots": policy.num_views,
            "cached": arguments.cached,
            "threads": arguments.threads,
        },
        "load": loading,
        **figures,
    }
    if comparison is not None:
        content["compare"] = comparison.to_dict()
        content["speedup"] = comparison.speedup
    policy.close()
    print_report(content)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        write_json(arguments.json, content)
    return 0


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """For `load_policy`, checked before anything is loaded."""
    from xvla_ros.runtime.options import RunOptions, parse_steps, read_steps

    for name, least in (("views", 1), ("slots", 1), ("runs", 1), ("upstream_steps", 1)):
        value = getattr(arguments, name)
        if value < least:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; at least {least} is needed")
    if arguments.views > arguments.slots:
        raise UsageError(f"--views {arguments.views} pictures do not fit --slots {arguments.slots}")
    if arguments.compare and arguments.pairs < _FEWEST_PAIRS:
        raise UsageError(f"--pairs is {arguments.pairs}; fewer than {_FEWEST_PAIRS} show little")
    if arguments.compare and arguments.cached:
        raise UsageError("--cached has nothing to compare with: LeRobot's network keeps nothing")
    options = {name: getattr(arguments, name) for name in _OPTIONS}
    options |= {"views": arguments.slots}
    try:
        options["steps"] = read_steps(arguments.steps)
        RunOptions(
            parse_steps(options["steps"]),
            dtype=arguments.dtype,
            quantize=arguments.quantize,
            images=arguments.images,
            views=arguments.slots,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    return options


def _folder(arguments: argparse.Namespace) -> Path:
    """The model folder; random weights of the published size are written when they are needed."""
    from xvla_ros import resources

    if arguments.size == "demo":
        return resources.demo_model()
    if arguments.size != "full":
        return Path(arguments.size)
    folder = arguments.cache / "random-full"
    if not (folder / "model.safetensors").is_file():
        from xvla_ros.model.config import XVLAConfig
        from xvla_ros.model.processor import ImageTransform, write_preprocessor_config
        from xvla_ros.runtime.benchmark.random_weights import write_random_weights
        from xvla_ros.training.folder import build_tokenizer

        print(f"writing random weights of the published size to {folder} (3.5 GB, once)")
        folder.mkdir(parents=True, exist_ok=True)
        write_preprocessor_config(folder, ImageTransform())
        build_tokenizer(["put the spoon on the towel"], 300).save(str(folder / "tokenizer.json"))
        write_random_weights(folder, XVLAConfig())
    return folder


def _compare(arguments: argparse.Namespace, measured: Any, bar: Any) -> Any:
    from xvla_ros.runtime.benchmark.comparison import Comparison

    comparison = Comparison.of(measured, arguments.upstream_dtype, arguments.upstream_steps)
    comparison.first()
    bar.update()
    bar.set_description("pairs")
    for _ in range(arguments.pairs):
        comparison.pair()
        bar.update(2)
    return comparison
