"""Asking a judge: which pairs, in which order, how often, and how long each took."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from palaver.benchmarks.judge_audit.data import Graded, Labelled
from palaver.benchmarks.judge_audit.probes import Kind, Probe, probes
from palaver.core import ConfigError, ScoringError, stable_seed
from palaver.scoring import Case, Comparer, Pair, Preference, Reward, Verdict

ENOUGH = 10  # failures, and no verdict among them, after which no more is asked
PAIRS, REPEAT, PROBE, CONTROL = "pairs", "repeat", "probe", "control"
Make = Callable[[int], Comparer]  # the judge for a repeat: 0 is the first, and another draws anew


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is asked.

    Attributes:
        repeats: times that each of the first `repeated` pairs is asked; 1 for none.
        repeated: pairs that are asked again.
        timed: pairs that are asked one at a time, with nothing beside them.
        probed: pairs that each probe is tried on; 0 for none.
        batch: pairs in one call, after those that are timed.
        seed: of which pairs the probes are tried on.
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
class Item:
    """One pair to be compared.

    Attributes:
        part: `pairs`, `repeat`, `probe` or `control`.
        row: id of the labelled pair that it was made from.
        pair: as the judge gets it.
        repeat: 0, or which time it is asked.
        probe: name of the probe, "" outside the probes.
        kind: of the probe.
        good_first: for a probe, whether the good answer is the pair's first.
    """

    part: str
    row: str
    pair: Pair
    repeat: int = 0
    probe: str = ""
    kind: Kind | str = ""
    good_first: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """An item, what the judge said, and the seconds it took where it was alone."""

    item: Item
    preference: Preference
    seconds: float | None = field(default=None, compare=False)


def items(pairs: Sequence[Labelled], plan: Plan, what: Sequence[Probe] | None = None) -> list[Item]:
    """Everything that will be asked, in order."""
    found = [Item(PAIRS, row.id, row.pair) for row in pairs]
    for repeat in range(1, plan.repeats):
        found += [Item(REPEAT, row.id, row.pair, repeat) for row in pairs[: plan.repeated]]
    decided = [row for row in pairs if row.label != 0.5]
    for probe in probes() if what is None else what:
        found += _tried(probe, _chosen(decided, probe, plan))
    return found


def _chosen(rows: Sequence[Labelled], probe: Probe, plan: Plan) -> list[Labelled]:
    """The pairs for a probe: as if dealt by the seed, so that neither order nor number of the probes matters."""
    dealt = sorted(rows, key=lambda row: stable_seed(plan.seed, "audit", probe.name, row.id))
    return dealt[: plan.probed]


def _tried(probe: Probe, rows: Sequence[Labelled]) -> Iterator[Item]:
    """Each row with the probe in the worse answer's place, and for an injection its control."""
    for place, row in enumerate(rows):
        good_first = place % 2 == 0
        parts = ((PROBE, probe.answer(row.bad)), (CONTROL, probe.control(row.bad)))
        for part, worse in parts if probe.kind == "injection" else parts[:1]:
            pair = Pair(row.pair.prompt, row.good, worse) if good_first else Pair(row.pair.prompt, worse, row.good)
            yield Item(part, row.id, pair, 0, probe.name, probe.kind, good_first)


def ask(
    make: Make,
    wanted: Sequence[Item],
    plan: Plan,
    *,
    clock: Callable[[], float] = time.perf_counter,
    report: Callable[[int], None] = lambda _: None,
    keep: Callable[[Sequence[Asked]], None] = lambda _: None,
) -> list[Asked]:
    """Ask everything, in order.

    Args:
        make: gives the judge for each repeat.
        wanted: from `items`.
        plan: how many are alone, and how many together.
        clock: seconds.
        report: is told how many more were answered.
        keep: gets what was answered, batch by batch.

    Raises:
        ScoringError: nothing but failures from the beginning; the rest is not asked.
    """
    judges: dict[int, Comparer] = {}
    found: list[Asked] = []
    for together in _batches(wanted, plan):
        repeat = together[0].repeat
        judge = judges[repeat] if repeat in judges else judges.setdefault(repeat, make(repeat))
        begun = clock()
        said = judge.compare([item.pair for item in together])
        seconds = clock() - begun if len(found) < plan.timed else None
        more = [Asked(item, preference, seconds) for item, preference in zip(together, said, strict=True)]
        found += more
        keep(more)
        report(len(more))
        if len(found) >= ENOUGH and all(each.preference.first is None for each in found):
            why = found[0].preference.failure
            raise ScoringError(f"{judge.name} failed on all of the first {len(found)} questions; the first time: {why}")
    return found


def _batches(wanted: Sequence[Item], plan: Plan) -> Iterator[Sequence[Item]]:
    """The first `timed` one by one, then runs of at most `batch` that one judge answers."""
    begin = 0
    while begin < len(wanted):
        most = 1 if begin < plan.timed else plan.batch
        end = begin
        while end < len(wanted) and end - begin < most and wanted[end].repeat == wanted[begin].repeat:
            end += 1
        yield wanted[begin:end]
        begin = end


class ByScore:
    """A judge that scores answers one by one, asked to compare: whichever scores more is preferred, equal ones tie."""

    def __init__(self, reward: Reward) -> None:
        self.name, self.reward = reward.name, reward

    def compare(self, pairs: Sequence[Pair]) -> list[Preference]:
        """One preference a pair; there are no orders, for each answer is seen alone."""
        told = self.reward.score([case(pair.prompt, text) for pair in pairs for text in (pair.first, pair.second)])
        verdicts = [_finite(verdict) for verdict in told]
        found = []
        for one, two in zip(verdicts[::2], verdicts[1::2], strict=True):
            cost, failure = one.cost + two.cost, one.failure or two.failure
            if one.score is None or two.score is None:
                found.append(Preference(None, cost=cost, failure=failure or "unparseable: no score and no failure"))
            else:
                first = 0.5 if one.score == two.score else float(one.score > two.score)
                found.append(Preference(first, reason=one.reason, cost=cost))
        return found


def grade(
    reward: Reward, rows: Sequence[Graded], plan: Plan, report: Callable[[int], None] = lambda _: None
) -> list[Verdict]:
    """One verdict a graded answer, in order."""
    found: list[Verdict] = []
    for begin in range(0, len(rows), plan.batch):
        together = rows[begin : begin + plan.batch]
        found += map(_finite, reward.score([case(row.prompt, row.answer) for row in together]))
        report(len(together))
    return found


def _finite(verdict: Verdict) -> Verdict:
    """The verdict; one whose score is no finite number is none."""
    if verdict.score is None or math.isfinite(verdict.score):
        return verdict
    return replace(verdict, score=None, failure=f"out of menu: the score is {verdict.score}")


def case(prompt: str, answer: str) -> Case:
    """One answer to one prompt, as a reward sees it."""
    return Case(task=f"audit-{stable_seed(prompt, answer):016x}", told={"agent": prompt}, said={"agent": answer})
