"""Training of the tiny model from scratch, by imitation.

The same texts, recipe and seed give the same weights, bit for bit, on one machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.agents.tiny.muon import Muon
from palaver.agents.tiny.recipe import Recipe
from palaver.core import Conversation, stable_seed

Demonstration = tuple[Conversation, str]
Pair = tuple[list[int], list[int]]  # prompt ids, answer ids with the end token
POOL = 16  # batches drawn at once and sorted by length


def new_model(recipe: Recipe, tokenizer: Any) -> Qwen3ForCausalLM:
    """An untrained model; draws from torch's global generator."""
    config = Qwen3Config(
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
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
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
        batches = _batches(pairs, recipe.batch, random.Random(stable_seed("tiny order", seed)))
        for step in range(1, recipe.steps + 1):
            loss = _loss(model, next(batches))
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer, base in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = base * recipe.rate(step)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            report(step, loss.item())
    return model.eval()


def _loss(model: nn.Module, batch: Sequence[Pair]) -> Tensor:
    logprobs, mask = response_logprobs(model, [prompt for prompt, _ in batch], [answer for _, answer in batch])
    return -logprobs.sum() / mask.sum()


def _optimizers(model: nn.Module, recipe: Recipe) -> list[tuple[torch.optim.Optimizer, float]]:
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    taken = {id(p) for p in matrices}
    remaining_params = [p for p in model.parameters() if id(p) not in taken]
    return [
        (Muon(matrices, recipe.muon_lr), recipe.muon_lr),
        (torch.optim.AdamW(remaining_params, lr=recipe.adam_lr, betas=(0.9, 0.95), weight_decay=0.0), recipe.adam_lr),
    ]


def _batches(pairs: Sequence[Pair], size: int, rng: random.Random) -> Iterator[list[Pair]]:
    """Batches of `size` prompts with all their answers, without end: passes in shuffled order.

    Prompts of like length share a batch, to save padding.
    """
    prompts: dict[tuple[int, ...], list[Pair]] = {}
    for pair in pairs:
        prompts.setdefault(tuple(pair[0]), []).append(pair)
    pool: list[list[Pair]] = []
    while True:
        order = list(prompts.values())
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
