"""Models, policies and loops of the stages: random weights, nothing fetched."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from palaver.agents.llm.lora.adapter_files import new_config
from palaver.agents.llm.model.load import save_pretrained
from palaver.agents.llm.model.options import LoraOptions, ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.lora_policy import AdapterPolicy, SharedEngine
from palaver.benchmarks.performance import team_worker
from palaver.benchmarks.performance.teams import OWN, SIZES, TeamBenchmark
from palaver.benchmarks.performance.training import toy
from palaver.benchmarks.performance.training.settings import ModelShape
from palaver.trainers.policy_gradient import PolicyGradientLoop
from palaver.trainers.run.distributed import Distributed

SEED = 5


@dataclass(frozen=True, slots=True)
class Workload:
    """Sizes of the measurements on one device.

    Attributes:
        device: torch device.
        size: name of the models' shape.
        folder: for files that are removed afterwards.
    """

    device: torch.device
    size: str
    folder: Path

    @property
    def shape(self) -> ModelShape:
        """Shape of the models."""
        return SIZES[self.size]

    @property
    def gpu(self) -> bool:
        """True on a CUDA GPU."""
        return self.device.type == "cuda"

    def policy(self, dtype: Literal["fp32", "bf16"], seed: int = SEED) -> LLMPolicy:
        """Make a policy with random weights."""
        model = toy.model(self.shape, str(self.device), seed)
        return LLMPolicy(model, toy.tokenizer(self.shape.vocab), ModelOptions(dtype, str(self.device)), "policy")

    def adapters(self, dtype: Literal["fp32", "bf16"]) -> list[AdapterPolicy]:
        """Make two adapters that differ, on one base."""
        model = toy.model(self.shape, str(self.device), SEED)
        model = model.to(torch.bfloat16) if dtype == "bf16" else model
        options = ModelOptions(dtype, str(self.device))
        engine = SharedEngine(model, toy.tokenizer(self.shape.vocab), options, "base")
        shape = new_config(model, LoraOptions(), "base")
        engine.lora.served += [engine.lora.add(shape, trained=True, seed=seed) for seed in range(2)]
        policies = [AdapterPolicy(engine, index, f"adapter {index}") for index in range(2)]
        generator = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for policy in policies:
                for parameter in policy.parameters():
                    parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator).to(parameter))
                policy.refresh()
        return policies

    def loop(self, kind: str, prompts: int, steps: int, **settings: Any) -> PolicyGradientLoop:
        """Make the training loop of two agents (kind `one`: of one agent)."""
        folder = self.folder / self.size
        if not folder.exists():
            save_pretrained(toy.model(self.shape, "cpu", SEED), toy.tokenizer(self.shape.vocab), folder / OWN)
        plan = TeamBenchmark(
            size=self.size, agents=2, group=4, prompts=prompts, steps=steps, device=str(self.device), **settings
        )
        return team_worker.build(plan.order(kind, str(folder)), Distributed(str(self.device), self.shape.dtype))

    def seconds(self, call: Callable[[], Any], repeats: int = 3) -> float:
        """Least wall seconds of a call, after one that is not counted."""
        call()
        spent = []
        for _ in range(repeats if self.gpu else 1):
            self.synchronize()
            began = time.perf_counter()
            call()
            self.synchronize()
            spent.append(time.perf_counter() - began)
        return min(spent)

    def synchronize(self) -> None:
        """Wait for the GPU."""
        if self.gpu:
            torch.cuda.synchronize(self.device)

    def peak(self, call: Callable[[], Any]) -> int:
        """Most bytes that torch had allocated on the GPU during a call; 0 elsewhere."""
        if not self.gpu:
            call()
            return 0
        torch.cuda.reset_peak_memory_stats(self.device)
        call()
        return torch.cuda.max_memory_allocated(self.device)

    def allocated(self) -> int:
        """Bytes that torch has allocated on the GPU; 0 elsewhere."""
        return torch.cuda.memory_allocated(self.device) if self.gpu else 0

    def prompts(self, count: int, length: int) -> list[list[int]]:
        """Make different prompts of equal length."""
        generator = torch.Generator().manual_seed(SEED)
        ids: list[list[int]] = torch.randint(2, self.shape.vocab, (count, length), generator=generator).tolist()
        return ids
