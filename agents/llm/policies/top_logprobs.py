"""The likeliest tokens at each place of an answer.

Judges weigh scores by them, servers return them to clients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from palaver.agents.llm.model.inference_copy import evaluating
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.logprobs import full_logits, token_batches
from palaver.core import Completion, PolicyError

MOST = 20  # largest number of tokens per position, as in OpenAI's protocol
_LOGITS = 1 << 25  # most logits of one forward, 128 MiB in fp32


def top_logprobs(
    policy: LLMPolicy, completions: Sequence[Completion], k: int, *, first: int | None = None
) -> list[tuple[dict[str, float], ...]]:
    """The k likeliest tokens at each token of the completions, with their log-probabilities.

    They are those of the model's full softmax at temperature 1, as `Completion.logprobs`, given the prompt and the
    tokens answered before. Tokens that are spelt alike count as one, with the sum of their probabilities, so a place
    may have fewer than k.

    Args:
        policy: that sampled them.
        completions: R of them, with prompt ids and token ids as `act` gives them.
        k: 1 to 20.
        first: only of so many first tokens; None for all.

    Raises:
        PolicyError: k is out of range, or a completion has no prompt ids: its policy has no tokens.
    """
    if not 1 <= k <= MOST:
        raise PolicyError(f"top log-probs are of 1 to {MOST} tokens at each position, not {k}")
    if not all(completion.prompt_ids for completion in completions):
        raise PolicyError("top log-probs need completions of a model of transformers, not plain text")
    spell = functools.cache(lambda token: str(policy.tokenizer.decode([token])))
    texts = [(completion.prompt_ids, completion.token_ids[:first]) for completion in completions]
    result: list[tuple[dict[str, float], ...]] = []
    with policy.active() as model, evaluating(model), torch.inference_mode():
        max_tokens = _LOGITS // model.config.get_text_config().vocab_size
        for batch in token_batches(texts, [len(prompt) + len(ids) for prompt, ids in texts], max_tokens):
            prompts, answers = zip(*batch, strict=True)
            pairs = iter(_top(model, prompts, answers, k))
            result += [tuple(_by_text(next(pairs), spell) for _ in answer) for answer in answers]
    return result


def _by_text(likely: Iterable[tuple[float, int]], spell: Callable[[int], str]) -> dict[str, float]:
    """Text -> log-probability, likeliest first; tokens spelt alike count as one."""
    by_text: dict[str, float] = {}
    for logprob, token in likely:
        text = spell(token)
        by_text[text] = float(np.logaddexp(by_text[text], logprob)) if text in by_text else logprob
    return dict(sorted(by_text.items(), key=lambda item: -item[1]))


def _top(
    model: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], k: int
) -> Iterator[Iterable[tuple[float, int]]]:
    """Yield the k largest log-probabilities, descending, and ids before each answer token."""
    if any(answers):
        logits, _ = full_logits(model, prompts, answers)
        top = logits.log_softmax(1).topk(min(k, logits.shape[1]), 1)
        yield from map(zip, top.values.tolist(), top.indices.tolist())
