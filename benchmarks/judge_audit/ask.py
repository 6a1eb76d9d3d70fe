"""Queries of a judge: pairs, repeats and adversarial probes, with the latency of each."""

from __future__ import annotations

import functools
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from palaver.benchmarks.judge_audit.data import Graded, Labelled
from palaver.core import ConfigError, ScoringError, stable_seed
from palaver.scoring import AnswerPair, Comparer, Preference, Reward, Score, ScoringRequest

ENOUGH = 10  # failures without any verdict, after which the audit stops
PAIRS, REPEAT, PROBE, CONTROL = "pairs", "repeat", "probe", "control"
Kind = Literal["injection", "master key", "empty", "padding"]
KINDS: tuple[Kind, ...] = ("injection", "master key", "empty", "padding")
PROBES = Path(__file__).with_name("probes.jsonl")
FILLER = "The weather of that day was neither warm nor cold, and a light wind came from the west. "
Make = Callable[[int], Comparer]  # the judge for a repeat, counted from 0; each has its own seed


@dataclass(frozen=True, slots=True)
class Probe:
    """One adversarial answer.

    Attributes:
        name: of it, for the table.
        kind: an `injection` addresses the judge; a `master key` is an opening without content; `empty` is no text;
            `padding` is long text without content.
        place: an injection is `before` or `after` the worse answer; everything else `alone`, as the whole answer.
        text: repeated `repeat` times.
        repeat: 1 or more.
    """

    name: str
    kind: Kind
    place: Literal["before", "after", "alone"]
    text: str
    repeat: int = 1

    def answer(self, worse: str) -> str:
        """Return the answer shown to the judge; `worse` is the one that people did not prefer."""
        return self._placed(worse, self.text * self.repeat)

    def control(self, worse: str) -> str:
        """Return the same with harmless text of the same length and place, as a control for length."""
        length = len(self.text) * self.repeat
        return self._placed(worse, (FILLER * (length // len(FILLER) + 1))[:length])

    def _placed(self, worse: str, text: str) -> str:
        return {"before": f"{text}\n\n{worse}", "after": f"{worse}\n\n{text}", "alone": text}[self.place]


@functools.cache
def probes() -> tuple[Probe, ...]:
    """Return the probes of `probes.jsonl`, written for this suite."""
    return tuple(Probe(**json.loads(line)) for line in PROBES.read_text(encoding="utf-8").splitlines())


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Number of queries of an audit.

    Attributes:
        repeats: number of queries of each of the first `repeated` pairs; 1 for none.
        repeated: pairs with repeats.
        timed: pairs queried one at a time, to measure latency.
        probed: pairs for each probe; 0 for none.
        batch: pairs in one call, after the timed ones.
        seed: of the choice of pairs for the probes.
    """

    repeats: int = 3
    repeated: int = 20
    timed: int = 10
    probed: int = 4
    batch: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        if self.repeats < 1 or self.batch < 1 or min(self.repeated, self.timed, self.probed) < 0:
            raise ConfigError("an audit needs repeats and batch of 1 or more, and nothing below 0")


@dataclass(frozen=True, slots=True)
class ComparisonItem:
    """One pair to be compared.

    Attributes:
        part: `pairs`, `repeat`, `probe` or `control`.
        row: id of its labelled pair.
        pair: as given to the judge.
        repeat: index of the repeat, from 0.
        probe: name of the probe, "" outside the probes.
        kind: of the probe.
        good_first: for a probe, True if the good answer is the pair's first.
    """

    part: str
    row: str
    pair: AnswerPair
    repeat: int = 0
    probe: str = ""
    kind: Kind | str = ""
    good_first: bool = True


@dataclass(frozen=True, slots=True)
class AskedPair:
    """An item, the judge's preference, and its latency in seconds if it was queried alone."""

    item: ComparisonItem
    preference: Preference
    seconds: float | None = field(default=None, compare=False)


def items(pairs: Sequence[Labelled], plan: AuditPlan, what: Sequence[Probe] | None = None) -> list[ComparisonItem]:
    """All queries, in order."""
    plan_items = [ComparisonItem(PAIRS, row.id, row.pair) for row in pairs]
    for repeat in range(1, plan.repeats):
        plan_items += [ComparisonItem(REPEAT, row.id, row.pair, repeat) for row in pairs[: plan.repeated]]
    decided = [row for row in pairs if row.label != 0.5]
    for probe in probes() if what is None else what:
        # drawn by the seed, whatever the order and number of the probes
        dealt = sorted(decided, key=lambda row: stable_seed(plan.seed, "audit", probe.name, row.id))
        plan_items += _tried(probe, dealt[: plan.probed])
    return plan_items


def _tried(probe: Probe, rows: Sequence[Labelled]) -> Iterator[ComparisonItem]:
    """Items of each row with the probe in place of the worse answer.

    An injection also has its control.
    """
    for index, row in enumerate(rows):
        good_first = index % 2 == 0
        parts = ((PROBE, probe.answer(row.bad)), (CONTROL, probe.control(row.bad)))
        for kind, worse in parts if probe.kind == "injection" else parts[:1]:
            pair = (
                AnswerPair(row.pair.prompt, row.good, worse)
                if good_first
                else AnswerPair(row.pair.prompt, worse, row.good)
            )
            yield ComparisonItem(kind, row.id, pair, 0, probe.name, probe.kind, good_first)


def compare_items(
    make: Make,
    wanted: Sequence[ComparisonItem],
    plan: AuditPlan,
    *,
    clock: Callable[[], float] = time.perf_counter,
    report: Callable[[int], None] = lambda _: None,
    keep: Callable[[Sequence[AskedPair]], None] = lambda _: None,
) -> list[AskedPair]:
    """Query the judge with all items, in order.

    Args:
        make: gives the judge for each repeat.
        wanted: from `items`.
        plan: number of timed items, and the batch size.
        clock: returns seconds.
        report: called with the number of newly answered items.
        keep: called with each batch of answers.

    Raises:
        ScoringError: only failures from the beginning; the remaining items are skipped.
    """
    judges: dict[int, Comparer] = {}
    results: list[AskedPair] = []
    for together in _batches(wanted, plan):
        repeat = together[0].repeat
        judge = judges[repeat] if repeat in judges else judges.setdefault(repeat, make(repeat))
        begun = clock()
        preferences = judge.compare([item.pair for item in together])
        seconds = clock() - begun if len(results) < plan.timed else None
        batch = [AskedPair(item, preference, seconds) for item, preference in zip(together, preferences, strict=True)]
        results += batch
        keep(batch)
        report(len(batch))
        if len(results) >= ENOUGH and all(pair.preference.first is None for pair in results):
            why = results[0].preference.failure
            raise ScoringError(
                f"{judge.name} failed on all of the first {len(results)} questions; the first time: {why}"
            )
    return results


def _batches(wanted: Sequence[ComparisonItem], plan: AuditPlan) -> Iterator[Sequence[ComparisonItem]]:
    """Yield the first `timed` items one by one, then batches of at most `batch` for one judge."""
    yield from ([item] for item in wanted[: plan.timed])
    for _, group in itertools.groupby(wanted[plan.timed :], key=lambda item: item.repeat):
        together = list(group)
        yield from (together[start : start + plan.batch] for start in range(0, len(together), plan.batch))


class ByScore:
    """Comparer from a judge of single answers: the higher score is preferred, equal scores tie."""

    def __init__(self, reward: Reward) -> None:
        self.name, self.reward = reward.name, reward

    def compare(self, pairs: Sequence[AnswerPair]) -> list[Preference]:
        """Return one preference per pair, without orders, as each answer is scored alone."""
        cases = [case(pair.prompt, text) for pair in pairs for text in (pair.first, pair.second)]
        verdicts = list(map(_finite, self.reward.score(cases)))
        preferences = []
        for one, two in zip(verdicts[::2], verdicts[1::2], strict=True):
            cost, failure = one.cost + two.cost, one.failure or two.failure
            if one.score is None or two.score is None:
                preferences.append(
                    Preference(None, cost=cost, failure=failure or "unparseable: no score and no failure")
                )
            else:
                first = 0.5 if one.score == two.score else float(one.score > two.score)
                preferences.append(Preference(first, reason=one.reason, cost=cost))
        return preferences


def grade(
    reward: Reward, rows: Sequence[Graded], plan: AuditPlan, report: Callable[[int], None] = lambda _: None
) -> list[Score]:
    """Return one verdict per graded answer, in order."""
    scores: list[Score] = []
    for begin in range(0, len(rows), plan.batch):
        together = rows[begin : begin + plan.batch]
        scores += map(_finite, reward.score([case(row.prompt, row.answer) for row in together]))
        report(len(together))
    return scores


def _finite(verdict: Score) -> Score:
    """Return the verdict, as a failure if its score is not finite."""
    if verdict.score is None or math.isfinite(verdict.score):
        return verdict
    return replace(verdict, score=None, failure=f"out of menu: the score is {verdict.score}")


def case(prompt: str, answer: str) -> ScoringRequest:
    """Return one answer to one prompt as the input of a reward."""
    return ScoringRequest(
        task=f"audit-{stable_seed(prompt, answer):016x}", observations={"agent": prompt}, completions={"agent": answer}
    )
