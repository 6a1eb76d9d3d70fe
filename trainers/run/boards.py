"""Boards of a run: TensorBoard, and Weights & Biases, with the same calls."""

from __future__ import annotations

import contextlib
import importlib
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from palaver.episodes import Episode
from palaver.text import clean
from palaver.utils.run_folder import replace_text
from palaver.utils.tool_calls import transcript

SAMPLES, CHARACTERS = 8, 4000  # episodes of an evaluation, and characters of one text
COLUMNS = ("task", "turn", "agent", "observation", "completion", "reward")
STEP = "step"


class Board(Protocol):
    """One board of a run."""

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write one line of metrics."""

    def samples(self, kind: str, episodes: Sequence[Episode], step: int) -> None:
        """Write the texts of the first episodes, one row for each completion."""

    def checkpoint(self, folder: Path, step: int) -> None:
        """Record a checkpoint that is complete."""

    def close(self) -> None:
        """Flush and close the board."""


def sample_rows(episodes: Sequence[Episode]) -> list[tuple[str, int, str, str, str, float]]:
    """Rows of `COLUMNS` of the first episode of each of the first tasks."""
    first: dict[str, Episode] = {}
    for episode in episodes:
        first.setdefault(str(episode.task), episode)
    return [
        (
            clean(episode.task, 200),
            turn.index + 1,
            clean(agent, 80),
            clean(turn.observations.get(agent, ""), CHARACTERS),
            clean(transcript(completion), CHARACTERS),
            float(turn.rewards.get(agent, 0.0)),
        )
        for episode in list(first.values())[:SAMPLES]
        for turn in episode.turns
        for agent, completion in turn.completions.items()
    ]


class TensorBoard:
    """Board in `tb/` of the run folder.

    Args:
        folder: of the run.
        step: step of the checkpoint resumed from; what was written of later ones is dropped.
    """

    def __init__(self, folder: Path, step: int) -> None:
        board = importlib.import_module("torch.utils.tensorboard")
        self._hook = _silence_board()
        self._writer = board.SummaryWriter(str(folder / "tb"), purge_step=step + 1)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write a curve's point for each value."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def samples(self, kind: str, episodes: Sequence[Episode], step: int) -> None:
        """Write a text for each completion, indented, so that nothing in it is taken for Markdown."""
        for number, (task, turn, agent, observation, completion, reward) in enumerate(sample_rows(episodes)):
            heads = (f"task {task}, turn {turn}, {agent}, reward {reward:.3f}", "observation:", observation)
            text = "\n\n".join(_indented(part) for part in (*heads, "completion:", completion))
            self._writer.add_text(f"samples/{kind}/{number:02d}", text, step)
        self._writer.flush()

    def checkpoint(self, folder: Path, step: int) -> None:
        """Write where the checkpoint lies."""
        self._writer.add_text("checkpoint", _indented(f"{folder.parent.name}/{folder.name}"), step)
        self._writer.flush()

    def close(self) -> None:
        """Close the files."""
        with contextlib.suppress(OSError):  # each line was flushed, so an error that is left has been raised
            self._writer.close()
        threading.excepthook = self._hook


class WeightsAndBiases:
    """Run on Weights & Biases; its id is kept in the run folder for a resumed run.

    All metrics have the run's own step as their horizontal axis. Logged steps cannot be deleted.

    Args:
        folder: of the run.
        mode: `offline` or `online`.
        project: on the board.
        config: of the run, as plain data.
    """

    def __init__(self, folder: Path, mode: str, project: str, config: dict[str, Any]) -> None:
        self._wandb = importlib.import_module("wandb")
        id_file = folder / "wandb_id"
        if not id_file.is_file():
            replace_text(id_file, uuid.uuid4().hex[:12])
        self._id = id_file.read_text(encoding="utf-8")
        self._run = self._wandb.init(
            project=project, id=self._id, resume="allow", mode=mode, dir=str(folder), name=folder.name, config=config
        )
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Log one line."""
        self._run.log({**values, STEP: step})

    def samples(self, kind: str, episodes: Sequence[Episode], step: int) -> None:
        """Log a table with one row for each completion."""
        table = self._wandb.Table(columns=list(COLUMNS), data=[list(row) for row in sample_rows(episodes)])
        self._run.log({f"samples/{kind}": table, STEP: step})

    def checkpoint(self, folder: Path, step: int) -> None:
        """Log a version of the run's artifact; the files are copied, as the folder is removed later."""
        artifact = self._wandb.Artifact(f"run-{self._id}-checkpoint", type="model", metadata={STEP: step})
        artifact.add_dir(str(folder))
        self._run.log_artifact(artifact, aliases=["latest", f"step-{step}"])

    def close(self) -> None:
        """Finish the run, which uploads what is left."""
        self._run.finish()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


def _silence_board() -> Callable[[Any], object]:
    """Suppress the traceback of TensorBoard's thread on a full disk; the next write raises it.

    Returns:
        The hook that reported uncaught errors of threads before.
    """
    before = threading.excepthook

    def hook(args: Any) -> None:
        if not (isinstance(args.exc_value, OSError) and type(args.thread).__name__ == "_AsyncWriterThread"):
            before(args)

    threading.excepthook = hook
    return before
