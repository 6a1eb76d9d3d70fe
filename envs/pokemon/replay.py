"""A battle as text, and as a page that replays it in a browser without any network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib import resources

from palaver.envs.pokemon.showdown.pool import shared_pool
from palaver.text import clean

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
    frames = json.dumps(_frames(lines)).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    filled = {"title": html.escape(title), "frames": frames}
    template = resources.files("palaver.envs.pokemon").joinpath("replay.html.j2").read_text(encoding="utf-8")
    return re.sub(r"\{\{ (title|frames) \}\}", lambda match: filled[match[1]], template)


def _turns(lines: Sequence[str]) -> list[tuple[int, list[str]]]:
    turns: list[tuple[int, list[str]]] = [(0, [])]
    for line in lines:
        parts = line.split("|")
        if len(parts) > 2 and parts[1] == "turn":
            turns.append((int(parts[2]), []))
        elif len(parts) > 1 and (parts[1].startswith("-") or parts[1] in MAJOR):
            turns[-1][1].append(line)
    return turns


def _frames(lines: Sequence[str]) -> list[dict[str, object]]:
    """State after each line: turn, text, and side -> Pokémon -> status.

    A status is [part of its hit points, status, is active].
    """
    teams: dict[str, dict[str, list[object]]] = {"p1": {}, "p2": {}}
    frames: list[dict[str, object]] = []
    turn_lines = [(turn, line) for turn, part_lines in _turns(lines) for line in part_lines]
    for (turn, line), event_text in zip(turn_lines, event_texts([[line] for _, line in turn_lines], ""), strict=True):
        _follow(teams, line)
        if event_text:
            now = {side: [[name, *state] for name, state in team.items()] for side, team in teams.items()}
            frames.append({"turn": turn, "text": event_text, **now})
    return frames


def _follow(teams: dict[str, dict[str, list[object]]], line: str) -> None:
    parts = line.split("|")
    side, _, name = parts[2].partition(": ") if len(parts) > 2 else ("", "", "")
    team = teams.get(side[:2])
    if team is None:
        return
    if parts[1] in ("switch", "drag", "replace"):
        for team_mon in team.values():
            team_mon[2] = False
        team.setdefault(name, [1.0, "", False])[2] = True
    mon = team.get(name)
    if mon is None:
        return
    at = {"switch": 4, "drag": 4, "-damage": 3, "-heal": 3, "-sethp": 3}.get(parts[1])
    if parts[1] == "faint":
        mon[:2] = [0.0, ""]
    elif parts[1] == "-status":
        mon[1] = parts[3]
    elif parts[1] == "-curestatus":
        mon[1] = ""
    elif at is not None and len(parts) > at:
        points, _, status = parts[at].partition(" ")
        hp, _, max_hp = points.partition("/")
        if hp.isdigit():
            mon[0] = int(hp) / int(max_hp) if max_hp.isdigit() and int(max_hp) else 0.0
            mon[1] = "" if status == "fnt" else status


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
