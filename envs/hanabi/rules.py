"""Hanabi as pure rules: states in, states out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from palaver.core import stable_seed
from palaver.envs.base.tasks import Shared

COLOURS = ("red", "blue", "green", "white", "yellow")
Card = tuple[str, int]  # colour and rank


@dataclass(frozen=True, slots=True, eq=False)
class HanabiForm(Shared):
    """A size of the game.

    Attributes:
        colours: of the cards.
        copies: number of cards of each rank, from rank 1, in each colour.
        hand: cards of each player, by number of players.
        tokens: hints at the beginning, and at most.
        lives: misplayed cards with which the game ends.
    """

    colours: tuple[str, ...]
    copies: tuple[int, ...]
    hand: Mapping[int, int]
    tokens: int
    lives: int

    def cards(self) -> list[Card]:
        """The whole deck in order."""
        pairs = itertools.product(self.colours, enumerate(self.copies, start=1))
        return [(colour, rank) for colour, (rank, count) in pairs for _ in range(count)]

    def points(self) -> int:
        """The largest score."""
        return len(self.colours) * len(self.copies)

    def shuffled(self, seed: int, index: int) -> list[Card]:
        """A drawn order of the deck."""
        cards = self.cards()
        random.Random(stable_seed("hanabi", len(cards), self.points(), seed, index)).shuffle(cards)
        return cards


FORMS: Mapping[str, HanabiForm] = {
    "full": HanabiForm(COLOURS, (3, 2, 2, 2, 1), {2: 5, 3: 5, 4: 4, 5: 4}, tokens=8, lives=3),
    "small": HanabiForm(COLOURS[:2], (3, 2, 2, 2, 1), {2: 2, 3: 2}, tokens=3, lives=1),
    "mini": HanabiForm(COLOURS[:2], (3, 2), {2: 2}, tokens=3, lives=1),
}


@dataclass(frozen=True, slots=True)
class HeldCard:
    """A card in a hand, and what its holder knows: the colours and ranks that hints leave open."""

    card: Card
    colours: tuple[str, ...]
    ranks: tuple[int, ...]

    def with_hint(self, hint: str | int) -> HeldCard:
        """The card after a hint to its holder."""
        if isinstance(hint, int):
            ranks = tuple(rank for rank in self.ranks if (rank == hint) == (self.card[1] == hint))
            return replace(self, ranks=ranks)
        colours = tuple(colour for colour in self.colours if (colour == hint) == (self.card[0] == hint))
        return replace(self, colours=colours)

    def has(self, hint: str | int) -> bool:
        """Return whether a hint marks the card."""
        return hint in self.card


@dataclass(frozen=True, slots=True)
class HanabiState:
    """A state.

    Attributes:
        form: size of the game.
        hands: of the players, the oldest card first.
        deck: cards left, the next one first.
        fireworks: colour -> highest rank played.
        tokens: hints left.
        lives: left.
        discards: cards discarded or misplayed.
        turn: moves made.
        left: moves left after the last card was drawn; None before.
    """

    form: HanabiForm
    hands: tuple[tuple[HeldCard, ...], ...]
    deck: tuple[Card, ...]
    fireworks: Mapping[str, int]
    tokens: int
    lives: int
    discards: tuple[Card, ...] = ()
    turn: int = 0
    left: int | None = None

    def mover(self) -> int:
        """The player to act."""
        return self.turn % len(self.hands)

    def score(self) -> int:
        """Sum of the fireworks."""
        return sum(self.fireworks.values())

    def over(self) -> bool:
        """Return whether the game has ended."""
        return self.lives == 0 or self.score() == self.form.points() or self.left == 0


def deal(form: HanabiForm, cards: Sequence[Card], players: int) -> HanabiState:
    """First state of a deck: the players' hands one after the other, then the pile."""
    size = form.hand[players]
    held = [_new(form, card) for card in cards[: size * players]]
    hands = tuple(tuple(held[n * size : (n + 1) * size]) for n in range(players))
    fireworks = dict.fromkeys(form.colours, 0)
    return HanabiState(form, hands, tuple(cards[size * players :]), fireworks, form.tokens, form.lives)


def hint_of(word: str) -> str | int:
    """Colour or rank of a hint, from the last word of its action."""
    return int(word) if word.isdecimal() else word


def legal_actions(state: HanabiState) -> list[str]:
    """Legal actions as words.

    Play or discard a card by its place from 1, hint a colour or a rank. Nothing is discarded with all tokens.
    """
    places = range(1, len(state.hands[state.mover()]) + 1)
    actions = [f"play {place}" for place in places]
    if state.tokens < state.form.tokens:
        actions += [f"discard {place}" for place in places]
    if state.tokens:
        hints: list[str | int] = [*state.form.colours, *range(1, len(state.form.copies) + 1)]
        for player, hand in enumerate(state.hands):
            if player != state.mover():
                marks = [hint for hint in hints if any(held.has(hint) for held in hand)]
                actions += [f"hint p{player + 1} {hint}" for hint in marks]
    return actions


def act(state: HanabiState, action: str) -> HanabiState:
    """The state after a legal action."""
    verb, *words = action.split()
    left = None if state.left is None else state.left - 1
    state = replace(state, turn=state.turn + 1, left=left)
    player = (state.turn - 1) % len(state.hands)
    if verb == "hint":
        hint = hint_of(words[1])
        listener = int(words[0][1:]) - 1
        hand = tuple(held.with_hint(hint) for held in state.hands[listener])
        return replace(state, hands=_with(state.hands, listener, hand), tokens=state.tokens - 1)
    place = int(words[0]) - 1
    colour, rank = state.hands[player][place].card
    state = _drawn(state, player, place)
    if verb == "discard":
        return replace(state, discards=(*state.discards, (colour, rank)), tokens=state.tokens + 1)
    if state.fireworks[colour] + 1 != rank:
        return replace(state, discards=(*state.discards, (colour, rank)), lives=state.lives - 1)
    bonus = rank == len(state.form.copies) and state.tokens < state.form.tokens
    return replace(state, fireworks={**state.fireworks, colour: rank}, tokens=state.tokens + bonus)


def _drawn(state: HanabiState, player: int, place: int) -> HanabiState:
    """Take a card out of a hand and draw another, which becomes the last of the hand."""
    hand = state.hands[player]
    hand = (*hand[:place], *hand[place + 1 :], *(_new(state.form, card) for card in state.deck[:1]))
    last = len(state.deck) == 1
    hands = _with(state.hands, player, hand)
    return replace(state, hands=hands, deck=state.deck[1:], left=len(hands) if last else state.left)


def _new(form: HanabiForm, card: Card) -> HeldCard:
    return HeldCard(card, form.colours, tuple(range(1, len(form.copies) + 1)))


def _with(
    hands: tuple[tuple[HeldCard, ...], ...], player: int, hand: tuple[HeldCard, ...]
) -> tuple[tuple[HeldCard, ...], ...]:
    return (*hands[:player], hand, *hands[player + 1 :])
