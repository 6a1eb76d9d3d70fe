"""Rewards for tests of environments: nothing is asked of anybody."""

from __future__ import annotations

from palaver.scoring import Score


class Length:
    """Pays a hundredth a character said, 1 at most; "fail" cannot be scored. Keeps what it was asked."""

    name = "length"
    most = 1.0

    def __init__(self, **about):
        self.calls = []
        self.__dict__.update(about)

    def score(self, cases):
        self.calls.append(list(cases))
        return [self._verdict(case) for case in cases]

    @staticmethod
    def _verdict(case):
        said = "".join(case.completions.values())
        if "fail" in said:
            return Score(None, failure="timeout: late")
        score = min(1.0, len(said) / 100)
        return Score(score, {"long": score}, f"{len(said)} characters\x1b[2J", metrics={"holdout_gap": 0.25})


def by_length(conversation, seed):
    """A scripted judge with the default rubric: content with answers of 40 characters or more."""
    import json

    choices = ("fully", "yes", "yes") if len(conversation[1].content) % 2 else ("in part", "mostly", "no")
    parts = zip(("done", "correct", "together"), choices, strict=True)
    return json.dumps({name: {"reason": "counted", "choice": choice} for name, choice in parts})
