"""Scripted players for `echo-v0`: `reference` gets the full reward, `lazy` none."""

from __future__ import annotations

import re

from palaver.core import Conversation

_GIVEN = re.compile(r"The word is: (\w+)$")


def reference(conversation: Conversation, _seed: int) -> str:
    """The word of the last message that gives one; "" if none does."""
    for message in reversed(conversation):
        if message.role != "assistant" and (match := _GIVEN.search(message.content)):
            return match[1]
    return ""


def lazy(_conversation: Conversation, _seed: int) -> str:
    """Says nothing."""
    return ""
