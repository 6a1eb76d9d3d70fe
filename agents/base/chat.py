"""Protocol of a language model that answers questions: a local model or an OpenAI server.

A `Chat` answers many questions at once. A question that could not be answered returns its failure, never an exception,
so that one bad answer does not lose the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from palaver.core import Conversation, Finish, Sampling, ToolCall, ToolSchema
from palaver.scoring import Cost


@dataclass(frozen=True, slots=True)
class Question:
    """One conversation that waits for one answer.

    Attributes:
        conversation: its last message is the one to answer.
        sampling: how tokens are drawn.
        seed: of the draw, where the model takes one.
        schema: the JSON schema of the answer; empty for free text.
        top_logprobs: how many of the likeliest first tokens are wanted with their log-probabilities, 0 to 20.
        tools: tools that the model may call.
    """

    conversation: Conversation
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    schema: Mapping[str, Any] = field(default_factory=dict)
    top_logprobs: int = 0
    tools: tuple[ToolSchema, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a question.

    Attributes:
        text: "" if there is none.
        finish: "stop" if the model ended by itself, "length" if it was cut.
        top: for each answered token, the likeliest tokens at its place with their log-probabilities, if requested.
        cost: of this answer, failed attempts included.
        failure: reason why there is no text, as in `Score.failure`; "" if there is one.
        calls: calls of tools, if the question has tools.
    """

    text: str
    finish: Finish = "stop"
    top: tuple[Mapping[str, float], ...] = ()
    cost: Cost = field(default_factory=Cost)
    failure: str = ""
    calls: tuple[ToolCall, ...] = ()


@runtime_checkable
class Chat(Protocol):
    """Answers questions.

    `name` goes with `revision` into cache keys: together they name the model's weights.
    """

    name: str
    revision: str

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return one answer per question, in order; a failed one holds its `failure`."""
