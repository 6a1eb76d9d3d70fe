"""Scripted authors of the writing environments.

They score above 2.5 of 3, the lazy ones nothing. A text that scores well without a model has one sentence for each kind
of transition, about the topic's own words. It is honest about its task only as far as the reward is: the sentences are
grammatical, on topic and not repeated, and that is all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import cycle, islice

from palaver.core import Conversation
from palaver.envs.writing.text import SPLIT, stop_list, words

_HEADING = re.compile(r"^[\w;]+:", re.MULTILINE)
OPENERS = (
    "However,",
    "Therefore,",
    "In addition,",
    "For example,",
    "In other words,",
    "Finally,",
    "Indeed,",
    "Similarly,",
    "Even so,",
    "At the same time,",
    "In case of doubt,",
    "Overall,",
)


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


def arxiv(conversation: Conversation, seed: int) -> str:
    """Author of `arxiv-v0`: the requested paragraph (or both), determined by the seed."""
    prompt = last_prompt(conversation)
    low, high = parse_range(prompt, "words", (128, 256))
    short, long = parse_range(prompt, "times", (1.3, 1.6))
    subject = topic(prompt.partition("\n\n")[2])[:30]
    brief = min(round(1.12 * low) + 1, int(high))
    background = compose(subject, _BACKGROUND, brief, seed)
    method = compose(subject, _METHOD, min(round(brief * (2 * short + long) / 3), int(high)), seed + 6)
    return _requested(prompt, background, method, "Write the method")


def tldr(conversation: Conversation, seed: int) -> str:
    """Author of `tldr-v0`: the requested summary (or both), determined by the seed."""
    prompt = last_prompt(conversation)
    low, high = parse_range(prompt, "words", (8, 256))
    short, long = parse_range(prompt, "times", (1.6, 3.2))
    subject = topic(prompt.partition("\n\n")[2])
    brief = max(int(low), min(40, int(high / long)))
    concise = compose(subject[:6], _CONCISE, brief, seed)
    detailed = compose(subject, _DETAILED, min(round(brief * (short + long) / 2), int(high)), seed + 6)
    return _requested(prompt, concise, detailed, "Summarise this post in detail")


def lazy_arxiv(_conversation: Conversation, _seed: int) -> str:
    """Text that is too short for any reward."""
    return "This paper is interesting."


def lazy_tldr(_conversation: Conversation, _seed: int) -> str:
    """Text that is too short for any reward."""
    return "Somebody has a problem."


def _requested(prompt: str, first: str, second: str, second_request: str) -> str:
    if SPLIT in prompt:
        return f"{first}\n{SPLIT}\n{second}"
    return second if prompt.startswith(second_request) else first


def last_prompt(conversation: Conversation) -> str:
    """The last message that was not the agent's own; "" for an empty conversation."""
    return next((m.content for m in reversed(conversation) if m.role != "assistant"), "")


def parse_range(prompt: str, unit: str, default: tuple[float, float]) -> tuple[float, float]:
    """The range of `words` or `times` in the prompt, or `default` if there is none.

    >>> parse_range("in 32 to 64 words, 1.3 to 1.6 times", "times", (1, 2))
    (1.3, 1.6)
    >>> parse_range("1.2.3 to 4 words", "words", (1, 2))
    (2.3, 4.0)
    """
    match = re.search(rf"(\d+(?:\.\d+)?) to (\d+(?:\.\d+)?) {unit}", prompt)
    return (float(match[1]), float(match[2])) if match else default


def topic(text: str) -> list[str]:
    """Distinct words of five letters or more, in order, lower case.

    Stop words and headings are left out.
    """
    distinct = dict.fromkeys(words(_HEADING.sub("", text)))
    return [word for word in distinct if len(word) > 4 and word.isalpha() and word not in stop_list()] or ["subject"]


def compose(subject: Sequence[str], patterns: Sequence[str], length: int, seed: int) -> str:
    """Sentences of about `length` words in all.

    Args:
        subject: topic words, used in turn.
        patterns: sentence bodies with one place `{}` for a list of topic words, used in turn.
        length: words wanted.
        seed: turns the order of the openers; the same seed gives the same text.
    """
    count = max(1, min(len(OPENERS), length // 8))
    shift = random.Random(seed).randrange(len(OPENERS))
    openers = islice(cycle(OPENERS), shift, shift + count)
    supply, done, sentences = cycle(subject), 0, []
    for n, (opener, pattern) in enumerate(zip(openers, cycle(patterns), strict=False)):
        places = max(2, round((length - done) / (count - n)) - len(f"{opener} {pattern}".split()))
        *items, last = (next(supply) for _ in range(places))
        series = f"{', '.join(items)} and {last}"
        sentence = f"{opener} {pattern.format(series)}."
        done += len(sentence.split())
        sentences.append(sentence)
    return " ".join(sentences)
