"""Training of the tiny model from scratch, by imitation.

The same texts, recipe and seed give the same weights, bit for bit, on one machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.core import Conversation, stable_seed


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything but texts and seed that decides the weights; part of the cache key.

    The optimisers follow K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024): Muon on
    the matrices of the layers, AdamW on embeddings and norms. Copying words from the prompt, which this model lives
    from, is learned several times sooner so than with AdamW alone.

    Attributes:
        version: raised when the code changes the weights in another way than through the fields below.
        hidden: width.
        inner: width of the feed-forward layers.
        layers: decoder layers.
        heads: attention heads.
        kv_heads: key and value heads.
        pieces: tokens from BPE merges, for words that no text of the generator holds.
        vocabulary: most tokens: three control tokens, 256 bytes, the pieces, and whole words.
        context: most tokens of prompt and answer together.
        texts: demonstrations trained on, cycled.
        batch: prompts per step, each with all its answers.
        most_answers: answers of a prompt in one batch at most, the others come in further ones; None for all. With few
            prompts and many answers a prompt would otherwise be met once or twice, in a batch that it dominates.
        steps: updates.
        muon_lr: rate of the matrices.
        adam_lr: rate of everything else.
        warmup: steps of linear warm-up.
        decay: share of the steps, at the end, in which the rates fall to zero.
        threads: torch threads while training; the sums of other numbers of threads round differently.
    """

    version: int = 2
    hidden: int = 128
    inner: int = 320
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    pieces: int = 256
    vocabulary: int = 1536
    context: int = 4096
    texts: int = 7200
    batch: int = 6
    most_answers: int | None = None
    steps: int = 300
    muon_lr: float = 0.02
    adam_lr: float = 0.01
    warmup: int = 15
    decay: float = 0.4
    threads: int = 1

    def rate(self, step: int) -> float:
        """Factor of the learning rates in step 1..`steps`."""
        rise = step / self.warmup if self.warmup else 1.0
        fall = (self.steps - step + 1) / (self.decay * self.steps) if self.decay else 1.0
        return min(1.0, rise, fall)


MOMENTUM = 0.95
STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """Momentum with nearly orthogonal updates (K. Jordan et al., 2024), for matrices (m, n).

    In single precision: torch.optim.Muon computes in bfloat16, for which many processors have no instructions. On one
    of them (AVX2 only) its step took longer than the tiny model's forward and backward pass together; this one takes a
    tenth of that.

    B <- mu B + (1 - mu) G;  U = orthogonal((1 - mu) G + mu B);  W <- W - lr sqrt(max(1, m / n)) U

    Args:
        matrices: parameters of two dimensions.
        lr: the spectral norm of an update, times sqrt(max(1, m / n)).
    """

    def __init__(self, matrices: Iterable[Tensor], lr: float) -> None:
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002 - the base class's argument
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                buffer = self.state[matrix].setdefault("momentum", torch.zeros_like(matrix))
                buffer.lerp_(matrix.grad, 1 - MOMENTUM)
                update = orthogonal(matrix.grad.lerp(buffer, MOMENTUM))
                scale = math.sqrt(max(1.0, matrix.shape[0] / matrix.shape[1]))
                matrix.add_(update, alpha=-group["lr"] * scale)


def orthogonal(matrix: Tensor) -> Tensor:
    """(m, n) with singular values brought near 1 and the same singular vectors.

    Five quintic Newton-Schulz steps on X / |X|. X <- a X + (b X X' + c (X X')^2) X. The result's singular values lie in
    about 0.7 to 1.2.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if tall else matrix
    x = x / x.norm().clamp_min(1e-7)
    for _ in range(STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


Demonstration = tuple[Conversation, str]
Pair = tuple[list[int], list[int]]  # prompt ids, answer ids with the end token
POOL = 16  # batches drawn at once and sorted by length


def new_model(recipe: Recipe, tokenizer: Any) -> Qwen3ForCausalLM:
    """An untrained model; draws from torch's global generator."""
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=recipe.hidden,
            intermediate_size=recipe.inner,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.kv_heads,
            head_dim=recipe.hidden // recipe.heads,
            max_position_embeddings=recipe.context,
            tie_word_embeddings=True,
            bos_token_id=None,
            **ends,
        )
    )
    model.generation_config = GenerationConfig(**ends, do_sample=True)
    return model


def encode(tokenizer: Any, demonstrations: Sequence[Demonstration]) -> list[Pair]:
    """Prompts as the policy renders them, answers closed by the end token."""
    render = cache(Renderer(tokenizer).ids)
    answers = tokenizer([answer for _, answer in demonstrations], add_special_tokens=False)["input_ids"]
    return [
        (render(conversation), [*answer, tokenizer.eos_token_id])
        for (conversation, _), answer in zip(demonstrations, answers, strict=True)
    ]


def train(
    tokenizer: Any, pairs: Sequence[Pair], recipe: Recipe, seed: int, report: Callable[[int, float], None]
) -> Qwen3ForCausalLM:
    """A model that imitates the answers.

    The loss is the mean of -log pi over the answers' tokens, end token included, prompts excluded.

    Args:
        tokenizer: of the pairs.
        pairs: what is imitated.
        recipe: shape, rates, number of steps.
        seed: of weights and order.
        report: called with each step and its loss.
    """
    with _alone(recipe.threads, stable_seed("tiny", seed)):
        model = new_model(recipe, tokenizer).train()
        optimizers = _optimizers(model, recipe)
        batches = _batches(pairs, recipe.batch, recipe.most_answers, random.Random(stable_seed("tiny order", seed)))
        for step in range(1, recipe.steps + 1):
            prompts, answers = zip(*next(batches), strict=True)
            logprobs, mask = response_logprobs(model, prompts, answers)
            loss = -logprobs.sum() / mask.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer, base in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = base * recipe.rate(step)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            report(step, loss.item())
    return model.eval()


def _optimizers(model: nn.Module, recipe: Recipe) -> list[tuple[torch.optim.Optimizer, float]]:
    matrices = {name: p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name}
    others = [p for name, p in model.named_parameters() if name not in matrices]
    return [
        (Muon(matrices.values(), recipe.muon_lr), recipe.muon_lr),
        (torch.optim.AdamW(others, lr=recipe.adam_lr, betas=(0.9, 0.95), weight_decay=0.0), recipe.adam_lr),
    ]


def _batches(pairs: Sequence[Pair], size: int, most: int | None, rng: random.Random) -> Iterator[list[Pair]]:
    """Batches of `size` prompts with at most `most` answers each: shuffled passes without end.

    Prompts of like length share a batch, to save padding.
    """
    prompts: dict[tuple[int, ...], list[Pair]] = {}
    for pair in pairs:
        prompts.setdefault(tuple(pair[0]), []).append(pair)
    pool: list[list[Pair]] = []
    while True:
        order = [
            answers[start : start + (most or len(answers))]
            for answers in prompts.values()
            for start in range(0, len(answers), most or len(answers))
        ]
        rng.shuffle(order)
        pool += order
        while len(pool) >= size * POOL:
            drawn, pool = pool[: size * POOL], pool[size * POOL :]
            drawn.sort(key=lambda group: len(group[0][0]) + sum(len(answer) for _, answer in group))
            batches = [drawn[start : start + size] for start in range(0, len(drawn), size)]
            rng.shuffle(batches)
            yield from ([pair for group in batch for pair in group] for batch in batches)


@contextmanager
def _alone(threads: int, seed: int) -> Iterator[None]:
    """A fixed number of threads and a fixed seed; both as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before)
