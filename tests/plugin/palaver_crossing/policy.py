"""Policies and a player that need no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palaver.core import Completion, Conversation, Request
from palaver.envs.base.env import TextEnv


class Always:
    """Answers with one text, given after its name: `always:left`."""

    def __init__(self, text: str = "left") -> None:
        self.name = f"always:{text}"
        self.text = text

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        return [[Completion(self.text) for _ in request.seeds] for request in requests]


def keep_right(conversation: Conversation, seed: int) -> str:
    """A scripted policy."""
    return "right"


def keep_left(env: TextEnv, agent: str, seed: int) -> Callable[[str, dict[str, object]], str]:
    """A player of the arena."""
    return lambda observation, info: "left"
