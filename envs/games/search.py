"""Alpha-beta search of games of stones in a line.

Exact values, and actions that are best some moves ahead. Values are those of the player to act. D. E. Knuth and R. W.
Moore, An analysis of alpha-beta pruning (1975).
"""

from __future__ import annotations

from palaver.envs.games.lines import EMPTY, STONES, BoardState, LineGame

Bounds = dict[tuple[str, int], tuple[float, float]]  # cells and depth -> lower and upper bound of the value


def exact_value(game: LineGame, state: BoardState) -> float:
    """Value of a board for the player to act: 1 a win, -1 a loss, 0 a draw."""
    return _search(game, state, len(state.cells), -1.0, 1.0, {})


def best_actions(game: LineGame, state: BoardState, depth: int) -> list[str]:
    """Actions with the largest value, `depth` moves ahead, in the order of the game.

    Where some win at once, these alone.
    """
    children = {action: game.after(state, action) for action in game.actions(state)}
    wins = [action for action, child in children.items() if child.winner is not None]
    if wins:
        return wins
    bounds: Bounds = {}
    values = {action: -_search(game, child, depth - 1, -1.0, 1.0, bounds) for action, child in children.items()}
    return [action for action, value in values.items() if value == max(values.values())]


def open_lines(game: LineGame, state: BoardState) -> float:
    """Estimate of a value from the lines that are open to one player only, between -1 and 1.

    A line with n stones counts n squared.
    """
    player = game.mover(state)
    assert player is not None
    own_stone, other_stone = STONES[player], STONES[1 - player]
    total = 0
    for line in game.lines:
        stones = [state.cells[n] for n in line]
        own_count, other_count = stones.count(own_stone), stones.count(other_stone)
        if not (own_count and other_count):
            total += own_count**2 - other_count**2
    return total / (1 + len(game.lines) * game.length**2)


def _search(game: LineGame, state: BoardState, depth: int, low: float, high: float, bounds: Bounds) -> float:
    """Value of a board within `low` and `high`, or a bound of it outside."""
    if state.winner is not None:
        return -1.0  # the other player has just made a line
    if EMPTY not in state.cells:
        return 0.0
    if depth == 0:
        return open_lines(game, state)
    key = (state.cells, depth)
    lower, upper = bounds.get(key, (-1.0, 1.0))
    if lower >= high or upper <= low or lower == upper:
        return lower if lower >= high or lower == upper else upper
    alpha, beta = max(low, lower), min(high, upper)
    value, limit = -1.0, alpha
    for action in sorted(game.actions(state), key=lambda action: abs(2 * int(action) - game.columns - 1)):
        value = max(value, -_search(game, game.after(state, action), depth - 1, -beta, -limit, bounds))
        limit = max(limit, value)
        if limit >= beta:
            break
    if value <= alpha:
        upper = min(upper, value)
    elif value >= beta:
        lower = max(lower, value)
    else:
        lower = upper = value
    bounds[key] = (lower, upper)
    return value
