"""Stage 2: time of a decoding step, by engine and number of rows."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.engine import GRAPH_STEPS, Engine
from palaver.agents.llm.generation.hf_engine import LibraryEngine
from palaver.agents.llm.generation.kv_cache import KeyValues
from palaver.agents.llm.generation.requests import GenerationRequest, Generator
from palaver.agents.llm.generation.sampler import Sampler, uniform_table
from palaver.agents.llm.model.inference_copy import InferenceCopy
from palaver.agents.llm.model.load import save_pretrained
from palaver.benchmarks.performance.gpu.record import Bound, StageRecord
from palaver.benchmarks.performance.gpu.workload import Workload
from palaver.benchmarks.performance.training import toy
from palaver.core import Sampling

ROWS = (1, 8, 64, 256)
PROMPT = 64
MOST_MS = {rows: Bound(1.0) for rows in (1, 8, 64)}  # of a step as a graph
LEAST_RATES = {8: Bound(8_000, most=False), 64: Bound(55_000, most=False)}  # tokens/s


def run(record: StageRecord, work: Workload) -> None:
    """Measure stage 2."""
    policy = work.policy("bf16" if work.gpu else "fp32")
    dtype = torch.bfloat16 if work.gpu else torch.float32
    forward = DenseDecoder(policy.model, dtype)
    record.measure("operations a step", lambda: _operations(record, work, forward))
    ordinary, static = (Engine(forward, frozenset(), lambda _: "") for _ in range(2))
    ordinary.static_rows, static.static_rows = 0, max(ROWS)
    for rows in ROWS if work.gpu else ROWS[:2]:
        _timed(record, work, "eager", ordinary, rows)
        _timed(record, work, "graph" if work.gpu else "static", static, rows, own=True)
    library = LibraryEngine(InferenceCopy(policy.model, dtype), frozenset(), lambda _: "")
    for rows in ROWS if work.gpu else ROWS[:1]:
        _timed(record, work, "transformers", library, rows)
    if record.gpu_only("CUDA graphs") and static.graphs is not None:
        bound = Bound(1, most=False)
        record.value("CUDA graphs", static.graphs.captured, "captured", bound, failure=static.graphs.failure)
    if importlib.util.find_spec("vllm") is None:
        record.skip("vllm", "vllm is not installed")
    elif record.gpu_only("vllm"):
        record.measure("vllm", lambda: _vllm(record, work))


def _timed(record: StageRecord, work: Workload, name: str, engine: Generator, rows: int, *, own: bool = False) -> None:
    """Milliseconds of a step: a long generation less a short one, over their steps.

    Both are long enough for a graph, and end within one window, so that each captures once.
    """
    short, long = (GRAPH_STEPS + 16, 176) if work.gpu else (2, 40)
    repeats = 3 if own else 1
    prompts = work.prompts(rows, PROMPT)

    def generate(tokens: int) -> None:
        requests = [GenerationRequest(index, index, Sampling(max_tokens=tokens)) for index in range(rows)]
        engine.generate(prompts, requests)

    def make() -> None:
        spent = work.seconds(lambda: generate(long), repeats) - work.seconds(lambda: generate(short), repeats)
        _rate(record, name, rows, max(spent, 1e-9) / (long - short), own=own)

    record.measure(f"{name}, {rows} rows", make)


def _rate(record: StageRecord, name: str, rows: int, seconds: float, *, own: bool = False) -> None:
    most, least = (MOST_MS.get(rows), LEAST_RATES.get(rows)) if own else (None, None)
    record.value(f"{name}, {rows} rows", 1000 * seconds, "ms a step", most)
    record.value(f"{name}, {rows} rows: rate", rows / seconds, "tokens/s", least)


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def _operations(record: StageRecord, work: Workload, forward: DenseDecoder) -> None:
    """Operations of one step of 8 rows, views among them; on a GPU also kernel launches."""
    with torch.inference_mode():
        logits, layers = forward.prefill(torch.tensor(work.prompts(8, PROMPT), device=work.device), [PROMPT] * 8)
        store = KeyValues([PROMPT] * 8, PROMPT + 8, work.device, forward.dtype)
        rows = torch.arange(8, device=work.device)
        store.insert(layers, rows, rows)
        sampler, uniform = Sampler([Sampling()] * 8), uniform_table(range(8), 1, work.device)[0]
        ids, *_ = sampler.draw(logits, uniform)

        def step() -> None:
            sampler.draw(forward.step(ids, store), uniform)

        step()
        with _Counter() as counter:
            step()
        record.value("operations a step", counter.count)
        if record.gpu_only("kernel launches a step"):
            with torch.profiler.profile() as profile:
                step()
                work.synchronize()
            launches = sum(each.count for each in profile.key_averages() if "LaunchKernel" in each.key)
            record.value("kernel launches a step", launches)


def _vllm(record: StageRecord, work: Workload) -> None:
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found, unused-ignore]

    folder = work.folder / "vllm"
    save_pretrained(work.policy("bf16").model.to(torch.bfloat16), toy.tokenizer(work.shape.vocab), folder)
    engine = LLM(model=str(folder), dtype="bfloat16", gpu_memory_utilization=0.4, max_model_len=1024)
    for rows in ROWS:
        prompts = [{"prompt_token_ids": ids} for ids in work.prompts(rows, PROMPT)]

        def generate(tokens: int, prompts: Any = prompts) -> None:
            sampling = SamplingParams(temperature=1.0, max_tokens=tokens, ignore_eos=True)
            engine.generate(prompts, sampling, use_tqdm=False)

        spent = work.seconds(lambda: generate(160)) - work.seconds(lambda: generate(32))
        _rate(record, "vllm", rows, max(spent, 1e-9) / 128)
