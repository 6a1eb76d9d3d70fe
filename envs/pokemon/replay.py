"""A battle as text, and as a page that replays it in a browser without any network."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from palaver.envs.pokemon.showdown.pool import shared_pool
from palaver.text import clean, fill

MAJOR = frozenset({"move", "switch", "drag", "replace", "cant", "faint", "win", "tie", "-weather", "detailschange"})


def text(title: str, lines: Sequence[str]) -> str:
    """The battle as an onlooker reads it, safe to print."""
    paragraphs = [f"[{title}]"]
    turns = _turns(lines)
    for (turn, _), event_text in zip(turns, event_texts([turn_lines for _, turn_lines in turns], ""), strict=True):
        paragraphs.append(f"Turn {turn}" if turn else "Start")
        paragraphs += [f"  {line}" for line in event_text.splitlines()]
    picture = "\n".join(paragraphs)
    return clean(picture, len(picture))


def page(title: str, lines: Sequence[str]) -> str:
    """One HTML file: both teams with their hit points at every line, play, pause and a slider."""
    shown = json.dumps(frames(lines)).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    template = resources.files("palaver.envs.pokemon").joinpath("replay.html.j2").read_text(encoding="utf-8")
    return fill(template, {"title": html.escape(title), "frames": shown})


def _turns(lines: Sequence[str]) -> list[tuple[int, list[str]]]:
    turns: list[tuple[int, list[str]]] = [(0, [])]
    for line in lines:
        parts = line.split("|")
        if len(parts) > 2 and parts[1] == "turn":
            turns.append((int(parts[2]), []))
        elif len(parts) > 1 and (parts[1].startswith("-") or parts[1] in MAJOR):
            turns[-1][1].append(line)
    return turns


def frames(lines: Sequence[str]) -> list[dict[str, Any]]:
    """State of both teams after each event of a log, each event once.

    All hit points are in per cent, also where a log has points: a battle has one scale.

    Returns:
        For each event `turn`, `text`, and side -> its Pokémon that were in battle so far, each as [name, share of its
        hit points, status, is active, boosts as pairs of stat and stage].
    """
    teams: dict[str, dict[str, _Shown]] = {side: {} for side in SIDES}
    shown: list[dict[str, Any]] = []
    turn_lines = [(turn, line) for turn, part_lines in _turns(lines) for line in part_lines]
    texts = event_texts([[_in_percent(line)] for _, line in turn_lines], "")
    for (turn, line), event_text in zip(turn_lines, texts, strict=True):
        _follow(teams, line)
        if event_text:
            now = {side: [mon.listed(name) for name, mon in team.items()] for side, team in teams.items()}
            shown.append({"turn": turn, "text": event_text, **now})
    return shown


SIDES = ("p1", "p2")
_CONDITION = {"switch": (4,), "drag": (4,), "replace": (4,), "-damage": (3,), "-heal": (3,), "-sethp": (3, 5)}
_POINTS = re.compile(r"(\d+)(?:/(\d+))?(?: (\w+))?")


@dataclass
class _Shown:
    part: float = 1.0
    status: str = ""
    active: bool = False
    boosts: dict[str, int] = field(default_factory=dict)

    def listed(self, name: str) -> list[Any]:
        return [name, self.part, self.status, self.active, [[stat, n] for stat, n in self.boosts.items() if n]]

    def take(self, condition: str) -> None:
        found = _POINTS.fullmatch(condition)
        if found:
            self.part = _part(found)
            self.status = "" if found[3] in (None, "fnt") else found[3]


def _part(found: re.Match[str]) -> float:
    hp, max_hp = int(found[1]), int(found[2] or 0)
    return hp / max_hp if max_hp else 0.0


def _in_percent(line: str) -> str:
    parts = line.split("|")
    for at in _CONDITION.get(parts[1], ()):
        found = _POINTS.fullmatch(parts[at]) if len(parts) > at else None
        if found:
            status = f" {found[3]}" if found[3] and found[3] != "fnt" else ""
            parts[at] = f"{math.ceil(100 * _part(found))} %{status}"
    return "|".join(parts)


def _follow(teams: Mapping[str, dict[str, _Shown]], line: str) -> None:
    parts = line.split("|")
    command, given = parts[1], parts[2:]
    if command == "-clearallboost":
        for team in teams.values():
            for shown in team.values():
                shown.boosts.clear()
        return
    side, name = _ident(given[0]) if given else ("", "")
    if side not in teams:
        return
    if command in ("switch", "drag", "replace"):
        _enter(teams[side], name, command == "replace" or any("Baton Pass" in part for part in given[3:]))
    for at in _CONDITION.get(command, ()):
        owner, known = _ident(parts[at - 1]) if command == "-sethp" and len(parts) > at else (side, name)
        if len(parts) > at and known in teams.get(owner, {}):
            teams[owner][known].take(parts[at])
    mon = teams[side].get(name)
    if mon is None:
        return
    if command == "faint":
        mon.part, mon.status = 0.0, ""
        mon.boosts.clear()
    elif command == "-status" and len(given) > 1:
        mon.status = given[1]
    elif command == "-curestatus":
        mon.status = ""
    elif command == "-cureteam":
        for mate in teams[side].values():
            mate.status = ""
    else:
        target = _ident(given[1]) if len(given) > 1 else ("", "")
        _boost(mon, teams.get(target[0], {}).get(target[1]), command, given)


def _ident(text: str) -> tuple[str, str]:
    """Side and name of a Pokémon as the protocol writes both."""
    side, _, name = text.partition(": ")
    return side[:2], name


def _enter(team: dict[str, _Shown], name: str, keeps: bool) -> None:
    """Send a Pokémon in; it keeps the boosts of the one before after Baton Pass."""
    boosts: dict[str, int] = {}
    for mate in team.values():
        if mate.active and keeps:
            boosts = dict(mate.boosts)
        mate.active = False
        mate.boosts.clear()
    mon = team.setdefault(name, _Shown())
    mon.active, mon.boosts = True, boosts


def _boost(mon: _Shown, target: _Shown | None, command: str, given: Sequence[str]) -> None:
    """Follow a change of stat stages; other commands change nothing."""
    if command in ("-boost", "-unboost", "-setboost"):
        stat, amount = given[1], int(given[2])
        before = 0 if command == "-setboost" else mon.boosts.get(stat, 0)
        mon.boosts[stat] = max(-6, min(6, before + (-amount if command == "-unboost" else amount)))
    elif command == "-clearboost":
        mon.boosts.clear()
    elif command in ("-clearnegativeboost", "-clearpositiveboost"):
        sign = 1 if command == "-clearnegativeboost" else -1
        mon.boosts = {stat: n for stat, n in mon.boosts.items() if n * sign > 0}
    elif command == "-invertboost":
        mon.boosts = {stat: -n for stat, n in mon.boosts.items()}
    elif command in ("-copyboost", "-transform") and target is not None:
        mon.boosts = dict(target.boosts)
    elif command == "-swapboost" and target is not None:
        named = given[2].split(", ") if len(given) > 2 and not given[2].startswith("[") else []
        for stat in named or {**mon.boosts, **target.boosts}:
            mine, other = mon.boosts.get(stat, 0), target.boosts.get(stat, 0)
            mon.boosts[stat], target.boosts[stat] = other, mine


def summaries(groups: Sequence[Sequence[str]]) -> list[str]:
    """A spectator's text for each part of a log, with hit points in per cent."""
    shown = [[_in_percent(line) for _, lines in _turns(group) for line in lines] for group in groups]
    return event_texts(shown, "")


def event_texts(groups: Sequence[Sequence[str]], me: str) -> list[str]:
    """A text for each group of lines.

    It has one line for every move, switch or the like, followed by its effects.

    Args:
        groups: lines of the protocol.
        me: the side that reads them; empty for a spectator.

    Raises:
        ShowdownError: no Node.js, or no simulator; the message says what to do.
    """
    texts: list[str] = shared_pool().request([["events", [list(group) for group in groups], me]])[0]
    return texts
