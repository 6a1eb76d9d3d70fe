"""What a run is said to need, against numbers worked out by hand and against what is really there."""

from __future__ import annotations

import pytest
import torch

from palaver.agents.llm.dense_decoder import DenseDecoder
from palaver.trainers.config import RunConfig
from palaver.trainers.memory import estimate
from tests.models import tiny_gpt2, tiny_qwen3


def config(dtype: str, kl: float) -> RunConfig:
    return RunConfig.model_validate({"policy": {"dtype": dtype, "max_tokens": 20}, "kl": {"coef": kl}})


@pytest.mark.parametrize(
    ("make", "dtype", "kl", "bytes_each"),
    [
        (tiny_qwen3, "fp32", 0.0, 4 + 4),  # the weights and the folded copy
        (tiny_qwen3, "bf16", 0.0, 4 + 2),
        (tiny_qwen3, "fp32", 0.1, 4 + 4 + 4),  # the reference's too
        (tiny_gpt2, "fp32", 0.0, 4),  # generation computes with the weights themselves
        (tiny_gpt2, "bf16", 0.0, 4 + 2),
    ],
)
def test_weights_and_cache(make, dtype: str, kl: float, bytes_each: int) -> None:
    model = make()
    found = estimate(config(dtype, kl), model, 2, 30, 8)
    assert found.weights == 2 * model.num_parameters() * bytes_each
    assert found.optimizer == 2 * model.num_parameters() * 12
    heads = 2 if make is tiny_qwen3 else 4
    # 8 rows of 30 + 20 tokens; 2 (keys, values) x 2 layers x heads x 8 numbers
    assert found.cache == 8 * 50 * 2 * 2 * heads * 8 * (2 if dtype == "bf16" else 4)


def test_the_folded_copy_is_covered() -> None:
    model = tiny_qwen3(hidden=64)
    forward = DenseDecoder(model, torch.float32)
    folded = [tensor for layer in forward.layers for tensor in (layer.qkv, layer.out, layer.gate_up, layer.down)]
    held = sum(tensor.nbytes for tensor in (*folded, forward.head))  # on a CPU the head is packed as well
    assert held <= estimate(config("fp32", 0.0), model, 1, 30, 8).weights - 4 * model.num_parameters()
