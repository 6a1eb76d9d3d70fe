"""Verdicts parsed from a judge's answer.

The last JSON object of the answer is read, and nothing but the allowed choices is accepted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from palaver.agents.judges.spec import JudgeRubric, as_choice
from palaver.text import one_line

LONGEST = 50_000  # characters of an answer that are read, from its end
MOST_READ = 20 * LONGEST  # characters that are parsed in vain
REASON = 2_000  # characters of a reason that are kept


class UnreadError(Exception):
    """An answer that is no verdict.

    Attributes:
        failure: `unparseable` or `out of menu`, and why, as `Score.failure`.
    """

    def __init__(self, kind: str, why: str) -> None:
        self.failure = f"{kind}: {one_line(why)}"
        super().__init__(self.failure)


def last_object(text: str) -> dict[str, Any]:
    """The last JSON object of a text that is in no other one.

    A model may think aloud before it, in objects too.

    Raises:
        UnreadError: there is none.
    """
    text = text[-LONGEST:]
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_number)
    last: dict[str, Any] | None = None
    read = 0  # characters; what nests without an end is read again from each of its beginnings
    start = text.find("{")
    while start >= 0:
        try:
            # a slice, because an error counts the lines of its document up to where it is
            last, size = decoder.raw_decode(text[start:])
            end = start + size
        except ValueError as error:
            end = start + 1
            read += getattr(error, "pos", len(text) - start)
            if read > MOST_READ:
                raise UnreadError("unparseable", "JSON that is nested too deeply") from error
        except RecursionError as error:
            raise UnreadError("unparseable", "JSON that is nested too deeply") from error
        start = text.find("{", end)
    if last is None:
        raise UnreadError("unparseable", "no JSON object")
    return last


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key is there twice")
    return data


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def choices(text: str, rubric: JudgeRubric) -> tuple[dict[str, float], str]:
    """Criterion -> value from 0 to 1, and the reasons, from an answer.

    The answer has the form of `prompts.choices_schema`.

    Raises:
        UnreadError: a criterion is missing or unknown, or a choice is none of its choices.
    """
    data = last_object(text)
    _exactly(data, [criterion.name for criterion in rubric.criteria], "criteria")
    values, reasons = {}, []
    for criterion in rubric.criteria:
        given = data[criterion.name]
        choice, reason = (given.get("choice"), given.get("reason")) if isinstance(given, dict) else (given, "")
        value = criterion.value(choice) if isinstance(choice, str) else None
        if value is None:
            raise UnreadError("out of menu", f"{criterion.name} is {str(choice)[:60]!r}")
        values[criterion.name] = value
        reasons.append(f"{criterion.name}: {_reason(reason)}")
    return values, "; ".join(reasons)[:REASON]


def listed(text: str, ids: Collection[str]) -> dict[str, tuple[float, str]]:
    """Id -> score from 0 to 1 and reason, from an answer in the form of `prompts.list_schema`.

    Raises:
        UnreadError: an id is missing, unknown or there twice, or a score is out of range.
    """
    given = last_object(text).get("answers")
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise UnreadError("unparseable", "no list 'answers' of objects")
    named = [entry.get("id") for entry in given]
    if len(named) != len(ids) or any(not isinstance(id, str) for id in named):
        raise UnreadError("out of menu", f"{len(named)} answers are scored, {len(ids)} were given")
    entries = dict(zip(named, given, strict=True))
    _exactly(entries, ids, "ids")
    return {id: (_share(entries[id].get("score"), id), _reason(entries[id].get("reason"))) for id in ids}


def better(text: str) -> tuple[float, str]:
    """1 if the first is better, 0 if the second is, 0.5 for a tie, and the reason.

    Raises:
        UnreadError: there is none of these.
    """
    data = last_object(text)
    choice = data.get("better")
    menu = {"first": 1.0, "tie": 0.5, "second": 0.0}
    value = menu.get(as_choice(choice)) if isinstance(choice, str) else None
    if value is None:
        raise UnreadError("out of menu", f"better is {str(choice)[:60]!r}")
    return value, _reason(data.get("reason"))


def weighted(top: Sequence[Mapping[str, float]], n: int, least: float = 0.5, places: int = 4) -> float:
    """Expected score sum_s s p(s) / sum_s p(s) over s = 1..n (G-Eval).

    p(s) are of the log-probabilities of likely tokens (arXiv 2303.16634, section 2), at the first place where the
    scores have `least` of the probability together.

    Args:
        top: for each answered token, likely tokens with their log-probabilities.
        n: the largest score, 9 at most.
        least: probability that the scores must have together.
        places: answered tokens that are looked at; a space or a mark may precede the score.

    Raises:
        UnreadError: there are no log-probabilities, or nowhere so much probability on the scores.
    """
    if not top:
        raise UnreadError("unparseable", "the model tells no log-probabilities; use mode=pointwise")
    best = 0.0
    for alternatives in top[:places]:
        share = dict.fromkeys(range(1, n + 1), 0.0)
        for token, logprob in alternatives.items():
            word = token.strip("▁Ġ \n\t")
            if word in map(str, share):
                share[int(word)] += math.exp(min(0.0, logprob))
        mass = math.fsum(share.values())
        if mass >= least:
            return math.fsum(score * p for score, p in share.items()) / mass
        best = max(best, mass)
    raise UnreadError("out of menu", f"the scores have {best:.2f} of the probability, less than {least:g}")


def _exactly(data: Mapping[str, Any], wanted: Collection[str], what: str) -> None:
    if set(data) != set(wanted):
        raise UnreadError(
            "out of menu", f"the {what} are {', '.join(map(str, data))[:80]}; asked for {', '.join(wanted)}"
        )


def _share(value: object, id: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UnreadError("out of menu", f"the score of {id} is {str(value)[:40]!r}, not from 0 to 1")
    return float(value)


def _reason(value: object) -> str:
    return one_line(value, 400) if isinstance(value, str) else ""
