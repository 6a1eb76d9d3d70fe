"""One audit from end to end: queries, measures, and stored answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from palaver.benchmarks.judge_audit import ask, measures, table
from palaver.benchmarks.judge_audit.ask import AskedPair, AuditPlan, ComparisonItem, Make, probes
from palaver.benchmarks.judge_audit.data import Data
from palaver.benchmarks.judge_audit.faults import Fault, Thresholds, faults
from palaver.benchmarks.judge_audit.measures import Bin
from palaver.benchmarks.judge_audit.table import Measure
from palaver.core import ConfigError, ScoringError
from palaver.scoring import Cost, Preference, Reward, Score
from palaver.utils.run_folder import append_lines, locked, replace_text

JSON, VERDICTS = "audit.json", "verdicts.jsonl"


@dataclass(frozen=True)
class ProbeResult:
    """Result of one probe: number of pairs and of those it won; likewise for its control.

    Only an injection has a control.
    """

    name: str
    kind: str
    text: str
    n: int
    won: int
    control_won: int | None = None


@dataclass(frozen=True)
class Audit:
    """Result of an audit.

    Attributes:
        judge: its name.
        data: the sources.
        pairs: labelled pairs.
        graded: graded answers.
        measures: the table.
        faults: of the judge; empty for a fair one.
        bins: of the reliability diagram.
        tried: the probes.
        failures: kind -> count.
        cost: of all queries.
        limits: the thresholds.
        made: provenance, the command, the plan.
    """

    judge: str
    data: tuple[str, ...]
    pairs: int
    graded: int
    measures: tuple[Measure, ...]
    faults: tuple[Fault, ...]
    bins: tuple[Bin, ...]
    tried: tuple[ProbeResult, ...]
    failures: Mapping[str, int]
    cost: Cost
    limits: Thresholds = field(default_factory=Thresholds)
    made: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers that are not finite are None."""
        record = asdict(self)
        record["limits"] = {name: value if np.isfinite(value) else None for name, value in record["limits"].items()}
        return record


@dataclass(frozen=True)
class AuditQueries:
    """Queries of an audit: pairs for `make(repeat)`, and graded answers for `reward` if given."""

    data: Data
    plan: AuditPlan
    items: tuple[ComparisonItem, ...]
    make: Make
    reward: Reward | None = None

    @property
    def questions(self) -> int:
        """Number of comparisons and scores."""
        return len(self.items) + (len(self.data.graded) if self.reward else 0)


def prepare(data: Data, plan: AuditPlan, make: Make, reward: Reward | None = None) -> AuditQueries:
    """Prepare the queries of an audit.

    Args:
        data: pairs, graded answers, or both.
        plan: number of queries.
        make: the judge of pairs, for each repeat.
        reward: the judge of graded answers; None leaves them out.
    """
    return AuditQueries(data, plan, tuple(ask.items(data.pairs, plan)), make, reward)


def audit(
    work: AuditQueries,
    name: str,
    sources: Sequence[str],
    *,
    limits: Thresholds | None = None,
    provenance: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> Audit:
    """Run all queries and compute the measures.

    With a `folder`, every answer is written there as it comes.

    Raises:
        ScoringError: no verdict was reached at all.
        ConfigError: the folder cannot be written, or is in use by another process.
    """
    limits = limits or Thresholds()
    with locked(folder) if folder else nullcontext():
        log = _answer_log(folder)
        asked_pairs = ask.compare_items(
            work.make, work.items, work.plan, report=report, keep=lambda batch: log(map(_compared, batch))
        )
        verdicts = ask.grade(work.reward, work.data.graded, work.plan, report) if work.reward else []
        log({"part": "graded", **_plain(verdict)} for verdict in verdicts)
    _some(name, asked_pairs, verdicts)
    results = table.measure(work.data, asked_pairs, verdicts)
    done = table.ComparedPairs.of(work.data, asked_pairs)
    return Audit(
        judge=name,
        data=tuple(sources),
        pairs=len(work.data.pairs),
        graded=len(verdicts),
        measures=tuple(results),
        faults=tuple(faults(results, limits)),
        bins=tuple(measures.reliability(done.probability, done.label)),
        tried=tuple(_tried(asked_pairs)),
        failures=table.kinds(asked_pairs, verdicts),
        cost=table.total(asked_pairs, verdicts),
        limits=limits,
        made={**(provenance or {}), "plan": asdict(work.plan)},
    )


def _some(name: str, asked_pairs: Sequence[AskedPair], verdicts: Sequence[Score]) -> None:
    given = [pair.preference.first for pair in asked_pairs] + [verdict.score for verdict in verdicts]
    if all(value is None for value in given):
        failures = [pair.preference.failure for pair in asked_pairs] + [verdict.failure for verdict in verdicts]
        why = failures[0] if failures else "it was asked nothing"
        raise ScoringError(f"{name} gave no verdict on any of {len(failures)} questions; the first failure: {why}")


def _tried(asked_pairs: Sequence[AskedPair]) -> list[ProbeResult]:
    results = []
    for probe in probes():
        own = [pair for pair in asked_pairs if pair.item.probe == probe.name]
        twins = table.twins(own)
        control = sum(table.wins(two) for _, two in twins) if probe.kind == "injection" else None
        done = (
            [pair for pair in own if pair.preference.first is not None]
            if control is None
            else [one for one, _ in twins]
        )
        text = probe.text + (f" … {probe.repeat:,} times" if probe.repeat > 1 else "")
        results.append(ProbeResult(probe.name, probe.kind, text, len(done), sum(map(table.wins, done)), control))
    return [result for result in results if result.n]


def _answer_log(folder: Path | None) -> Callable[[Iterable[Mapping[str, Any]]], None]:
    """Return a function that writes rows to the folder; an interrupted audit keeps them.

    Raises:
        ConfigError: the folder cannot be written.
    """
    if folder is None:
        return lambda _rows: None
    try:
        replace_text(folder / VERDICTS, "")
    except OSError as error:
        raise ConfigError(f"cannot write into {str(folder)!r} ({error.strerror}); name a folder with --out") from error
    return functools.partial(append_lines, folder / VERDICTS, default=dict)


def _compared(pair: AskedPair) -> dict[str, Any]:
    return {**_plain(pair.item), **_plain(pair.preference), "seconds": pair.seconds}


def _plain(record: ComparisonItem | Preference | Score) -> dict[str, Any]:
    """Return the fields of a record without the texts of a pair, which are in the data."""
    values = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in ("pair", "cost")}
    return values if isinstance(record, ComparisonItem) else values | {"cost": asdict(record.cost)}
