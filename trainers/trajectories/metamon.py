"""Human battles: the parsed replays that metamon publishes, as trajectories of ours.

One file is one side of one battle, JSON, most often compressed with lz4: `states` (its `UniversalState` as a dict) and
as many `actions` (0 to 3 moves, 4 to 8 switches, 9 to 12 moves with terastallization, -1 not revealed), the last of
which is none. The name says who played: `ID_RATING_PLAYER_vs_OPPONENT_DATE_RESULT`. Of ours `teamset` becomes
`replays:` and the rating in hundreds, `task` the replay's id, and `side` is always p1. Source: Grigsby et al. 2025,
Human-Level Competitive Pokémon via Scalable Offline Reinforcement Learning with Transformers, and the data set's card.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from palaver.core import ConfigError, need
from palaver.envs.pokemon import vector
from palaver.envs.pokemon.showdown import dex
from palaver.text import one_line
from palaver.trainers.trajectories.files import Writer
from palaver.trainers.trajectories.record import MISSING, Decision, Trajectory
from palaver.trainers.trajectories.replayed import ReplayedBattle, identifier, species_name

SUFFIXES = (".json", ".json.lz4")
RESULTS = {"WIN": 1.0, "LOSS": 0.0}
MOVES, SWITCHES = 4, 5  # places of their actions: moves, then switches, then moves with terastallization
_NAME = re.compile(r"(?P<battle>[^_]+)_(?P<rating>[^_]+)_(?P<names>.+)_(?P<date>[^_]+)_(?P<result>WIN|LOSS)")
_FORMAT = re.compile(r"gen([1-9])[a-z0-9]+")


@dataclass(frozen=True)
class Name:
    """Fields of a file's name.

    If it has more than one `_vs_`, the last one separates the players.

    Attributes:
        battle: the replay's id.
        rating: None for an unrated battle.
        player: whose side it is.
        opponent: the other one.
        result: 1 or 0.
    """

    battle: str
    rating: int | None
    player: str
    opponent: str
    result: float

    @classmethod
    def read(cls, text: str) -> Name:
        """From a file's name without its suffix; names of players may hold underscores.

        Raises:
            ValueError: it is none of theirs.
        """
        match = _NAME.fullmatch(text)
        player, parted, opponent = match["names"].rpartition("_vs_") if match else ("", "", "")
        if not match or not parted:
            raise ValueError("its name is not ID_RATING_PLAYER_vs_OPPONENT_DATE_RESULT")
        rating = int(match["rating"]) if match["rating"].isdecimal() else None
        return cls(match["battle"], rating, player, opponent, RESULTS[match["result"]])


@dataclass
class ImportResult:
    """Result of an import.

    Attributes:
        trajectories: written now.
        known: that the folder held already.
        broken: file -> why it was left out.
    """

    trajectories: int = 0
    known: int = 0
    broken: dict[str, str] = field(default_factory=dict)


def convert(folder: Path, out: Path, report: Callable[[ImportResult], None] = lambda _: None) -> ImportResult:
    """Write every replay of a folder and of those in it.

    The same call resumes an interrupted one.

    Args:
        folder: with their files.
        out: folder of battles; may hold others.
        report: called after every file.

    Raises:
        ConfigError: no such folder, none of their files in it, lz4 is missing, or `out` cannot be written.
        CheckpointError: `out` holds something else.
        ShowdownError: no Node.js, or no simulator, whose tables are needed.
    """
    files = sorted(path for path in folder.rglob("*") if path.name.endswith(SUFFIXES)) if folder.is_dir() else []
    if not files:
        raise ConfigError(f"there are no parsed replays (.json or .json.lz4) in {str(folder)!r}")
    if any(path.suffix == ".lz4" for path in files):
        _lz4()
    dex.load(1)
    done = ImportResult()
    with Writer(out) as writer:
        for path in files:
            name = path.relative_to(folder).as_posix()
            if (battle := f"metamon/{name}") in writer:
                done.known += 1
            else:
                try:
                    trajectory = read(path, battle)
                except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RuntimeError) as error:
                    done.broken[name] = one_line(f"{type(error).__name__}: {error}", 200)
                else:
                    writer.add(trajectory)
                    done.trajectories += 1
            report(done)
    return done


def read(path: Path, battle: str) -> Trajectory:
    """One file.

    Args:
        path: of the file.
        battle: the name that it gets.

    Raises:
        ConfigError: lz4 is missing.
        ValueError, KeyError, TypeError, IndexError, AttributeError, RuntimeError, OSError: it is none of theirs.
    """
    name = Name.read(path.name.removesuffix(".lz4").removesuffix(".json"))
    data = path.read_bytes()
    replay = json.loads(_lz4().decompress(data) if path.suffix == ".lz4" else data)
    states, actions = replay["states"], [int(action) for action in replay["actions"]]
    if len(states) != len(actions) or len(states) < 2:
        raise ValueError(f"it has {len(states)} states and {len(actions)} actions, not two or more of each, alike")
    format = str(states[0]["format"])
    generation = _FORMAT.fullmatch(format)
    if not generation:
        raise ValueError(f"{one_line(format, 40)} is no format of one of the generations")
    decisions = tuple(_decisions(states, actions, name.result, format, dex.load(int(generation[1]))))
    rated = "unrated" if name.rating is None else str(100 * (name.rating // 100))
    return Trajectory(
        battle, format, "p1", name.player, name.opponent, f"replays:{rated}", name.battle, 0, name.result, decisions
    )


def _lz4() -> Any:
    need("a replay ending in .lz4", "replays")
    import lz4.frame

    return lz4.frame


def _decisions(
    states: Sequence[Mapping[str, Any]], actions: Sequence[int], result: float, format: str, tables: dex.Dex
) -> Iterator[Decision]:
    """All states but the last, in which the battle is over."""
    replayed = ReplayedBattle(states, tables)
    memory = vector.FeatureHistory(tables, format)
    for n, action in enumerate(actions[:-1]):
        view = replayed.view(n)
        words, numbers = memory.look(replayed.turn, view)
        slots = list(vector.slots(view))
        label = played(states[n], action)
        slot = slots.index(label) if label and label in slots else MISSING
        mask = np.array([bool(slot_label) for slot_label in slots])
        yield Decision(
            replayed.turn,
            words,
            numbers,
            mask,
            slot,
            label,
            label,
            tuple(slot_label for slot_label, _ in view["legal"]),
            shaped(states[n], states[n + 1], result, n + 2 == len(states)),
        )


def played(state: Mapping[str, Any], action: int) -> str:
    """Our words for an action of theirs; "" where it is not known.

    Raises:
        ValueError: the state has no such action.
    """
    if action == MISSING:
        return ""
    moves = sorted(identifier(move["name"]) for move in state["player_active_pokemon"]["moves"][:MOVES])
    bench = sorted(state["available_switches"], key=lambda mon: identifier(mon["name"]))
    if MOVES <= action < MOVES + SWITCHES and action - MOVES < len(bench):
        mon = bench[action - MOVES]
        return f"{'switch' if mon['hp_pct'] > 0 else 'revive'} {species_name(mon)}"
    gimmick = action >= MOVES + SWITCHES
    index = action - (MOVES + SWITCHES) * gimmick
    if not 0 <= index < len(moves):
        raise ValueError(f"{action} is no action of a state with {len(moves)} moves and {len(bench)} switches")
    return f"move {moves[index]}{' tera' if gimmick else ''}"


def shaped(before: Mapping[str, Any], after: Mapping[str, Any], result: float, last: bool) -> float:
    """Reward of the step between two states: the default shaped reward.

    As published by Grigsby et al. 2025. r = damage done + hit points gained + (status given - status taken) / 2 +
    removed - lost + 100 (won - defeated). Damage and status given count only while the opponent's Pokémon is the same;
    hit points and status taken compare the active Pokémon with itself. The end is taken from the file's name: states of
    a timeout do not say it.
    """
    now, opposed = after["player_active_pokemon"], after["opponent_active_pokemon"]
    was = next(
        (mon for mon in (before["player_active_pokemon"], *before["available_switches"]) if _same(mon, now)), now
    )
    faced = before["opponent_active_pokemon"] if _same(before["opponent_active_pokemon"], opposed) else opposed
    reward = faced["hp_pct"] - opposed["hp_pct"] + now["hp_pct"] - was["hp_pct"]
    reward += (_fell_ill(faced, opposed) - _fell_ill(was, now)) / 2
    reward += float(before["opponents_remaining"] > after["opponents_remaining"])
    reward -= float(len(before["available_switches"]) > len(after["available_switches"]))
    return float(reward + (200 * result - 100 if last else 0))


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return species_name(one) == species_name(other)


def _fell_ill(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    return float(before["status"] == "nostatus" != after["status"])
