"""Battles for the viewer: trajectories as episodes, and the field parsed from observations.

All functions are pure.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from palaver.core import Completion
from palaver.episodes import Episode, Turn
from palaver.trainers.trajectories.reader import Reader
from palaver.trainers.trajectories.record import Decision, Trajectory

ENV = "pokemon_v1"
_OWN = re.compile(r"^- (\S+) [^;\n]*; (\d+)/(\d+)[^\n]*; ACTIVE", re.MULTILINE)
_THEIR = re.compile(r"^- (\S+) [^;\n]*; (\d+)%[^\n]*; ACTIVE", re.MULTILINE)
_STORY = re.compile(
    r"(?:^What happened:\n|\A[^\n]* The battle is over [^\n]*\n)(.*?)(?=^Choose |\Z)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class ActivePokemon:
    """Active Pokémon as observed by a side: names, and fractions of the hit points from 0 to 1."""

    own_name: str
    own_points: float
    their: str
    their_points: float


@dataclass(frozen=True, slots=True)
class RecordedBattle(Episode):
    """A recorded battle of an arena, with what is needed to play it again.

    Attributes:
        format: of Pokémon Showdown.
        teams: the source of teams.
        task_id: id of the match-up; `task` names the battle too.
    """

    format: str = ""
    teams: str = ""
    task_id: str = ""


def field(observation: str) -> ActivePokemon | None:
    """Parse the active Pokémon from a side's observation; None if that fails."""
    ours, their = _OWN.search(observation), _THEIR.search(observation)
    if ours is None or their is None:
        return None
    return ActivePokemon(
        ours[1], min(1.0, int(ours[2]) / max(1, int(ours[3]))), their[1], min(1.0, int(their[2]) / 100)
    )


def events(observation: str) -> str:
    """Events since the last choice, as their observer reads them; "" if there are none.

    Hit points are in per cent: of its own team a side reads points.
    """
    match = _STORY.search(observation)
    return _POINTS.sub(_percent, match[1].strip()) if match else ""


def story(observations: Mapping[str, str], sides: Sequence[str]) -> str:
    """Events since the last choice, by the names of the sides; "" without observations.

    Args:
        observations: side -> its observation, if it has one.
        sides: names of both sides.
    """
    for reader_side, observation in observations.items():
        if text := events(observation):
            opponent = next((side for side in sides if side != reader_side), "the other")
            return _named(text, {"your": reader_side, "their": opponent})
    return ""


_POINTS = re.compile(r"\b(\d{1,4})/(\d{1,4})\b|\b0 fnt\b")


def _percent(points: re.Match[str]) -> str:
    return "0 %" if points[1] is None else f"{math.ceil(100 * int(points[1]) / max(1, int(points[2])))} %"


def _named(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b(your|their)\b", lambda match: names[match[1].lower()], text, flags=re.IGNORECASE)


def unread_battles(folder: Path) -> Iterator[Callable[[], Episode]]:
    """Yield a reader for each battle of a folder, with both sides together.

    Raises:
        CheckpointError: it holds no battles; from the call of a reader: the battle is damaged.
    """
    reader = Reader(folder)
    places: dict[str, list[int]] = defaultdict(list)
    for index, entry in enumerate(reader.entries):
        places[entry.battle].append(index)
    for indices in places.values():
        yield partial(_read, reader, indices)


def _read(reader: Reader, places: Sequence[int]) -> Episode:
    return episode([reader[index] for index in places])


def episode(sides: Sequence[Trajectory]) -> Episode:
    """Merge the trajectories of one battle into an episode.

    The decisions of one simulator turn form one turn.
    """
    moments: dict[tuple[int, int], dict[str, Decision]] = defaultdict(dict)
    for side in sides:
        seen: dict[int, int] = defaultdict(int)
        for decision in side.decisions:
            moments[decision.turn, seen[decision.turn]][side.side] = decision
            seen[decision.turn] += 1
    first = sides[0]
    team = {first.side: first.player, ("p2" if first.side == "p1" else "p1"): first.opponent}
    agents = sorted(team)
    turns = [
        _turn(index, first.battle, agents, moments[moment], moment[0]) for index, moment in enumerate(sorted(moments))
    ]
    outcome = (1 if first.side == "p1" else -1) * (2 * first.result - 1)
    turns[-1] = replace(turns[-1], metrics={**turns[-1].metrics, "outcome": outcome})
    named, players = f"{first.task} ({first.battle})", {a: team[a] for a in agents}
    return RecordedBattle(
        ENV, named, first.seed, tuple(turns), "terminated", players, first.format, first.teamset, first.task
    )


def _turn(index: int, battle: str, agents: Sequence[str], decisions: Mapping[str, Decision], turn_number: int) -> Turn:
    return Turn(
        index=index,
        node=f"{battle}/{index}",
        parent=f"{battle}/{index - 1}" if index else "",
        group=battle,
        choice=dict.fromkeys(decisions, 0),
        observations={side: _seen(decision) for side, decision in decisions.items()},
        completions={side: Completion(decision.requested or decision.executed) for side, decision in decisions.items()},
        rewards={side: decisions[side].reward if side in decisions else 0.0 for side in agents},
        components={},
        metrics={"turn": float(turn_number)},
        legal={side: decision.legal for side, decision in decisions.items()},
        executed={side: decision.executed for side, decision in decisions.items()},
    )


def _seen(decision: Decision) -> str:
    """The text if it was saved, else the input words of a net."""
    words = " ".join(word for word in decision.words if word)
    return (
        decision.text
        or f"The text was not recorded (tournament.record_text=true keeps it). The words of its vector: {words}"
    )
