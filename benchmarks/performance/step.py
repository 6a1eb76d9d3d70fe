"""Speed of a training step: ours on named settings, a peer's, and the machine's limit.

Every measurement is a fresh process with the same number of threads; they alternate (ours, theirs, ours, theirs ...)
and medians are reported, so that other load on the machine affects both. A peer that cannot batch prompts takes one
prompt a step; so all results are per prompt. `docs/benchmarks.md` has results and their interpretation.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from palaver.benchmarks.performance.training.order import MeasurementOrder, Peer
from palaver.benchmarks.performance.training.settings import ModelShape, setting
from palaver.benchmarks.performance.training.view import show
from palaver.core import ConfigError
from palaver.utils.provenance import provenance

MEMORY_STEPS = 2
PEER_STEPS = 4  # a peer's step is one prompt, so few are enough

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StepBenchmark:
    """Settings of the benchmark: every model setting with every number of prompts, `repeats` times."""

    settings: tuple[ModelShape, ...]
    prompts: tuple[int, ...]
    repeats: int
    steps: int
    threads: int
    device: str
    peer: Peer | None = None
    memory: bool = True


def run(
    settings: list[str],
    prompts: list[int],
    repeats: int,
    steps: int,
    threads: int,
    device: str,
    peer_python: str | None,
    peer_script: str | None,
    as_json: bool,
    log: Say = lambda _: None,
) -> None:
    """Measure and print.

    Args:
        settings: names, see `palaver.benchmarks.performance.training.settings`.
        prompts: numbers of prompts a step, B.
        repeats: processes per measurement; the median is reported.
        steps: counted steps in each.
        threads: of torch.
        device: `cpu`, `cuda`, ...
        peer_python: the Python that has the peer; None: ours alone.
        peer_script: the peer's benchmark script.
        as_json: print the report as JSON instead of tables.
        log: called with a line before each measurement.

    Raises:
        ConfigError: an unknown setting, a number below 1, only one of the peer's two paths, or a missing file.
        BenchmarkError: a measuring process failed.
    """
    numbers = {"prompts": min(prompts, default=0), "repeats": repeats, "steps": steps, "threads": threads}
    for name, value in numbers.items():
        if value < 1:
            raise ConfigError(f"{name} must be 1 or more, got {value}")
    if (peer_python is None) != (peer_script is None):
        raise ConfigError("the peer needs both --peer-python and --peer-script")
    peer = Peer(peer_python, peer_script) if peer_python and peer_script else None
    chosen = tuple(setting(name) for name in dict.fromkeys(settings))
    if not chosen:
        raise ConfigError("name at least one setting")
    report = measure(StepBenchmark(chosen, tuple(dict.fromkeys(prompts)), repeats, steps, threads, device, peer), log)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        show(report)


def measure(plan: StepBenchmark, log: Say = lambda _: None) -> dict[str, Any]:
    """The whole report, plain data."""
    results: list[dict[str, Any]] = []
    for chosen in plan.settings:
        results += _measure_setting(plan, chosen, log)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "provenance": provenance(),
        "device": plan.device,
        "threads": plan.threads,
        "repeats": plan.repeats,
        "steps": plan.steps,
        "results": results,
    }


def _measure_setting(plan: StepBenchmark, chosen: ModelShape, log: Say) -> list[dict[str, Any]]:
    orders = {B: MeasurementOrder(chosen.name, B, plan.steps, plan.threads, plan.device) for B in plan.prompts}
    theirs = MeasurementOrder(chosen.name, 1, min(plan.steps, PEER_STEPS), plan.threads, plan.device)
    runs: dict[int, list[dict[str, Any]]] = {B: [] for B in orders}
    peer_runs: list[dict[str, Any]] = []
    for repeat in range(1, plan.repeats + 1):
        for B, order in orders.items():
            log(f"setting {chosen.name}, B={B}, {repeat} of {plan.repeats}")
            runs[B].append(order.run())
        if plan.peer:
            log(f"setting {chosen.name}, the peer, {repeat} of {plan.repeats}")
            peer_runs.append(plan.peer.run(chosen, theirs))
    peer = median(peer_runs) if peer_runs else None
    if plan.memory:
        log(f"setting {chosen.name}, memory of the update")
        for B, order in orders.items():
            runs[B][0] |= replace(order, memory=True, steps=MEMORY_STEPS).run()
        if plan.peer and peer:
            peer |= plan.peer.run(chosen, replace(theirs, memory=True, steps=MEMORY_STEPS))
    return [_result(chosen, B, median(reports), peer) for B, reports in runs.items()]


def median(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the median run by total seconds (its stages belong together), with the seconds of all runs."""
    ordered = sorted(runs, key=lambda run: run["spent_s"])
    middle = ordered[(len(ordered) - 1) // 2]
    peaks = [run["update_peak_bytes"] for run in runs if "update_peak_bytes" in run]
    step_seconds = statistics.median(run["spent_s"] for run in runs)
    report = {**middle, "spent_s": step_seconds, "runs": [run["spent_s"] for run in runs]}
    report["stages"] = {stage: value * step_seconds / middle["spent_s"] for stage, value in middle["stages"].items()}
    return report | ({"update_peak_bytes": peaks[0]} if peaks else {})


def _result(chosen: ModelShape, prompts: int, ours: dict[str, Any], peer: dict[str, Any] | None) -> dict[str, Any]:
    result: dict[str, Any] = {"setting": chosen.name, "prompts": prompts, "ours": ours, "peer": peer}
    reach = {stage: seconds / ours["stages"][stage] for stage, seconds in ours["limit"].items()}
    result["share_of_limit"] = reach
    if peer:
        result["times_faster"] = peer["spent_s"] / ours["spent_s"]
        result["times_faster_per_token"] = result["times_faster"] * ours["tokens"] / peer["tokens"]
        mine, peer_bytes = ours.get("update_peak_bytes"), peer.get("update_peak_bytes")
        result["peak_share"] = mine / peer_bytes if mine and peer_bytes else None
    return result
