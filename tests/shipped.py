"""Sampled answers of the tiny models that ship with Palaver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from palaver.agents.llm.model.load import load_pretrained, pick_device
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.tiny.build import ensure
from palaver.core import Conversation, Request, Sampling, stable_seed


def load(demonstrations: str) -> tuple[Any, Any]:
    """Model and tokenizer of a text generator, `module:function`."""
    return load_pretrained(str(ensure(demonstrations)), pick_device("cpu"))


def answers(
    loaded: tuple[Any, Any], conversations: Sequence[Conversation], samples: int = 1, max_tokens: int = 20
) -> list[list[str]]:
    """Texts of a model at temperature 1, `samples` to each conversation."""
    policy = LLMPolicy(*loaded, name="tiny")
    texts = []
    for start in range(0, len(conversations), 50):
        requests = [
            Request(
                "p", conversation, tuple(stable_seed(index, n) for n in range(samples)), Sampling(max_tokens=max_tokens)
            )
            for index, conversation in enumerate(conversations[start : start + 50], start)
        ]
        texts += [[completion.text for completion in completions] for completions in policy.act(requests)]
    return texts


def probabilities(loaded: tuple[Any, Any], conversation: Conversation, texts: Sequence[str]) -> list[float]:
    """Probability of each text as a whole answer, at temperature 1."""
    policy = LLMPolicy(*loaded, name="tiny")
    prompts, written = [policy.render(conversation)] * len(texts), [policy.written(text) for text in texts]
    return [math.exp(total) for total in policy.answer_log_probs(prompts, written, Sampling())]
