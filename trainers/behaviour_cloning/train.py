"""The loop of cloning, the same for battle nets and language models.

    clone(BCConfig(epochs=4), Path("runs/student"), [("runs/battles", 1.0)]) -> runs/student/net

A run is a folder: `cloning.yaml`, `metrics.jsonl`, `checkpoints/`, at the end `net/`. Called again with the same
arguments it resumes from the newest checkpoint; the same call on a finished run returns at once.
"""

from __future__ import annotations

import itertools
import math
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import yaml

from palaver.agents.battle_net import files
from palaver.core import ConfigError
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.behaviour_cloning.losses import faulty, judge
from palaver.trainers.behaviour_cloning.mixture import Mixture, Source
from palaver.trainers.behaviour_cloning.students import NetStudent
from palaver.trainers.run import checkpoint
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.logging import RunLogger
from palaver.trainers.trajectories.loader import plan
from palaver.utils.run_folder import DiskErrorContext, locked, publish_folder, replace_text

if TYPE_CHECKING:  # transformers are loaded for a text student only
    from palaver.trainers.behaviour_cloning.text_student import TextStudent

SETTINGS, NET, STUDENT = "cloning.yaml", "net", "student"
FLOOR = 0.1  # of the learning rate, at the end of the cosine
Report = Callable[[int, int, dict[str, float]], None]  # (step, steps, numbers)


@dataclass
class _State:
    """Progress of a run: state of the next step in addition to weights and optimiser."""

    step: int = 0
    epoch: int = 0
    place: int = 0  # batches done of this epoch
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)  # of this epoch


def clone(
    config: BCConfig,
    folder: Path,
    sources: Sequence[Source],
    start: Path | None = None,
    report: Report = lambda _step, _steps, _numbers: None,
) -> Path:
    """Train a student on battles, or resume it; returns the folder of the result.

    Args:
        config: how.
        folder: of the run.
        sources: readers or folders of battles, each with its weight, see `Mixture`.
        start: a net (or a run that made one) to begin with; None: a new one, or `config.model`.
        report: called after each step.

    Raises:
        ConfigError: settings or battles that do not fit, or a folder that holds another run.
        CheckpointError: what it should read is damaged.
        DiskError: the disk is full; the same call resumes once there is room.
        NumericalError: a loss that is not finite; the last checkpoint stays.
    """
    learnt, aside = Mixture(sources).divide(config.held_out)
    with locked(folder), DiskErrorContext("give the same command again"):
        if not _prepare(config, folder, learnt, start):
            with _threads(config.threads):
                run = _Run(config, folder, learnt, aside, _student(config, learnt.entries[0].format, start), report)
                with closing(run.resume()):
                    run.go()
            trained = checkpoint.folder_of(folder, run.state.step) / "policies" / STUDENT
            publish_folder(folder / NET, lambda net: shutil.copytree(trained, net, dirs_exist_ok=True))
    return folder / NET


class _Run:
    def __init__(
        self,
        config: BCConfig,
        folder: Path,
        learnt: Mixture,
        aside: Mixture | None,
        student: NetStudent | TextStudent,
        report: Report,
    ) -> None:
        self.config, self.folder, self.student, self.report = config, folder, student, report
        self.learnt, self.aside = learnt, aside
        self.state = _State()
        self.optimizer = _optimizer(student.module, config)
        lengths = [entry.decisions for entry in learnt.entries]
        self.counts = [
            len(plan(lengths, config.decisions, config.seed, epoch, learnt.weights)) for epoch in range(config.epochs)
        ]
        self.steps = min(sum(self.counts), config.steps or sum(self.counts))
        self.run_logger: RunLogger

    def resume(self) -> RunLogger:
        """Take up the newest sound checkpoint where there is one; open and return the logger."""
        if (self.folder / "checkpoints").is_dir() and any((self.folder / "checkpoints").glob("step-*")):
            newest, _ = checkpoint.newest(self.folder)
            saved = checkpoint.load_updater(newest)
            self.state = _State(**saved)
            self.student.load(newest / "policies" / STUDENT)
            self.student.version = self.state.step
            checkpoint.load_optimizer(newest, STUDENT, self.optimizer)
        self.run_logger = RunLogger(self.folder, self.config, self.state.step)
        return self.run_logger

    def go(self) -> None:
        """All steps that are left."""
        while self.state.step < self.steps:
            began = time.perf_counter()
            batches = self.student.batches(self.learnt, self.config, self.state.epoch, self.state.place)
            for batch in itertools.islice(batches, self.steps - self.state.step):
                metrics = self._update(batch)
                now = time.perf_counter()
                self.state.seconds, began = self.state.seconds + now - began, now
                self._record(metrics)
                if self._due() and self.state.place < self.counts[self.state.epoch]:
                    self._save()
            self._end_epoch()
            if self._due():  # not before the epoch's line is written, or resuming would write it twice
                self._save()
        self._save()

    def _due(self) -> bool:
        return self.state.step % self.config.checkpoint_every == 0 and self.state.step < self.steps

    def _update(self, batch: Any) -> dict[str, float]:
        config, step = self.config, self.state.step + 1
        self.student.module.train()
        rate = _rate(step, self.steps, config)
        with self._arithmetic():
            outputs = self.student.score(batch, config, step)
        loss, metrics = judge(outputs, config, self.student.span)
        if not math.isfinite(metrics["loss"]):
            rows = faulty(outputs)
            raise NumericalError(
                f"step {step}: the loss is {metrics['loss']} in {len(rows)} battles of the batch", rows
            )
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.student.module.parameters(), config.max_grad_norm or math.inf)
        if not bool(norm.isfinite()):
            raise NumericalError(f"step {step}: the gradient is not finite", faulty(outputs))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {**metrics, "grad_norm": float(norm), "lr": rate}

    def _arithmetic(self) -> torch.autocast:
        device = next(self.student.module.parameters()).device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.config.dtype == "bf16")

    def _record(self, metrics: dict[str, float]) -> None:
        state = self.state
        state.step, state.place, self.student.version = state.step + 1, state.place + 1, state.step + 1
        for name, value in _weighed(metrics).items():
            state.sums[name] = state.sums.get(name, 0.0) + value
        self.run_logger.write(
            "train", state.step, {"epoch": state.epoch, **metrics, "seconds": round(state.seconds, 3)}
        )
        self.report(state.step, self.steps, metrics)

    def _end_epoch(self) -> None:
        """The epoch's means, over its decisions, and those of the battles that are only looked at."""
        state = self.state
        values: dict[str, Any] = _mean(state.sums)
        if self.aside:
            values["held_out"] = self._look(self.aside)
        self.run_logger.write("epoch", state.step, {"epoch": state.epoch, **values})
        state.epoch, state.place, state.sums = state.epoch + 1, 0, {}

    @torch.no_grad()
    def _look(self, aside: Mixture) -> dict[str, float]:
        self.student.module.eval()
        sums: dict[str, float] = defaultdict(float)
        batches: Iterator[Any] = self.student.batches(aside, self.config, 0)
        for batch in batches:
            with self._arithmetic():
                outputs = self.student.score(batch, self.config, 0)
            for name, value in _weighed(judge(outputs, self.config, self.student.span)[1]).items():
                sums[name] += value
        return _mean(sums)

    def _save(self) -> None:
        policies, step, state = {STUDENT: self.student}, self.state.step, vars(self.state)
        optimizers = {STUDENT: lambda path: checkpoint.save_state(self.optimizer.state_dict(), path)}
        saved = checkpoint.save(self.folder, step, policies, optimizers, state, self.config.keep, {})
        self.run_logger.checkpoint(saved, step)


def _student(config: BCConfig, format: str, start: Path | None) -> NetStudent | TextStudent:
    if config.model:
        from palaver.agents.llm.model.load import pick_device
        from palaver.trainers.behaviour_cloning.text_student import TextStudent

        return TextStudent.make(config, start, pick_device(config.device))
    wanted = "cuda" if config.device == "auto" and torch.cuda.is_available() else config.device.replace("auto", "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"the device {config.device!r:.40} cannot be used here; choose cpu or auto") from error
    return NetStudent.make(config, format, start, device)


def _weighed(metrics: dict[str, float]) -> dict[str, float]:
    """Means times the decisions they are over, and those."""
    averages = {name: value for name, value in metrics.items() if name not in ("decisions", "lr", "grad_norm", "loss")}
    return {
        **{name: value * metrics["decisions"] for name, value in averages.items()},
        "decisions": metrics["decisions"],
    }


def _mean(sums: dict[str, float]) -> dict[str, float]:
    total = sums.get("decisions", 0.0)
    return {name: value if name == "decisions" else value / max(total, 1.0) for name, value in sums.items()}


def _optimizer(module: torch.nn.Module, config: BCConfig) -> torch.optim.AdamW:
    """AdamW; vectors are not decayed."""
    matrices = [p for p in module.parameters() if p.ndim > 1]
    vectors = [p for p in module.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, 0.98))


def _rate(step: int, steps: int, config: BCConfig) -> float:
    """Linear warm-up, then a cosine down to `FLOOR` at the last step."""
    if step <= config.warmup:
        return config.lr * step / (config.warmup + 1)
    progress = (step - config.warmup) / max(1, steps - config.warmup)
    return config.lr * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * progress)) / 2)


def _prepare(config: BCConfig, folder: Path, mixture: Mixture, start: Path | None) -> bool:
    """Make the folder one of this run; whether it is finished.

    Raises:
        ConfigError: it holds another one.
    """
    begun = "" if start is None else str(start) if config.model else files.identity(start)
    settings = {"config": config.model_dump(mode="json"), "battles": mixture.facts(), "start": begun}
    path = folder / SETTINGS
    try:
        if path.is_file():
            before = yaml.safe_load(path.read_text(encoding="utf-8"))
            changed = next((key for key, value in settings.items() if before.get(key) != value), "")
            if changed:
                raise ConfigError(f"{str(folder)!r} holds a run of another {changed}; choose another folder")
        (folder / "checkpoints").mkdir(exist_ok=True)
        replace_text(path, yaml.safe_dump(settings, sort_keys=False))
    except (yaml.YAMLError, AttributeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{str(path)!r} cannot be used: {error}") from error
    return (folder / NET).is_dir()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
