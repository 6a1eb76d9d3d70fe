"""Speed of a training step: ours on named settings, a peer's, and the machine's limit.

Every measurement is a fresh process with the same number of threads. Ours and the peer's alternate and medians are
reported, so that other load on the machine affects both. Results are per prompt, since a peer that cannot batch prompts
trains on one prompt a step. `docs/benchmarks.md` has results and their interpretation.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console

from palaver.benchmarks.performance.training.settings import MeasurementOrder, ModelShape, Peer, setting
from palaver.core import ConfigError, need
from palaver.utils.config import ONE_OR_MORE, Section
from palaver.utils.provenance import provenance
from palaver.utils.tables import Table

MEMORY_STEPS = 2  # of a process that measures memory instead of time
PEER_STEPS = 4  # a peer's step is one prompt, so few are enough

Log = Callable[[str], None]


class StepBenchmark(Section):
    """Settings of the benchmark: every model shape with every number of prompts, repeated."""

    setting: Annotated[tuple[str, ...], ONE_OR_MORE] = Field(
        ("A", "C"), min_length=1, description="A, B, C, D or Qwen3-0.6B"
    )
    prompts: Annotated[tuple[Annotated[int, Field(ge=1)], ...], ONE_OR_MORE] = Field(
        (1, 8), min_length=1, description="of a step"
    )
    repeats: int = Field(3, ge=1, description="processes per measurement; the median counts")
    steps: int = Field(4, ge=1, description="counted in each, after one that is not")
    threads: int = Field(1, ge=1, description="of torch, of the peer too")
    device: str = Field("cpu", description="cpu, cuda, cuda:1, ...")
    memory: bool = Field(True, description="measure the peak memory of an update, in processes of their own")
    peer_python: str | None = Field(None, description="the Python that has the peer")
    peer_script: str | None = Field(None, description="the peer's benchmark script")

    @property
    def shapes(self) -> tuple[ModelShape, ...]:
        """Model shapes of the settings."""
        return tuple(setting(name) for name in dict.fromkeys(self.setting))

    @property
    def peer(self) -> Peer | None:
        """Library to compare with; None measures ours only.

        Raises:
            ConfigError: only one of its two paths is given, or a file is missing.
        """
        if (self.peer_python is None) != (self.peer_script is None):
            raise ConfigError("the peer needs both peer_python and peer_script")
        return Peer(self.peer_python, self.peer_script) if self.peer_python and self.peer_script else None


def run(benchmark: StepBenchmark, as_json: bool, log: Log = lambda _: None) -> None:
    """Measure, and print the report as JSON or as tables.

    Raises:
        ConfigError: an unknown setting, only one of the peer's two paths, a missing file or extra.
        BenchmarkError: a measuring process failed.
    """
    need("a training step", "train")
    report = measure(benchmark, log)
    print(json.dumps(report, indent=2)) if as_json else show(report)


def measure(benchmark: StepBenchmark, log: Log = lambda _: None) -> dict[str, Any]:
    """Run the benchmark; return its report as plain data, with a result per shape and prompts."""
    shapes, peer = benchmark.shapes, benchmark.peer
    results = [result for shape in shapes for result in _measure_shape(benchmark, shape, peer, log)]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "provenance": provenance(),
        "device": benchmark.device,
        "threads": benchmark.threads,
        "repeats": benchmark.repeats,
        "steps": benchmark.steps,
        "results": results,
    }


def _measure_shape(benchmark: StepBenchmark, shape: ModelShape, library: Peer | None, log: Log) -> list[dict[str, Any]]:
    """Result of each number of prompts B; that of the peer is the same in all."""
    orders = {
        B: MeasurementOrder(shape.name, B, benchmark.steps, benchmark.threads, benchmark.device)
        for B in dict.fromkeys(benchmark.prompts)
    }
    peer_order = MeasurementOrder(shape.name, 1, min(benchmark.steps, PEER_STEPS), benchmark.threads, benchmark.device)
    runs: dict[int, list[dict[str, Any]]] = {B: [] for B in orders}
    peer_runs: list[dict[str, Any]] = []
    for repeat in range(1, benchmark.repeats + 1):
        for B, order in orders.items():
            log(f"setting {shape.name}, B={B}, {repeat} of {benchmark.repeats}")
            runs[B].append(order.run())
        if library:
            log(f"setting {shape.name}, the peer, {repeat} of {benchmark.repeats}")
            peer_runs.append(library.run(shape, peer_order))
    peer = median(peer_runs) if peer_runs else None
    if benchmark.memory:
        log(f"setting {shape.name}, memory of the update")
        for B, order in orders.items():
            runs[B][0] |= replace(order, memory=True, steps=MEMORY_STEPS).run()
        if library and peer:
            peer |= library.run(shape, replace(peer_order, memory=True, steps=MEMORY_STEPS))
    return [_result(shape, B, median(runs[B]), peer) for B in orders]


def median(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Median report of several processes, with the seconds of all as `runs`.

    `spent_s` is the median. The other values are those of the process in the middle, of the faster of two; its stages
    are scaled so that they sum to the median. `update_peak_bytes` is that of the process which measured it.
    """
    ordered = sorted(runs, key=lambda run: run["spent_s"])
    middle = ordered[(len(ordered) - 1) // 2]
    median_seconds = statistics.median(run["spent_s"] for run in runs)
    stages = {stage: seconds * median_seconds / middle["spent_s"] for stage, seconds in middle["stages"].items()}
    report = {**middle, "spent_s": median_seconds, "runs": [run["spent_s"] for run in runs], "stages": stages}
    peaks = [run["update_peak_bytes"] for run in runs if "update_peak_bytes" in run]
    return report | ({"update_peak_bytes": peaks[0]} if peaks else {})


def _result(shape: ModelShape, prompts: int, ours: dict[str, Any], peer: dict[str, Any] | None) -> dict[str, Any]:
    result: dict[str, Any] = {"setting": shape.name, "prompts": prompts, "ours": ours, "peer": peer}
    result["share_of_limit"] = {stage: seconds / ours["stages"][stage] for stage, seconds in ours["limit"].items()}
    if peer:
        result["times_faster"] = peer["spent_s"] / ours["spent_s"]
        result["times_faster_per_token"] = result["times_faster"] * ours["tokens"] / peer["tokens"]
        our_bytes, peer_bytes = ours.get("update_peak_bytes"), peer.get("update_peak_bytes")
        result["peak_share"] = our_bytes / peer_bytes if our_bytes and peer_bytes else None
    return result


COLUMNS = ("setting", "B", "ms/prompt", "stages %", "limit %", "tokens/s", "MiB", "peer ms", "peer MiB", "faster")
MIB = 1 << 20


def show(report: dict[str, Any]) -> None:
    """Print the measurements and their interpretation."""
    console = Console(highlight=False)
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
    theirs = ["-", "-", "-"]
    if peer is not None:
        theirs = [
            f"{1000 * peer['spent_s']:,.1f}",
            _mib(peer.get("update_peak_bytes")),
            f"{result['times_faster']:.1f}x",
        ]
    return [
        result["setting"],
        str(result["prompts"]),
        f"{1000 * ours['spent_s']:,.1f}",
        stages,
        reach,
        f"{ours['tokens_per_s']:,.0f}",
        _mib(ours.get("update_peak_bytes")),
        *theirs,
    ]


def _percent(shares: Iterable[float]) -> str:
    return "/".join(f"{100 * share:.0f}" for share in shares)


def _mib(value: int | None) -> str:
    return "-" if value is None else f"{value / MIB:,.0f}"
