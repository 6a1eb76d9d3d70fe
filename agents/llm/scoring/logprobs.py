"""Log-probabilities of given answers under a model, with gradients.

They are used by trainers and reference models.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.scoring.fused_logprobs import linear_entropy, linear_logprobs
from palaver.agents.llm.scoring.packing import hidden_states, pack, padded, sequences, worth_packing
from palaver.agents.llm.scoring.split_head import SplitModel, split_head
from palaver.agents.llm.scoring.truncation import truncated_scores
from palaver.core import Message, PolicyError, Sampling

T = TypeVar("T")
FULL = Sampling()  # temperature 1, the whole vocabulary


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probabilities and entropies of R answers of at most T tokens.

    Attributes:
        logprobs: (R, T) of every answer token, 0 on padding.
        mask: (R, T) true on answer tokens.
        entropy: (R, T) in nats of the distribution that each token was drawn from, 0 on padding; None if not requested.
    """

    logprobs: Tensor
    mask: Tensor
    entropy: Tensor | None


def token_batches(items: Sequence[T], lengths: Sequence[int], max_tokens: int) -> Iterator[list[T]]:
    """Yield batches in order, of at most `max_tokens` padded tokens or one item.

    Args:
        items: what is batched.
        lengths: tokens of each.
        max_tokens: of a batch, padding included.
    """
    batch: list[T] = []
    longest = 0
    for item, length in zip(items, lengths, strict=True):
        longest = max(longest, length)
        if batch and longest * (len(batch) + 1) > max_tokens:
            yield batch
            batch, longest = [], length
        batch.append(item)
    if batch:
        yield batch


def response_logprobs(
    model: Any, prompt_ids: Sequence[Sequence[int]], token_ids: Sequence[Sequence[int]], sampling: Sampling = FULL
) -> tuple[Tensor, Tensor]:
    """log pi(token) of every response token given its prompt and the tokens before it.

    pi is the distribution that `sampling` draws from. One right-padded batch: causal attention never looks at padding
    on the right, so no mask is needed, and the head runs on the positions that predict a response token only. Where
    responses share prompts, and the model allows it, each prompt is computed once (`packing.py`).

    Args:
        model: a causal LM of transformers; gradients flow where they are enabled.
        prompt_ids: R prompts, each with a token or more.
        token_ids: R responses, end tokens included.
        sampling: temperature, top-k and top-p of the distribution; a temperature of 0 is taken as 1.

    Returns:
        log-probabilities (R, T), 0 on padding, and the mask (R, T), true on response tokens.
    """
    scores = response_scores(model, prompt_ids, token_ids, sampling)
    return scores.logprobs, scores.mask


def response_scores(
    model: Any,
    prompt_ids: Sequence[Sequence[int]],
    token_ids: Sequence[Sequence[int]],
    sampling: Sampling = FULL,
    *,
    entropy: bool = False,
) -> Scores:
    """As `response_logprobs`; if `entropy`, also the entropy of each next token.

    The entropy is exact. The entropy costs the head a second time (`fused_logprobs.py`), and no memory but one tile of
    its logits. A truncated distribution takes its logits whole, in chunks of rows (`truncation.py`).
    """
    device = next(model.parameters()).device
    counts = [len(tokens) for tokens in token_ids]
    mask = np.arange(max(counts, default=0)) < np.array(counts)[:, None]
    mask_here = torch.from_numpy(mask).to(device)
    if not sum(counts):
        nothing = torch.zeros(mask.shape, device=device)
        return Scores(nothing, mask_here, nothing if entropy else None)
    columns = _scores(model, prompt_ids, token_ids, sampling, device, entropy)
    index = tuple(torch.from_numpy(places).to(device) for places in np.nonzero(mask))
    logp, spread = (
        None if numbers is None else numbers.new_zeros(mask.shape).index_put(index, numbers) for numbers in columns
    )
    assert logp is not None
    return Scores(logp, mask_here, spread)


def _scores(
    model: Any,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    sampling: Sampling,
    device: torch.device,
    entropy: bool,
) -> tuple[Tensor, Tensor | None]:
    """Log-probabilities (n,) of all answer tokens, in order, and the entropies (n,).

    Entropies are of the distributions before the tokens, if requested.
    """
    parts, temperature = split_head(model), sampling.temperature or 1.0
    if parts is None:
        logits, targets = full_logits(model, prompts, answers)
        if sampling.truncated:
            return truncated_scores(logits, lambda rows: rows, targets, sampling, entropy=entropy)
        logp = (logits / temperature).log_softmax(1)
        return logp.gather(1, targets[:, None])[:, 0], -(logp.exp() * logp).sum(1) if entropy else None
    shared = sequences(prompts, answers)
    if worth_packing(shared, prompts, answers, parts.head.in_features) and parts.packs:
        layout = pack(shared, prompts, answers)
        hidden, targets = hidden_states(parts.trunk, layout, device), torch.from_numpy(layout.tokens).to(device)
    else:
        hidden, targets = _padded(parts, prompts, answers, device)
    if sampling.truncated:
        return truncated_scores(hidden, parts.head, targets, sampling, entropy=entropy)
    weight, bias = parts.head.weight, parts.head.bias
    logp = linear_logprobs(hidden, weight, targets, bias, temperature)
    return logp, linear_entropy(hidden, weight, bias, temperature) if entropy else None


def _padded(
    parts: SplitModel, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Hidden states (n, H) before all answer tokens, in order, and the tokens (n,).

    One sequence per answer.
    """
    ids, row, position = (torch.from_numpy(array).to(device) for array in _layout(prompts, answers))
    return parts.trunk(input_ids=ids[:, :-1], use_cache=False)[0][row, position], ids[row, position + 1]


def full_logits(
    model: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """Logits (n, V) before all answer tokens, in order, and the tokens (n,).

    n is 1 or more. Right-padded: causal attention never looks at padding on the right, so no mask is needed.
    """
    device = next(model.parameters()).device
    ids, row, position = (torch.from_numpy(array).to(device) for array in _layout(prompts, answers))
    columns, index = torch.unique(position, return_inverse=True)
    logits: Tensor = model(input_ids=ids[:, :-1], use_cache=False, logits_to_keep=columns).logits[row, index]
    return logits.to(torch.promote_types(logits.dtype, torch.float32)), ids[row, position + 1]


def _layout(
    prompt_ids: Sequence[Sequence[int]], token_ids: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right-padded ids (R, W); row and position of every response token.

    The position is the one that predicts the token.
    """
    ids = padded([[*prompt, *tokens] for prompt, tokens in zip(prompt_ids, token_ids, strict=True)])
    counts = [len(tokens) for tokens in token_ids]
    row = np.repeat(np.arange(len(ids)), counts)
    column = np.concatenate([np.arange(count) for count in counts])
    return ids, row, column + np.repeat([len(prompt) - 1 for prompt in prompt_ids], counts)


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
    answers = [[*ids, tokenizer.eos_token_id] for ids in tokenizer(flat, add_special_tokens=False)["input_ids"]]
    repeated = [prompt for prompt, options in zip(prompts, choices, strict=True) for _ in options]
    logp, _ = response_logprobs(model, repeated, answers)
    sums = logp.sum(1)
    counts = torch.tensor([len(options) for options in choices], device=sums.device)
    mask = torch.arange(int(counts.max()), device=sums.device) < counts[:, None]
    return sums.new_full(mask.shape, NEVER).masked_scatter(mask, sums), mask


def pick(scores: Sequence[float], temperature: float, seed: int) -> int:
    """The best of the scores at temperature 0, else a draw from their softmax by `seed`."""
    logits = torch.tensor(scores, dtype=torch.float64)
    if not temperature:
        return int(logits.argmax())
    chances = (logits / temperature).softmax(0).cumsum(0)
    index = int(torch.searchsorted(chances, random.Random(seed).random(), right=True))
    return min(index, len(scores) - 1)
