"""Leduc hold'em: six cards, two rounds of betting, one public card.

A small poker with hidden and public cards (F. Southey et al., Bayes' bluff: opponent modelling in poker, 2005). It has
288 information sets, so that exploitability is exact: see [exact games](../games.md).

The deck has two each of J, Q and K. Each player antes one chip and is dealt a card. After a round of betting a public
card is shown, and a second round follows. Bets and raises are 2 chips in the first round and 4 in the second, with at
most one bet and one raise in a round; `p1` acts first in both. A player whose card has the rank of the public card
wins, else the higher card; equal cards split the pot.

## Observation

Player to act only, when it is its turn. Each observation stands alone (`"conversation": "fresh"`): rules, the player's
card, the public card, the actions so far, and the legal ones. Suits do not matter and are not shown.

    Leduc hold'em. You are p2. Each player has put in 1 chip; a bet or raise is 2 in ...
    Your card: Q. Public card: K. First round: p1 check, p2 check. Second round: p1 bet.
    Actions: fold, call, raise.

When the game is over both players observe the result. `infos` of the player to act list its `legal_actions`, in the
order of the prompt.

## Action

As in [kuhn-v0](kuhn-v0.md#action): the first legal action that a text names; for a text that names none a legal action
is drawn, and `penalty` is taken.

## Rewards

At the end of the game, by player:

* `payoff`: chips won or lost, 1 to 13, or 0. The payoffs of the two players add up to 0;
* `illegal`: minus `penalty` at each illegal answer. The default is the span of the payoffs, 26.

The value of the game for `p1` is -0.0856. The metric `outcome` of the last turn is 1 if `p1` has won, -1 if `p2` has,
0 for a split pot.

## Termination

After a fold, or when the second round is over: two to eight turns.

## Data

A task is a deal: `deal`, the cards of `p1` and of `p2` and the public card, as `J Q K`; `id` names a task.
`tasks="sample"` are the 120 deals of six different cards, which are equally likely; those that differ in suits only
look alike.

`scripted:reference` plays the average policy of 200 iterations of CFR+ (O. Tammelin, Solving large imperfect
information games using CFR+, 2014), `scripted:uniform` draws an action, `scripted:lazy` is silent.

The tiny model answers `my card Q, public card K, unpaired, checked opened, queen: raise.`: its card, the public one,
whether they have the same rank, what was done in this round, its hand (`queens` for a pair), and a legal action. How
likely each action is in a situation was drawn by chance.

## Version history

* v0: first version.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import TaskError
from palaver.envs.games.env import CardGameEnv
from palaver.envs.games.game import PLAYERS, CardGame
from palaver.text import one_line

RANKS = "JQK"
DECK = RANKS * 2
SIZES = (2, 4)  # of a bet or raise, by round
RAISES = 2  # bets and raises in a round

Acts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeducState:
    """The three cards and the actions of both rounds; the second is None before it began."""

    cards: str
    first: Acts = ()
    second: Acts | None = None


class LeducPoker(CardGame[LeducState]):
    """Rules of Leduc hold'em."""

    title = "Leduc hold'em"
    highest = 13.0
    cards = tuple(RANKS)

    def deals(self) -> Mapping[str, float]:
        """The 24 deals that differ in rank, with their probabilities."""
        counts = Counter(map(" ".join, itertools.permutations(DECK, 3)))
        return {deal: count / counts.total() for deal, count in counts.items()}

    def start(self, deal: str) -> LeducState:
        """Deal three cards, as in `J Q K`."""
        if deal not in self.deals():
            raise TaskError(
                f"the deal {one_line(repr(deal), 40)} is not three cards of two each of J, Q and K, as 'J Q K'"
            )
        return LeducState(deal.replace(" ", ""))

    def mover(self, state: LeducState) -> int | None:
        """In turns, `p1` first in each round, until a fold or the end of the second round."""
        acts = state.first if state.second is None else state.second
        folded = acts[-1:] == ("fold",)
        return None if folded or (state.second is not None and closed(acts)) else len(acts) % 2

    def actions(self, state: LeducState) -> tuple[str, ...]:
        """Check or bet; after a bet fold, call, and raise where that is allowed."""
        acts = state.first if state.second is None else state.second
        raises = _raises(acts)
        if not raises:
            return ("check", "bet")
        return ("fold", "call", "raise") if raises < RAISES else ("fold", "call")

    def after(self, state: LeducState, action: str) -> LeducState:
        """One more action; the second round begins when the first is over."""
        if state.second is not None:
            return LeducState(state.cards, state.first, (*state.second, action))
        acts = (*state.first, action)
        return LeducState(state.cards, acts, () if closed(acts) else None)

    def payoff(self, state: LeducState) -> float:
        """The chips of the player who loses."""
        first, second = staked(state.first, SIZES[0]), staked(state.second or (), SIZES[1])
        acts = state.second if state.second else state.first
        if acts[-1] == "fold":
            folder = (len(acts) - 1) % 2
            return (2 * folder - 1) * float(1 + first[folder] + second[folder])
        stake = float(1 + first[0] + second[0])
        p1, p2, public = tuple(state.cards)
        if p1 == p2:
            return 0.0
        wins = p1 == public or (p2 != public and RANKS.index(p1) > RANKS.index(p2))
        return stake if wins else -stake

    def card(self, state: LeducState, player: int) -> str:
        """The player's card."""
        return state.cards[player]

    def rules(self, player: int) -> str:  # noqa: ARG002 - the same for both
        """Stakes, cards and order of hands."""
        return (
            f"Each player has put in 1 chip; a bet or raise is {SIZES[0]} in the first round and {SIZES[1]} in the "
            "second. The deck has two each of J, Q and K. A pair with the public card wins, else the higher card."
        )

    def view(self, state: LeducState, player: int) -> str:
        """The player's card, the public card if it is shown, and the actions of both rounds."""
        shown = [f"Your card: {state.cards[player]}."]
        if state.second is not None:
            shown.append(f"Public card: {state.cards[2]}.")
        shown.append(f"First round: {acts_text(state.first)}.")
        if state.second is not None:
            shown.append(f"Second round: {acts_text(state.second)}.")
        return " ".join(shown)


def closed(acts: Acts) -> bool:
    """Return True where a round of betting is over without a fold.

    >>> closed(("check",)), closed(("check", "check")), closed(("bet", "call"))
    (False, True, True)
    """
    return acts[-1:] == ("call",) or acts == ("check", "check")


def staked(acts: Acts, size: int) -> tuple[int, int]:
    """Chips that both players put in during a round.

    >>> staked(("check", "bet", "raise", "call"), 2), staked(("bet", "fold"), 4)
    ((4, 4), (4, 0))
    """
    chips = [0, 0]
    for n, act in enumerate(acts):
        if act in ("bet", "raise", "call"):
            chips[n % 2] = max(chips) + (0 if act == "call" else size)
    return chips[0], chips[1]


def _raises(acts: Acts) -> int:
    return sum(act in ("bet", "raise") for act in acts)


def acts_text(acts: Sequence[str]) -> str:
    """The actions of a round with their players, as observations list them."""
    return ", ".join(f"{PLAYERS[n % 2]} {act}" for n, act in enumerate(acts)) or "none"


GAME = LeducPoker()


class LeducEnv(CardGameEnv):
    """Leduc hold'em; see the module's docstring.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**CardGameEnv.metadata, "name": "leduc_v0"}
    game = GAME
    sample = Path(__file__).with_name("leduc.jsonl")
