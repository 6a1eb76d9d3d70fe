"""Scripted players of Hanabi, of different conventions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Literal

from palaver.core import Conversation, stable_seed
from palaver.envs.base.scripted import observed
from palaver.envs.hanabi.prompts import PlayerView, read
from palaver.envs.hanabi.rules import Card, HeldCard, hint_of

Convention = Literal["first", "last", "certain"]


def reference(conversation: Conversation, _seed: int) -> str:
    """Convention "first": a hint means that the first card it marks is playable."""
    return _move(conversation, "first")


def last_marked(conversation: Conversation, _seed: int) -> str:
    """Convention "last": a hint means that the last card it marks is playable."""
    return _move(conversation, "last")


def certain(conversation: Conversation, _seed: int) -> str:
    """No convention: only cards that are certainly playable are played."""
    return _move(conversation, "certain")


def uniform_move(conversation: Conversation, seed: int) -> str:
    """Any legal action, drawn by the seed; "" if none is listed."""
    text = next(reversed(observed(conversation)), "")
    view = read(text)
    return random.Random(stable_seed("hanabi uniform", seed, text)).choice(view.actions) if view else ""


def _move(conversation: Conversation, convention: Convention) -> str:
    view = read(next(reversed(observed(conversation)), ""))
    if view is None:
        return ""
    candidates = (_play(view, convention), _hint(view, convention), "discard 1", *_any_hint(view))
    return next(action for action in (*candidates, *view.actions) if action in view.actions)


def playable(card: Card, fireworks: Mapping[str, int]) -> bool:
    """Return whether a card is the next of its firework."""
    return fireworks.get(card[0], -1) + 1 == card[1]


def open_cards(held: HeldCard) -> list[Card]:
    """The cards that a held card may be, by what its holder knows."""
    return list(itertools.product(held.colours, held.ranks))


def _play(view: PlayerView, convention: Convention) -> str:
    """A card that is certainly playable, or that the last hint means; "" if there is none."""
    for place, held in enumerate(view.own, start=1):
        if all(playable(card, view.fireworks) for card in open_cards(held)):
            return f"play {place}"
    if convention == "certain":
        return ""
    for move in reversed(view.since):
        words = move.split()
        if words[1:2] == ["hint"] and words[2:3] == [view.agent] and len(words) == 4:
            place = meant(view.own, words[3], convention)
            if place and any(playable(card, view.fireworks) for card in open_cards(view.own[place - 1])):
                return f"play {place}"
    return ""


def meant(hand: Sequence[HeldCard], hint: str, convention: Convention) -> int:
    """Place of the card that a hint to its holder means, from 1; 0 if it marks none."""
    known = [held.ranks == (int(hint),) if hint.isdecimal() else held.colours == (hint,) for held in hand]
    marked = [place for place, marks in enumerate(known, start=1) if marks]
    return (marked[0] if convention == "first" else marked[-1]) if marked else 0


def _hint(view: PlayerView, convention: Convention) -> str:
    """A hint about a playable card; "" if there is none to give."""
    for agent, hand in view.others.items():
        for action in (action for action in view.actions if action.startswith(f"hint {agent} ")):
            word = action.split()[2]
            after = tuple(held.with_hint(hint_of(word)) for held in hand)
            if convention == "certain":
                useful = any(
                    playable(held.card, view.fireworks) and len(open_cards(new)) < len(open_cards(held))
                    for held, new in zip(hand, after, strict=True)
                )
            else:
                place = meant(after, word, convention)
                useful = bool(place) and playable(hand[place - 1].card, view.fireworks)
            if useful:
                return action
    return ""


def _any_hint(view: PlayerView) -> list[str]:
    """Any hint, the last one first."""
    return [action for action in reversed(view.actions) if action.startswith("hint ")]
