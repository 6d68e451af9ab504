"""The figures of `xvla benchmark model` for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def print_report(content: Mapping[str, Any]) -> None:
    """Stages, arithmetic, loading and the comparison."""
    from xvla_ros.evaluation.console import terminal

    console = terminal()
    console.print(stage_table(content))
    load = content["load"]
    console.print(
        f"load {load['load_s']:.2f} s, {load['ready_s']:.2f} s with what the first call takes "
        f"longer than the second; {_mb(load['weights_bytes'])} of weights; peak with the "
        f"first call {_mb(load['peak_bytes'] - load['bare_bytes'])} above the bare interpreter "
        f"({load['peak_above_bare_per_weights']:.2f} x)",
        soft_wrap=True,
    )
    for key in ("gemm", "gemm_own_layers"):
        gemm = content.get(key)
        if gemm is not None:
            console.print(
                f"matrix products: {gemm['achieved_gflop_per_s']:.0f} of "
                f"{gemm['gflop_per_s']:.0f} GFLOP/s that {gemm['linear']} reaches on the same "
                f"shapes in {gemm['dtype']} ({100 * gemm['fraction']:.0f} %)",
                soft_wrap=True,
            )
    for name, operator in content.get("operators", {}).items():
        console.print(f"  {100 * operator['share']:5.1f} %  {name}, {operator['calls']} times")
    compare = content.get("compare")
    if compare is not None:
        ours, theirs = compare["ours_s"], compare["theirs_s"]
        console.print(
            f"{compare['peer']}, {compare['dtype']}, {compare['steps']} steps: median "
            f"{_time(theirs['median'])} against {_time(ours['median'])} in {compare['pairs']} "
            f"pairs: [bold]{compare['speedup']:.2f} x[/]",
            soft_wrap=True,
        )
        for name, figures in compare["agreement"].items():
            console.print(
                f"  {name}: largest difference {figures['relative']:.1e} of the largest number, "
                f"Pearson {figures['pearson']:.8f}",
                soft_wrap=True,
            )


def stage_table(content: Mapping[str, Any]) -> Any:
    """Seconds and operations by stage."""
    from rich.table import Table

    settings, machine = content["settings"], content["machine"]
    made = Table(
        title=f"{content['model']['size']}, {content['approximation']}, {settings['pictures']} "
        f"pictures in {settings['slots']} slots, {len(content['time_grid'])} steps",
        caption=f"{machine['processor']}, {machine['device']}; load average "
        f"{machine['load_average']:.1f}",
    )
    made.add_column("seconds", no_wrap=True)
    for name in ("median", "min", "p95", "products\nalone", "GFLOP", "upstream", "GFLOP/s"):
        made.add_column(name, justify="right")
    rows = {**content["stages_s"], "chunk": content["chunk_s"]}
    for name, figures in rows.items():
        key = "total" if name == "chunk" else name
        flops = content["gflop"].get(key)
        alone = content.get("gemm", {}).get("stages_s", {}).get(name)
        made.add_row(
            name.replace("_", " "),
            *(f"{figures[field]:.4f}" for field in ("median", "min", "p95")),
            "" if alone is None else f"{alone:.4f}",
            "" if flops is None else f"{flops:.4g}",
            "" if flops is None else f"{content['gflop_published'][key]:.4g}",
            "" if flops is None else f"{flops / figures['median']:.0f}",
        )
    made.add_row("first call", f"{content['first_call_s']:.4f}", *[""] * 6)
    return made


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{1e3 * seconds:.1f} ms"


def _mb(size: float) -> str:
    return f"{size / 1e6:.0f} MB"
