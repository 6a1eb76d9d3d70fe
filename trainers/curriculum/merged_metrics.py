"""One file of metrics and one run of Weights & Biases for all stages, on one axis of steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palaver.trainers.curriculum.config import Curriculum
from palaver.trainers.curriculum.state import NET, StageAttempt, attempt_folder
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import flatten, read_metrics, wandb_run
from palaver.utils.run_folder import replace_text

SENT = "wandb_told"  # number of lines sent to W&B


def lines(
    folder: Path, verdicts: Sequence[StageAttempt], running: tuple[str, int] | None = None
) -> list[dict[str, Any]]:
    """Metrics of the attempts in order on one axis of steps, each followed by its ratings.

    Args:
        folder: of the curriculum.
        verdicts: of the attempts that have ended, in order.
        running: stage and number of the current attempt.
    """
    entries: list[dict[str, Any]] = []
    past = 0
    for verdict in verdicts:
        entries += _attempt(folder, verdict.stage, verdict.attempt, past)
        past += verdict.steps
        if verdict.places:
            elo = {f"elo/{rating.teamset}/{rating.player}": rating.elo for rating in verdict.places}
            about = {"stage": verdict.stage, "attempt": verdict.attempt, "passed": verdict.passed}
            entries.append({"kind": "rating", "step": past, **about, **elo})
    return entries + (_attempt(folder, *running, past) if running else [])


def _attempt(folder: Path, stage: str, attempt: int, past: int) -> list[dict[str, Any]]:
    about = {"stage": stage, "attempt": attempt}
    return [
        {"kind": "train", **line, "step": past + int(line["step"]), **about}
        for line in read_metrics(attempt_folder(folder, stage, attempt) / NET / METRICS)
    ]


class MergedMetrics:
    """Writer of the merged metrics.

    Lines are sent to W&B once; after a kill between sending and recording it, those of one phase are sent twice, at the
    same steps.
    """

    def __init__(self, folder: Path, spec: Curriculum) -> None:
        self.folder = folder
        config = spec.model_dump(mode="json")
        self._wandb = wandb_run(folder, spec.wandb, spec.project, config) if spec.wandb != "disabled" else None

    def write(self, verdicts: Sequence[StageAttempt], running: tuple[str, int] | None = None) -> None:
        """Rewrite the file, and send the new lines to W&B."""
        entries = lines(self.folder, verdicts, running)
        replace_text(self.folder / METRICS, "".join(json.dumps(line) + "\n" for line in entries))
        if self._wandb is None:
            return
        count_path = self.folder / SENT
        known = int(count_path.read_text(encoding="utf-8")) if count_path.is_file() else 0
        for line in entries[known:]:
            self._wandb.log(
                {**flatten(line, f"{line['stage']}/" if line["kind"] == "rating" else ""), "step": line["step"]}
            )
        replace_text(count_path, str(len(entries)))

    def close(self) -> None:
        """Finish the W&B run."""
        if self._wandb is not None:
            self._wandb.finish()
