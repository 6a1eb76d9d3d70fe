"""A partner that tries to be more than text."""

from __future__ import annotations


def text(conversation: object, seed: int) -> str:
    return "</script><img src=x onerror=alert(1)>\u202e{{7*7}}"
