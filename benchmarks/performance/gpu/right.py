"""Stage 1: numbers on the device are right."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.engine import GPU_INTERVAL, Engine
from palaver.agents.llm.generation.hf_engine import LibraryEngine
from palaver.agents.llm.generation.kv_cache import KeyValues
from palaver.agents.llm.generation.requests import GenerationRequest, GenerationResult
from palaver.agents.llm.generation.sampler import Sampler, uniform_table
from palaver.agents.llm.model.inference_copy import InferenceCopy
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.benchmarks.performance.gpu.record import Bound, StageRecord
from palaver.benchmarks.performance.gpu.workload import Workload
from palaver.core import Message, Request, Sampling
from palaver.trainers.placement.in_process import make_learners
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.train import make_updater

DTypes = Literal["fp32", "bf16"]
NO_END: frozenset[int] = frozenset()
SAMPLINGS = {"plain": Sampling(), "top-p": Sampling(top_p=0.9), "top-k": Sampling(temperature=0.7, top_k=20)}
DRIFTS: dict[DTypes, Bound] = {"fp32": Bound(1e-4, gpu=False), "bf16": Bound(0.02, gpu=False)}
TRAINED: dict[str, dict[str, Any]] = {
    "magrpo": {},
    "magrpo, kl": {"kl": 0.1},
    "magrpo, shared": {"kind": "shared"},
    "magrpo, lora": {"kind": "lora"},
    "ippo": {"algorithm": "ippo"},
    "mappo": {"algorithm": "mappo"},
    "happo": {"algorithm": "happo"},
    "qmix": {"algorithm": "qmix"},
}
SYNC_STEPS = 64
SYNC = "called a synchronizing CUDA operation"  # torch also warns once that this mode is a prototype


def run(record: StageRecord, work: Workload) -> None:
    """Measure stage 1; training runs with a small model, the others with that of the workload."""
    dtypes: tuple[DTypes, ...] = ("fp32", "bf16")
    for dtype in dtypes:
        record.measure(f"drift, {dtype}", lambda dtype=dtype: _drifts(record, work, dtype))  # type: ignore[misc]
        record.measure(f"drift, adapters, {dtype}", lambda dtype=dtype: _adapters(record, work, dtype))  # type: ignore[misc]
    record.measure("decode", lambda: _decode(record, work))
    record.measure("static steps", lambda: _static(record, work))
    if record.gpu_only("syncs in 64 steps"):
        record.measure("syncs in 64 steps", lambda: _syncs(record, work))
    small = replace(work, size="0.1M")
    for name, settings in TRAINED.items():
        record.measure(f"training, {name}", lambda n=name, s=settings: _train(record, small, n, **s))  # type: ignore[misc]
    record.measure("resume", lambda: _resume(record, small))


def _drifts(record: StageRecord, work: Workload, dtype: DTypes) -> None:
    """Log-probabilities of sampled tokens against those of a training pass, packed and padded."""
    policy = work.policy(dtype)
    for name, sampling in SAMPLINGS.items():
        for layout, texts in {"packed": ["one prompt of all"], "padded": [f"prompt {n}" for n in range(8)]}.items():
            seeds = tuple(range(8 // len(texts)))
            found = _drift(work, policy, texts, seeds, sampling, dtype)
            # in bf16 the border of a truncated distribution is another for the sampler and for the update
            bound = DRIFTS[dtype] if dtype == "fp32" or name == "plain" else None
            record.value(f"drift, {dtype}, {name}, {layout}", found, "nats", bound)


def _adapters(record: StageRecord, work: Workload, dtype: DTypes) -> None:
    for policy in work.adapters(dtype):
        found = _drift(work, policy, ["one prompt of all"], tuple(range(8)), Sampling(), dtype)
        record.value(f"drift, {policy.name}, {dtype}", found, "nats", DRIFTS[dtype])


def _drift(
    work: Workload, policy: LLMPolicy, texts: Iterable[str], seeds: tuple[int, ...], sampling: Sampling, dtype: DTypes
) -> float:
    """Largest difference in fp32, mean difference in bf16."""
    sampling = replace(sampling, max_tokens=min(64, work.shape.new_tokens))
    requests = [Request("a", (Message("user", text),), seeds, sampling) for text in texts]
    completions = [each for row in policy.act(requests) for each in row]
    with policy.active() as model, torch.no_grad(), Distributed(str(work.device), dtype).autocast():
        logprobs, mask = response_logprobs(
            model, [each.prompt_ids for each in completions], [each.token_ids for each in completions], sampling
        )
    sampled = torch.tensor([number for each in completions for number in each.sample_logprobs])
    difference = (logprobs[mask].float().cpu() - sampled).abs()
    return float(difference.max() if dtype == "fp32" else difference.mean())


def _rows(count: int, sampling: Sampling) -> list[GenerationRequest]:
    return [GenerationRequest(index, index, sampling) for index in range(count)]


def _equal(one: Sequence[GenerationResult], other: Sequence[GenerationResult]) -> float:
    """Share of rows with equal tokens."""
    return sum(a.token_ids == b.token_ids for a, b in zip(one, other, strict=True)) / len(one)


def _decode(record: StageRecord, work: Workload) -> None:
    """Greedy tokens of the own engine and of transformers' generate, fp32."""
    policy, rows = work.policy("fp32"), _rows(8, Sampling(temperature=0, max_tokens=32))
    prompts = work.prompts(8, 20)
    own = Engine(DenseDecoder(policy.model, torch.float32), NO_END, lambda _: "").generate(prompts, rows)
    library = LibraryEngine(InferenceCopy(policy.model, torch.float32), NO_END, lambda _: "")
    record.value("decode as transformers: equal rows", _equal(own, library.generate(prompts, rows)), "",
                 Bound(0.85, most=False, gpu=False))  # fmt: skip


def _static(record: StageRecord, work: Workload) -> None:
    """Rows of static steps, which a GPU replays as graphs, and of ordinary ones, fp32."""
    forward = DenseDecoder(work.policy("fp32").model, torch.float32)
    prompts, rows = work.prompts(16, 20), _rows(16, Sampling(top_p=0.95, max_tokens=64))
    static, ordinary = (Engine(forward, NO_END, lambda _: "") for _ in range(2))
    static.static_rows, ordinary.static_rows = 16, 0
    found = _equal(static.generate(prompts, rows), ordinary.generate(prompts, rows))
    record.value("static steps: equal rows", found, "", Bound(0.85, most=False, gpu=False))
    if record.gpu_only("CUDA graphs captured") and static.graphs is not None:
        captured = static.graphs.captured
        record.value("CUDA graphs captured", captured, "", Bound(1, most=False), failure=static.graphs.failure)


def _syncs(record: StageRecord, work: Workload) -> None:
    """Waits for the GPU in decode steps, apart from the engine's look at finished rows."""
    forward = DenseDecoder(work.policy("bf16").model, torch.bfloat16)
    engine = Engine(forward, NO_END, lambda _: "")
    for name, sampling in SAMPLINGS.items():
        with torch.inference_mode():
            ids = torch.tensor(work.prompts(8, 20), device=work.device)
            logits, layers = forward.prefill(ids, [20] * 8)
            store = KeyValues([20] * 8, 20 + SYNC_STEPS + 2, work.device, forward.dtype)
            rows = torch.arange(8, device=work.device)
            store.insert(layers, rows, rows)
            sampler, uniform = Sampler([sampling] * 8), uniform_table(range(8), SYNC_STEPS + 2, work.device)
            steps = engine.steps(store, sampler, SYNC_STEPS + 2)
            drawn, *_ = sampler.draw(logits, uniform[0])
            for step in range(2):  # the warm-up and the capture
                drawn, *_ = steps(drawn, uniform[step])
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                torch.cuda.set_sync_debug_mode("warn")
                for step in range(2, 2 + SYNC_STEPS):
                    drawn, *_ = steps(drawn, uniform[step])
                torch.cuda.set_sync_debug_mode("default")
        count = sum(SYNC in str(each.message) for each in seen)
        record.value(f"syncs in {SYNC_STEPS} steps, {name}", count, "", Bound(0), interval=GPU_INTERVAL)


def _train(record: StageRecord, work: Workload, name: str, kind: str = "separate", **settings: Any) -> None:
    """Two fp32 steps: the sampler's log-probs against the update's, losses against a CPU's."""
    lines = _losses(work, kind, settings)
    drift = max(value for line in lines for key, value in line.items() if key.endswith("/drift"))
    record.value(f"training, {name}: drift", drift, "nats", Bound(1e-4, gpu=False))
    if record.gpu_only(f"training, {name}: losses as on a CPU"):
        others = _losses(replace(work, device=torch.device("cpu")), kind, settings)
        apart = max(abs(a[key] - b[key]) for a, b in zip(lines, others, strict=True) for key in a if "loss" in key)
        record.value(f"training, {name}: losses as on a CPU", apart, "", Bound(1e-3))


def _losses(work: Workload, kind: str, settings: dict[str, Any]) -> list[dict[str, float]]:
    loop = work.loop(kind, 2, 2, **settings)
    lines = [loop.step(step) for step in (1, 2)]
    wanted = ("/loss", "/drift")
    return [{key: float(value) for key, value in line.items() if key.endswith(wanted)} for line in lines]


def _resume(record: StageRecord, work: Workload) -> None:
    """A loop that takes over another's weights, optimisers and state makes its next step."""
    whole = work.loop("separate", 2, 2)
    whole.step(1)
    session, folder = whole.session, work.folder / "run"
    session.folder = folder
    whole.write_checkpoint(1)
    expected = whole.step(2)
    resumed = work.loop("separate", 2, 2)
    start = next((folder / "checkpoints").iterdir())
    trained = {agent: policy for agent, policy in resumed.team.items() if isinstance(policy, LLMPolicy)}
    for policy in trained.values():
        policy.restore(str(start / "policies" / policy.name))
    learners = make_learners(session.config, trained, session.distributed, start)
    updater = make_updater(session.config, whole.updater.algorithm, learners, session.distributed, start)
    found = replace(resumed, updater=updater).step(2)
    shutil.rmtree(folder)
    apart = max(abs(found[key] - expected[key]) for key in expected if key.endswith("/loss"))
    record.value("resume: losses", apart, "", Bound(1e-4, gpu=False))
