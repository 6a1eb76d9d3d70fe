"""From pairs to a reward model: TRL's RewardTrainer on what the model itself will read.

    L = -log sigmoid(R(x, y_w) - R(x, y_l) - m) + c (R(x, y_w) + R(x, y_l))^2

Bradley and Terry 1952, as in Ouyang et al., arXiv 2203.02155, equation 1; the margin m is Llama 2's (arXiv 2307.09288),
equation 2, and 0 unless asked for; the second term is Eisenstein et al.'s, arXiv 2312.09244, equation 2.
"""

from __future__ import annotations

import importlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.state import AcceleratorState, PartialState
from datasets import Dataset
from scipy.special import expit
from transformers import TrainerCallback

from palaver.agents.reward_models.model import Ids, RewardModel, fresh, save
from palaver.core import PolicyError, ScoringError, need
from palaver.trainers.config.reward_model import FitConfig
from palaver.trainers.preferences.record import PreferenceRecord, by_task
from palaver.utils.stats.intervals import over_tasks

Report = Callable[[int, int, dict[str, float]], None]


@dataclass(frozen=True, slots=True)
class Quality:
    """Metrics of a reward model on a set of pairs.

    Attributes:
        accuracy: share of the pairs whose better answer has the higher score; equal scores are wrong.
        low: lower end of the 95 % bootstrap interval over tasks, since the pairs of one are no independent evidence;
            None for one task.
        high: upper end, likewise.
        pairs: how many.
        tasks: of how many tasks.
        margin: mean of score of the better less score of the worse.
        loss: mean of -log sigmoid of that difference.
        longer: share of the pairs whose better answer is the longer one; what length alone would reach.
    """

    accuracy: float
    low: float | None
    high: float | None
    pairs: int
    tasks: int
    margin: float
    loss: float
    longer: float


def quality(tasks: Sequence[str], margins: Sequence[float], longer: Sequence[bool]) -> Quality:
    """Of pairs of these tasks, by the difference of their scores.

    Args:
        tasks: (P) task of each pair.
        margins: (P) score of the better less score of the worse.
        longer: (P) whether the better one is the longer.

    Raises:
        ValueError: there are no pairs.
    """
    if not len(margins):
        raise ValueError("there are no pairs to judge a reward model by")
    difference = np.asarray(margins, dtype=np.float64)
    right: dict[str, list[float]] = defaultdict(list)
    for task, value in zip(tasks, difference, strict=True):
        right[task].append(float(value > 0))
    low, high = over_tasks([sum(hits) for hits in right.values()], [len(hits) for hits in right.values()])
    return Quality(
        accuracy=float((difference > 0).mean()),
        low=low,
        high=high,
        pairs=len(difference),
        tasks=len(right),
        margin=float(difference.mean()),
        loss=float(-np.log(np.maximum(expit(difference), np.finfo(np.float64).tiny)).mean()),
        longer=float(np.mean(longer)),
    )


@dataclass(frozen=True, slots=True)
class FitResult:
    """Result of the training of a reward model.

    Attributes:
        model: the trained model.
        before: of the held-out pairs, by the untrained head.
        held_out: of the held-out pairs, afterwards.
        train: of the pairs learnt from, afterwards.
        too_long: pairs left out because the model cannot read them.
        history: step -> loss, accuracy and margin of the steps since the line before.
    """

    model: RewardModel
    before: Quality
    held_out: Quality
    train: Quality
    too_long: int
    history: list[dict[str, float]]


def fit(
    pairs: Sequence[PreferenceRecord],
    source: str,
    config: FitConfig,
    folder: Path,
    *,
    seed: int,
    device: str,
    report: Report | None = None,
) -> FitResult:
    """Train a reward model and write it to `folder`, from where `rm:FOLDER` reads it.

    Args:
        pairs: to learn from and to be tested on.
        source: folder or name of the model it begins with.
        config: how it learns.
        folder: the model's.
        seed: of the head, the split and the order.
        device: as torch names it.
        report: called with the step, the number of steps, and the metrics of the step.

    Raises:
        ConfigError: trl is missing.
        PolicyError: the model cannot be loaded, or cannot read most of the pairs.
        TaskError: the pairs cannot be split.
        ScoringError: it does not score finitely in the end.
    """
    need("training a reward model", "rm")
    trl = importlib.import_module("trl")
    model = fresh(source, device, config.chat, config.max_tokens, seed)
    rows = [_Row(pair, *(model.read(case) for case in pair.cases())) for pair in pairs]
    short = [row for row in rows if max(len(row.chosen), len(row.rejected)) <= model.max_tokens]
    if 2 * len(short) < len(rows):
        raise PolicyError(
            f"{len(rows) - len(short)} of {len(rows)} pairs are longer than the {model.max_tokens} tokens that "
            f"{source!r} reads; raise fit.max_tokens, or take a model with a longer context"
        )
    rows_by_pair = {id(row.pair): row for row in short}
    train, test = (
        [rows_by_pair[id(pair)] for pair in split] for split in by_task([r.pair for r in short], config.held_out, seed)
    )
    before = _quality(model, test)
    history = _learn(trl, model, train, config, folder, seed, report)
    after = _quality(model, test)
    if not math.isfinite(after.loss):
        raise ScoringError("the reward model's scores are not finite; lower fit.lr")
    save(model, folder)
    return FitResult(model, before, after, _quality(model, train), len(rows) - len(short), history)


@dataclass(frozen=True, slots=True)
class _Row:
    """A pair and the tokens of its two texts."""

    pair: PreferenceRecord
    chosen: Ids
    rejected: Ids


def _quality(model: RewardModel, rows: Sequence[_Row]) -> Quality:
    known = model.scores([ids for row in rows for ids in (row.chosen, row.rejected)])
    margins = [known[row.chosen] - known[row.rejected] for row in rows]
    longer = [len(row.chosen) > len(row.rejected) for row in rows]
    return quality([row.pair.task for row in rows], margins, longer)


def _learn(
    trl: Any,
    model: RewardModel,
    rows: Sequence[_Row],
    config: FitConfig,
    folder: Path,
    seed: int,
    report: Report | None,
) -> list[dict[str, float]]:
    """Train the weights in place; what the steps showed."""
    data: dict[str, list[Any]] = {
        "chosen_ids": [list(row.chosen) for row in rows],
        "rejected_ids": [list(row.rejected) for row in rows],
    }
    if config.margins:
        data["margin"] = [row.pair.margin or 0.0 for row in rows]
    log = _TrainingLog(report)
    with _own_accelerator():
        trainer = trl.RewardTrainer(
            model=model.model,
            args=_arguments(trl, config, folder, seed, model.device, len(rows)),
            train_dataset=Dataset.from_dict(data),
            processing_class=model.tokenizer,
            peft_config=_adapter(config),
            callbacks=[log],
        )
        for callback in ("PrinterCallback", "ProgressCallback"):
            trainer.remove_callback(getattr(importlib.import_module("transformers"), callback))
        trainer.train()
    trained = trainer.model
    model.model = (trained.merge_and_unload() if config.lora.rank else trained).eval()
    return log.lines


@contextmanager
def _own_accelerator() -> Iterator[None]:
    """Context with an empty process-wide state of accelerate, which is restored on exit.

    TRL's trainer may want another device or precision than a run before it in this process, which may still be running.
    """
    shared = (PartialState._shared_state, AcceleratorState._shared_state)
    before = [dict(state) for state in shared]
    AcceleratorState._reset_state(reset_partial_state=True)
    try:
        yield
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)
        for state, saved in zip(shared, before, strict=True):
            state.update(saved)


def _arguments(trl: Any, config: FitConfig, folder: Path, seed: int, device: torch.device, pairs: int) -> Any:
    micro = min(config.micro or config.batch, config.batch)
    steps = max(1, math.ceil(pairs / config.batch)) * config.epochs
    return trl.RewardConfig(
        output_dir=str(folder),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=math.ceil(config.batch / micro),
        num_train_epochs=config.epochs,
        learning_rate=config.lr,
        lr_scheduler_type="linear",
        warmup_steps=round(config.warmup * steps),
        weight_decay=config.weight_decay,
        center_rewards_coefficient=config.centre or None,
        max_length=None,
        bf16=config.dtype == "bf16",
        gradient_checkpointing=config.gradient_checkpointing,
        seed=seed,
        data_seed=seed,
        use_cpu=device.type == "cpu",
        logging_steps=max(1, steps // 50),
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=device.type == "cuda",
    )


def _adapter(config: FitConfig) -> Any:
    """The shape of the adapter, whose head is trained and kept whole; None trains all weights."""
    if not config.lora.rank:
        return None
    peft = importlib.import_module("peft")
    targets = config.lora.targets
    names = targets if targets == "all-linear" else [name.strip() for name in targets.split(",")]
    return peft.LoraConfig(
        task_type="SEQ_CLS",
        r=config.lora.rank,
        lora_alpha=config.lora.alpha,
        target_modules=names,
        modules_to_save=["score"],
    )


class _TrainingLog(TrainerCallback):  # type: ignore[misc]  # transformers ships no types
    """Passes on what the trainer logs."""

    def __init__(self, report: Report | None) -> None:
        self.report = report
        self.lines: list[dict[str, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Metrics of the steps since the last call."""
        del args, control
        if logs and "loss" in logs:
            metrics = {name: float(logs[name]) for name in ("loss", "accuracy", "margin")}
            self.lines.append({"step": float(state.global_step), **metrics})
            if self.report is not None:
                self.report(state.global_step, state.max_steps, metrics)
