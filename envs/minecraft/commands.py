"""Parse an agent's text into commands and the reasons against others; carry them out.

The grammar is that of CoMLRL's StrBuild and HouseBuild (OpenMLRL/LLM_Collab_Minecraft): of a text with a pair of
markdown fences only what the first pair encloses counts; every line is a command, less its bullet or number, with or
without `/`. A text is never evaluated: what is no command is rejected with a reason. Later commands overwrite earlier
ones.

A line is plain if it is a command in its usual form: the verb with its `/`, coordinates of one digit each, and the name
of a known block, parted by single spaces. Up to the block all such lines are equally long, and numpy reads them as one
table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palaver.envs.minecraft.world import AIR, Box, Cells
from palaver.text import one_line

FENCE = "```"
PREFIX = "minecraft:"
COORDINATES = {"fill": 6, "setblock": 3}
USAGE = {"fill": "/fill x1 y1 z1 x2 y2 z2 block", "setblock": "/setblock x y z block"}
SHOWN = 60  # characters of a word that a reason repeats
_LANGUAGE = re.compile(r"[A-Za-z0-9_-]+\s*\n")
_BULLETS = "-*"
_BULLET = re.compile(r"^(?:[-*]+|\d+[.)])\s*")
_WHOLES = re.compile(r"[+-]?[0-9]{1,9}(?: [+-]?[0-9]{1,9})*")

Verb = Literal["fill", "setblock"]
Boxes: TypeAlias = "NDArray[np.intp]"
Placing = tuple[int, int, int, int, int, int, int]  # the lowest corner, the highest corner, the code
Kept: TypeAlias = "slice | list[int] | Boxes"  # places of lines
KILL = "/kill"
NOWHERE = -1  # the code of a cell that no command reached
AT_ONCE = 2_000_000  # cells times commands that are looked at in one go
ParsedLines: TypeAlias = "tuple[NDArray[np.uint8], list[int]]"  # coordinates, (numbers, lines), and codes


class RejectedLine(NamedTuple):
    """A line that is no legal command, and why."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Terms:
    """Commands that one agent may give in one turn.

    Attributes:
        verb: `fill` or `setblock`.
        world: where.
        codes: the blocks it may place, by name, `air` included.
        max_commands: commands.
        limits: code -> most cells that its commands may fill with that block; a code left out has no limit.
        kill: whether `/kill` is a command.
    """

    verb: Verb
    world: Box
    codes: Mapping[str, int]
    max_commands: int
    limits: Mapping[int, int] = field(default_factory=dict)
    kill: bool = False


@dataclass(frozen=True, slots=True)
class ParsedCommands:
    """The commands of one text.

    Attributes:
        boxes: (K, 6), of each placing the lowest and the highest corner, counted from the corner of the world.
        codes: (K,), its block.
        lines: of the text.
        faults: place of a line that is no legal command -> why.
        kills: number of `/kill` commands.
        used: code -> cells filled with a block that has a limit.
    """

    boxes: Boxes
    codes: Boxes
    lines: Sequence[str]
    faults: Mapping[int, str]
    kills: int
    used: Mapping[int, int]

    def rejected(self, max_lines: int | None = None) -> list[RejectedLine]:
        """The first lines that are no legal commands, all if None."""
        return [RejectedLine(self.lines[index], self.faults[index]) for index in sorted(self.faults)[:max_lines]]


def shares(max_commands: int, agents: int) -> tuple[int, ...]:
    """Split `max_commands` commands equally, the remainder to the first.

    Each agent has at least one.

    >>> shares(301, 2), shares(1, 2)
    ((151, 150), (2, 1))
    """
    share = max(1, max_commands // agents)
    return (share + max_commands % agents, *[share] * (agents - 1))


def lines_of(text: str) -> list[str]:
    """The lines that may be commands, without bullets, numbers and empty ones.

    >>> lines_of("Sure:\\n```mc\\n1. /kill\\n- fill 0 0 0 1 1 1 stone\\n```\\nDone.")
    ['/kill', 'fill 0 0 0 1 1 1 stone']
    """
    parts = text.split(FENCE, 2)
    if len(parts) == 3:
        inner = parts[1].strip()
        language = _LANGUAGE.match(inner)
        text = inner[language.end() :] if language else inner
    lines = list(filter(None, map(str.strip, text.splitlines())))  # a text may have thousands
    if not any(head in _BULLETS or head.isdecimal() for head in {line[0] for line in lines}):
        return lines
    return [bare for line in lines if (bare := _BULLET.sub("", line, count=1))]


def read(text: str, terms: Terms) -> ParsedCommands:
    """Parse the commands of one agent's text under its terms, in time linear in its length.

    Any text is accepted.
    """
    numbers = COORDINATES[terms.verb]
    lines = text.splitlines()
    faults: dict[int, str] = {}
    kills: list[int] = []
    parsed = read_plain(lines, terms.verb, numbers, terms.codes)
    if parsed is not None:
        table = _table(len(lines), np.s_[:], parsed, terms)
    else:
        lines = lines_of(text)
        usual = [n for n, line in enumerate(lines) if line.startswith(f"/{terms.verb} ")]
        parsed = read_plain([lines[n] for n in usual], terms.verb, numbers, terms.codes)
        table = _table(len(lines), usual, parsed, terms)
    _parse(lines, table, faults, kills, terms)
    used = dict.fromkeys(terms.limits, 0)
    accepted: Kept
    if len(lines) > terms.max_commands:
        accepted, kills = _admit_in_order(table, faults, kills, used, terms)
    else:
        accepted = _admit_together(table, faults, used, terms)
    placings = table.T[accepted]
    if any(terms.world.low):
        placings[:, :6] -= (*terms.world.low, *terms.world.low)
    return ParsedCommands(placings[:, :6], placings[:, 6], lines, faults, len(kills), used)


def _table(count: int, places: slice | list[int], parsed: ParsedLines | None, terms: Terms) -> Boxes:
    """Table (8, lines) of plain commands.

    A column holds the lowest corner, the highest corner, the code, and 1 if placing, else 0.
    """
    table = np.zeros((8, count), dtype=np.intp)
    if parsed is None:
        return table
    digits, known = parsed
    one, second = digits[:3], digits[-3:]
    low, high = np.minimum(one, second), np.maximum(one, second)
    table[:3, places], table[3:6, places], table[6, places] = low, high, known
    (a, b, c), (d, e, f) = terms.world
    inside = (low[0] >= a) & (low[1] >= b) & (low[2] >= c) & (high[0] <= d) & (high[1] <= e) & (high[2] <= f)
    table[7, places] = inside
    return table


def _parse(lines: Sequence[str], table: Boxes, faults: dict[int, str], kills: list[int], terms: Terms) -> None:
    """Read what is not known yet, line by line.

    Args:
        lines: all.
        table: takes the placings.
        faults: takes the place of each line that is no command, and why.
        kills: takes the places of kills.
        terms: of the agent.
    """
    for index in np.flatnonzero(table[7] == 0).tolist():
        parsed = parse_line(lines[index], terms)
        if parsed == KILL:
            kills.append(index)
        elif isinstance(parsed, str):
            faults[index] = parsed
        elif parsed is not None:
            table[:, index] = (*parsed, 1)


def _admit_in_order(
    table: Boxes, faults: dict[int, str], kills: list[int], used: dict[int, int], terms: Terms
) -> tuple[list[int], list[int]]:
    """The places of the placings and kills that all limits allow, line by line.

    The others are added to `faults`.
    """
    accepted: list[int] = []
    killed: list[int] = []
    deadly = frozenset(kills)
    limits = _limits(terms)
    for index, (a, b, c, d, e, f, code, placing) in enumerate(table.T.tolist()):
        if index not in faults and index not in deadly and not placing:
            continue  # a lone "/" is no command
        if len(accepted) + len(killed) >= terms.max_commands:
            faults[index] = f"only {terms.max_commands} commands are allowed"
        elif index in deadly:
            killed.append(index)
        elif placing:
            volume = (d - a + 1) * (e - b + 1) * (f - c + 1)
            max_volume, reason = limits.get(code, (used.get(code, 0) + volume, ""))
            if used.get(code, 0) + volume > max_volume:
                faults[index] = reason
            else:
                used[code] = used.get(code, 0) + volume
                accepted.append(index)
    return accepted, killed


def _admit_together(table: Boxes, faults: dict[int, str], used: dict[int, int], terms: Terms) -> Kept:
    """Limits where there are no more lines than commands.

    Only the limits of blocks need to be checked then.
    """
    if terms.limits:
        x, y, z = table[3:6] - table[:3] + 1
        volumes = x * y * z * table[7]
        totals = np.bincount(table[6], volumes, max(terms.codes.values()) + 1)
        if any(totals[code] > max_volume for code, max_volume in terms.limits.items()):
            return _afford(table, volumes.tolist(), faults, used, terms)
        used.update((code, int(totals[code])) for code in terms.limits)
    return np.s_[:] if table[7].all() else np.flatnonzero(table[7])


def _afford(table: Boxes, volumes: list[int], faults: dict[int, str], used: dict[int, int], terms: Terms) -> list[int]:
    """Places of the placings that the limits of blocks allow.

    `volumes` are 0 where a line is not a command.
    """
    accepted = []
    left = [sum(volumes)] * (max(terms.codes.values()) + 1)
    refused: list[list[int]] = [[] for _ in left]
    for code, max_volume in terms.limits.items():
        left[code] = max_volume
    for index, (code, volume) in enumerate(zip(table[6].tolist(), volumes, strict=True)):
        remaining = left[code] - volume
        if remaining < 0:
            refused[code].append(index)
        else:
            left[code] = remaining
            accepted.append(index)
    for code, (_, reason) in _limits(terms).items():
        faults.update(dict.fromkeys(refused[code], reason))
    used.update((code, max_volume - left[code]) for code, max_volume in terms.limits.items())
    return accepted if table[7].all() else [index for index in accepted if table[7, index]]


def _limits(terms: Terms) -> dict[int, tuple[int, str]]:
    """Code -> its limit, and the reason that rejects a command beyond it."""
    names = {code: name for name, code in terms.codes.items()}
    return {
        code: (limit, f"it would pass your limit of {limit} for {names[code]}") for code, limit in terms.limits.items()
    }


def parse_line(line: str, terms: Terms) -> Placing | str | None:
    """Parse one line without its bullet.

    Returns a placing, `KILL`, the reason why it is no command, or None for a lone `/`.
    """
    words = line.removeprefix("/").split()
    if not words:
        return None
    verb = words[0].lower()
    if verb == "kill" and terms.kill:
        return KILL
    if verb != terms.verb:
        return f"the command {_quoted_word(words[0])} is unknown"
    n = COORDINATES[verb]
    if len(words) < n + 2:
        return f"write {USAGE[verb]}"
    numbers = words[1 : n + 1]
    if not _WHOLES.fullmatch(" ".join(numbers)):
        return "coordinates must be absolute whole numbers"
    code = terms.codes.get(block := words[n + 1].removeprefix(PREFIX))
    if code is None:
        return f"the block {_quoted_word(block)} is not yours to place"
    a, b, c, d, e, f = map(int, (numbers * 2)[:6])
    (x1, y1, z1), (x2, y2, z2) = terms.world
    if not (x1 <= a <= x2 and x1 <= d <= x2 and y1 <= b <= y2 and y1 <= e <= y2 and z1 <= c <= z2 and z1 <= f <= z2):
        return "outside of the world"
    if verb == "fill" and len(words) > n + 2:
        return "fill modes are not allowed"
    return min(a, d), min(b, e), min(c, f), max(a, d), max(b, e), max(c, f), code


def _quoted_word(word: str) -> str:
    return repr(one_line(word, SHOWN))


def read_plain(lines: Sequence[str], verb: str, numbers: int, codes: Mapping[str, int]) -> ParsedLines | None:
    """Coordinates, (numbers, lines), and codes of lines; None unless every line is plain.

    Args:
        lines: of any text.
        verb: the command.
        numbers: how many coordinates it has.
        codes: the known blocks.
    """
    pattern = f"/{verb} {'0 ' * numbers}"
    width = len(pattern)
    known = [codes.get(line[width:]) for line in lines]
    heads = "".join([line[:width] for line in lines])
    if not lines or None in known or len(heads) != width * len(lines) or not heads.isascii():
        return None
    columns = np.frombuffer(heads.encode(), dtype=np.uint8).reshape(-1, width).T
    off = columns - np.frombuffer(pattern.encode(), dtype=np.uint8)[:, None]  # where the pattern has a 0 the digit
    digits = off[-2 * numbers :: 2].copy()
    off[-2 * numbers :: 2] = 0
    return None if off.any() or digits.max() > 9 else (digits, cast("list[int]", known))


def carry_out(cells: Cells, owner: Cells, readings: Sequence[ParsedCommands]) -> list[NDArray[np.bool_]]:
    """Change `cells` and `owner` in place by the agents' commands, in the order of `readings`.

    Returns:
        For each agent, True for the cells that hold a block after its own commands alone. Shape of the world.
    """
    commands = sum(len(reading.codes) for reading in readings)
    leave = _at_once if cells.size * commands <= AT_ONCE else _one_by_one
    placed = []
    for agent, visible_boxes in enumerate(leave(cells.shape, readings), start=1):
        holds = visible_boxes > AIR
        np.copyto(cells, visible_boxes, where=visible_boxes != NOWHERE)
        np.copyto(owner, np.where(holds, np.int16(agent), np.int16(0)), where=visible_boxes != NOWHERE)
        placed.append(holds)
    return placed


def _one_by_one(shape: tuple[int, ...], readings: Sequence[ParsedCommands]) -> list[Cells]:
    """Of each agent what its commands leave: codes, `NOWHERE` where none of them reached."""
    left = []
    for reading in readings:
        cells = np.full(shape, NOWHERE, dtype=np.int16)
        for (a, b, c, d, e, f), code in zip(reading.boxes.tolist(), reading.codes.tolist(), strict=True):
            cells[a : d + 1, b : e + 1, c : f + 1] = code
        left.append(cells)
    return left


def _at_once(shape: tuple[int, ...], readings: Sequence[ParsedCommands]) -> list[Cells]:
    """The same in one go over all commands: each cell looks for the newest box that holds it."""
    background = np.array([[0, 0, 0, *shape]])  # behind the oldest box of each agent one that holds everything
    boxes = np.concatenate([array for parsed in readings for array in (parsed.boxes[::-1], background)]).T
    x, y, z = (
        (boxes[axis] <= coordinates) & (coordinates <= boxes[axis + 3])
        for axis, coordinates in enumerate(np.arange(n)[:, None] for n in shape)
    )
    held = x[:, None, None] & (y[:, None] & z)  # (X, Y, Z, commands)
    left, start = [], 0
    for reading in readings:
        codes = np.full(len(reading.codes) + 1, NOWHERE, dtype=np.int16)
        codes[:-1] = reading.codes[::-1]
        left.append(codes[held[..., start : start + len(codes)].argmax(-1)])
        start += len(codes)
    return left
