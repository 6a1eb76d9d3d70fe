"""Protocols of policies: anything that answers conversations, and language models."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from palaver.core import Completion, Conversation, Request, Sampling, ToolSchema


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

    def written(self, text: str) -> list[int]:
        """Token ids of an answer that somebody else has written, its end token included."""

    def answer_log_probs(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[float]:
        """Log-probability of each answer after its prompt, given as token ids, when sampled so."""

    def fits(self, request: Request) -> bool:
        """Return whether the prompt of a request fits the limits of the model."""

    def save(self, folder: Path | str) -> None:
        """Write model and tokenizer in the ordinary format of transformers or peft."""


def act_batched(queries: Sequence[tuple[Policy, Request]]) -> list[list[Completion]]:
    """Answer each policy's request, in order: `act`, one batch for all policies of one engine.

    A policy without a `shared_engine`, or that is its own, is queried alone. Any other engine has an
    `act_batched` like this one. Engines on different GPUs, and workers in other processes, answer at the same time,
    each in a thread; those on one device, and all that is on no GPU, answer one after the other.
    """
    engines: dict[int, tuple[Any, list[int]]] = {}
    for index, (policy, _) in enumerate(queries):
        engine = getattr(policy, "shared_engine", policy)
        engines.setdefault(id(engine), (engine, []))[1].append(index)
    devices: dict[str, list[tuple[Any, list[int]]]] = {}
    for engine, indices in engines.values():
        devices.setdefault(place_of(queries[indices[0]][0]), []).append((engine, indices))
    completions: list[list[Completion]] = [[] for _ in queries]

    def answer(device: str) -> None:
        for engine, indices in devices[device]:
            batch = [queries[index] for index in indices]
            alone = engine is batch[0][0]
            answers = engine.act([request for _, request in batch]) if alone else engine.act_batched(batch)
            for index, texts in zip(indices, answers, strict=True):
                completions[index] = texts

    if len(devices) < 2:
        for device in devices:
            answer(device)
        return completions
    here, *elsewhere = sorted(devices)  # "", no GPU, comes first
    with ThreadPoolExecutor(len(elsewhere)) as pool:
        pending = pool.map(answer, elsewhere)
        answer(here)
        list(pending)  # raises what a thread has raised
    return completions


def place_of(policy: Policy) -> str:
    """GPU or worker of a policy; "" if this process's CPU computes its answers."""
    device = str(getattr(policy, "device", ""))
    return device if device.startswith(("cuda", "xpu", "worker")) else ""
