"""Games of two players in extensive form, as pure rules, and the texts that a player reads.

All chance is drawn at the beginning: a *deal* fixes it, and the rules of a game are a function of the deal and of the
actions so far. What a player cannot see yet is part of the state and not of its view.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from palaver.envs.base.tasks import Shared

PLAYERS = ("p1", "p2")
S = TypeVar("S")  # a state of a game: immutable


class ExtensiveGame(Shared, ABC, Generic[S]):
    """Rules of a game of two players who act in turns; zero-sum, unless `signs` says otherwise.

    Attributes:
        title: its name in prompts.
        highest: the most that a player can win.
        signs: what a player wins, in payoffs of the first player: (1, 1) where both win the same.
        small: True if its tree is small enough to enumerate while a run trains.
    """

    title: str
    highest: float
    signs = (1, -1)
    small = True

    @property
    def lowest(self) -> float:
        """The least that a player can win; minus the most, unless the game says otherwise."""
        return -self.highest

    @abstractmethod
    def deals(self) -> Mapping[str, float]:
        """Every deal with its probability."""

    @abstractmethod
    def start(self, deal: str) -> S:
        """Return the first state of a deal.

        Raises:
            TaskError: it is no deal of this game.
        """

    @abstractmethod
    def mover(self, state: S) -> int | None:
        """The player to act, 0 or 1; None when the game is over."""

    @abstractmethod
    def actions(self, state: S) -> tuple[str, ...]:
        """Legal actions of the player to act, each one word, in a fixed order."""

    @abstractmethod
    def after(self, state: S, action: str) -> S:
        """The state that follows a legal action."""

    @abstractmethod
    def payoff(self, state: S) -> float:
        """Payoff of the first player in a state that is over; `signs` has the second player's."""

    @abstractmethod
    def rules(self, player: int) -> str:
        """The rules, one or more sentences for one player."""

    @abstractmethod
    def view(self, state: S, player: int) -> str:
        """Everything that a player knows of a state, its past included."""

    def prompt(self, state: S, player: int) -> str:
        """Observation of the player to act; it stands alone, and is the name of its information set."""
        lines = (
            f"{self.title}. You are {PLAYERS[player]}. {self.rules(player)}",
            self.view(state, player),
            f"Actions: {', '.join(self.actions(state))}.",
        )
        return "\n".join(lines)

    def result(self, state: S, player: int) -> str:
        """Last observation of a player, when the game is over."""
        payoff = self.payoff(state) * self.signs[player]
        if sum(self.signs):
            return f"{self.view(state, player)}\nBoth earn {payoff:g}."
        outcome = "A draw" if payoff == 0 else f"You {'win' if payoff > 0 else 'lose'} {abs(payoff):g}"
        return f"{self.view(state, player)}\n{outcome}."


class CardGame(ExtensiveGame[S]):
    """A game in which each player holds a card that the other does not see.

    Attributes:
        cards: all that a player may hold.
    """

    cards: tuple[str, ...]

    @abstractmethod
    def card(self, state: S, player: int) -> str:
        """The card that a player holds, one of `cards`."""
