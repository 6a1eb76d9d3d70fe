"""Scripted participants: one that exchanges all facts, and one that decides alone."""

from __future__ import annotations

import re

from palaver.core import Conversation
from palaver.envs.base.scripted import first_prompt, observed
from palaver.envs.hidden_profile.generate import TINY_ATTRIBUTES, TINY_OPTIONS, Fact, fact_text

_SHORT = re.compile(rf"\b({'|'.join(map(str.title, TINY_ATTRIBUTES))})({'|'.join(map(str.title, TINY_OPTIONS))})\b")
_OPTIONS = re.compile(r"Options: ([^\n]+)\.$", re.MULTILINE)


def reference(conversation: Conversation, _seed: int) -> str:
    """Says all its facts, and votes for most different facts in all that it has read.

    Of options with as many it votes for the first.
    """
    texts = observed(conversation)
    if not texts or asks_for_vote(texts[-1]):
        return _best(options(conversation), texts)
    names = options(conversation)
    tiny = {*names} <= {*TINY_OPTIONS}
    return " ".join(fact_text(fact, tiny=tiny) for fact in facts(names, texts[:1]))


def alone(conversation: Conversation, _seed: int) -> str:
    """Votes for the option with most of its own facts, and says no more than that."""
    return _best(options(conversation), observed(conversation)[:1])


def asks_for_vote(text: str) -> bool:
    """Return whether the last line of a prompt asks for a vote."""
    return "vote" in text.rpartition("\n")[2].lower()


def options(conversation: Conversation) -> list[str]:
    """The options in the first prompt; none if it lists none."""
    match = _OPTIONS.search(first_prompt(conversation))
    return match[1].split(", ") if match else []


def facts(names: list[str], texts: list[str]) -> list[Fact]:
    """Different facts in texts, in order: `Durham is modern`, or `CalmAmber` of the tiny form."""
    named = "|".join(map(re.escape, names))
    plain = re.findall(rf"\b({named}) is (\w+)", "\n".join(texts)) if names else []
    short = _SHORT.findall("\n".join(texts))
    return list(dict.fromkeys([*plain, *((option.lower(), word.lower()) for word, option in short)]))


def _best(names: list[str], texts: list[str]) -> str:
    named = [option for option, _ in facts(names, texts)]
    return max(names, key=named.count, default="")
