"""Scripted authors for `arxiv-v0`: `reference` scores above 2.5 of 3, `lazy` nothing."""

from __future__ import annotations

from palaver.core import Conversation
from palaver.envs.writing.reference import compose, last_prompt, parse_range, topic
from palaver.envs.writing.text import SPLIT

_BACKGROUND = (
    "earlier work has studied {}",
    "the literature leaves open {}",
    "little is known about {}",
    "practice depends on {}",
    "this paper starts from {}",
    "the problem matters for {}",
)
_METHOD = (
    "this paper studies {}",
    "the method connects {}",
    "the experiments measure {}",
    "the results explain {}",
    "the analysis covers {}",
    "the problem matters for {}",
)


def reference(conversation: Conversation, seed: int) -> str:
    """Write the requested paragraph (or, as the single author, both), determined by the seed."""
    prompt = last_prompt(conversation)
    low, high = parse_range(prompt, "words", (128, 256))
    short, long = parse_range(prompt, "times", (1.3, 1.6))
    subject = topic(prompt.partition("\n\n")[2])[:30]
    brief = min(round(1.12 * low) + 1, int(high))
    background = compose(subject, _BACKGROUND, brief, seed)
    method = compose(subject, _METHOD, min(round(brief * (2 * short + long) / 3), int(high)), seed + 6)
    if SPLIT in prompt:
        return f"{background}\n{SPLIT}\n{method}"
    return method if prompt.startswith("Write the method") else background


def lazy(_conversation: Conversation, _seed: int) -> str:
    """Text that is too short for any reward."""
    return "This paper is interesting."
