"""Records of finished games, and their file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from palaver.core import CheckpointError, ConfigError
from palaver.text import one_line
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.players import identity
from palaver.utils.run_folder import append_bytes, replace_text

SETTINGS, GAMES = "settings.json", "games.jsonl"


@dataclass(frozen=True)
class PlayerStats:
    """A player's number of decisions, of illegal ones, and milliseconds in one game.

    `illegal` is None if the environment does not report it by agent; the time of a batch is divided evenly.
    """

    decisions: int
    illegal: int | None
    ms: float


@dataclass(frozen=True)
class GameResult:
    """A game and its end.

    Attributes:
        game: the game.
        task: its task.
        score: score of `game.first`: 1, 0.5 or 0.
        turns: number of turns.
        stop: `truncated` if an outer limit ended it.
        did: decisions of `game.first` and of `game.second`.
        seconds: its share of the computing time of games that advance together.
        failed: reason why it does not count, "" if it counts. A failed game is played again on resuming.
    """

    game: GameSpec
    task: str
    score: float
    turns: int
    stop: Literal["terminated", "truncated"]
    did: tuple[PlayerStats, PlayerStats]
    seconds: float
    failed: str = ""

    def line(self) -> str:
        """Return a line of JSON."""
        outcome = {name: value for name, value in asdict(self).items() if name != "game"}
        return json.dumps({**self.game._asdict(), **outcome}) + "\n"

    @classmethod
    def read(cls, line: str) -> GameResult:
        """Parse what `line` returned.

        Raises:
            ValueError, TypeError, KeyError: it is something else.
        """
        values: dict[str, Any] = json.loads(line)
        game = GameSpec(*(values.pop(name) for name in GameSpec._fields))
        first, second = (PlayerStats(**share) for share in values.pop("did"))
        return cls(game, did=(first, second), **values)


def prepare(settings: Mapping[str, Any], folder: Path, resume: bool) -> list[GameResult]:
    """Prepare the folder of an arena; return the valid games that it already holds.

    Players, team sets and battles may have been added since; finished games must be of the same settings.

    Args:
        settings: as `describe` returns them.
        folder: of the arena.
        resume: continue with its games.

    Raises:
        ConfigError: it holds games without `resume`, or those of other settings.
        CheckpointError: its files are something else.
    """
    settings_file, results = folder / SETTINGS, read_games(folder / GAMES)
    before = read_settings(folder) if results else {}
    if before and not resume:
        raise ConfigError(f"{str(folder)!r} already holds an arena; go on with --resume, or choose another --out")
    for key, value in settings.items():
        if key == "players":
            changed = next((k for k, v in value.items() if before.get(key, {}).get(k, v) != v), "")
            if changed:
                raise ConfigError(
                    f"{str(folder)!r} holds games of another {changed!r}: {before[key][changed]}, not "
                    f"{value[changed]}; give it another name, or choose another --out"
                )
        elif before and before.get(key) != value:
            raise ConfigError(
                f"{str(folder)!r} holds games of other settings: {key} was {one_line(before.get(key), 80)}, "
                f"not {one_line(value, 80)}; choose another --out"
            )
    try:
        players = {**before.get("players", {}), **settings["players"]}
        replace_text(settings_file, json.dumps({**settings, "players": players}, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write {str(error.filename or folder)!r}: {error.strerror}") from error
    return results


def describe(setting: TournamentConfig) -> dict[str, Any]:
    """Settings that must be equal for games to be counted together, as plain data."""
    values = {
        "env": setting.spec.id,
        "keywords": dict(setting.keywords),
        "seed": setting.seed,
        "sampling": asdict(setting.sampling),
        "dtype": setting.options.dtype,
        "players": {label: identity(name) for label, name in setting.players.items()},
    }
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the settings that `prepare` wrote.

    Raises:
        CheckpointError: it is not there, or is something else.
    """
    path = folder / SETTINGS
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict) or not {"env", "keywords", "players", "seed"} <= set(values):
            raise ValueError("it has no env, keywords, players and seed")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{str(path)!r} holds no settings of an arena: {one_line(error)}") from error
    return values


def read_games(path: Path) -> list[GameResult]:
    """Read the valid games of a file, in order.

    Duplicates and a truncated last line are dropped.

    Raises:
        CheckpointError: a complete line is not a game.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1] if path.exists() else []
    results: dict[GameSpec, GameResult] = {}
    for line_number, line in enumerate(lines, start=1):
        try:
            played = GameResult.read(line)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CheckpointError(
                f"{str(path)!r}, line {line_number}, is no game of an arena: {one_line(error)}"
            ) from error
        if not played.failed:
            results.setdefault(played.game, played)
    return list(results.values())


class Log:
    """Log of games, one line each, written unbuffered; a truncated last line is removed first.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / GAMES
        try:
            self.file = path.open("a+b", buffering=0)
            self.file.seek(0)
            self.file.truncate((self.file.read() or b"").rfind(b"\n") + 1)
        except OSError as error:
            raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}") from error

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def add(self, played: GameResult) -> None:
        """Append a line; on a full disk the file is unchanged.

        Raises:
            OSError: it cannot be written.
        """
        append_bytes(self.file, played.line().encode())
