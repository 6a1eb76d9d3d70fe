"""Stage 3: time of an update, and of what follows one before the next rollout."""

from __future__ import annotations

import torch

from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.model.inference_copy import InferenceCopy
from palaver.agents.llm.model.load import compile_layers
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.fused_logprobs import linear_logprobs
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.benchmarks.performance.gpu.record import Bound, StageRecord
from palaver.benchmarks.performance.gpu.workload import Workload
from palaver.benchmarks.performance.training import limit
from palaver.benchmarks.performance.training.settings import parameters
from palaver.trainers.run.distributed import Distributed

LEAST_SHARE = Bound(0.35, most=False)  # of the device's own rate in a large product
MOST_HEAD = Bound(0.25)  # of the pass
REFOLD_MS = Bound(5.0)


def run(record: StageRecord, work: Workload) -> None:
    """Measure stage 3."""
    record.measure("pass", lambda: _pass(record, work, "pass", compiled=False))
    record.measure("refold", lambda: _refold(record, work))
    record.measure("adapter sync", lambda: _adapter_sync(record, work))
    record.measure("pass, compiled", lambda: _pass(record, work, "pass, compiled", compiled=True))


def _pass(record: StageRecord, work: Workload, name: str, *, compiled: bool) -> None:
    """Forward and backward of 64 rows of 64 + 256 tokens; on a CPU 2 of 8 + 8, not compiled."""
    if compiled and not record.gpu_only(name):
        return
    dtype = work.shape.dtype
    policy, autocast = work.policy(dtype), Distributed(str(work.device), dtype).autocast
    count, prompt, answer, together = (64, 64, 256, 32) if work.gpu else (2, 8, 8, 2)
    prompts, answers = work.prompts(count, prompt), work.prompts(count, answer)
    if compiled:
        compile_layers(policy.model)

    def update() -> None:
        policy.model.zero_grad(set_to_none=True)
        for start in range(0, count, together):
            rows = slice(start, start + together)
            with autocast():
                logprobs, _ = response_logprobs(policy.model, prompts[rows], answers[rows])
            torch.autograd.backward(logprobs.sum())

    seconds = work.seconds(update)
    machine = limit.machine(str(work.device), dtype)
    head = work.shape.hidden * work.shape.vocab
    trunk = parameters(work.shape) - head
    flops = 6.0 * count * ((prompt + answer) * trunk + answer * head)
    record.value(name, seconds, "s", rows=count, tokens=prompt + answer)
    record.value(f"{name}: rate", flops / seconds / 1e12, "TFLOP/s", peak=machine.flops / 1e12)
    record.value(f"{name}: share of the peak", flops / seconds / machine.flops, "", LEAST_SHARE)
    if not compiled:  # whatever the layers take, the head takes as long
        alone = _head(work, policy, count * answer, together * answer)
        record.value(f"{name}: share of the head", alone / seconds, "", MOST_HEAD)


def _head(work: Workload, policy: LLMPolicy, tokens: int, together: int) -> float:
    """Seconds of the head's forward and backward for so many tokens."""
    weight = policy.model.lm_head.weight
    hidden = torch.randn(together, weight.shape[1], device=work.device, requires_grad=True)
    targets = torch.zeros(together, dtype=torch.long, device=work.device)
    autocast = Distributed(str(work.device), work.shape.dtype).autocast

    def both() -> None:
        weight.grad = None
        with autocast():
            logprobs = linear_logprobs(hidden, weight, targets)
        torch.autograd.backward(logprobs.sum())

    return work.seconds(both) * tokens / together


def _refold(record: StageRecord, work: Workload) -> None:
    """Folding for our own forward, and the copy in bf16 for transformers' generate."""
    model = work.policy("bf16").model
    record.value("refold", 1000 * work.seconds(DenseDecoder(model, torch.bfloat16).refresh), "ms", REFOLD_MS)
    copied = InferenceCopy(model, torch.bfloat16)
    record.value("full sync", 1000 * work.seconds(copied.refresh), "ms")


def _adapter_sync(record: StageRecord, work: Workload) -> None:
    generator = work.adapters("bf16")[0].shared_engine.generator
    record.value("adapter sync", 1000 * work.seconds(generator.refresh), "ms")
