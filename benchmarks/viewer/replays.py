"""Battles played again by their seeds, for the viewer's replays."""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from palaver.benchmarks.viewer import battles
from palaver.benchmarks.viewer.album import Album
from palaver.benchmarks.viewer.battles import RecordedBattle
from palaver.benchmarks.viewer.extras import Stage
from palaver.core import ConfigError, PalaverError
from palaver.envs.base.wrappers import own_env
from palaver.envs.pokemon import replay
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import SIDES, Battle, Side
from palaver.episodes import Episode
from palaver.text import one_line
from palaver.trainers.rollout.branches import start
from palaver.trainers.rollout.episodes import text_env

MAX_BATTLES, MAX_FAILED = 300, 8  # replays of a page, about 0.1 s each; failed ones, after which no more are tried
_FORMAT = re.compile(r"(gen\d\w{1,40})[. ]")


class BattleReplay(NamedTuple):
    """A battle played again.

    Attributes:
        lines: the simulator's log.
        before: row of the episode -> number of lines before it.
        winner: `p1`, `p2`, or "": a tie, or a battle that was cut.
    """

    lines: list[str]
    before: Mapping[int, int]
    winner: str


def add_replays(album: Album, stage: Stage, max_battles: int = MAX_BATTLES) -> list[str]:
    """Add a replay to each battle of the page; return reasons for missing ones."""
    notes: list[str] = []
    played = 0
    for entry, episode in zip(album.episodes, album.records, strict=True):
        if episode.env != battles.ENV or not episode.turns or len(notes) >= MAX_FAILED:
            continue
        if played == max_battles:
            notes.append(f"the first {max_battles} battles have replays, the others have none")
            break
        try:
            env = environment(stage, entry["kind"], episode)
            found = again(env, episode)
        except PalaverError as error:
            notes.append(f"no replay of {one_line(episode.task, 80)}: {one_line(error)}")
            continue
        played += 1
        album.add_replay(entry, packed(replay.frames(found.lines)), found.winner)
        _tell(album, entry, found)
    return list(Counter(notes))[:4]


def _tell(album: Album, entry: Mapping[str, Any], found: BattleReplay) -> None:
    """Replace the events of the rows, which the sides observed each in its own numbers."""
    ends = [found.before.get(row, len(found.lines)) for row in range(1, len(entry["turns"]))] + [len(found.lines)]
    starts = [found.before.get(0, 0), *ends[:-1]]
    groups = [found.lines[a:b] for a, b in zip(starts, ends, strict=True)]
    for turn, text in zip(entry["turns"], replay.summaries(groups), strict=True):
        turn.pop("story", None)
        if text:
            turn["story"] = album.text(text)


def environment(stage: Stage, kind: str, episode: Episode) -> PokemonEnv:
    """Environment of a battle: of the run, else by the format and teams that the record names.

    Raises:
        PalaverError: there is no such format or team, or no simulator.
    """
    if isinstance(episode, RecordedBattle):
        return _recorded(episode.format, episode.teams)
    env = stage(kind, episode.env)
    env = own_env(env)
    text = next((str(text) for text in episode.turns[0].observations.values()), "")
    named = _FORMAT.match(text)
    if not isinstance(env, PokemonEnv) or (named and named[1] != env.format):
        return _recorded(named[1] if named else "gen1ou", "sample")
    return env


@functools.cache
def _recorded(format: str, teams: str) -> PokemonEnv:
    if not re.match(r"(sample|generated)\b", teams) and not Path(teams.partition(":")[0]).is_dir():
        raise ConfigError(f"its teams {one_line(teams, 80)!r} are not here")
    return cast("PokemonEnv", text_env("pokemon-v1", {"format": format, "teams": teams, "observation": "vector"}))


def again(env: PokemonEnv, episode: Episode) -> BattleReplay:
    """Play a battle again with its seed and the actions that were executed.

    Every side's decisions are taken in their order, and the actions on offer must be those of the record.

    Args:
        env: with the format and teams of the battle; forked before use.
        episode: as recorded; texts are not needed.

    Raises:
        ConfigError: the battle does not go as recorded.
        TaskError: the environment has no such task.
    """
    with contextlib.closing(env.fork()) as stand_in:
        start(stand_in, episode.task_id if isinstance(episode, RecordedBattle) else episode.task, episode.seed)
        assert stand_in.battle is not None
        return _played(stand_in.battle, episode)


def _played(battle: Battle, episode: Episode) -> BattleReplay:
    queues: dict[Side, deque[int]] = {
        side: deque(row for row, turn in enumerate(episode.turns) if side in turn.completions) for side in SIDES
    }
    before: dict[int, int] = {}
    while not battle.ended:
        acting: list[Side] = [side for side in SIDES if battle.legal[side]]
        if not acting or any(not queues[side] for side in acting):
            break
        rows = {side: queues[side].popleft() for side in acting}
        before.setdefault(max(rows.values()), len(battle.log()))
        choices = {side: _choice(battle, episode, side, row) for side, row in rows.items()}
        if not all(choices.values()):
            break  # an answer that forfeited the battle
        battle.choose(choices)
    last = episode.turns[-1]
    outcome = last.metrics.get("outcome", last.rewards.get("p1", 0.0) - last.rewards.get("p2", 0.0))
    winner = "p1" if outcome > 0 else "p2" if outcome < 0 else ""
    if any(queues.values()) or (battle.ended and battle.winner != winner):
        raise ConfigError("it does not end as recorded; the teams or the simulator have changed")
    return BattleReplay(battle.log(), before, winner)


def _choice(battle: Battle, episode: Episode, side: Side, row: int) -> str:
    """The simulator's words for the executed action; "" for a forfeit."""
    turn = episode.turns[row]
    action = turn.executed.get(side, turn.completions[side].text.strip())
    legal = battle.legal[side]
    if (side in turn.legal and set(turn.legal[side]) != set(legal)) or (action and action not in legal):
        raise ConfigError(f"{side} had other actions in turn {row + 1}; the teams or the simulator have changed")
    return legal[action] if action else ""


def packed(frames: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Frames as changes: [turn, text, [[side, place in the team, its state], ...]] of each."""
    packed_frames: list[list[Any]] = []
    was: list[list[Any]] = [[], []]
    for frame in frames:
        changes = [
            [n, place, mon]
            for n, side in enumerate(SIDES)
            for place, mon in enumerate(frame[side])
            if place >= len(was[n]) or was[n][place] != mon
        ]
        packed_frames.append([frame["turn"], frame["text"], changes])
        was = [frame[side] for side in SIDES]
    return packed_frames
