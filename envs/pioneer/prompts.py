"""Prompt of the observer."""

from __future__ import annotations


def observer(question: str, answer: str) -> str:
    """The task, and the pioneer's answer between marks.

    Whatever the answer holds is put in as it is.
    """
    request = "End of the partner's answer. Write your own answer to the task."
    return f"{question}\n\nA partner answered:\n\n{answer}\n\n{request}"
