"""Games of stones in a line: tic-tac-toe and connect four, as one set of rules."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from palaver.core import TaskError
from palaver.envs.games.game import ExtensiveGame
from palaver.text import one_line

EMPTY, STONES = ".", "XO"
START = "start"  # the deal with an empty board
_MOVE = re.compile(r"^Actions: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BoardState:
    """Stones row by row from the top, and the winner: 0, 1, or None."""

    cells: str
    winner: int | None = None


class LineGame(ExtensiveGame[BoardState]):
    """Two players place stones in turns; a line of `length` wins, a full board is a draw.

    Args:
        title: its name in prompts.
        rows: of the board.
        columns: of the board.
        length: stones of a winning line.
        drops: True: an action is a column, and the stone falls to its lowest free cell; False: an action is a cell.
    """

    highest = 1.0
    small = False

    def __init__(self, title: str, rows: int, columns: int, length: int, drops: bool) -> None:
        self.title, self.rows, self.columns, self.length, self.drops = title, rows, columns, length, drops
        self.lines = tuple(_lines(rows, columns, length))
        through: list[list[tuple[int, ...]]] = [[] for _ in range(rows * columns)]
        for line in self.lines:
            for cell in line:
                through[cell].append(line)
        self.through = tuple(map(tuple, through))

    def deals(self) -> Mapping[str, float]:
        """The empty board."""
        return {START: 1.0}

    def start(self, deal: str) -> BoardState:
        """Board after the moves of an opening, as `4 4 3`, or `start` for none.

        Raises:
            TaskError: a move is not legal, or the game is over after them.
        """
        state = BoardState(EMPTY * (self.rows * self.columns))
        for action in [] if deal == START else deal.split():
            if self.mover(state) is None or action not in self.actions(state):
                raise TaskError(f"the deal {one_line(repr(deal), 60)}: {action!r:.20} is not a legal move there")
            state = self.after(state, action)
        if self.mover(state) is None:
            raise TaskError(f"the deal {one_line(repr(deal), 60)}: the game is over after it")
        return state

    def mover(self, state: BoardState) -> int | None:
        """The player with fewer stones, `p1` if both have as many."""
        free = state.cells.count(EMPTY)
        return None if state.winner is not None or not free else (len(state.cells) - free) % 2

    def actions(self, state: BoardState) -> tuple[str, ...]:
        """Numbers of the columns that are not full, or of the free cells, from 1."""
        cells = state.cells[: self.columns] if self.drops else state.cells
        return tuple(str(n) for n, stone in enumerate(cells, start=1) if stone == EMPTY)

    def after(self, state: BoardState, action: str) -> BoardState:
        """The board with one more stone."""
        player = self.mover(state)
        assert player is not None
        cell = int(action) - 1
        if self.drops:
            cell += self.columns * (state.cells[cell :: self.columns].count(EMPTY) - 1)
        stone = STONES[player]
        cells = f"{state.cells[:cell]}{stone}{state.cells[cell + 1 :]}"
        won = any(all(cells[n] == stone for n in line) for line in self.through[cell])
        return BoardState(cells, player if won else None)

    def payoff(self, state: BoardState) -> float:
        """1 if `p1` has a line, -1 if `p2` has, else 0."""
        return 0.0 if state.winner is None else 1.0 - 2 * state.winner

    def rules(self, player: int) -> str:
        """The goal, and the player's stone."""
        action = "a stone falls to the lowest free cell of a column" if self.drops else "a stone takes a free cell"
        return f"Your stone is {STONES[player]}; {action}. {self.length} in a line win."

    def view(self, state: BoardState, player: int) -> str:  # noqa: ARG002 - the same for both
        """The board; free cells show their number, or a dot under the numbers of the columns."""
        shown = [str(n) if stone == EMPTY and not self.drops else stone for n, stone in enumerate(state.cells, start=1)]
        rows = [shown[n : n + self.columns] for n in range(0, len(shown), self.columns)]
        head = [[str(n) for n in range(1, self.columns + 1)]] if self.drops else []
        return "\n".join(map(" ".join, [*head, *rows]))

    def board(self, prompt: str) -> BoardState | None:
        """Parse the board of a prompt, the inverse of `prompt`; None if it has none."""
        lines = prompt.splitlines()
        first = 2 if self.drops else 1
        cells = [cell for line in lines[first : first + self.rows] for cell in line.split()]
        if len(cells) != self.rows * self.columns or not _MOVE.search(prompt):
            return None
        return BoardState("".join(cell if cell in STONES else EMPTY for cell in cells))


@functools.cache
def tic_tac_toe() -> LineGame:
    """Three in a line on three by three cells."""
    return LineGame("Tic-tac-toe", 3, 3, 3, drops=False)


@functools.cache
def connect_four(rows: int = 6, columns: int = 7, length: int = 4) -> LineGame:
    """Connect four, or a smaller form of it."""
    title = "Connect four" if length == 4 else f"Connect {length}"
    return LineGame(title, rows, columns, length, drops=True)


def _lines(rows: int, columns: int, length: int) -> list[tuple[int, ...]]:
    """Cells of every line of so many, in four directions."""
    lines = []
    for (row, column), (down, right) in itertools.product(
        itertools.product(range(rows), range(columns)), ((0, 1), (1, 0), (1, 1), (1, -1))
    ):
        last_row, last_column = row + down * (length - 1), column + right * (length - 1)
        if last_row < rows and 0 <= last_column < columns:
            lines.append(tuple((row + down * n) * columns + column + right * n for n in range(length)))
    return lines
