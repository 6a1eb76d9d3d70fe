"""A causal language model as a policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from palaver.agents.llm.engine import Engine, Row, Sample
from palaver.agents.llm.forward import Forward, LibraryForward, unservable
from palaver.agents.llm.load import load_pretrained, pick_device
from palaver.agents.llm.options import ModelOptions
from palaver.agents.llm.render import Renderer
from palaver.core import PolicyError, Request, Utterance

DEFAULT_OPTIONS = ModelOptions()


class LLMPolicy:
    """Answers conversations with a model of transformers.

    Attributes:
        name: how it was asked for.
        model: the trainable weights, fp32.
        tokenizer: the tokenizer of transformers that belongs to it.
        device: where the model is.
        version: how often `refresh` was called, that is, how many updates the weights have seen.
    """

    def __init__(
        self, model: nn.Module, tokenizer: Any, options: ModelOptions = DEFAULT_OPTIONS, name: str = "llm"
    ) -> None:
        self.name = name
        self.model: Any = model
        self.tokenizer = tokenizer
        self.options = options
        self.version = 0
        self._renderer = Renderer(tokenizer, options.chat)
        self._end_ids = frozenset(self._renderer.end_tokens() | _generation_ends(model))
        self._engine = Engine(self._forward(), self._end_ids, self._renderer.text)

    @classmethod
    def load(cls, name_or_path: str, options: ModelOptions = DEFAULT_OPTIONS) -> LLMPolicy:
        """Read a saved model, or fetch one from the hub.

        Raises:
            PolicyError: it does not exist or cannot be read.
        """
        model, tokenizer = load_pretrained(name_or_path, pick_device(options.device))
        return cls(model, tokenizer, options, name_or_path)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def render(self, conversation: Any) -> list[int]:
        """Prompt ids of a conversation.

        Raises:
            PolicyError: the conversation is empty or the chat template refuses it.
        """
        return self._renderer.ids(conversation)

    def act(self, requests: Sequence[Request]) -> list[list[Utterance]]:
        """One list per request, one utterance per seed; all of them in one batch.

        Raises:
            PolicyError: a prompt is longer than `max_prompt_tokens` or does not fit the model's context.
        """
        prompts: dict[tuple[int, ...], int] = {}
        rows: list[Row] = []
        for request in requests:
            ids = tuple(self.render(request.conversation))
            self._check_length(len(ids), request)
            place = prompts.setdefault(ids, len(prompts))
            rows += [Row(place, seed, request.sampling) for seed in request.seeds]
        known = list(prompts)
        training = self.model.training
        self.model.eval()
        try:
            samples = iter(zip(rows, self._engine.generate(known, rows), strict=True))
        finally:
            self.model.train(training)
        return [[self._utterance(known, *next(samples)) for _ in request.seeds] for request in requests]

    def refresh(self) -> None:
        """Call after the weights changed: counts the update and renews every copy that generation computes with."""
        self.version += 1
        self._engine.forward.refresh()

    def save(self, folder: Path | str) -> None:
        """Write model and tokenizer in the ordinary format of transformers."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def _forward(self) -> Forward:
        dtype = torch.bfloat16 if self.options.dtype == "bf16" else torch.float32
        reason = unservable(self.model)
        if reason:
            raise PolicyError(f"the own engine cannot serve {self.name!r}: {reason}")
        return LibraryForward(self.model, dtype)

    def _check_length(self, length: int, request: Request) -> None:
        limit = self.options.max_prompt_tokens
        if length > limit:
            raise PolicyError(
                f"the prompt of {request.agent!r} has {length} tokens, more than max_prompt_tokens={limit}"
            )
        context = getattr(self.model.config, "max_position_embeddings", None)
        if context is not None and length + request.sampling.max_tokens > context:
            raise PolicyError(
                f"the prompt of {request.agent!r} has {length} tokens; with max_tokens={request.sampling.max_tokens} "
                f"it does not fit the context of {context} tokens of {self.name!r}"
            )

    def _utterance(self, prompts: Sequence[tuple[int, ...]], row: Row, sample: Sample) -> Utterance:
        text = self._renderer.text(sample.token_ids)
        for stop in row.sampling.stop:
            text = text.partition(stop)[0]
        return Utterance(
            text,
            prompts[row.prompt],
            sample.token_ids,
            sample.logprobs,
            sample.sample_logprobs,
            self.version,
            sample.finish,
        )


def _generation_ends(model: Any) -> set[int]:
    """End tokens of the model's generation config."""
    config = getattr(model, "generation_config", None)
    ends = getattr(config, "eos_token_id", None)
    if ends is None:
        return set()
    return set(ends) if isinstance(ends, (list, tuple)) else {ends}
