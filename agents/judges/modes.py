"""Modes of judging: by criteria, by weighted numbers, a group at once, in pairs.

Each makes questions of cases, and verdicts of the answers, whatever model answers.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from palaver.agents.base.chat import Answer, Question
from palaver.agents.judges import parsing, prompts
from palaver.agents.judges.asking import Asker, JudgeQuery
from palaver.agents.judges.prompts import JudgeMaterial
from palaver.agents.judges.spec import Criterion, JudgeSpec
from palaver.core import ConfigError, Conversation, Sampling, stable_seed
from palaver.scoring import Cost, Preference, Score, ScoringRequest

MOST = 8  # answers shown at once: more are not distinguished well
TOP = 20  # likely tokens requested, the maximum of servers
_IDS = "ABCDEFGH"


@dataclass(frozen=True, slots=True)
class Bench:
    """Specification of a judge, with its asker."""

    spec: JudgeSpec
    asker: Asker

    def item(
        self, conversation: Conversation, schema: dict[str, Any], read: Callable[[Answer], Any]
    ) -> JudgeQuery[Any]:
        """A question that is answered with JSON."""
        spec = self.spec
        sampling = Sampling(spec.temperature, max_tokens=spec.max_tokens)
        return JudgeQuery(Question(conversation, sampling, stable_seed(spec.seed, spec.sample), schema), read)


def pointwise(bench: Bench, cases: Sequence[ScoringRequest]) -> list[Score]:
    """Each case alone: a choice for each criterion, and their weighted mean."""
    rubric, max_chars = bench.spec.rubric, bench.spec.max_chars
    schema = prompts.choices_schema(rubric)
    items = [
        bench.item(prompts.choose(_one(case), rubric, max_chars), schema, lambda a: parsing.choices(a.text, rubric))
        for case in cases
    ]
    return [
        Score(None, cost=result.cost, failure=result.failure)
        if result.value is None
        else Score(rubric.mean(result.value[0]), result.value[0], result.value[1], result.cost)
        for result in bench.asker.ask(items)
    ]


def weighted(bench: Bench, cases: Sequence[ScoringRequest]) -> list[Score]:
    """Each case by itself, a question for each criterion, weighted by probabilities (G-Eval).

    The score is the mean of the numbers by their probabilities.
    """
    criteria = bench.spec.rubric.criteria
    results = bench.asker.ask([_criterion_query(bench, case, criterion) for case in cases for criterion in criteria])
    verdicts = []
    for start in range(0, len(results), len(criteria)):
        case_results = results[start : start + len(criteria)]
        cost = sum((result.cost for result in case_results), Cost())
        values = {c.name: r.value for c, r in zip(criteria, case_results, strict=True) if r.value is not None}
        if failure := next((result.failure for result in case_results if result.value is None), ""):
            verdicts.append(Score(None, cost=cost, failure=failure))
        else:
            verdicts.append(Score(bench.spec.rubric.mean(values), values, cost=cost))
    return verdicts


def _criterion_query(bench: Bench, case: ScoringRequest, criterion: Criterion) -> JudgeQuery[float]:
    n = len(criterion.choices)
    conversation = prompts.weigh(_one(case), criterion, bench.spec.max_chars)
    question = Question(
        conversation, Sampling(0.0, max_tokens=4), stable_seed(bench.spec.seed, bench.spec.sample), top_logprobs=TOP
    )
    return JudgeQuery(question, lambda answer: (parsing.weighted(answer.top, n) - 1) / (n - 1))


def listwise(bench: Bench, cases: Sequence[ScoringRequest]) -> list[Score]:
    """The cases of a group in one question, in an order of its own.

    Equal ones are shown once and share a score.

    Raises:
        ConfigError: more different cases in a group than can be distinguished at once.
    """
    verdicts: dict[int, Score] = {}
    groups = [_unlike(cases, indices) for indices in _groups(cases)]
    for unlike in groups:
        if len(unlike) > MOST:
            raise ConfigError(
                f"a judge with mode=listwise compares {MOST} at most, and a group has {len(unlike)} different answers; "
                f"take algorithm.group_size={MOST} or less, or mode=pointwise"
            )
    results = bench.asker.ask([_list(bench, [cases[indices[0]] for indices in unlike]) for unlike in groups])
    for unlike, result in zip(groups, results, strict=True):
        shared = [index for indices in unlike for index in indices]
        for answer_index, indices in enumerate(unlike):
            for index in indices:
                cost = result.cost if index == shared[0] else Cost()
                if result.value is None:
                    verdicts[index] = Score(None, cost=cost, failure=result.failure)
                else:
                    score, reason = result.value[answer_index]
                    verdicts[index] = Score(score, reason=reason, cost=cost)
    return [verdicts[index] for index in range(len(cases))]


def _list(bench: Bench, cases: Sequence[ScoringRequest]) -> JudgeQuery[list[tuple[float, str]]]:
    """One question about different cases; its value has their scores and reasons in order."""
    order = list(range(len(cases)))
    texts = [text for case in cases for text in (*case.observations.values(), *case.completions.values())]
    random.Random(stable_seed(bench.spec.seed, bench.spec.sample, "order", *texts)).shuffle(order)
    ids = {index: _IDS[rank] for rank, index in enumerate(order)}
    material = _many({ids[index]: cases[index] for index in order})
    conversation = prompts.score_each(material, bench.spec.rubric, bench.spec.max_chars)

    def read(answer: Answer) -> list[tuple[float, str]]:
        scores = parsing.listed(answer.text, list(material.answers))
        return [scores[ids[index]] for index in range(len(cases))]

    return bench.item(conversation, prompts.list_schema(list(material.answers)), read)


def pairwise(bench: Bench, cases: Sequence[ScoringRequest]) -> list[Score]:
    """Mean probability of each case to be better than another of its group.

    The mean is over all others, in both orders.
    """
    matches = [match for indices in _groups(cases) for match in itertools.combinations(indices, 2)]
    preferences = prefer(bench, [(cases[first], cases[second]) for first, second in matches])
    wins: dict[int, list[Preference]] = defaultdict(list)
    for (first, second), preference in zip(matches, preferences, strict=True):
        flipped = None if preference.first is None else 1 - preference.first
        wins[first].append(preference)
        wins[second].append(replace(preference, first=flipped, cost=Cost()))
    return [_share(wins[index]) for index in range(len(cases))]


def _share(preferences: Sequence[Preference]) -> Score:
    if not preferences:
        return Score(None, failure="alone: mode=pairwise compares, and the group has no other case")
    cost = sum((preference.cost for preference in preferences), Cost())
    won = [preference.first for preference in preferences if preference.first is not None]
    if len(won) < len(preferences):
        failure = next(preference.failure for preference in preferences if preference.first is None)
        return Score(None, cost=cost, failure=failure)
    return Score(sum(won) / len(won), reason=preferences[0].reason, cost=cost)


def prefer(bench: Bench, pairs: Sequence[tuple[ScoringRequest, ScoringRequest]]) -> list[Preference]:
    """Preference for each pair: P = (P(first | shown first) + P(first | shown second)) / 2.

    A judge that names the same slot twice, whatever its content, gives 0.5.
    """
    items = [_match(bench, *order) for first, second in pairs for order in ((first, second), (second, first))]
    results = bench.asker.ask(items)
    preferences = []
    for straight, swapped in zip(results[::2], results[1::2], strict=True):
        first = None if straight.value is None else straight.value[0]
        second = None if swapped.value is None else 1 - swapped.value[0]
        cost = straight.cost + swapped.cost
        reason = straight.value[1] if straight.value is not None else ""
        if first is None or second is None:
            preferences.append(Preference(None, (first, second), reason, cost, straight.failure or swapped.failure))
        else:
            preferences.append(Preference((first + second) / 2, (first, second), reason, cost))
    return preferences


def _match(bench: Bench, first: ScoringRequest, second: ScoringRequest) -> JudgeQuery[tuple[float, str]]:
    conversation = prompts.prefer(_many({"first": first, "second": second}), bench.spec.rubric, bench.spec.max_chars)
    return bench.item(conversation, prompts.prefer_schema(), lambda answer: parsing.better(answer.text))


def _one(case: ScoringRequest) -> JudgeMaterial:
    return JudgeMaterial(case.observations, {"": case.completions}, case.reference)


def _many(cases: dict[str, ScoringRequest]) -> JudgeMaterial:
    """Several answers. Their prompts are shown once if they are the same, else with each."""
    first, *others = cases.values()
    observations = dict(first.observations)
    if any(dict(case.observations) != observations for case in others):
        observations = {f"{agent} of {id}": text for id, c in cases.items() for agent, text in c.observations.items()}
    return JudgeMaterial(observations, {id: case.completions for id, case in cases.items()}, first.reference)


def _groups(cases: Sequence[ScoringRequest]) -> list[list[int]]:
    """Indices of the cases that are compared with each other; one without a group is alone."""
    groups: dict[str | int, list[int]] = defaultdict(list)
    for index, case in enumerate(cases):
        groups[case.group or index].append(index)
    return list(groups.values())


def _unlike(cases: Sequence[ScoringRequest], indices: Sequence[int]) -> list[list[int]]:
    """The indices of equal cases together."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index in indices:
        case = cases[index]
        groups[(tuple(case.observations.items()), tuple(case.completions.items()))].append(index)
    return list(groups.values())


MODES: dict[str, Callable[[Bench, Sequence[ScoringRequest]], list[Score]]] = {
    "pointwise": pointwise,
    "weighted": weighted,
    "listwise": listwise,
    "pairwise": pairwise,
}
