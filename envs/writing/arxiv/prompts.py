"""Prompts of arXiv authors.

Imitation texts answer these very words: a change bumps the version.
"""

from __future__ import annotations

from palaver.envs.writing.text import SPLIT

_TASKS = {
    "background": (
        "Write the background paragraph of this paper's introduction: what is known and why the problem matters. "
        "Use {low} to {high} words in whole sentences. "
        "A colleague writes the method paragraph, {short} to {long} times as long as yours. "
        "Share terms; use transition words."
    ),
    "method": (
        "Write the method paragraph of this paper's introduction: what is done and what follows from it. "
        "Use {low} to {high} words in whole sentences, {short} to {long} times as long as the background paragraph "
        "that a colleague writes. Share terms; use transition words."
    ),
    "writer": (
        "Write two paragraphs of this paper's introduction, background then method, split by {split}. "
        "Each has {low} to {high} words in whole sentences; the second is {short} to {long} times as long. "
        "Share terms; use transition words."
    ),
}


def opening(
    agent: str,
    title: str,
    abstract: str,
    length: tuple[int, int] = (128, 256),
    ratio: tuple[float, float] = (1.3, 1.6),
) -> str:
    """The first observation of `agent` (`background`, `method`, or the single author `writer`).

    Args:
        agent: its name.
        title: the paper's title; left out when empty (the public data has none).
        abstract: the paper's abstract.
        length: fewest and most words of a paragraph.
        ratio: method over background, in characters.
    """
    task = _TASKS[agent].format(low=length[0], high=length[1], short=f"{ratio[0]:g}", long=f"{ratio[1]:g}", split=SPLIT)
    paper = f"Title: {title.strip()}\n" if title.strip() else ""
    return f"{task}\n\n{paper}Abstract: {abstract.strip()}"
