"""Policies without a model: random words, an echo, a function, a person."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from palaver.agents.base.policy import Policy
from palaver.core import Completion, Conversation, PalaverError, PolicyError, Request, stable_seed
from palaver.text import clean

MOST_SHOWN = 40_000  # characters of a question
WORDS = (
    *("a", "the", "one", "this", "each", "new", "old", "plain", "small", "large", "clear", "open"),
    *("study", "method", "result", "model", "word", "page", "reader", "writer", "question", "answer"),
    *("begins", "shows", "finds", "makes", "reads", "writes", "follows"),
    *("and", "but", "so", "then", "because", "of", "in", "on", "with", "for"),
)


class ScriptedPolicy:
    """Calls `function(conversation, seed) -> str` once per seed.

    Attributes:
        chances: (prompts, legal actions of each) -> their probabilities, if the function has this attribute.
    """

    chances: Callable[[Sequence[str], Sequence[Sequence[str]]], list[list[float]]]

    def __init__(self, function: Callable[[Conversation, int], str], name: str = "scripted") -> None:
        self.name = name
        self.function = function
        if callable(chances := getattr(function, "chances", None)):
            self.chances = chances

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


class SwitchedPolicy:
    """Answers by one policy at first and by another after so many answers in an episode.

    Args:
        first: answers at first.
        then: answers afterwards, with the conversation so far.
        after: number of answers by the first.
    """

    def __init__(self, first: Policy, then: Policy, after: int) -> None:
        self.first, self.then, self.after = first, then, after
        self.name = f"{first.name}, after {after} answers {then.name}"

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Answers of the policy whose turn it is, in the order of the requests."""
        whose = [_answered(request) >= self.after for request in requests]
        parts = {
            later: iter(policy.act([r for r, is_later in zip(requests, whose, strict=True) if is_later is later]))
            for later, policy in ((False, self.first), (True, self.then))
            if later in whose
        }
        return [next(parts[later]) for later in whose]


def _answered(request: Request) -> int:
    """Earlier answers of the agent in the episode; if not given, those in its conversation."""
    if request.answered is not None:
        return request.answered
    return sum(message.role == "assistant" for message in request.conversation)


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


class QuitError(PalaverError):
    """The person at the terminal has left the game."""


class AnswerSource(Protocol):
    """Medium between a person and the policy: a terminal, or a page."""

    def show(self, request: Request, text: str) -> None:
        """Show what is new for an agent, as a question."""

    def read(self) -> str:
        """Return the next answer.

        Raises:
            QuitError: there is no more.
        """

    def say(self, text: str) -> None:
        """Show a remark on the question."""


class TerminalSource:
    """Questions and answers in the terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()

    def show(self, request: Request, text: str) -> None:
        """Print the question in a frame."""
        self.console.print(Panel(Text(text), title=Text(request.agent), title_align="left"))

    def read(self) -> str:
        """Return the next line.

        Raises:
            QuitError: the input has ended (Ctrl-D).
        """
        try:
            return self.console.input("your answer> ", markup=False)
        except EOFError:
            raise QuitError("the input has ended, and with it the game") from None

    def say(self, text: str) -> None:
        """Print a remark."""
        self.console.print(Text(text, style="dim"))


class HumanPolicy:
    """Policy of a person.

    Shows what is new since the last question to the same agent, and the legal actions where the environment lists them:
    an answer names one of these in full, by its number, or by a beginning that no other shares, or is asked again.

    Args:
        source: of the answers; None: the terminal.
    """

    name = "human"

    def __init__(self, source: AnswerSource | None = None) -> None:
        self.source = source or TerminalSource()

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Prompt once per request and seed.

        Raises:
            QuitError: the person quits, or the answers end.
        """
        return [[Completion(self._read_answer(request)) for _ in request.seeds] for request in requests]

    def _read_answer(self, request: Request) -> str:
        new = itertools.takewhile(lambda message: message.role != "assistant", reversed(request.conversation))
        text = clean("\n\n".join(reversed([message.content for message in new])), MOST_SHOWN)
        self.source.show(request, text)
        if not request.actions or any(action not in text for action in request.actions):
            self._show_help(request)
        silent = False
        while True:
            text = self.source.read()
            word = text.strip().lower()
            if word == "/quit" or (request.actions and word in ("quit", "q")):
                raise QuitError("you left the game")
            if word == "/help" or (request.actions and word in ("help", "?")):
                self._show_help(request)
            elif request.actions:
                named = named_actions(text, request.actions)
                if len(named) == 1:
                    return named[0]
                wrong = "begins several legal actions" if named else "names no legal action"
                self.source.say(f"{text.strip()[:60]!r} {wrong}; write one of them or its number, help, or quit")
            elif word or silent:
                return text
            else:
                silent = True
                self.source.say("press Enter again to say nothing")

    def _show_help(self, request: Request) -> None:
        if request.actions:
            listed = ", ".join(
                f"{index}. {clean(action, 120)}" for index, action in enumerate(request.actions, start=1)
            )
            self.source.say(f"actions: {listed}; help shows them again, quit leaves")
        else:
            self.source.say("any text is an answer; /help shows this again, /quit leaves")


def named_actions(text: str, actions: Sequence[str]) -> list[str]:
    """Return the actions that a typed text names, or all that begin with it.

    >>> named_actions("2", ["left", "right"]), named_actions("L", ["left", "right"]), named_actions("", ["left"])
    (['right'], ['left'], [])
    """
    if text in actions:
        return [text]
    word = " ".join(text.lower().split())
    whole = [action for action in actions if action.lower() == word]
    if whole:
        return whole[:1]
    if word.isascii() and word.isdecimal() and len(word) < 6:
        return [actions[int(word) - 1]] if 1 <= int(word) <= len(actions) else []
    return [action for action in actions if word and action.lower().startswith(word)]
