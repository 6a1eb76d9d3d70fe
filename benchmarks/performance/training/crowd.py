"""Workload of the team benchmark, and the process that measures one team. Free of torch."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palaver.benchmarks.performance.training.order import report_of
from palaver.benchmarks.performance.training.settings import ModelShape
from palaver.core import ConfigError, did_you_mean

ONE = "one"  # the reference: an environment with one agent, which trains a full model
KINDS = (ONE, "separate", "shared", "lora", "heterogeneous")
OWN, OTHER = "own", "other"  # folders of the models
TARGET = 100  # best mean number of characters of the answers

SIZES = {
    setting.name: setting
    for setting in (
        ModelShape("0.1M", 64, 2, 4, 2, 16, 128, 512, 8),
        ModelShape("25M", 512, 8, 8, 4, 64, 1408, 4096, 32),
        ModelShape("80M", 768, 12, 12, 4, 64, 2048, 4096, 32),
        ModelShape("145M", 1024, 12, 16, 8, 64, 2816, 4096, 32),
        ModelShape("Qwen3-0.6B", 1024, 28, 16, 8, 128, 3072, 151_936, 256, "bf16"),
    )
}


def size(name: str) -> ModelShape:
    """Return the model shape of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in SIZES:
        raise ConfigError(f"there is no size {name!r}.{did_you_mean(name, SIZES)}")
    return SIZES[name]


def parameters(shape: ModelShape) -> int:
    """Number of weights of a model of that shape, without norms.

    The norms are less than a thousandth from 25M weights on.
    """
    attended = shape.heads * shape.head_dim
    layer = shape.hidden * (2 * attended + 2 * shape.kv_heads * shape.head_dim + 3 * shape.inner)
    return shape.layers * layer + shape.hidden * shape.vocab


@dataclass(frozen=True, slots=True)
class TeamMeasurement:
    """Train a team of one kind for some steps and measure time and memory.

    Attributes:
        kind: one of `KINDS`.
        size: one of `SIZES`.
        agents: N, of the environment; the kind `one` has one.
        group: G, answers per prompt and agent.
        prompts: B, tasks a step.
        new_tokens: maximum sampled per answer.
        steps: measured steps.
        warmup: steps before them; the first creates the optimiser's state.
        rank: of adapters.
        threads: of torch.
        device: as torch names it.
        folder: that `Models` has written.
        algorithm: its name.
        kl: coefficient of a KL penalty towards the initial policy; 0 for none.
    """

    kind: str
    size: str
    agents: int
    group: int
    prompts: int
    new_tokens: int
    steps: int
    warmup: int
    rank: int
    threads: int
    device: str
    folder: str
    algorithm: str = "magrpo"
    kl: float = 0.0

    @property
    def agent_names(self) -> list[str]:
        """The agents' names."""
        return [f"a{index}" for index in range(1, 1 + (1 if self.kind == ONE else self.agents))]

    @property
    def needed(self) -> int:
        """Lower bound of the memory in bytes, computed before loading.

        For each fully trained model fp32 weights, a copy for generation and Adam's two moments; the gradients of one
        at a time; adapters are negligible. Activations, keys and values are not included.
        """
        shape = size(self.size)
        copy, weights = 2 if shape.dtype == "bf16" else 4, parameters(shape)
        if self.kind == "lora":
            return weights * (2 * copy)
        models = 1 if self.kind == "shared" else len(self.agent_names)
        return weights * (models * (4 + copy + 8) + 4)

    def run(self) -> dict[str, Any]:
        """Run the measurement; see `palaver.benchmarks.performance.training.crowd_worker.measure`.

        Raises:
            BenchmarkError: the process failed.
        """
        return _process("palaver.benchmarks.performance.training.crowd_worker", self, self.threads)


@dataclass(frozen=True, slots=True)
class Models:
    """Write random models of one size, each with a tokenizer, into `folder`: `own` and `other`."""

    size: str
    folder: str

    def run(self) -> dict[str, Any]:
        """Write the models and return the number of parameters of each, by name.

        Raises:
            BenchmarkError: the process failed.
        """
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        return _process("palaver.benchmarks.performance.training.crowd_models", self, 1)


def _process(module: str, order: TeamMeasurement | Models, threads: int) -> dict[str, Any]:
    return report_of([sys.executable, "-W", "ignore", "-m", module, json.dumps(asdict(order))], threads)
