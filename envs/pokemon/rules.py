"""Reading an action: any text in, one of the legal actions out, or none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palaver.core import stable_seed
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.pokemon.showdown.view import Side, SideView

GIMMICKS = {
    "tera": "tera",
    "terastallize": "tera",
    "terastallise": "tera",
    "terastal": "tera",
    "mega": "mega",
    "megax": "megax",
    "megay": "megay",
    "ultra": "ultra",
    "zmove": "zmove",
    "dynamax": "dynamax",
}
VERBS = {
    "move": "move",
    "use": "move",
    "attack": "move",
    "switch": "switch",
    "lead": "lead",
    "revive": "revive",
    "team": "lead",
}
READ = 4000  # characters from the end of a text; an answer comes after the reasoning
WIDTH = 5  # words that one name may be written in, as `King's Shield`
NEXT = "Which move does the opponent use next, or which Pokémon does it switch to? Answer with the name alone."

_WORD = re.compile(r"[a-z0-9]+")
_NUMBER = re.compile(r"\W*(?:(?:action|choice|option|number|choose|answer|no)\W*)?(\d{1,3})\W*")


@dataclass(frozen=True)
class ParsedAction:
    """A legal action, "" if the text names none; `legal` is True if the text named just it."""

    action: str
    legal: bool


NONE = ParsedAction("", False)


@dataclass(frozen=True)
class Choice:
    """The simulator's answer for a request of a side.

    (Beginning of the request, its legality, the action, the answer.)
    """

    requested: str
    legal: bool
    action: str
    choice: str


def choose(text: str, legal: Mapping[str, str], *keys: object) -> Choice:
    """Return the action that a text chooses, or a random one if it names none.

    Random actions are drawn with the keys.

    Args:
        text: anything.
        legal: action -> the simulator's word for it, at least one.
        keys: of the draw.
    """
    parsed = read(text, tuple(legal))
    action = parsed.action or drawn(tuple(legal), *keys)
    return Choice(text[:200], parsed.legal, action, legal[action])


def read(text: str, legal: Sequence[str]) -> ParsedAction:
    """The action that a text names.

    In this order: an action as listed; a number of the list, alone; `VERB N`, the N-th listed action of that verb; the
    last `VERB NAME` in the text, in any case and spelling (`Use Thunder-Bolt!`); the last bare name of a move or
    Pokémon that is listed. A gimmick may follow or precede the name (`tera thunderbolt`). A gimmick that is not on
    offer falls back to the move without it, which is not legal. All else names none of the actions.

    Args:
        text: anything.
        legal: the actions in the order in which they were listed, at least one.

    >>> read("I think Thunder Wave is too slow, so: use THUNDERBOLT", ["move thunderbolt", "move thunderwave"])
    ParsedAction(action='move thunderbolt', legal=True)
    """
    if text in legal:
        return ParsedAction(text, True)
    plain = unicodedata.normalize("NFKD", text[-READ:]).lower()
    match = _NUMBER.fullmatch(plain)
    if match:
        n = int(match[1])
        return ParsedAction(legal[n - 1], True) if 1 <= n <= len(legal) else NONE
    words = _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))
    return _counted(words, legal) or _named(words, legal) or NONE


def questions(
    foe: Side, view: SideView, legal: Mapping[str, str], actions: Mapping[str, str]
) -> list[InferenceQuestion]:
    """Questions about a side: what it does next, and the moves of its active Pokémon.

    Args:
        foe: the side.
        view: of that side.
        legal: its legal actions; none if it does not choose now.
        actions: side -> text about to be played; empty while not known.
    """
    asked = []
    if legal:
        _, _, named = read(actions.get(foe, ""), tuple(legal)).action.partition(" ")  # the verb would be half an answer
        asked.append(InferenceQuestion(foe, NEXT, "text", (), (named,) if named else None))
    active = view["me"]["active"]
    if active >= 0:
        moves = tuple(name for name, *_ in view["me"]["team"][active]["moves"])
        asked.append(InferenceQuestion(foe, "Which moves has the opponent's active Pokémon?", "slots", (), moves))
    return asked


def drawn(legal: Sequence[str], *keys: object) -> str:
    """Return the action where a text names none.

    All legal actions are equally likely, and the draw is the same for the same keys. It carries no skill, so that an
    illegal answer is worth no more than a legal action at random.

    >>> sorted({drawn(("move surf", "switch starmie"), "p1", turn) for turn in range(9)})
    ['move surf', 'switch starmie']
    """
    return legal[stable_seed("illegal answer", *keys) % len(legal)]


def _counted(words: Sequence[str], legal: Sequence[str]) -> ParsedAction | None:
    """`move 2`, perhaps after `choose` and before a gimmick."""
    words = words[1:] if words[:1] == ["choose"] else words
    if len(words) not in (2, 3) or words[0] not in VERBS or not re.fullmatch(r"\d{1,3}", words[1]):
        return None
    if len(words) == 3 and words[2] not in GIMMICKS:
        return None
    listed = [action for action in legal if action.split(" ")[0] == VERBS[words[0]] and action.count(" ") == 1]
    n = int(words[1])
    if not 1 <= n <= len(listed):
        return NONE
    return _with(listed[n - 1], GIMMICKS[words[2]] if len(words) == 3 else "", legal)


def _named(words: Sequence[str], legal: Sequence[str]) -> ParsedAction | None:
    """The last action that is named with its verb, else the last that is named at all."""
    plain = {tuple(action.split(" ")): action for action in legal if action.count(" ") == 1}
    for action in legal:  # one that is offered with a gimmick alone
        verb, name, *_ = action.split(" ")
        plain.setdefault((verb, name), action)
    names: dict[str, list[str]] = {}
    for verb, name in plain:
        names.setdefault(name, []).append(verb)
    bare: ParsedAction | None = None
    for end in range(len(words), 0, -1):
        for start in range(end - 1, max(-1, end - 1 - WIDTH), -1):
            name = "".join(words[start:end])
            verbs = names.get(name)
            if not verbs:
                continue
            action_kind = VERBS.get(words[start - 1], "") if start else ""
            gimmick = _gimmick(words, start - (action_kind in verbs), end)
            if action_kind in verbs:
                return _with(plain[action_kind, name], gimmick, legal)
            if bare is None:
                bare = _with(plain[verbs[0], name], gimmick, legal)
    return bare


def _gimmick(words: Sequence[str], start: int, end: int) -> str:
    joining = start > 1 and words[start - 1] in ("and", "then")
    near = [*words[end : end + 3], *words[max(0, start - 1 - joining) : start][::-1]]
    for n, word in enumerate(near):
        if word in ("mega", "z") and n + 1 < len(near) and f"{word}{near[n + 1]}" in GIMMICKS:
            return GIMMICKS[f"{word}{near[n + 1]}"]
        if word in GIMMICKS:
            return GIMMICKS[word]
        if word in VERBS and n < len(words) - end:
            break  # the next action begins
    return ""


def _with(action: str, gimmick: str, legal: Sequence[str]) -> ParsedAction:
    wanted = f"{' '.join(action.split(' ')[:2])} {gimmick}" if gimmick else action
    return ParsedAction(wanted, True) if wanted in legal else ParsedAction(action, False)


def words(planned: Mapping[Side, Choice]) -> dict[Side, str]:
    """Return the command for the simulator."""
    return {side: choice.choice for side, choice in planned.items()}
