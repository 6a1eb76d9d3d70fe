"""Scripted authors for `tldr-v0`: `reference` scores above 2.5 of 3, `lazy` nothing."""

from __future__ import annotations

from palaver.core import Conversation
from palaver.envs.writing.reference import compose, last_prompt, parse_range, topic
from palaver.envs.writing.text import SPLIT

_CONCISE = ("the post is about {}", "the post asks about {}")
_DETAILED = (
    "the author mentions {}",
    "trouble began with {}",
    "everybody involved has feelings regarding {}",
    "advice would help concerning {}",
    "matters became worse through {}",
    "friends might have opinions about {}",
    "nothing was settled around {}",
    "somebody ought to explain {}",
    "patience seems wise given {}",
    "another question touches {}",
    "hope remains despite {}",
    "readers should weigh {}",
)


def reference(conversation: Conversation, seed: int) -> str:
    """Write the requested summary (or, as the single author, both), determined by the seed."""
    prompt = last_prompt(conversation)
    low, high = parse_range(prompt, "words", (8, 256))
    short, long = parse_range(prompt, "times", (1.6, 3.2))
    subject = topic(prompt.partition("\n\n")[2])
    brief = max(int(low), min(40, int(high / long)))
    concise = compose(subject[:6], _CONCISE, brief, seed)
    detailed = compose(subject, _DETAILED, min(round(brief * (short + long) / 2), int(high)), seed + 6)
    if SPLIT in prompt:
        return f"{concise}\n{SPLIT}\n{detailed}"
    return detailed if prompt.startswith("Summarise this post in detail") else concise


def lazy(_conversation: Conversation, _seed: int) -> str:
    """Text that is too short for any reward."""
    return "Somebody has a problem."
