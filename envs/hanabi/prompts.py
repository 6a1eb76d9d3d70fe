"""View of a player of Hanabi as text, and parsed again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from palaver.envs.hanabi.rules import Card, HanabiForm, HanabiState, HeldCard

_FIREWORKS = re.compile(r"^Fireworks: (.+)\.$", re.MULTILINE)
_TOKENS = re.compile(r"^Tokens: (\d+) of (\d+)\.", re.MULTILINE)
_OWN = re.compile(r"^Your cards: (.*)\.$", re.MULTILINE)
_OTHERS = re.compile(r"^(p\d) holds: (.*)\.$", re.MULTILINE)
_LAST = re.compile(r"^Since your last turn: (.*)\.$", re.MULTILINE)
_ACTIONS = re.compile(r"^Actions: (.+)\.$", re.MULTILINE)
_AGENT = re.compile(r"You are (p\d)\.")
_RANKS = re.compile(r"of ranks 1 to (\d)")
_PAIR = re.compile(r"(\w+) (\d)")
_KNOWN = re.compile(r"\d ([\w|?]+)/([\d|?]+)")
_SHOWN = re.compile(r"\d (\w+) (\d) \(([\w|?]+)/([\d|?]+)\)")


@dataclass(frozen=True, slots=True)
class PlayerView:
    """Parsed prompt: what a player knows and may do."""

    agent: str
    fireworks: dict[str, int]
    ranks: int
    tokens: int
    own: tuple[HeldCard, ...]  # whose `card` is unknown: ("", 0)
    others: dict[str, tuple[HeldCard, ...]]
    since: tuple[str, ...]
    actions: tuple[str, ...]


def prompt(state: HanabiState, since: Sequence[str]) -> str:
    """Everything that the player to act knows, and its legal actions; it stands alone."""
    player = state.mover()
    lines = [
        f"Hanabi. You are p{player + 1}. Together build a firework of each colour, of ranks 1 to "
        f"{len(state.form.copies)} in order. You do not see your own cards.",
        f"Fireworks: {', '.join(f'{colour} {rank}' for colour, rank in state.fireworks.items())}.",
        f"Tokens: {state.tokens} of {state.form.tokens}. Lives: {state.lives}. Cards in the deck: {len(state.deck)}.",
        f"Discarded: {_cards(state.discards)}.",
    ]
    for n, hand in enumerate(state.hands):
        if n == player:
            shown = [f"{place} {known(held, state.form)}" for place, held in enumerate(hand, start=1)]
            lines.append(f"Your cards: {', '.join(shown)}.")
        else:
            shown = [
                f"{place} {held.card[0]} {held.card[1]} ({known(held, state.form)})"
                for place, held in enumerate(hand, start=1)
            ]
            lines.append(f"p{n + 1} holds: {', '.join(shown)}.")
    return "\n".join([*lines, f"Since your last turn: {'; '.join(since) or 'nothing'}."])


def read(text: str) -> PlayerView | None:
    """Parse a prompt; None if it is none."""
    parts = [pattern.search(text) for pattern in (_AGENT, _FIREWORKS, _RANKS, _TOKENS, _OWN, _ACTIONS)]
    if not all(parts):
        return None
    agent, fireworks, ranks, tokens, own, actions = (match[1] for match in parts if match)
    heights = {colour: int(rank) for colour, rank in _PAIR.findall(fireworks)}
    highest, last = int(ranks), _LAST.search(text)
    return PlayerView(
        agent,
        heights,
        highest,
        int(tokens),
        tuple(_held(("", 0), known, heights, highest) for known in _KNOWN.findall(own)),
        {
            name: tuple(_held((c, int(r)), (a, b), heights, highest) for c, r, a, b in _SHOWN.findall(cards))
            for name, cards in _OTHERS.findall(text)
        },
        tuple(last[1].split("; ")) if last else (),
        tuple(actions.split(", ")),
    )


def _held(card: Card, known: tuple[str, str], heights: dict[str, int], highest: int) -> HeldCard:
    colours, ranks = known
    return HeldCard(
        card,
        tuple(heights) if colours == "?" else tuple(colours.split("|")),
        tuple(range(1, highest + 1)) if ranks == "?" else tuple(int(n) for n in ranks.split("|") if n.isdecimal()),
    )


def known(held: HeldCard, form: HanabiForm) -> str:
    """Colours and ranks that are left open, `?` for all."""
    colours = "?" if len(held.colours) == len(form.colours) else "|".join(held.colours)
    ranks = "?" if len(held.ranks) == len(form.copies) else "|".join(map(str, held.ranks))
    return f"{colours}/{ranks}"


def _cards(cards: Sequence[Card]) -> str:
    return ", ".join(f"{colour} {rank}" for colour, rank in sorted(cards)) or "none"
