"""Memory and step time of each kind of team, and of one agent that trains a full model.

All do the same work.

Every measurement is a fresh process with random models read from a folder that is removed afterwards; the kinds
alternate, so that other load on the machine affects all. `docs/teams.md` has results and their interpretation.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

import psutil
from pydantic import Field, model_validator

from palaver.benchmarks.performance.training.crowd import KINDS, ONE, Models, TeamMeasurement, size
from palaver.benchmarks.performance.training.crowd_view import show
from palaver.core import ConfigError, did_you_mean
from palaver.utils.config import ONE_OR_MORE, Section
from palaver.utils.provenance import provenance

GIB = 1 << 30
WARMUP = 1
SPARE = GIB  # for activations, keys and values, and the libraries

Say = Callable[[str], None]


class TeamBenchmark(Section):
    """Settings of the benchmark: `repeats` processes of each kind, which do the same work."""

    kinds: Annotated[tuple[str, ...], ONE_OR_MORE] = Field(KINDS, description="of teams")
    size: str = Field("80M", description="of every model: 0.1M, 25M, 80M, 145M, Qwen3-0.6B")
    agents: int = Field(4, ge=2, description="of a team")
    group: int = Field(4, ge=1, description="answers per prompt and agent")
    prompts: int = Field(1, ge=1, description="of a step")
    new_tokens: int = Field(0, ge=0, description="most tokens of an answer; 0: the default of the size")
    steps: int = Field(3, ge=1, description="counted, after one that is not")
    repeats: int = Field(1, ge=1, description="processes of each kind, which alternate")
    rank: int = Field(16, ge=1, description="of adapters")
    threads: int = Field(1, ge=1, description="of torch")
    device: str = Field("cpu", description="cpu, cuda, cuda:1, ...")
    algorithm: str = Field("magrpo", description="its name; with a critic that one counts too")
    kl: float = Field(0.0, ge=0, description="weight of the KL penalty; above 0 references count too")

    @model_validator(mode="after")
    def _known(self) -> Self:
        for kind in self.kinds:
            if kind not in KINDS:
                raise ConfigError(f"there is no kind of team {kind!r}.{did_you_mean(kind, KINDS)}")
        size(self.size)
        return self

    def order(self, kind: str, folder: str) -> TeamMeasurement:
        """Settings of one process."""
        return TeamMeasurement(
            kind,
            self.size,
            self.agents,
            self.group,
            self.prompts,
            self.new_tokens or size(self.size).new_tokens,
            self.steps,
            WARMUP,
            self.rank,
            self.threads,
            self.device,
            folder,
            self.algorithm,
            self.kl,
        )


def run(plan: TeamBenchmark, *, as_json: bool = False, out: Path | None = None, log: Say = lambda _: None) -> None:
    """Measure and print.

    Args:
        plan: settings.
        as_json: print the report as JSON instead of the table.
        out: file to write the report to as JSON.
        log: called with a line before each measurement.

    Raises:
        ConfigError: a kind needs more memory than is free, or the file's folder does not exist.
        BenchmarkError: a measuring process failed.
    """
    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"--out: there is no folder {str(out.absolute().parent)!r}")
    refuse_what_does_not_fit(plan, psutil.virtual_memory().available)
    report = measure(plan, log)
    text = json.dumps(report, indent=2)
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print(text)
    else:
        show(report)


def refuse_what_does_not_fit(plan: TeamBenchmark, free: int) -> None:
    """Refuse teams that exceed the machine's memory before any work; a GPU raises its own error.

    Args:
        plan: settings.
        free: available bytes.

    Raises:
        ConfigError: a kind needs more.
    """
    orders = [plan.order(kind, "") for kind in plan.kinds] if plan.device == "cpu" else []
    largest = max(orders, key=lambda order: order.needed, default=None)
    if largest is not None and largest.needed + SPARE > free:
        raise ConfigError(
            f"the kind {largest.kind!r} at {plan.size} takes about {(largest.needed + SPARE) / GIB:.1f} GiB, but "
            f"{free / GIB:.1f} GiB are free: take a smaller size, fewer agents, or name kinds that fit"
        )


def measure(plan: TeamBenchmark, log: Say = lambda _: None) -> dict[str, Any]:
    """The whole report, plain data."""
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in dict.fromkeys(plan.kinds)}
    with tempfile.TemporaryDirectory(prefix="palaver-teams-") as folder:
        log(f"models of {plan.size}")
        counted = Models(plan.size, folder).run()
        for repeat in range(1, plan.repeats + 1):
            for kind, reports in runs.items():
                log(f"{kind}, {repeat} of {plan.repeats}")
                reports.append(plan.order(kind, folder).run())
    results = [{"kind": kind, **combined(reports)} for kind, reports in runs.items()]
    work = {name: getattr(plan.order(ONE, ""), name) for name in ("group", "prompts", "new_tokens", "steps", "rank")}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "provenance": provenance(),
        "device": plan.device,
        "threads": plan.threads,
        "size": plan.size,
        "parameters": counted,
        "agents": plan.agents,
        "algorithm": plan.algorithm,
        "kl": plan.kl,
        "work": work,
        "repeats": plan.repeats,
        "results": [relative_to_one(result, results) for result in results],
    }


def combined(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Combine one kind's processes: maximum of memory, medians over all steps."""
    steps = [step for run in runs for step in run["steps"]]
    peaks = [run["peak_bytes"] for run in runs if run["peak_bytes"] is not None]
    stages = {
        stage: {clock: statistics.median(step[stage][clock] for step in steps) for clock in ("wall_s", "cpu_s")}
        for stage in ("step", "rollout", "update")
    }
    return {
        "trained": runs[0]["trained"],
        "held": runs[0]["held"],
        "peak_bytes": max(peaks) if len(peaks) == len(runs) else None,
        **stages,
        "tokens": statistics.fmean(step["tokens"] for step in steps),
        "trained_share": min(step["trained_share"] for step in steps),
        "runs": list(runs),
    }


def relative_to_one(result: dict[str, Any], results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add to a result its memory relative to one agent's full training, if both were measured."""
    one = next((row for row in results if row["kind"] == ONE), None)
    known = one is not None and one["peak_bytes"] and result["peak_bytes"] is not None
    return {**result, "memory_of_one": result["peak_bytes"] / one["peak_bytes"] if one and known else None}
