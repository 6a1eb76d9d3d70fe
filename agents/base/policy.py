"""Protocols of policies: anything that reads conversations and answers, and language models among them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from palaver.core import Completion, Conversation, Request, ToolSchema


@runtime_checkable
class Policy(Protocol):
    """Answers conversations.

    `act` gets every conversation that waits for this policy, whichever episode or agent it comes from, and returns one
    list per request with one completion per seed, in order. The seed alone fixes the draw: the same conversation,
    sampling and seed give the same text, independent of the other requests of the call (of a language model in fp32:
    with fewer digits a sum depends on the batch it is computed in).
    """

    name: str

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One list per request, one completion per seed."""


@runtime_checkable
class LanguageModel(Policy, Protocol):
    """A language model that is trained, wherever its weights are.

    Attributes:
        tokenizer: tokenizer of transformers.
    """

    tokenizer: Any

    @property
    def version(self) -> int:
        """Number of updates that its weights have had."""

    @property
    def context(self) -> float:
        """Maximum number of tokens that it reads, infinite if it has no limit."""

    @property
    def shared_engine(self) -> object:
        """Object that answers for this policy: policies of one engine share a batch, learn in turn."""

    def render(self, conversation: Conversation, tools: tuple[ToolSchema, ...] = ()) -> list[int]:
        """Prompt ids of a conversation in which these tools may be called."""

    def fits(self, request: Request) -> bool:
        """Return whether the prompt of a request fits the limits of the model."""

    def save(self, folder: Path | str) -> None:
        """Write model and tokenizer in the ordinary format of transformers or peft."""


def act_batched(queries: Sequence[tuple[Policy, Request]]) -> list[list[Completion]]:
    """Answer each policy's request, in order: `act`, one batch for all policies of one engine.

    A policy without a `shared_engine`, or that is its own, is queried alone. Any other engine has an
    `act_batched` like this one.
    """
    engines: dict[int, tuple[Any, list[int]]] = {}
    for index, (policy, _) in enumerate(queries):
        engine = getattr(policy, "shared_engine", policy)
        engines.setdefault(id(engine), (engine, []))[1].append(index)
    completions: list[list[Completion]] = [[] for _ in queries]
    for engine, indices in engines.values():
        batch = [queries[index] for index in indices]
        alone = engine is batch[0][0]
        answers = engine.act([request for _, request in batch]) if alone else engine.act_batched(batch)
        for index, answer in zip(indices, answers, strict=True):
            completions[index] = answer
    return completions
