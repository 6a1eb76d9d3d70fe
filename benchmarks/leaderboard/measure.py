"""Evaluation of the board in a working folder, which is published when complete.

Rows record their commit, and writing into a tracked folder would make the tree differ from it; so rows are collected
in a working folder first. Existing rows are not evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from palaver.agents.make_policy import parse_policy
from palaver.benchmarks.comparison.tuned import refuse
from palaver.benchmarks.evaluation import results as rows
from palaver.benchmarks.evaluation.evaluate import measure, to_row
from palaver.benchmarks.leaderboard.board import BoardEntry, Kind
from palaver.core import ConfigError, did_you_mean
from palaver.trainers.config.loading import load
from palaver.utils.run_folder import locked, replace_bytes

Note = Callable[[str], None]


def measure_all(entries: Sequence[BoardEntry], work: Path, note: Note, only: Collection[str] = ()) -> list[Path]:
    """Return the rows of the board, or of the entries in `only`; evaluate missing ones first.

    Raises:
        ConfigError: `only` names something that is not on the board, or the folder is in use by another process.
        PalaverError: a row cannot be measured.
    """
    known = [entry.what for entry in entries]
    for name in only:
        if name not in known:
            raise ConfigError(f"{name!r} is not on the board.{did_you_mean(name, known)}")
    wanted = [(entry, kind) for entry in entries for kind in entry.rows if not only or entry.what in only]
    paths = []
    with locked(work):
        for index, (entry, kind) in enumerate(wanted, start=1):
            path = work / f"{rows.row_name(entry.what, kind)}{rows.ROW}"
            if not path.is_file():
                note(f"{index} of {len(wanted)}: {entry.what}, {kind}")
                _measure(entry, kind, work, note)
            paths.append(path)
    return paths


def _measure(entry: BoardEntry, kind: Kind, work: Path, note: Note) -> None:
    team = entry.rows[kind]
    policy = parse_policy(team)
    recipe, *overrides = policy.source.split("+")
    if policy.kind == "recipe":
        refuse(load(recipe, overrides), team)
    result, episodes = measure(entry.setting(kind), note)
    if policy.kind == "recipe":  # again, now that the tasks are known
        refuse(load(recipe, overrides), team, [episode.task for episode in episodes])
    to_row(result, episodes, kind, work)


def publish(files: Sequence[Path], folder: Path) -> None:
    """Copy rows and their episodes into `folder`; other files in it are kept.

    Raises:
        ConfigError: a file cannot be read or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in files:
            episodes = path.with_name(rows.load(path).episodes.file)
            for source in (episodes, path):
                replace_bytes(folder / source.name, source.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot publish the rows in {str(folder)!r}: {error}") from error
