"""Loggers of a run: `metrics.jsonl`, TensorBoard (default) and Weights & Biases (optional)."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from palaver.core import PalaverWarning
from palaver.episodes import Episode
from palaver.text import one_line
from palaver.trainers.config.run import LogConfig
from palaver.trainers.run.boards import Board, TensorBoard, WeightsAndBiases
from palaver.trainers.run.files import METRICS
from palaver.utils.run_folder import DamagedLine, append_bytes, append_lines, read_lines, replace_text

DAMAGED = "metrics.damaged.jsonl"


class HasLogConfig(Protocol):
    """A config with a log section, of a run of any kind."""

    @property
    def log(self) -> LogConfig:
        """Settings of the loggers."""
        ...

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """The config as plain data."""
        ...


class RunLogger:
    """Logger of the metrics and episodes of one run.

    After a resume it continues at the step of the checkpoint; only W&B, which cannot delete logged steps, keeps those
    between checkpoint and interruption twice.

    Args:
        folder: folder of the run.
        config: config with a log section.
        step: step of the checkpoint resumed from, 0 at a fresh start; lines of later steps are dropped.

    Attributes:
        step: last step whose training metrics are written.
        boards: TensorBoard and Weights & Biases, as far as the config asks for them.
    """

    def __init__(self, folder: Path, config: HasLogConfig, step: int) -> None:
        self.folder, self.config = folder, config
        self.metrics = folder / METRICS
        self.step = step
        _keep_until(self.metrics, step)
        log = config.log
        self.boards: list[Board] = [TensorBoard(folder, step)] if log.tensorboard else []
        if log.wandb != "disabled":
            self.boards.append(WeightsAndBiases(folder, log.wandb, log.project, config.model_dump(mode="json")))

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Write one line of metrics; NaN becomes None, nested names `name/inner` on the boards."""
        values = {
            name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values.items()
        }
        line = {"kind": kind, "step": step, **values}
        append_lines(self.metrics, [line])
        if kind == "train":
            self.step = step
        scalars = {name: value for name, value in values.items() if name != "by_task"}  # no curve for every task
        flat = flatten(scalars, "eval/" if kind == "eval" else "")
        for board in self.boards:
            board.scalars(flat, step)

    def episodes(self, kind: str, step: int, episodes: list[Episode]) -> None:
        """Write `episodes/KIND-STEP.jsonl`, one episode a line; boards get texts of evaluations."""
        if not self.config.log.episodes:
            return
        path = self.folder / "episodes" / f"{kind}-{step:06d}.jsonl"
        path.parent.mkdir(exist_ok=True)
        lines = (json.dumps(episode.to_dict(self.config.log.tokens)) for episode in episodes)
        replace_text(path, "\n".join(lines) + "\n")
        for board in self.boards if kind == "eval" else ():
            board.samples(kind, episodes, step)

    def checkpoint(self, folder: Path, step: int) -> None:
        """Record a complete checkpoint on the boards, where `log.checkpoints` asks for it."""
        for board in self.boards if self.config.log.checkpoints else ():
            board.checkpoint(folder, step)

    def close(self) -> None:
        """Flush and close all boards."""
        for board in self.boards:
            board.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a metrics file; damaged ones are left out."""
    return _sound_lines(path)[0]


def _sound_lines(path: Path) -> tuple[list[dict[str, Any]], list[DamagedLine]]:
    known: set[tuple[str, int, str]] = set()

    def check(line: dict[str, Any]) -> str:
        kind, step = line.get("kind"), line.get("step")
        if not isinstance(kind, str):
            return "it has no kind"
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            return "it has no step"
        key = (kind, step, str(line.get("epoch")))
        if key in known:
            return f"it is a second line of kind {one_line(kind, 40)} for step {step}"
        known.add(key)
        return ""

    return read_lines(path, check)


def _keep_until(path: Path, step: int) -> None:
    """Drop lines written after the checkpoint (at step 0 all, for the run starts again).

    Damaged lines are warned of and moved to a file of their own.
    """
    lines, damaged = _sound_lines(path)
    for bad_line in damaged:
        warnings.warn(
            f"{path}, line {bad_line.number}: {bad_line.reason}; moved to {DAMAGED}", PalaverWarning, stacklevel=4
        )
    if damaged:
        with path.with_name(DAMAGED).open("ab", buffering=0) as file:
            append_bytes(file, b"".join(bad_line.raw + b"\n" for bad_line in damaged))
    kept_lines = [line for line in lines if step and line["step"] <= step]
    replace_text(path, "".join(json.dumps(line) + "\n" for line in kept_lines))


def flatten(values: Mapping[str, Any], prefix: str) -> dict[str, float]:
    """Flatten the numbers among the values, those of nested mappings as `name/inner`."""
    flat = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{name}/"))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[f"{prefix}{name}"] = float(value)
    return flat
