"""Verification of result rows.

Rows that cannot be reproduced or that contradict their episodes are refused.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from palaver.benchmarks.evaluation import results as rows
from palaver.benchmarks.evaluation.focal import answered
from palaver.benchmarks.evaluation.results import Answers, EvaluationResult
from palaver.core import ConfigError, PalaverError
from palaver.episodes import Episode
from palaver.registry import spec
from palaver.text import one_line
from palaver.trainers.rollout.evaluation import summarize


@dataclass(frozen=True)
class VerifiedRow:
    """Verified row, its path, its first and middle episode, and its count of illegal answers.

    The illegal answers are counted in its episodes.
    """

    row: EvaluationResult
    path: Path
    samples: tuple[Episode, ...]
    answers: Answers

    @property
    def what(self) -> str:
        """The scenario, or the environment."""
        return self.row.scenario or self.row.env

    @property
    def mean(self) -> float:
        """The ranked score: that of the focal agents if there are any, else the team's return."""
        return (self.row.focal or self.row).mean

    @property
    def low(self) -> float:
        """Lower end of the interval of `mean`."""
        return cast("float", (self.row.focal or self.row).low)  # see `complaint`

    @property
    def high(self) -> float:
        """Upper end of the interval of `mean`."""
        return cast("float", (self.row.focal or self.row).high)  # see `complaint`

    @property
    def share(self) -> float:
        """The normalised score: `mean` over the maximum."""
        return self.mean / self.most

    @property
    def most(self) -> float:
        """The maximum return, or its maximum gain over the return of silence."""
        silent = self.row.focal.silent or 0.0 if self.row.focal else 0.0
        return cast("float", self.row.max_reward) - silent  # see `complaint`


@dataclass(frozen=True)
class BoardRows:
    """The rows of a folder, sorted by name, and one line for each refused file."""

    rows: tuple[VerifiedRow, ...]
    refused: tuple[str, ...]


def read(folder: Path) -> BoardRows:
    """Read and verify the rows in a folder.

    Raises:
        ConfigError: there is no such folder, or no row in it.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder of rows {str(folder)!r}; make one with: palaver evaluate ENV --row FOLDER"
        )
    files = sorted(path for path in folder.glob(f"*{rows.ROW}") if not path.name.startswith("."))
    if not files:
        raise ConfigError(f"there is no row in {str(folder)!r}; make one with: palaver evaluate ENV --row {folder}")
    verified, refused = [], []
    for path in files:
        try:
            verified.append(trusted(path))
        except PalaverError as error:
            refused.append(f"{path.name} is refused: {error}")
    return BoardRows(tuple(verified), tuple(refused))


def complaint(record: Mapping[str, Any]) -> str:
    """Return the reason to refuse a row, "" if it has all that is needed to reproduce it."""
    seed, commit = record.get("seed"), record.get("commit") or record.get("wheel")
    focal = record.get("focal")
    bounds = [record.get("low"), record.get("high")]
    bounds += [focal.get("low"), focal.get("high")] if isinstance(focal, dict) else []
    max_return = record.get("max_reward")
    if not isinstance(seed, int) or isinstance(seed, bool):
        return "it names no seed, so that it cannot be measured again"
    if not all(isinstance(bound, int | float) for bound in bounds):
        return "it has no interval; evaluate two tasks or more"
    if not isinstance(commit, str) or not commit:
        return "it names neither a commit nor a wheel; measure it in a git checkout, or with Palaver installed by pip"
    if commit.endswith("+"):
        return f"its code differed from {commit[:-1]}; commit or undo the changes and measure it again"
    if not isinstance(max_return, int | float) or not max_return > 0:
        return "it does not say what can be earned at most"
    return ""


def trusted(path: Path) -> VerifiedRow:
    """Read a row and its episodes, which must agree.

    Raises:
        ConfigError: it would be refused on a leaderboard.
    """
    record = rows.read_record(path)
    if problem := complaint(record):
        raise ConfigError(problem)
    row = rows.parse(record, "it is no result row")
    spec(row.env)
    episodes, sha256 = rows.read_episodes(path.with_name(Path(row.episodes.file).name))
    if sha256 != row.episodes.sha256 or len(episodes) != row.episodes.n:
        raise ConfigError(f"{row.episodes.file!r} does not hold the episodes that it was made of")
    summary = summarize(episodes)
    stated = {"mean": row.mean, "lower end": row.low, "upper end": row.high, **row.by_task}
    found = {"mean": summary.mean, "lower end": summary.low, "upper end": summary.high, **summary.by_task}
    for what, value in found.items():
        if not _close(claim := stated.pop(what, None), value):
            raise ConfigError(f"it states {claim} where its episodes give {value}: {one_line(what, 80)}")
    if stated:
        raise ConfigError(f"it states the task {one_line(next(iter(stated)), 80)!r}, of which it has no episode")
    return VerifiedRow(row, path, (episodes[0], episodes[len(episodes) // 2]), _counted(row, episodes))


def _close(stated: float | None, found: float | None) -> bool:
    if stated is None or found is None:
        return stated is found
    return math.isclose(stated, found, rel_tol=1e-9, abs_tol=1e-9)


def ranks(verified: Sequence[VerifiedRow]) -> dict[str, tuple[int, int]]:
    """Name of a row -> best and worst rank among rows of the same tasks and settings.

    A row precedes another for certain if its interval lies above the other's.
    """
    groups: dict[str, list[VerifiedRow]] = defaultdict(list)
    for one in verified:
        row = one.row
        groups[repr((one.what, sorted(row.keywords.items()), row.seed, row.samples, sorted(row.by_task)))].append(one)
    return {
        one.row.name: (
            1 + sum(other.low > one.high for other in group),
            len(group) - sum(other.high < one.low for other in group),
        )
        for group in groups.values()
        for one in group
    }


def _counted(row: EvaluationResult, episodes: list[Episode]) -> Answers:
    """Count the illegal answers in the episodes, which are in the order of the seatings.

    Raises:
        ConfigError: the row has other counts.
    """
    seats = row.focal.seatings if row.focal else ()
    size = len(episodes) // max(1, len(seats))
    counts = answered([episodes[start : start + size] for start in range(0, len(episodes), size)], seats)
    if row.answers not in (None, counts):
        raise ConfigError(
            f"it says {row.answers}, but its episodes hold {counts.illegal} illegal of {counts.due} answers"
        )
    return counts
