"""Lines of the simulator's protocol as short sentences for one side."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from palaver.clean import one_line

MAJOR = frozenset({"move", "switch", "drag", "replace", "cant", "faint", "win", "tie", "-weather", "detailschange"})
_IDENT = re.compile(r"^(p[12])[a-c]?: ?(.*)$")
_KEPT = ("[from] ", "[of] ", "[wisher] ", "[upkeep]")
_WORDS = {
    "-crit": "a critical hit", "-supereffective": "super effective", "-resisted": "not very effective",
    "-ohko": "a one-hit knock-out", "-nothing": "nothing happened", "-clearallboost": "all stat changes are gone",
    "tie": "the battle is a tie",
}  # fmt: skip


def told(lines: Sequence[str], me: str) -> str:
    """One text line for every move, switch or the like, with what came of it after semicolons."""
    made: list[str] = []
    for line in lines:
        text = sentence(line, me)
        if not text:
            continue
        if made and line[1 : line.find("|", 1)] not in MAJOR:
            made[-1] += f"; {text}"
        else:
            made.append(text)
    return "\n".join(made)


@functools.lru_cache(maxsize=16_384)
def sentence(line: str, me: str) -> str:
    """What one line says; `me` is the side that hears it, or empty for an onlooker."""
    parts = line.split("|")
    command = parts[1] if len(parts) > 1 else ""
    given = [part for part in parts[2:] if not part.startswith("[")]
    tags = [_tag(part, me) for part in parts[2:] if part.startswith(_KEPT)]
    if command in _WORDS:
        text = _WORDS[command]
    elif command in _TOLD:
        text = _TOLD[command](given, me)
    else:
        text = " ".join([command.lstrip("-"), *(_who(part, me) for part in given)])
    return one_line(" ".join([text, *tags]), 300)


def _tag(part: str, me: str) -> str:
    name, _, rest = part[1:].partition("]")
    return f"({' '.join([name, _who(rest.strip(), me)]).strip()})"


def _who(ident: str, me: str) -> str:
    found = _IDENT.match(ident)
    if not found:
        return ident
    side, name = found.groups()
    owner = side if not me else "your" if side == me else "their"
    if name in ("p1", "p2", ""):
        return f"{owner} side"
    return f"{owner} {name}"


def _at(given: Sequence[str], n: int) -> str:
    return given[n] if len(given) > n else ""


def _move(given: Sequence[str], me: str) -> str:
    target = _at(given, 2)
    text = f"{_who(given[0], me)} used {_at(given, 1)}"
    return f"{text} on {_who(target, me)}" if target and target != given[0] else text


def _enter(how: str) -> Callable[[Sequence[str], str], str]:
    def text(given: Sequence[str], me: str) -> str:
        name = _at(given, 1).split(",")[0]
        shown = f"{_who(given[0], me)}"
        species = "" if shown.endswith(f" {name}") else f" ({name})"
        return f"{shown}{species} {how} {_at(given, 2)}".rstrip()

    return text


def _stage(sign: str) -> Callable[[Sequence[str], str], str]:
    return lambda given, me: f"{_who(given[0], me)} {_at(given, 1)} {sign}{_at(given, 2)}"


def _cant(given: Sequence[str], me: str) -> str:
    why = ", ".join(part for part in given[1:] if part)
    return f"{_who(given[0], me)} could not move ({why})"


def _says(words: str) -> Callable[[Sequence[str], str], str]:
    return lambda given, me: " ".join([_who(_at(given, 0), me), words, *(_who(part, me) for part in given[1:])]).strip()


def _winner(given: Sequence[str], me: str) -> str:
    if not me:
        return f"{given[0]} won"
    return "you won the battle" if given[0] == me else "you lost the battle"


_TOLD: dict[str, Callable[[Sequence[str], str], str]] = {
    "move": _move,
    "switch": _enter("came in"),
    "drag": _enter("was dragged in"),
    "replace": _enter("was the one under the illusion"),
    "cant": _cant,
    "faint": _says("fainted"),
    "win": _winner,
    "-damage": _says("down to"),
    "-heal": _says("up to"),
    "-sethp": _says("now at"),
    "-status": _says("got"),
    "-curestatus": _says("cured of"),
    "-boost": _stage("+"),
    "-unboost": _stage("-"),
    "-setboost": _stage("set to "),
    "-miss": lambda given, me: f"{_who(given[0], me)} missed",
    "-immune": _says("is immune"),
    "-fail": _says("failed"),
    "-start": _says("starts:"),
    "-end": _says("ends:"),
    "-sidestart": _says("gets"),
    "-sideend": _says("loses"),
    "-fieldstart": lambda given, _: f"field: {_at(given, 0)}",
    "-fieldend": lambda given, _: f"field ends: {_at(given, 0)}",
    "-weather": lambda given, _: f"weather: {_at(given, 0)}",
    "-mustrecharge": _says("must recharge"),
    "-prepare": _says("prepares"),
    "-singleturn": _says("for this turn:"),
    "-singlemove": _says("until it moves:"),
    "-hitcount": lambda given, me: f"hit {_who(given[0], me)} {_at(given, 1)} times",
    "-ability": _says("has the ability"),
    "-item": _says("has the item"),
    "-enditem": _says("lost the item"),
    "-terastallize": _says("terastallized to"),
    "-transform": _says("transformed into"),
    "detailschange": _says("became"),
}
