"""The report of `palaver bench step` as tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console

from palaver.utils.tables import Table

COLUMNS = ("setting", "B", "ms/prompt", "stages %", "limit %", "tokens/s", "MiB", "peer ms", "peer MiB", "faster")
MIB = 1 << 20


def show(report: dict[str, Any], console: Console | None = None) -> None:
    """Print the measurements and their interpretation."""
    console = console or Console(highlight=False)
    rows = [_row(result) for result in report["results"]]
    kind = "CPU time" if report["device"] == "cpu" else "wall time"
    threads = f"{report['threads']} thread{'s' if report['threads'] > 1 else ''}"
    console.print(
        f"one training step, 2 agents, G = 4: {kind} per prompt on {report['device']}, {threads}, "
        f"median of {report['repeats']} x {report['steps']} steps"
    )
    console.print(Table(head=COLUMNS, rows=rows, right=range(1, len(COLUMNS))).rich())
    rates = [result["ours"]["machine"] for result in report["results"]]
    flops, moved = (max(rate[name] for rate in rates) / 1e9 for name in ("flops", "bytes"))
    console.print(
        "stages: generation / update / everything else. limit: the share of the machine's limit that generation / the "
        f"update reach ({flops:.0f} GFLOP/s in matrix products, {moved:.0f} GB/s past the caches, measured here). MiB: "
        "the most memory in an update over weights, gradients and optimiser state.",
        style="dim",
    )
    names = {result["peer"]["name"] for result in report["results"] if result["peer"]}
    if names:
        console.print(f"peer: {', '.join(sorted(names))}, one prompt a step", style="dim")


def _row(result: dict[str, Any]) -> list[str]:
    ours, peer = result["ours"], result["peer"]
    stages = _percent(ours["stages"][stage] / ours["spent_s"] for stage in ("generate", "update", "rest"))
    reach = _percent(result["share_of_limit"][stage] for stage in ("generate", "update"))
    row = [result["setting"], str(result["prompts"]), f"{1000 * ours['spent_s']:,.1f}", stages, reach]
    row += [f"{ours['tokens_per_s']:,.0f}", _mib(ours.get("update_peak_bytes"))]
    if peer is None:
        return [*row, "-", "-", "-"]
    return [
        *row,
        f"{1000 * peer['spent_s']:,.1f}",
        _mib(peer.get("update_peak_bytes")),
        f"{result['times_faster']:.1f}x",
    ]


def _percent(shares: Iterable[float]) -> str:
    return "/".join(f"{100 * share:.0f}" for share in shares)


def _mib(value: int | None) -> str:
    return "-" if value is None else f"{value / MIB:,.0f}"
