"""Workloads of the training benchmarks, and the processes that measure them. Free of torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from palaver.core import ConfigError, PalaverError, did_you_mean

GROUP = 4
AGENTS = ("short", "long")
PAD, END = 0, 1  # token ids


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Shape of a Qwen3 with random weights, and its answer length.

    Attributes:
        name: as on the command line.
        hidden, layers, heads, kv_heads, head_dim, inner, vocab: its shape; `inner` is the feed-forward width.
        new_tokens: sampled per answer, unless the end token comes first.
        dtype: bf16 computes in bfloat16 under fp32 master weights.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    new_tokens: int
    dtype: Literal["fp32", "bf16"] = "fp32"

    def model(self) -> dict[str, Any]:
        """Keywords for `transformers.Qwen3Config`."""
        return {
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": True,
            "pad_token_id": PAD,
            "eos_token_id": END,
            "bos_token_id": None,
        }


def _small(name: str, hidden: int, layers: int, vocab: int, new_tokens: int) -> ModelShape:
    return ModelShape(name, hidden, layers, 4, 2, max(8, hidden // 4), 2 * hidden, vocab, new_tokens)


SETTINGS = {
    setting.name: setting
    for setting in (
        _small("A", hidden=64, layers=2, vocab=258, new_tokens=32),
        _small("B", hidden=128, layers=2, vocab=16_000, new_tokens=64),
        _small("C", hidden=256, layers=4, vocab=8_192, new_tokens=64),
        _small("D", hidden=64, layers=2, vocab=151_936, new_tokens=64),
        ModelShape("Qwen3-0.6B", 1024, 28, 16, 8, 128, 3072, 151_936, 256, "bf16"),
    )
}


def setting(name: str) -> ModelShape:
    """Return the setting of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in SETTINGS:
        raise ConfigError(f"there is no setting {name!r}.{did_you_mean(name, SETTINGS)}")
    return SETTINGS[name]


def parameters(shape: ModelShape) -> int:
    """Number of weights of a model of that shape, without norms.

    The norms are less than a thousandth from 25M weights on.
    """
    attended = shape.heads * shape.head_dim
    layer = shape.hidden * (2 * attended + 2 * shape.kv_heads * shape.head_dim + 3 * shape.inner)
    return shape.layers * layer + shape.hidden * shape.vocab


TIMEOUT_S = 3600
WARMUP = 1  # steps that are not counted
WORKER = "palaver.benchmarks.performance.training.worker"
_DRIVER = Path(__file__).resolve().with_name("peer.py")


class BenchmarkError(PalaverError):
    """A measuring process that failed."""


@dataclass(frozen=True, slots=True)
class MeasurementOrder:
    """Measure `steps` steps of `prompts` prompts after the warm-up.

    With `memory` the memory of the updates is measured instead.
    """

    setting: str
    prompts: int
    steps: int
    threads: int
    device: str
    memory: bool = False

    def run(self) -> dict[str, Any]:
        """Run our measurement.

        Raises:
            BenchmarkError: the process failed.
        """
        return report_of([sys.executable, "-W", "ignore", "-m", WORKER, json.dumps(asdict(self))], self.threads)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another library's benchmark: the Python that has it, and a script as `peer.py` describes."""

    python: str
    script: str

    def __post_init__(self) -> None:
        for option, path in (("peer_python", self.python), ("peer_script", self.script)):
            if not Path(path).is_file():
                raise ConfigError(f"{option}: there is no file {path!r}")

    def run(self, setting: ModelShape, order: MeasurementOrder) -> dict[str, Any]:
        """Run the peer's measurement, always with one prompt a step.

        Raises:
            BenchmarkError: the process failed, or its report lacks a number.
        """
        command = [self.python, "-W", "ignore", str(_DRIVER), "--device", order.device]
        command += ["--memory"] if order.memory else []
        if order.device != "cpu" or setting.hidden * 2 != setting.inner:
            command += ["--model", json.dumps(setting.model()), "--dtype", setting.dtype]
        numbers = {
            "hidden": setting.hidden,
            "layers": setting.layers,
            "vocab": setting.vocab,
            "max-new-tokens": setting.new_tokens,
            "threads": order.threads,
            "warmup": WARMUP,
            "steps": order.steps + (0 if order.memory else WARMUP),
        }
        command += [self.script, *(word for name, value in numbers.items() for word in (f"--{name}", str(value)))]
        report = report_of(command, order.threads)
        return report if order.memory else _times(report, order)


def _times(report: dict[str, Any], order: MeasurementOrder) -> dict[str, Any]:
    """Convert the peer's report to our format: seconds per prompt (wall time on a GPU) by stage."""
    try:
        wall = float(report["sec_per_step_mean"])
        spent = float(report["cpu_sec_per_step"]) if order.device == "cpu" else wall
        share = {stage: float(report["share_of_wall"][stage]) for stage in ("generate", "update")}
        tokens = float(report["per_step"]["padded_tokens"])
        name = str(report["system"])
    except (KeyError, TypeError, ValueError) as error:
        raise BenchmarkError(f"the peer's report lacks a number: {' '.join(str(error).split())}") from error
    stages = {stage: share_of_step * spent for stage, share_of_step in share.items()}
    return {
        "name": name,
        "spent_s": spent,
        "wall_s": wall,
        "stages": {**stages, "rest": spent - sum(stages.values())},
        "tokens": tokens,
    }


def report_of(command: Sequence[str], threads: int) -> dict[str, Any]:
    """Run a measuring process; return the last JSON object that it printed, empty without any.

    Raises:
        BenchmarkError: it could not be started, took too long, failed, or printed what is not JSON.
    """
    variables = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
        "TOKENIZERS_PARALLELISM": "false",
    }
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **variables}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchmarkError(f"{command[0]} could not measure: {' '.join(str(error).split())[:300]}") from error
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise BenchmarkError(f"{command[0]} failed while measuring: {last[0][:300]}")
    json_lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    try:
        return dict(json.loads(json_lines[-1])) if json_lines else {}
    except ValueError as error:
        raise BenchmarkError(f"{command[0]} printed a report that is not JSON: {json_lines[-1][:200]!r}") from error
