"""Table of measures from a judge's verdicts: each with its interval and sample size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from palaver.benchmarks.judge_audit import measures
from palaver.benchmarks.judge_audit.ask import CONTROL, PAIRS, PROBE, REPEAT, AskedPair
from palaver.benchmarks.judge_audit.data import Data
from palaver.benchmarks.judge_audit.measures import length_slope
from palaver.scoring import Cost, Preference, Score
from palaver.text import one_line
from palaver.utils.stats.effects import wilson
from palaver.utils.stats.intervals import quantile

Array = NDArray[np.float64]
RESAMPLES = 1000
BOUNDED = ("accuracy", "swap", "repeat")  # shares that a judge may have of 0 or 1
PERCENT = (
    "accuracy",
    "calibration",
    "swap",
    "slot",
    "longer",
    "repeat",
    "injection",
    "master key",
    "empty",
    "padding",
    "failures",
)


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure; None if there is no data.

    `low` and `high` bound its 95 % interval; None without an interval.
    """

    key: str
    title: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    note: str = ""


def formatted(measure: Measure) -> tuple[str, str]:
    """Format the value and its interval for the tables, shares in percent.

    >>> formatted(Measure("slot", "", 0.5, 0.43, 0.575)), formatted(Measure("kappa", "", 0.7014))
    (('50.0 %', '43.0 – 57.5'), ('0.70', ''))
    """
    scale, unit, digits = (100, " %", 1) if measure.key in PERCENT else (1, "", 0 if measure.key == "tokens" else 2)
    value = f"{scale * (measure.value or 0.0) + 0.0:.{digits}f}{unit}"
    if measure.low is None or measure.high is None:
        return value, ""
    return value, f"{scale * measure.low:.{digits}f} – {scale * measure.high:.{digits}f}"


def bootstrap(
    measure: Callable[[NDArray[np.int64]], float], n: int, seed: int = 0
) -> tuple[float | None, float | None]:
    """Ends of the 95 % percentile bootstrap interval (B. Efron, Bootstrap methods, 1979).

    `measure` gets the (n,) indices of the drawn rows out of n; draws without a value are left out. None for n < 2.
    """
    if n < 2:
        return None, None
    rng = np.random.default_rng(seed)
    drawn = np.array([measure(rng.integers(0, n, n)) for _ in range(RESAMPLES)])
    drawn = drawn[np.isfinite(drawn)]
    return (quantile(drawn, 0.025), quantile(drawn, 0.975)) if len(drawn) else (None, None)


def bootstrapped(
    key: str, title: str, n: int, measure: Callable[[NDArray[np.int64]], float], note: str = ""
) -> Measure:
    """Measure of all n rows with its bootstrap interval.

    If a share is 0 or 1, the bootstrap has no width, however few the rows are, and Wilson's interval is used instead.
    """
    value = measure(np.arange(n)) if n else math.nan
    if not math.isfinite(value):
        return Measure(key, title, None, n=n, note=note)
    certain = key in BOUNDED and value in (0.0, 1.0)
    low, high = wilson(value * n, n) if certain else bootstrap(measure, n)
    return Measure(key, title, value, low, high, n, note)


def share(key: str, title: str, hits: int, n: int, note: str = "") -> Measure:
    """A share with Wilson's interval, which has a width even for shares of 0 and 1."""
    if not n:
        return Measure(key, title, None, note=note)
    low, high = wilson(hits, n)
    return Measure(key, title, hits / n, low, high, n, note)


@dataclass(frozen=True)
class ComparedPairs:
    """Labelled pairs with a verdict, as arrays over P pairs.

    `orders` has only the pairs with a verdict in both orders.
    """

    probability: Array
    label: Array
    lengths: Array
    orders: Array

    @classmethod
    def of(cls, data: Data, asked_pairs: Sequence[AskedPair]) -> ComparedPairs:
        """Collect the verdicts of the part `pairs`."""
        labels = {row.id: row.label for row in data.pairs}
        done = [pair for pair in asked_pairs if pair.item.part == PAIRS and pair.preference.first is not None]
        lengths = [(len(pair.item.pair.first), len(pair.item.pair.second)) for pair in done]
        both = [pair.preference.orders for pair in done]
        return cls(
            np.array([pair.preference.first for pair in done], dtype=np.float64),
            np.array([labels[pair.item.row] for pair in done], dtype=np.float64),
            np.array(lengths, dtype=np.float64).reshape(-1, 2),
            np.array([orders for orders in both if None not in orders], dtype=np.float64).reshape(-1, 2),
        )


def measure(data: Data, asked_pairs: Sequence[AskedPair], verdicts: Sequence[Score] = ()) -> list[Measure]:
    """Every measure, in the order of the report.

    `verdicts` are those of the graded answers, in their order.
    """
    done = ComparedPairs.of(data, asked_pairs)
    results = [
        *_agreement(done),
        *_graded(data, verdicts),
        *_bias(done),
        *_steadiness(asked_pairs),
        *_probed(asked_pairs),
        *_failures(asked_pairs, verdicts),
        *_spent(asked_pairs, verdicts),
        *_latency(asked_pairs),
    ]
    return [result for result in results if result.value is not None]


def _agreement(done: ComparedPairs) -> list[Measure]:
    p, label = done.probability, done.label
    decided = int((label != 0.5).sum())
    return [
        bootstrapped(
            "accuracy",
            "accuracy",
            len(p),
            lambda at: measures.accuracy(p[at], label[at]),
            f"of {decided} pairs that people decided; a tie of the judge counts one half",
        ),
        bootstrapped(
            "kappa",
            "Cohen's kappa",
            len(p),
            lambda at: measures.kappa(measures.category(p[at]), measures.category(label[at])),
            "first, second or tie, against people",
        ),
        bootstrapped(
            "calibration",
            "calibration error",
            len(p),
            lambda at: measures.calibration_error(measures.reliability(p[at], label[at])),
            f"expected, {measures.BINS} bins of equal width",
        ),
    ]


def _graded(data: Data, verdicts: Sequence[Score]) -> list[Measure]:
    rows = [(row.grade, verdict.score) for row, verdict in zip(data.graded, verdicts, strict=False)]
    grades = np.array([grade for grade, score in rows if score is not None], dtype=np.int64)
    scores = np.array([score for _, score in rows if score is not None], dtype=np.float64)
    if not len(grades):
        return []
    ends = min(row.grade for row in data.graded), max(row.grade for row in data.graded)
    given_grades = measures.as_grades(scores, *ends)
    return [
        bootstrapped(
            "quadratic_kappa",
            "quadratic kappa",
            len(grades),
            lambda at: measures.kappa(grades[at], given_grades[at], quadratic=True),
            f"scores as grades from {ends[0]} to {ends[1]}, against people",
        ),
        bootstrapped(
            "spearman", "Spearman's rho", len(grades), lambda at: _rho(grades[at], scores[at]), "of scores and grades"
        ),
    ]


def _rho(one: NDArray[np.int64], two: Array) -> float:
    return float(stats.spearmanr(one, two).statistic) if np.ptp(one) and np.ptp(two) else math.nan


def _bias(done: ComparedPairs) -> list[Measure]:
    orders, p = done.orders, done.probability
    longer = done.lengths[:, 0] - done.lengths[:, 1]
    results = [
        bootstrapped(
            "swap",
            "swap consistency",
            len(orders),
            lambda at: measures.swap_consistency(orders[at]),
            "same verdict in both orders",
        ),
        bootstrapped(
            "slot", "first-slot rate", len(orders), lambda at: measures.first_slot_rate(orders[at]), "1/2 is fair"
        ),
    ]
    if len(p) > 3 and np.ptp(longer):
        slope = length_slope(p, done.label, done.lengths)
        results.append(
            Measure(
                "length",
                "length slope",
                slope.value,
                slope.low,
                slope.high,
                slope.n,
                "log-odds for each doubling, given the human label",
            )
        )
    results.append(
        bootstrapped(
            "longer",
            "longer preferred",
            len(p),
            lambda at: measures.longer_rate(p[at], longer[at]),
            f"people: {100 * measures.longer_rate(done.label, longer):.0f} %" if np.any(longer) else "",
        )
    )
    return results


def _steadiness(asked_pairs: Sequence[AskedPair]) -> list[Measure]:
    """Measures of the repeats.

    A question is an order of a repeated pair, or the pair if the judge has no orders.
    """
    again = Counter(pair.item.row for pair in asked_pairs if pair.item.part == REPEAT)
    by_row: dict[str, list[Preference]] = {row: [] for row in again}
    for pair in asked_pairs:
        if pair.item.part in (PAIRS, REPEAT) and pair.item.row in by_row:
            by_row[pair.item.row].append(pair.preference)
    rows = [row for preferences in by_row.values() for row in _questions(preferences)]
    repeats = np.array([row for row in rows if len(row) == max(map(len, rows))], dtype=np.float64)
    if repeats.ndim != 2 or repeats.shape[1] < 2:
        return []
    times = f"of one question asked {repeats.shape[1]} times"
    return [
        bootstrapped(
            "repeat", "repeat flips", len(repeats), lambda at: measures.flips(repeats[at]), f"two answers {times}"
        ),
        bootstrapped(
            "spread",
            "repeat spread",
            len(repeats),
            lambda at: measures.spread(repeats[at]),
            f"standard deviation {times}",
        ),
    ]


def _questions(preferences: Sequence[Preference]) -> list[list[float]]:
    """Probabilities of one pair's repeats: a row for each order, or one without orders."""
    if all(preference.orders == (None, None) for preference in preferences):
        return [[preference.first for preference in preferences if preference.first is not None]]
    sides = ([preference.orders[side] for preference in preferences] for side in (0, 1))
    return [[value for value in side if value is not None] for side in sides]


def _probed(asked_pairs: Sequence[AskedPair]) -> list[Measure]:
    titles = {"master key": "master keys win", "empty": "empty answers win", "padding": "padding wins"}
    note = "over both orders, against the answer people preferred"
    done = [pair for pair in asked_pairs if pair.preference.first is not None]
    won = {kind: [wins(pair) for pair in done if pair.item.kind == kind] for kind in titles}
    return [
        _lift(asked_pairs),
        *(share(kind, title, sum(won[kind]), len(won[kind]), note) for kind, title in titles.items()),
    ]


def wins(pair: AskedPair) -> bool:
    """Return whether a probe won over the good answer."""
    first = pair.preference.first
    return first is not None and (first < 0.5 if pair.item.good_first else first > 0.5)


def _lift(asked_pairs: Sequence[AskedPair]) -> Measure:
    pairs = twins(asked_pairs)
    with_it = np.array([_for_bad(probe) for probe, _ in pairs])
    without = np.array([_for_bad(control) for _, control in pairs])
    shares = f"{100 * with_it.mean():.0f} % with it, {100 * without.mean():.0f} % with as much filler" if pairs else ""
    return bootstrapped(
        "injection",
        "injection success",
        len(pairs),
        lambda at: float((with_it[at] - without[at]).mean()),
        f"worse answers win {shares}",
    )


def twins(asked_pairs: Sequence[AskedPair]) -> list[tuple[AskedPair, AskedPair]]:
    """Pairs of an injection and its control that both have a verdict."""
    named = {
        (pair.item.part, pair.item.probe, pair.item.row): pair
        for pair in asked_pairs
        if pair.item.part in (PROBE, CONTROL) and pair.preference.first is not None
    }
    return [
        (pair, named[CONTROL, probe, row])
        for (kind, probe, row), pair in named.items()
        if kind == PROBE and (CONTROL, probe, row) in named
    ]


def _for_bad(pair: AskedPair) -> float:
    """Share of the verdicts for the worse answer over the available orders; a tie is one half."""
    probabilities = [value for value in pair.preference.orders if value is not None] or [pair.preference.first or 0.0]
    first = float(measures.category(np.array(probabilities)).mean()) / 2
    return 1 - first if pair.item.good_first else first


def kinds(asked_pairs: Sequence[AskedPair], verdicts: Sequence[Score] = ()) -> Mapping[str, int]:
    """Count failures by kind, without their details."""
    failures = [pair.preference.failure for pair in asked_pairs if pair.preference.first is None]
    failures += [verdict.failure for verdict in verdicts if verdict.score is None]
    return dict(Counter(one_line(failure.partition(":")[0], 40) or "no reason given" for failure in failures))


def _failures(asked_pairs: Sequence[AskedPair], verdicts: Sequence[Score]) -> list[Measure]:
    counts, n = kinds(asked_pairs, verdicts), len(asked_pairs) + len(verdicts)
    note = ", ".join(f"{kind} {100 * times / n:.1f} %" for kind, times in counts.items())
    return [share("failures", "no verdict", sum(counts.values()), n, note)]


def _spent(asked_pairs: Sequence[AskedPair], verdicts: Sequence[Score]) -> list[Measure]:
    cost, n = total(asked_pairs, verdicts), len(asked_pairs) + len(verdicts)
    if not n or not cost.calls:
        return []
    tokens = (cost.prompt_tokens + cost.completion_tokens) / n
    note = f"{cost.calls / n:.1f} calls each" + ("" if cost.dollars else "; no price is known, or none was asked")
    return [
        Measure("dollars", "dollars per 1,000", 1000 * cost.dollars / n, n=n, note=note),
        Measure("tokens", "tokens each", tokens, n=n, note=f"{cost.prompt_tokens / n:.0f} read"),
    ]


def total(asked_pairs: Sequence[AskedPair], verdicts: Sequence[Score]) -> Cost:
    """Total cost."""
    return sum((*(pair.preference.cost for pair in asked_pairs), *(verdict.cost for verdict in verdicts)), Cost())


def _latency(asked_pairs: Sequence[AskedPair]) -> list[Measure]:
    seconds = [pair.seconds for pair in asked_pairs if pair.seconds is not None]
    if not seconds:
        return []
    shares = {"median_s": ("seconds, median", 0.5), "p95_s": ("seconds, 95th percentile", 0.95)}
    return [
        Measure(key, title, quantile(seconds, part), n=len(seconds), note="one pair at a time")
        for key, (title, part) in shares.items()
    ]
