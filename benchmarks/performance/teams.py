"""Memory and step time of each kind of team, and of one agent that trains a full model.

All do the same work.

Every measurement is a fresh process with random models read from a folder that is removed afterwards; the kinds
alternate, so that other load on the machine affects all. `docs/teams.md` has results and their interpretation.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from rich.console import Console

from palaver.benchmarks.performance.training.settings import ModelShape, parameters, report_of
from palaver.core import ConfigError, did_you_mean, need
from palaver.utils.config import ONE_OR_MORE, Section
from palaver.utils.provenance import provenance
from palaver.utils.run_folder import replace_text
from palaver.utils.tables import Table

GIB = 1 << 30
WORKER = "palaver.benchmarks.performance.team_worker"
WARMUP = 1  # steps before the measured ones; the first creates the optimiser's state
SPARE = GIB  # for activations, keys and values, and the libraries

Say = Callable[[str], None]


ONE = "one"  # the reference: an environment with one agent, which trains a full model
KINDS = (ONE, "separate", "shared", "lora", "heterogeneous")
OWN, OTHER = "own", "other"  # folders of the models
TARGET = 100  # best mean number of characters of the answers

SIZES = {
    setting.name: setting
    for setting in (
        ModelShape("0.1M", 64, 2, 4, 2, 16, 128, 512, 8),
        ModelShape("25M", 512, 8, 8, 4, 64, 1408, 4096, 32),
        ModelShape("80M", 768, 12, 12, 4, 64, 2048, 4096, 32),
        ModelShape("145M", 1024, 12, 16, 8, 64, 2816, 4096, 32),
        ModelShape("Qwen3-0.6B", 1024, 28, 16, 8, 128, 3072, 151_936, 256, "bf16"),
    )
}


class TeamBenchmark(Section):
    """Settings of the benchmark: `repeats` processes of each kind, which do the same work."""

    kinds: Annotated[tuple[str, ...], ONE_OR_MORE] = Field(KINDS, description="of teams")
    size: Annotated[str, Field(coerce_numbers_to_str=True)] = Field(
        "80M", description="of every model: 0.1M, 25M, 80M, 145M, Qwen3-0.6B"
    )
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
    compile: bool = Field(False, description="train.compile")

    @model_validator(mode="after")
    def _known(self) -> Self:
        for what, names, known in (("kind of team", self.kinds, KINDS), ("size", (self.size,), tuple(SIZES))):
            for name in names:
                if name not in known:
                    raise ConfigError(f"there is no {what} {name!r}.{did_you_mean(name, known)}")
        return self

    def order(self, kind: str, folder: str) -> TeamMeasurement:
        """Settings of one process."""
        tokens = self.new_tokens or SIZES[self.size].new_tokens
        return TeamMeasurement(**self.model_dump() | {"kind": kind, "folder": folder, "new_tokens": tokens})


class TeamMeasurement(TeamBenchmark):
    """Train a team of one kind for some steps and measure time and memory.

    Attributes:
        kind: one of `KINDS`; the environment of `one` has one agent.
        folder: that `Models` has written.
    """

    kind: str
    folder: str

    @property
    def agent_names(self) -> list[str]:
        """The agents' names."""
        return [f"a{index}" for index in range(1, 1 + (1 if self.kind == ONE else self.agents))]

    @property
    def needed(self) -> int:
        """Lower bound of the memory in bytes, computed before loading.

        For each fully trained model fp32 weights, a copy for generation and Adam's two moments; the gradients of one
        at a time; adapters are negligible. Activations, keys and values are not included.
        """
        shape = SIZES[self.size]
        copy, weights = 2 if shape.dtype == "bf16" else 4, parameters(shape)
        if self.kind == "lora":
            return weights * (2 * copy)
        models = 1 if self.kind == "shared" else len(self.agent_names)
        return weights * (models * (4 + copy + 8) + 4)

    def run(self) -> dict[str, Any]:
        """Run the measurement; see `palaver.benchmarks.performance.team_worker.measure`.

        Raises:
            BenchmarkError: the process failed.
        """
        return _process(self.model_dump_json(), self.threads)


def run(plan: TeamBenchmark, *, as_json: bool = False, out: Path | None = None, log: Say = lambda _: None) -> None:
    """Measure and print.

    Args:
        plan: settings.
        as_json: print the report as JSON instead of the table.
        out: file to write the report to as JSON.
        log: called with a line before each measurement.

    Raises:
        ConfigError: a kind needs more memory than is free, the file's folder does not exist, or an extra is missing.
        BenchmarkError: a measuring process failed.
    """
    need("a training step", "train")
    import psutil

    refuse_what_does_not_fit(plan, psutil.virtual_memory().available)
    report = measure(plan, log)
    text = json.dumps(report, indent=2)
    if out is not None:
        replace_text(out, f"{text}\n")
    print(text) if as_json else show(report)


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
    return {
        "trained": runs[0]["trained"],
        "held": runs[0]["held"],
        "peak_bytes": max(peaks) if len(peaks) == len(runs) else None,
        **{
            stage: {clock: statistics.median(step[stage][clock] for step in steps) for clock in ("wall_s", "cpu_s")}
            for stage in ("step", "rollout", "update")
        },
        "tokens": statistics.fmean(step["tokens"] for step in steps),
        "trained_share": min(step["trained_share"] for step in steps),
        "runs": list(runs),
    }


def relative_to_one(result: dict[str, Any], results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add to a result its memory relative to one agent's full training, if both were measured."""
    one = next((row for row in results if row["kind"] == ONE), None)
    known = one is not None and one["peak_bytes"] and result["peak_bytes"] is not None
    return {**result, "memory_of_one": result["peak_bytes"] / one["peak_bytes"] if one and known else None}


COLUMNS = ("team", "trained", "held", "peak GiB", "x one", "s/step", "rollout", "update", "CPU s", "tokens")
TITLES = {ONE: "one agent"}


def show(report: dict[str, Any]) -> None:
    """Print the measurements and their interpretation."""
    console = Console(highlight=False)
    rows = [_row(result) for result in report["results"]]
    work = report["work"]
    console.print(
        f"{report['agents']} agents, {report['size']} parameters, {report['algorithm']}, {work['prompts']} prompt(s) x "
        f"G = {work['group']}, at most {work['new_tokens']} tokens, {report['device']}, {report['threads']} thread(s)"
    )
    console.print(Table(head=COLUMNS, rows=rows, right=range(1, len(COLUMNS))).rich())
    console.print(
        "trained, held: millions of weights with a gradient, and in all models. peak: the most memory above what was "
        "taken before the models were loaded. x one: of one agent that trains a whole model. seconds: median of "
        f"{report['repeats']} x {work['steps']} steps.",
        style="dim",
    )


def _row(result: dict[str, Any]) -> list[str]:
    peak, share = result["peak_bytes"], result["memory_of_one"]
    return [
        TITLES.get(result["kind"], result["kind"]),
        f"{result['trained'] / 1e6:,.1f}",
        f"{result['held'] / 1e6:,.1f}",
        "-" if peak is None else f"{peak / GIB:,.2f}",
        "-" if share is None else f"{share:.2f}",
        *(f"{result[stage]['wall_s']:,.2f}" for stage in ("step", "rollout", "update")),
        f"{result['step']['cpu_s']:,.2f}",
        f"{result['tokens']:,.0f}",
    ]


@dataclass(frozen=True, slots=True)
class Models:
    """Write random models of one size, each with a tokenizer, into `folder`: `own` and `other`."""

    size: str
    folder: str

    def run(self) -> dict[str, Any]:
        """Write the models and return the number of parameters of each, by name.

        Raises:
            BenchmarkError: the process failed.
        """
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        return _process(json.dumps(asdict(self)), 1)


def _process(order: str, threads: int) -> dict[str, Any]:
    return report_of([sys.executable, "-W", "ignore", "-m", WORKER, order], threads)
