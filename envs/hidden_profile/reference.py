"""Scripted participants: one that exchanges all facts, and one that decides alone."""

from __future__ import annotations

import re

from palaver.core import Conversation
from palaver.envs.base.scripted import first_prompt, observed
from palaver.envs.hidden_profile.generate import Fact

_OPTIONS = re.compile(r"Options: ([^\n]+)\.$", re.MULTILINE)


def reference(conversation: Conversation, _seed: int) -> str:
    """Says all its facts, and votes for most different facts in all that it has read.

    Of options with as many it votes for the first.
    """
    texts = observed(conversation)
    if not texts or asks_for_vote(texts[-1]):
        return _best(options(conversation), texts)
    return ", ".join(" ".join(fact) for fact in facts(options(conversation), texts[:1])) + "."


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
    """Different facts in texts, in order: the name of an option, perhaps `is`, and one word."""
    if not names:
        return []
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, names))}) (?:is )?(\w+)")
    return list(dict.fromkeys(pattern.findall("\n".join(texts))))


def _best(names: list[str], texts: list[str]) -> str:
    named = [option for option, _ in facts(names, texts)]
    return max(names, key=named.count, default="")
