"""Tiny Hanabi: six games of two moves, in which an action must also tell a card.

Two players with the same payoff hold a card each and see their own only; `p1` acts, then `p2`, who sees the action but
not the card. What the team can earn at most depends on a convention: which action of `p1` means which card. The games A
to F are those of S. Sokota et al., Solving common-payoff games with approximate policy iteration (2021); E is the
matrix game of J. Foerster et al., Bayesian action decoder (2019), where a team that does not signal earns 8.

| `game` | cards | actions | best team return |
|---|---|---|---|
| `A` | 2 | 2 | 2.25 |
| `B` | 2 | 2 | 1 |
| `C` | 2 | 2 | 2.5 |
| `D` | 2 | 2 | 2.5 |
| `E` | 2 | 3 | 10 |
| `F` | 3 | 2 | 2.333 |

## Observation

Player to act only, when it is its turn. Each observation stands alone (`"conversation": "fresh"`): rules, the player's
card, the action so far, and the legal ones.

    Tiny Hanabi E. You are p2. Each player holds one of the cards 1 and 2 and sees its own; p1 acts first. Both earn the
    same, by the two cards and the two actions.
    Your card: 2. Actions so far: p1 red.
    Actions: red, green, blue.

The payoffs are shown with `show_payoffs=True` alone, a line for each pair of cards. At the end both observe the result.
`infos` of the player to act list its `legal_actions`, in the order of the prompt.

## Action

Any text. It names the first legal action that occurs in it as a whole word, as in
[matrix-v1](matrix-v1.md#action). For a text that names none an action is drawn from the legal ones, all equally likely;
it costs `penalty`, and the game continues. Each such text adds 1 to the metric `illegal`.

## Rewards

At the end of the game, by player:

* `payoff`: the number in the game's table, the same for both;
* `illegal`: minus `penalty` at each illegal answer. The default is the largest payoff of the game, so that an episode
  with an illegal answer is never better than one without.

`palaver.envs.games.solve.best_team` computes the best return, by enumeration.

## Termination

After two turns.

## Data

A task is a deal: `deal`, the card of `p1` and that of `p2`, as `1 2`; `id` names a task. `tasks="sample"` are all deals
of the game, which are equally likely.

`scripted:reference` plays a best team's part, `scripted:uniform` draws an action, `scripted:lazy` is silent.

## Version history

* v0: first version.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from palaver.core import TaskError
from palaver.envs.base.arguments import choice, truth
from palaver.envs.base.env import MAX_LENGTH
from palaver.envs.games.env import CardGameEnv
from palaver.envs.games.game import PLAYERS, CardGame
from palaver.text import one_line

# by card of p1, card of p2, action of p1 and action of p2
PAYOFFS: Mapping[str, Sequence[Sequence[Sequence[Sequence[float]]]]] = {
    "A": [[[[0, 1], [0, 0]], [[0, 1], [3, 2]]], [[[3, 3], [3, 2]], [[2, 0], [3, 3]]]],
    "B": [[[[1, 0], [1, 0]], [[0, 1], [0, 1]]], [[[0, 1], [0, 0]], [[1, 0], [1, 0]]]],
    "C": [[[[3, 0], [0, 3]], [[2, 0], [3, 3]]], [[[2, 2], [3, 0]], [[0, 1], [0, 2]]]],
    "D": [[[[3, 0], [1, 3]], [[3, 0], [3, 0]]], [[[3, 2], [0, 2]], [[0, 1], [0, 0]]]],
    "E": [
        [[[10, 0, 0], [4, 8, 4], [10, 0, 0]], [[0, 0, 10], [4, 8, 4], [0, 0, 10]]],
        [[[0, 0, 10], [4, 8, 4], [0, 0, 0]], [[10, 0, 0], [4, 8, 4], [10, 0, 0]]],
    ],
    "F": [
        [[[0, 3], [3, 2]], [[0, 0], [0, 1]], [[3, 1], [2, 1]]],
        [[[0, 2], [0, 1]], [[1, 2], [1, 2]], [[0, 1], [0, 3]]],
        [[[1, 3], [1, 2]], [[0, 3], [2, 2]], [[3, 1], [3, 0]]],
    ],
}
WORDS = {2: ("left", "right"), 3: ("red", "green", "blue")}


@dataclass(frozen=True, slots=True)
class TinyHanabiState:
    """Cards of both players, from 0, and the actions so far."""

    cards: tuple[int, int]
    acts: tuple[str, ...] = ()


class TinyHanabi(CardGame[TinyHanabiState]):
    """Rules of one of the six games.

    Args:
        name: A to F.
        show_payoffs: whether prompts hold the table.
    """

    signs = (1, 1)

    def __init__(self, name: str, *, show_payoffs: bool = False) -> None:
        self.title, self.show_payoffs = f"Tiny Hanabi {name}", show_payoffs
        self.table = PAYOFFS[name]
        self.cards = tuple(str(n + 1) for n in range(len(self.table)))
        self.words = WORDS[len(self.table[0][0])]
        self.highest = max(max(row) for row in itertools.chain(*itertools.chain(*self.table)))

    @property
    def lowest(self) -> float:
        """Least payoff of all six games."""
        return 0.0

    def deals(self) -> Mapping[str, float]:
        """All pairs of cards, equal ones included."""
        pairs = [f"{first} {second}" for first in self.cards for second in self.cards]
        return dict.fromkeys(pairs, 1 / len(pairs))

    def start(self, deal: str) -> TinyHanabiState:
        """Deal two cards, as in `1 2`."""
        if deal not in self.deals():
            raise TaskError(
                f"the deal {one_line(repr(deal), 40)} is not two of the cards {', '.join(self.cards)}, as '1 2'"
            )
        first, second = deal.split()
        return TinyHanabiState((self.cards.index(first), self.cards.index(second)))

    def mover(self, state: TinyHanabiState) -> int | None:
        """First `p1`, then `p2`."""
        return len(state.acts) if len(state.acts) < len(PLAYERS) else None

    def actions(self, state: TinyHanabiState) -> tuple[str, ...]:  # noqa: ARG002 - always the same
        """All actions of the game."""
        return self.words

    def after(self, state: TinyHanabiState, action: str) -> TinyHanabiState:
        """The same cards with one more action."""
        return TinyHanabiState(state.cards, (*state.acts, action))

    def payoff(self, state: TinyHanabiState) -> float:
        """The number of the table."""
        first, second = (self.words.index(act) for act in state.acts)
        return float(self.table[state.cards[0]][state.cards[1]][first][second])

    def card(self, state: TinyHanabiState, player: int) -> str:
        """The player's card."""
        return self.cards[state.cards[player]]

    def rules(self, player: int) -> str:  # noqa: ARG002 - the same for both
        """Cards, order of moves, and the table if it is shown."""
        held = f"{', '.join(self.cards[:-1])} and {self.cards[-1]}"
        text = (
            f"Each player holds one of the cards {held} and sees its own; p1 acts first. Both earn the same, by the "
            "two cards and the two actions."
        )
        return "\n".join([text, *self._table()]) if self.show_payoffs else text

    def view(self, state: TinyHanabiState, player: int) -> str:
        """The player's card and the actions so far."""
        acts = ", ".join(f"{name} {act}" for name, act in zip(PLAYERS, state.acts, strict=False))
        return f"Your card: {self.card(state, player)}. Actions so far: {acts or 'none'}."

    def _table(self) -> list[str]:
        lines = []
        for deal in self.deals():
            start = self.start(deal)
            payoffs = (
                f"{one} {second} {self.payoff(TinyHanabiState(start.cards, (one, second))):g}"
                for one in self.words
                for second in self.words
            )
            lines.append(f"Cards {deal}, actions of p1 and p2: {', '.join(payoffs)}.")
        return lines


class TinyHanabiEnv(CardGameEnv):
    """Tiny Hanabi; see the module's docstring.

    Args:
        game: A to F.
        show_payoffs: True shows the table of payoffs in each prompt.
        tasks: `sample`, or a path; a slice may follow.
        penalty: cost of an illegal answer, 0 or more; None is the largest payoff of the game.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**CardGameEnv.metadata, "name": "tiny_hanabi_v0"}
    competitive = False
    zero_sum = False

    def __init__(
        self,
        game: Literal["A", "B", "C", "D", "E", "F"] = "E",
        show_payoffs: bool = False,
        tasks: str | Path = "sample",
        penalty: float | None = None,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        name = choice("game", game, tuple(PAYOFFS))
        self.game = TinyHanabi(name, show_payoffs=truth("show_payoffs", show_payoffs))
        self.sample = functools.partial(_rows, self.game)
        super().__init__(tasks, penalty, render_mode, max_length)


def _rows(game: TinyHanabi, count: int, seed: int) -> list[dict[str, str]]:  # noqa: ARG001 - all deals, in order
    return [{"id": deal.replace(" ", "-"), "deal": deal} for deal in game.deals()]
