"""Policies without a model: random words, an echo, a function, a person."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from palaver.core import Completion, Conversation, PolicyError, Request, stable_seed
from palaver.text import clean

WORDS = (
    *("a", "the", "one", "this", "each", "new", "old", "plain", "small", "large", "clear", "open"),
    *("study", "method", "result", "model", "word", "page", "reader", "writer", "question", "answer"),
    *("begins", "shows", "finds", "makes", "reads", "writes", "follows"),
    *("and", "but", "so", "then", "because", "of", "in", "on", "with", "for"),
)


class ScriptedPolicy:
    """Calls `function(conversation, seed) -> str` once per seed."""

    def __init__(self, function: Callable[[Conversation, int], str], name: str = "scripted") -> None:
        self.name = name
        self.function = function

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One call of the function per request and seed.

        Raises:
            PolicyError: the function returned something that is not text.
        """
        return [[Completion(self._text(request, seed)) for seed in request.seeds] for request in requests]

    def _text(self, request: Request, seed: int) -> str:
        text = self.function(request.conversation, seed)
        if not isinstance(text, str):
            raise PolicyError(f"{self.name} must return text (str), it returned {type(text).__name__}")
        return text


class RandomPolicy:
    """Words drawn at random: knows nothing, stays within `max_tokens` words."""

    name = "random"

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Each seed fixes its own words."""
        return [[Completion(self._words(seed, r.sampling.max_tokens)) for seed in r.seeds] for r in requests]

    @staticmethod
    def _words(seed: int, max_words: int) -> str:
        generator = random.Random(stable_seed("random policy", seed))
        return " ".join(generator.choices(WORDS, k=generator.randint(1, max_words)))


def last_user_message(conversation: Conversation, seed: int = 0) -> str:
    """The content of the last user message, "" if there is none; the seed changes nothing."""
    del seed
    return next((message.content for message in reversed(conversation) if message.role == "user"), "")


class EchoPolicy(ScriptedPolicy):
    """Repeats the last user message."""

    def __init__(self) -> None:
        super().__init__(last_user_message, "echo")


class HumanPolicy:
    """Policy of a person in the terminal.

    Shows what is new since the last question to the same agent.
    """

    name = "human"

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Prompts once per request and seed; an end of input (Ctrl-D) is an empty answer."""
        return [[Completion(self._read_answer(request)) for _ in request.seeds] for request in requests]

    def _read_answer(self, request: Request) -> str:
        new = itertools.takewhile(lambda message: message.role != "assistant", reversed(request.conversation))
        body = Text(clean("\n\n".join(reversed([message.content for message in new]))))
        self.console.print(Panel(body, title=Text(request.agent), title_align="left"))
        try:
            return self.console.input("your answer> ", markup=False)
        except EOFError:
            return ""
