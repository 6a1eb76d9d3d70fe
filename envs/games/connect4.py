"""Connect four: stones fall in columns, four in a line win, on any size of board.

Small boards are solved exactly by `palaver.envs.games.search.exact_value`; on the full board a player that looks a few
moves ahead is the measure. See also [exact games](../games.md).

## Observation

Player to act only, when it is its turn. Each observation stands alone (`"conversation": "fresh"`): rules, the board
under the numbers of its columns, and the legal actions.

    Connect four. You are p2. Your stone is O; a stone falls to the lowest free cell of a column. 4 in a line win.
    1 2 3 4 5 6 7
    . . . . . . .
    . . . . . . .
    . . . . . . .
    . . . . . . .
    . . . . . . .
    . . . X . . .
    Actions: 1, 2, 3, 4, 5, 6, 7.

When the game is over both players observe the result. `infos` of the player to act list its `legal_actions`, in the
order of the prompt.

## Action

As in [kuhn-v0](kuhn-v0.md#action): the first legal action, here the number of a column, that a text names; for a text
that names none a legal action is drawn, and `penalty` is taken.

## Rewards

At the end of the game, by player:

* `payoff`: 1 for a line, -1 for the other's, 0 for a draw;
* `illegal`: minus `penalty` at each illegal answer. The default is the span of the payoffs, 2.

The metric `outcome` of the last turn is 1 if `p1` has won, -1 if `p2` has, 0 for a draw.

## Termination

After a line, or when the board is full: `rows` times `columns` turns at most.

## Data

A task is an opening: `deal`, the moves that have been played, as `4 3`, or `start` for the empty board; `id` names a
task. `tasks="sample"` are the empty board and all openings of one and of two moves on the full board, 57; on a smaller
board those that are legal there.

`scripted:reference` looks four moves ahead and draws among actions that are as good; `scripted:uniform` draws an
action, `scripted:lazy` is silent.

## Version history

* v0: first version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from palaver.core import ConfigError
from palaver.envs.base.arguments import whole_number
from palaver.envs.base.env import MAX_LENGTH
from palaver.envs.games.env import GameEnv
from palaver.envs.games.lines import connect_four

LARGEST = 12  # rows and columns


class ConnectFourEnv(GameEnv):
    """Connect four; see the module's docstring.

    Args:
        rows: of the board.
        columns: of the board.
        length: stones in a line that win.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**GameEnv.metadata, "name": "connect4_v0"}
    sample = Path(__file__).with_name("connect4.jsonl")

    def __init__(
        self,
        tasks: str | Path = "sample",
        rows: int = 6,
        columns: int = 7,
        length: int = 4,
        penalty: float | None = None,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        whole_number("rows", rows, 2, LARGEST)
        whole_number("columns", columns, 2, LARGEST)
        whole_number("length", length, 3, LARGEST)
        if length > max(rows, columns):
            raise ConfigError(f"length: no line of {length} fits on {rows} rows and {columns} columns")
        self.game = connect_four(rows, columns, length)
        super().__init__(tasks, penalty, render_mode, max_length)
