"""Reading a run folder, however far the run got.

A run may be in progress, killed in the middle of a write, or stopped on a loss that is not finite. All readable parts
are read; the others are listed in `RunFolder.notes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palaver.core import CheckpointError, ConfigError
from palaver.episodes import Episode, Turn
from palaver.trainers.config.loading import load
from palaver.trainers.config.run import RunConfig
from palaver.utils.run_folder import read_lines

STATUS = "status.json"


@dataclass(frozen=True)
class RunFolder:
    """Contents of a run folder.

    Attributes:
        folder: its path.
        config: None if `config.yaml` is missing or cannot be parsed.
        config_text: `config.yaml` as written.
        state: last status that the trainer wrote: `status`, `step`, `pid`.
        launch: recipe, overrides and versions as recorded by the command line; empty if not started by it.
        train: the train lines of `metrics.jsonl`, one per step, in order of step.
        evals: the evaluation lines, likewise.
        notes: parts that could not be read.
    """

    folder: Path
    config: RunConfig | None = None
    config_text: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    launch: Mapping[str, Any] = field(default_factory=dict)
    train: tuple[Mapping[str, Any], ...] = ()
    evals: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    _read: dict[int, list[Episode]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The recipe if known, else the folder's name."""
        return str(self.launch.get("recipe") or self.folder.resolve().name)

    @property
    def step(self) -> int:
        """The last step that was written."""
        return max((int(line["step"]) for line in (*self.train, *self.evals)), default=0)

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that trained, by their `AGENT/tokens` keys."""
        return tuple(key.removesuffix("/tokens") for key in self.keys("") if key.endswith("/tokens"))

    def series(self, key: str) -> tuple[list[int], list[float]]:
        """Steps and values of a train key where it is a finite number."""
        pairs = [(int(line["step"]), value) for line in self.train if (value := number(line, key)) is not None]
        return [step for step, _ in pairs], [value for _, value in pairs]

    def keys(self, prefix: str) -> list[str]:
        """The train keys that start with `prefix`, in order of appearance."""
        return list(dict.fromkeys(key for line in self.train for key in line if key.startswith(prefix)))

    def episodes(self, step: int) -> list[Episode]:
        """The episodes of the evaluation at a step, read once; unreadable lines are left out."""
        if step not in self._read:
            lines, _ = read_lines(self.evaluation(step))
            self._read[step] = [episode for line in lines if (episode := episode_of(line)) is not None]
        return self._read[step]

    def evaluation(self, step: int) -> Path:
        """File of the episodes of the evaluation at a step."""
        return self.folder / "episodes" / f"eval-{step:06d}.jsonl"

    def keep(self, step: int, episodes: list[Episode]) -> None:
        """Keep the episodes of an evaluation that were read elsewhere."""
        self._read[step] = episodes


def number(line: Mapping[str, Any], key: str) -> float | None:
    """`line[key]` if it is a finite number, else None."""
    value = line.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    too_large = isinstance(value, int) and value.bit_length() > 1000  # for a float
    return None if too_large or not math.isfinite(value) else float(value)


def numbers(record: object) -> dict[str, float]:
    """The entries of a mapping that are finite numbers."""
    if not isinstance(record, Mapping):
        return {}
    return {str(key): value for key in record if (value := number(record, key)) is not None}


def read(folder: Path | str) -> RunFolder:
    """The run in `folder`.

    Raises:
        CheckpointError: there is no such folder, or it holds neither a config nor metrics.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"there is no run folder {str(folder)!r}")
    if not (folder / "config.yaml").is_file() and not (folder / "metrics.jsonl").is_file():
        raise CheckpointError(f"{str(folder)!r} is not a run folder: it holds neither config.yaml nor metrics.jsonl")
    notes: list[str] = []
    text, config = _config(folder / "config.yaml", notes)
    lines, damaged = read_lines(folder / "metrics.jsonl")
    if broken := sum(bool(line.raw.strip()) for line in damaged):
        notes.append(f"metrics.jsonl: {broken} unreadable line{'s' * (broken > 1)} left out")
    return RunFolder(
        folder=folder,
        config=config,
        config_text=text,
        state=_first_object(folder / STATUS),
        launch=_first_object(folder / "launch.json"),
        train=_by_step(lines, "train"),
        evals=_by_step(lines, "eval"),
        notes=tuple(notes),
    )


def _config(path: Path, notes: list[str]) -> tuple[str, RunConfig | None]:
    if not path.is_file():
        notes.append("config.yaml is missing")
        return "", None
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        return text, load(str(path))
    except (ConfigError, UnicodeDecodeError) as error:
        notes.append(f"config.yaml is not understood: {error}")
        return text, None


def _first_object(path: Path) -> dict[str, Any]:
    return next(iter(read_lines(path)[0]), {})


def _by_step(lines: Iterable[Mapping[str, Any]], kind: str) -> tuple[Mapping[str, Any], ...]:
    """The last line of every step: a resumed run may have written a step twice."""
    last = {int(line["step"]): line for line in lines if line.get("kind") == kind and number(line, "step") is not None}
    return tuple(last[step] for step in sorted(last))


def episode_of(record: dict[str, Any]) -> Episode | None:
    """A record that can be shown as an episode, else None."""
    try:
        episode = Episode.from_dict(record)
    except (KeyError, TypeError, AttributeError):
        return None
    return episode if is_sound(episode) else None


def is_sound(episode: Episode) -> bool:
    """Return whether the fields of an episode that pages show have the expected types."""
    try:
        named = all(isinstance(name, str) for name in (episode.env, episode.task, episode.stop))
        complete = named and isinstance(episode.seed, int) and isinstance(episode.team, Mapping)
        return complete and all(map(_sound, episode.turns))
    except (KeyError, TypeError, AttributeError):
        return False


def _sound(turn: Turn) -> bool:
    """Return whether the fields that reports show have the expected types."""
    mappings: tuple[Mapping[str, Any], ...] = (turn.rewards, turn.metrics, *turn.components.values())
    return (
        isinstance(turn.index, int)
        and isinstance(turn.observations, Mapping)
        and isinstance(turn.reason, str)
        and isinstance(turn.group, str)
        and isinstance(turn.node, str)
        and isinstance(turn.legal, Mapping)
        and isinstance(turn.executed, Mapping)
        and all(isinstance(action, str) for action in turn.executed.values())
        and all(
            isinstance(message.content, str)
            for completion in turn.completions.values()
            for message in completion.messages
        )
        and all(
            isinstance(value, float) or number(row, name) is not None for row in mappings for name, value in row.items()
        )
    )
