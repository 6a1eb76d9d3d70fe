"""Prompts of TL;DR authors.

Imitation texts answer these very words: a change bumps the version.
"""

from __future__ import annotations

from palaver.envs.writing.text import SPLIT

_TASKS = {
    "concise": (
        "Summarise this post briefly, in {low} to {high} words and whole sentences: only the point. "
        "A colleague writes a detailed summary, {short} to {long} times as long as yours. Share its terms."
    ),
    "detailed": (
        "Summarise this post in detail, in {low} to {high} words and whole sentences, {short} to {long} times "
        "as long as the brief summary that a colleague writes, with {unique} times as many different words. "
        "Use transition words."
    ),
    "writer": (
        "Write two summaries of this post, a brief and a detailed one, split by {split}. "
        "Each has {low} to {high} words in whole sentences; the second is {short} to {long} times as long, "
        "with {unique} times as many different words and transition words."
    ),
}


def opening(
    agent: str,
    post: str,
    length: tuple[int, int] = (8, 256),
    ratio: tuple[float, float] = (1.6, 3.2),
    unique: float = 2.0,
) -> str:
    """The first observation of `agent` (`concise`, `detailed`, or the single author `writer`).

    Args:
        agent: its name.
        post: the post with its headings, as in the public data (field `prompt`).
        length: fewest and most words of a summary.
        ratio: detailed over concise, in characters.
        unique: different words of the detailed summary over those of the concise one.
    """
    task = _TASKS[agent].format(
        low=length[0],
        high=length[1],
        short=f"{ratio[0]:g}",
        long=f"{ratio[1]:g}",
        unique=f"{unique:g}",
        split=SPLIT,
    )
    return f"{task}\n\n{post.strip()}"
