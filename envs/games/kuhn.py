"""Kuhn poker: three cards, one bet, and a known family of equilibria.

The smallest game of poker with bluffs (H. W. Kuhn, A simplified two-person poker, 1950). Its information sets are 12,
so any policy, a language model's too, can be compared with the equilibrium by enumeration: see
[exact games](../games.md).

Each player antes one chip and is dealt one of the cards J, Q and K. Player `p1` checks or bets one chip. After a check
`p2` checks or bets; who faces a bet folds or calls. The higher card wins the pot of a game that nobody folded.

## Observation

Player to act only, when it is its turn. Each observation stands alone (`"conversation": "fresh"`): rules, the player's
card, the actions so far, and the legal ones.

    Kuhn poker. You are p1. Each player has put in 1 chip; a bet is 1 more. The cards are J, Q and K; the higher wins.
    Your card: J. Actions so far: p1 check, p2 bet.
    Actions: fold, call.

When the game is over both players observe the result. `infos` of the player to act list its `legal_actions`, in the
order of the prompt.

## Action

Any text. It names the first legal action that occurs in it as a whole word, as in
[matrix-v1](matrix-v1.md#action). For a text that names none an action is drawn from the legal ones, all equally likely;
it costs `penalty`, and the game continues. Each such text adds 1 to the metric `illegal`. The player with more illegal
answers has lost the episode, see `outcome`.

## Rewards

At the end of the game, by player:

* `payoff`: chips won or lost: 1 or 2. The payoffs of the two players add up to 0;
* `illegal`: minus `penalty` at each illegal answer. The default is the span of the payoffs, 4: an episode with an
  illegal answer is never better than one without.

The value of the game for `p1` is -1/18. In equilibrium `p1` bets J with probability α, never Q, and K with 3α, for any
α in [0, 1/3], and calls with Q with α + 1/3; `p2` bets J after a check, and calls with Q, with probability 1/3.

The metric `outcome` of the last turn is 1 if `p1` has won, -1 if `p2` has.

## Termination

After a fold, a call, or two checks: two or three turns.

## Data

A task is a deal: `deal`, the card of `p1` and that of `p2`, as `J Q`; `id` names a task. `tasks="sample"` are all six
deals, which are equally likely.

`scripted:reference` plays the equilibrium with α = 1/6, `scripted:uniform` draws an action, `scripted:lazy` is silent.

The tiny model answers `my card J, opened: call.`: its card, what was done before it, and any legal action, all about
equally likely. That of `kuhn-infer` also answers [questions](../inference.md#distance-to-bayes).

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import TaskError
from palaver.envs.games.env import CardGameEnv
from palaver.envs.games.game import PLAYERS, CardGame
from palaver.text import one_line

CARDS = "JQK"


@dataclass(frozen=True, slots=True)
class KuhnState:
    """Cards of both players, and the actions so far."""

    cards: str
    acts: tuple[str, ...] = ()


class KuhnPoker(CardGame[KuhnState]):
    """Rules of Kuhn poker."""

    title = "Kuhn poker"
    highest = 2.0
    cards = tuple(CARDS)

    def deals(self) -> Mapping[str, float]:
        """Six deals of two different cards."""
        pairs = [f"{first} {second}" for first in CARDS for second in CARDS if first != second]
        return dict.fromkeys(pairs, 1 / len(pairs))

    def start(self, deal: str) -> KuhnState:
        """Deal two cards, as in `J Q`."""
        if deal not in self.deals():
            raise TaskError(f"the deal {one_line(repr(deal), 40)} is not two different cards of J, Q and K, as 'J Q'")
        return KuhnState(deal.replace(" ", ""))

    def mover(self, state: KuhnState) -> int | None:
        """In turns, until a fold, a call or two checks."""
        over = state.acts[-1:] in (("fold",), ("call",)) or state.acts == ("check", "check")
        return None if over else len(state.acts) % 2

    def actions(self, state: KuhnState) -> tuple[str, ...]:
        """Fold or call after a bet, else check or bet."""
        return ("fold", "call") if state.acts[-1:] == ("bet",) else ("check", "bet")

    def after(self, state: KuhnState, action: str) -> KuhnState:
        """The same cards with one more action."""
        return KuhnState(state.cards, (*state.acts, action))

    def payoff(self, state: KuhnState) -> float:
        """1 for a fold and after two checks, 2 after a call."""
        if state.acts[-1] == "fold":
            return 1.0 if len(state.acts) % 2 == 0 else -1.0
        stake = 2.0 if state.acts[-1] == "call" else 1.0
        return stake if CARDS.index(state.cards[0]) > CARDS.index(state.cards[1]) else -stake

    def card(self, state: KuhnState, player: int) -> str:
        """The player's card."""
        return state.cards[player]

    def rules(self, player: int) -> str:  # noqa: ARG002 - the same for both
        """Stakes and cards."""
        return "Each player has put in 1 chip; a bet is 1 more. The cards are J, Q and K; the higher wins."

    def view(self, state: KuhnState, player: int) -> str:
        """The player's card and the actions so far."""
        acts = ", ".join(f"{PLAYERS[n % 2]} {act}" for n, act in enumerate(state.acts))
        return f"Your card: {state.cards[player]}. Actions so far: {acts or 'none'}."


GAME = KuhnPoker()


def equilibrium(alpha: float) -> dict[str, dict[str, float]]:
    """Equilibrium of Kuhn's family, as observation -> action -> probability.

    Args:
        alpha: probability that `p1` bets J, from 0 to 1/3.
    """
    aggressive: dict[tuple[str, ...], dict[str, float]] = {
        (): {"J": alpha, "Q": 0.0, "K": 3 * alpha},
        ("check",): {"J": 1 / 3, "Q": 0.0, "K": 1.0},
        ("bet",): {"J": 0.0, "Q": 1 / 3, "K": 1.0},
        ("check", "bet"): {"J": 0.0, "Q": alpha + 1 / 3, "K": 1.0},
    }
    profile = {}
    for acts, chances in aggressive.items():
        for card, chance in chances.items():
            state = KuhnState(card * 2, acts)  # a view shows one card only
            passive, active = GAME.actions(state)
            profile[GAME.prompt(state, len(acts) % 2)] = {passive: 1 - chance, active: chance}
    return profile


class KuhnEnv(CardGameEnv):
    """Kuhn poker; see the module's docstring.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**CardGameEnv.metadata, "name": "kuhn_v0"}
    game = GAME
    sample = Path(__file__).with_name("kuhn.jsonl")
