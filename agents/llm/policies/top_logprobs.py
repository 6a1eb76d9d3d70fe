"""The likeliest tokens at each place of an answer.

Judges weigh scores by them, servers return them to clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palaver.agents.llm.model.inference_copy import evaluating
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.packing import padded
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
    spelt = _Spelling(policy.tokenizer)
    result: list[tuple[dict[str, float], ...]] = []
    with policy.active() as model, evaluating(model), torch.inference_mode():
        for prompts, answers in _parts(model, completions, first):
            values, ids = (tensor.cpu() for tensor in _top(model, prompts, answers, k))
            pairs = iter(zip(values.tolist(), ids.tolist(), strict=True))
            result += [tuple(spelt.together(*next(pairs)) for _ in answer) for answer in answers]
    return result


class _Spelling:
    """The text of single tokens, each decoded once."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.known: dict[int, str] = {}

    def together(self, logprobs: Sequence[float], ids: Sequence[int]) -> dict[str, float]:
        """Text -> log-probability, likeliest first."""
        by_text: dict[str, float] = {}
        for logprob, token in zip(logprobs, ids, strict=True):
            text = self.text(token)
            by_text[text] = float(np.logaddexp(by_text[text], logprob)) if text in by_text else logprob
        return dict(sorted(by_text.items(), key=lambda item: -item[1]))

    def text(self, token: int) -> str:
        """Of one token."""
        if token not in self.known:
            self.known[token] = str(self.tokenizer.decode([token]))
        return self.known[token]


def _parts(
    model: Any, completions: Sequence[Completion], first: int | None
) -> Iterator[tuple[list[Sequence[int]], list[Sequence[int]]]]:
    """Prompts and answers, in order, in parts whose logits fit the memory."""
    vocabulary = model.config.get_text_config().vocab_size
    prompts: list[Sequence[int]] = []
    answers: list[Sequence[int]] = []
    for completion in completions:
        answer = completion.token_ids[:first]
        width = max(map(len, (*answers, answer))) + max(map(len, (*prompts, completion.prompt_ids)))
        if prompts and width * (len(prompts) + 1) * vocabulary > _LOGITS:
            yield prompts, answers
            prompts, answers = [], []
        prompts.append(completion.prompt_ids)
        answers.append(answer)
    if prompts:
        yield prompts, answers


def _top(
    model: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], k: int
) -> tuple[Tensor, Tensor]:
    """Log-probabilities (n, k), descending, and ids (n, k) before each of n answer tokens.

    Right-padded: causal attention never looks at padding on the right, so no mask is needed.
    """
    device = next(model.parameters()).device
    counts = [len(answer) for answer in answers]
    if not sum(counts):
        return torch.zeros(0, k), torch.zeros(0, k, dtype=torch.long)
    ids = torch.from_numpy(padded([[*p, *a] for p, a in zip(prompts, answers, strict=True)])).to(device)
    row = np.repeat(np.arange(len(prompts)), counts)
    offset = np.repeat([len(prompt) - 1 for prompt in prompts], counts)
    position = offset + np.concatenate([np.arange(count) for count in counts])
    columns, index = np.unique(position, return_inverse=True)
    wanted = torch.from_numpy(columns).to(device)
    logits = model(input_ids=ids[:, :-1], use_cache=False, logits_to_keep=wanted).logits
    logprobs = logits[torch.from_numpy(row).to(device), torch.from_numpy(index).to(device)].float().log_softmax(1)
    top = logprobs.topk(min(k, logprobs.shape[1]), 1)
    return top.values, top.indices
