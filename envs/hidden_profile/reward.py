"""Votes, rewards and measurements of hidden profiles."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence

from palaver.envs.matrix.rules import fold

_WORD = re.compile(r"[^\W_]+")


def vote_of(text: str, options: Sequence[str]) -> str | None:
    """The option that a text votes for; None if it names none.

    It is the `vote` of a JSON object, if the text is one, else the first option that occurs as whole words, whatever
    the case; of two that begin at one place the longer.

    >>> vote_of('{"vote": "Site B"}', ["Site A", "Site B"]), vote_of("site a, not B", ["Site A", "Site B"])
    ('Site B', 'Site A')
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        record = None
    named = record.get("vote") if isinstance(record, Mapping) else text
    match = _pattern(tuple(options)).search(fold(named)) if isinstance(named, str) else None
    return None if match is None else next(option for option in options if fold(option) == match[0])


@functools.lru_cache(maxsize=1024)
def _pattern(options: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(map(fold, options), key=len, reverse=True)
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, longest_first))})(?![^\W_])")


def has_majority(votes: Sequence[str | None], right: str) -> bool:
    """Return whether more than half of the votes are right."""
    return 2 * sum(vote == right for vote in votes) > len(votes)


def vote_rewards(votes: Mapping[str, str | None], right: str) -> dict[str, dict[str, float]]:
    """Components of each agent: `majority`, 1 if the team is right, and `own`, 1 if its vote is."""
    majority = float(has_majority(list(votes.values()), right))
    return {agent: {"majority": majority, "own": float(vote == right)} for agent, vote in votes.items()}


def mentioned(facts: Sequence[str], messages: Sequence[str]) -> float:
    """Share of the facts whose words occur, in their order, in a message.

    >>> mentioned(["amber calm", "birch new"], ["I know: Amber calm, cedar fast."])
    0.5
    """
    known = [_words(message) for message in messages]
    return sum(any(_words(fact) in message for message in known) for fact in facts) / len(facts)


def _words(text: str) -> str:
    return " ".join(["", *_WORD.findall(fold(text)), ""])
