"""Judges that answer within this process, without prompts."""

from __future__ import annotations

import itertools

from palaver.benchmarks.judge_audit.judges import BRAINS, AnswerKey, JudgeInput
from palaver.scoring import Cost, Preference, Score

VALUE = {"first": 1.0, "second": 0.0, "tie": 0.5}


class Brainy:
    """A brain asked in both orders, as a pairwise judge does; every repeat draws with other seeds."""

    def __init__(self, kind, rows, repeat=0):
        self.name, self.key, self.repeat, self.calls = kind, AnswerKey.of(rows), repeat, 0

    def compare(self, pairs):
        return [self._one(pair) for pair in pairs]

    def _one(self, pair):
        seeds = itertools.count(self.repeat * 1_000_000 + self.calls)
        self.calls += 2
        brain, cost = BRAINS[self.name], Cost(100, 10, 0.001, 2)
        one = brain(JudgeInput(pair.prompt, pair.first, pair.second, next(seeds)), self.key)
        two = brain(JudgeInput(pair.prompt, pair.second, pair.first, next(seeds)), self.key)
        if "refusal" in (one, two):
            return Preference(None, cost=cost, failure="refusal: I would rather not")
        orders = VALUE[one], 1 - VALUE[two]
        return Preference(sum(orders) / 2, orders, "because", cost)


class Scorer:
    """Scores an answer by a function of its text; None is a failure."""

    name = "scorer"

    def __init__(self, function):
        self.function, self.asked = function, []

    def score(self, cases):
        self.asked.append(len(cases))
        scores = [
            self.function(next(iter(case.observations.values())), next(iter(case.completions.values())))
            for case in cases
        ]
        return [Score(score, failure="" if score is not None else "timeout: 3 s") for score in scores]


def always_first(_conversation, _seed):
    """A model that names the first slot whatever stands there."""
    return '{"reason": "it stands first", "better": "first"}'


def always_second(_conversation, _seed):
    """The second."""
    return '{"reason": "it stands second", "better": "second"}'
