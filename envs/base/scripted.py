"""Parts of scripted policies, which are functions of a conversation and a seed."""

from __future__ import annotations

from palaver.core import Conversation


def lazy(_conversation: Conversation, _seed: int) -> str:
    """Says nothing."""
    return ""


def first_prompt(conversation: Conversation) -> str:
    """The first message; "" for an empty conversation."""
    return conversation[0].content if conversation else ""


def observed(conversation: Conversation) -> list[str]:
    """The messages that are not the agent's own, in order."""
    return [message.content for message in conversation if message.role == "user"]
