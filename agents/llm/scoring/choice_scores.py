"""Constrained choice among given answers to a prompt, by a language model's scores."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.core import Message, PolicyError

NEVER = -1e9  # the score of a place that holds no answer


def prompt_ids(render: Renderer, text: str) -> list[int]:
    """Prompt ids of a text without a conversation.

    Raises:
        PolicyError: the chat template refuses it.
    """
    return render.ids((Message("user", text),))


def choice_scores(
    model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[str]]
) -> tuple[Tensor, Tensor]:
    """log pi(answer | prompt) of all choices, in one pass.

    The sum is over the answer's tokens and the end token. Without the end token an answer that begins another one could
    never score below it. Prompts are computed once for all their answers where the model allows it (`packing.py`).

    Args:
        model: a causal LM of transformers; gradients flow where they are enabled.
        tokenizer: its own.
        prompts: N of them.
        choices: N times one answer or more; C is the largest number of them.

    Returns:
        scores (N, C), `NEVER` where there is no answer, and the mask (N, C) of those that there are.

    Raises:
        PolicyError: a prompt without choices.
    """
    if not choices or not all(choices):
        raise PolicyError("there is nothing to choose from: no answer was given")
    flat = [answer for options in choices for answer in options]
    encoded = tokenizer(flat, add_special_tokens=False)["input_ids"]
    answers = [[*ids, tokenizer.eos_token_id] for ids in encoded]
    repeated = [prompt for prompt, options in zip(prompts, choices, strict=True) for _ in options]
    logp, _ = response_logprobs(model, repeated, answers)
    sums = logp.sum(1)
    counts = torch.tensor([len(options) for options in choices], device=sums.device)
    mask = torch.arange(int(counts.max()), device=sums.device) < counts[:, None]
    scores = sums.new_full(mask.shape, NEVER).masked_scatter(mask, sums)
    return scores, mask


def pick(scores: Sequence[float], temperature: float, seed: int) -> int:
    """The best of the scores at temperature 0, else a draw from their softmax by `seed`."""
    logits = torch.tensor(scores, dtype=torch.float64)
    if not temperature:
        return int(logits.argmax())
    chances = (logits / temperature).softmax(0).cumsum(0)
    index = int(torch.searchsorted(chances, random.Random(seed).random(), right=True))
    return min(index, len(scores) - 1)
