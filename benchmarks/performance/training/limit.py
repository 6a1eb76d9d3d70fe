"""Roofline of a training step: FLOP/s and bandwidth of the machine, minimal FLOPs and bytes.

It counts matrix products and the bytes of weights, keys, values and optimiser state. Softmax, norms, sampling and
Python are overhead that a better program could reduce. So a stage never reaches its limit.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from palaver.benchmarks.performance.training.settings import AGENTS, GROUP, ModelShape, parameters

SIDE = 1024  # of the square product
FLOATS = 1 << 26  # of the copied array, 256 MiB: far more than any cache
TRIES = 5


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates per second.

    A second is of CPU time on a CPU, so that other programs do not count, and of wall time on a GPU.
    """

    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class MinimalWork:
    """Minimal work of one prompt over all agents and samples.

    Attributes:
        prefill_flops: the prompts, once each.
        decode_flops: products of all sampled tokens.
        decode_bytes: weights once per decoding step (shared by the rows), and every row's keys and values.
        update_flops: forward and backward over answers and, once for all G answers to it, the prompt; the head on
            answers only.
        optimizer_bytes: weights, gradients and both moments read, all but gradients written.
    """

    prefill_flops: float
    decode_flops: float
    decode_bytes: float
    update_flops: float
    optimizer_bytes: float

    def seconds(self, machine: Machine) -> dict[str, float]:
        """Lower bound of the seconds of each stage on that machine."""
        decode = max(self.decode_flops / machine.flops, self.decode_bytes / machine.bytes)
        return {
            "generate": self.prefill_flops / machine.flops + decode,
            "update": self.update_flops / machine.flops + self.optimizer_bytes / machine.bytes,
        }


def work(setting: ModelShape, prompts: int, prompt_tokens: float, answer_tokens: float, longest: int) -> MinimalWork:
    """Count one prompt's share of a step of `prompts` prompts.

    Args:
        setting: the model's shape.
        prompts: B.
        prompt_tokens: mean tokens of a prompt.
        answer_tokens: mean tokens sampled per answer.
        longest: decoding steps, that is, tokens of the longest answer.
    """
    s, size = setting, 2 if setting.dtype == "bf16" else 4
    attended = s.heads * s.head_dim
    trunk, head = parameters(s) - s.hidden * s.vocab, s.hidden * s.vocab
    rows = GROUP * len(AGENTS)
    cache_bytes = 2 * s.layers * s.kv_heads * s.head_dim * size  # bytes of one token's keys and values
    seen = answer_tokens * (prompt_tokens + answer_tokens / 2)  # tokens attended to while decoding one answer
    looking = 4 * s.layers * attended  # FLOPs of attending to one token: query with key, weight with value
    prompt = prompt_tokens * 2 * trunk + looking * prompt_tokens**2 / 2
    return MinimalWork(
        prefill_flops=len(AGENTS) * (prompt + 2 * head),
        decode_flops=rows * (answer_tokens * 2 * (trunk + head) + looking * seen),
        decode_bytes=len(AGENTS) * longest * (trunk + head) * size / prompts + rows * seen * cache_bytes,
        update_flops=3 * (len(AGENTS) * prompt + rows * (answer_tokens * 2 * (trunk + head) + looking * seen)),
        optimizer_bytes=len(AGENTS) * 7 * 4 * (trunk + head) / prompts,
    )


def machine(device: str, dtype: str) -> Machine:
    """Measure the device with torch's current threads; best of 5.

    The FLOP/s are those of a square product, the bandwidth that of a copy larger than the caches.
    """
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    side = SIDE if device == "cpu" else 8 * SIDE
    a = torch.randn(side, side, device=device, dtype=kind)
    out = torch.empty_like(a)
    source = torch.ones(FLOATS, device=device)
    target = torch.empty_like(source)
    products = _best(lambda: torch.mm(a, a, out=out), device)
    moved = _best(lambda: target.copy_(source), device)
    return Machine(2 * side**3 / products, 2 * 4 * FLOATS / moved)


def _best(call: Callable[[], Any], device: str) -> float:
    call()
    return max(min(timeit.repeat(call, timer=lambda: now(device)[0], repeat=TRIES, number=1)), 1e-9)


def now(device: str) -> tuple[float, float]:
    """Seconds that count on this device, and wall seconds.

    The former are CPU time, or wall time on a GPU.
    """
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        wall = time.perf_counter()
        return wall, wall
    return time.process_time(), time.perf_counter()
