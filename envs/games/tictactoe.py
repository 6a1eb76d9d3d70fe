"""Tic-tac-toe: three in a line on nine cells, with a perfect player to compare with.

The smallest game on a board: nothing is hidden, and the value of the empty board is 0, a draw. See also
[exact games](../games.md).

## Observation

Player to act only, when it is its turn. Each observation stands alone (`"conversation": "fresh"`): rules, the board, in
which free cells show their number, and the legal actions.

    Tic-tac-toe. You are p1. Your stone is X; a stone takes a free cell. 3 in a line win.
    X 2 3
    4 O 6
    7 8 9
    Actions: 2, 3, 4, 6, 7, 8, 9.

When the game is over both players observe the result. `infos` of the player to act list its `legal_actions`, in the
order of the prompt.

## Action

As in [kuhn-v0](kuhn-v0.md#action): the first legal action, here the number of a free cell, that a text names; for a
text that names none a legal action is drawn, and `penalty` is taken.

## Rewards

At the end of the game, by player:

* `payoff`: 1 for a line, -1 for the other's, 0 for a draw;
* `illegal`: minus `penalty` at each illegal answer. The default is the span of the payoffs, 2.

The metric `outcome` of the last turn is 1 if `p1` has won, -1 if `p2` has, 0 for a draw.

## Termination

After a line, or when the board is full: nine turns at most.

## Data

A task is an opening: `deal`, the moves that have been played, as `1 5`, or `start` for the empty board; `id` names a
task. `tasks="sample"` are the empty board and all openings of one and of two moves, 82.

`scripted:reference` plays perfectly, by search to the end, and draws among actions that are as good; `scripted:uniform`
draws an action, `scripted:lazy` is silent.

The tiny model names any free cell, as `my stone is X: 5.`

## Version history

* v0: first version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from palaver.envs.games.env import GameEnv
from palaver.envs.games.lines import tic_tac_toe


class TicTacToeEnv(GameEnv):
    """Tic-tac-toe; see the module's docstring.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**GameEnv.metadata, "name": "tictactoe_v0"}
    game = tic_tac_toe()
    sample = Path(__file__).with_name("tictactoe.jsonl")
