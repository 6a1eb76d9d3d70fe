"""Boards: exact values against plain minimax and known results, the depth-limited player, and boards read back."""

from __future__ import annotations

import functools
import random

import pytest

from palaver.core import TaskError
from palaver.envs.games.lines import BoardState, connect_four, tic_tac_toe
from palaver.envs.games.search import best_actions, exact_value, open_lines

GAMES = [tic_tac_toe(), connect_four(), connect_four(3, 4, 3)]


def minimax(game, state):
    """Value for the player to act, all moves tried, nothing cut."""

    @functools.cache
    def value(state):
        if game.mover(state) is None:
            return -1.0 if state.winner is not None else 0.0
        return max(-value(game.after(state, action)) for action in game.actions(state))

    return value(state)


def played(game, draw):
    state = game.start("start")
    states = [state]
    while game.mover(state) is not None:
        state = game.after(state, draw.choice(game.actions(state)))
        states.append(state)
    return states


def test_tic_tac_toe_is_a_draw():
    game = tic_tac_toe()
    assert len(game.lines) == 8
    assert exact_value(game, game.start("start")) == 0
    # a corner answered on an edge is lost, in the centre it is not
    assert exact_value(game, game.start("1 2")) == 1
    assert exact_value(game, game.start("1 5")) == 0
    assert best_actions(game, game.start("1"), 9) == ["5"]


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (3, 4), (4, 3), (4, 4)])
def test_three_in_a_line_on_small_boards(rows, columns):
    game = connect_four(rows, columns, 3)
    start = game.start("start")
    assert exact_value(game, start) == minimax(game, start)


def test_four_in_a_line_on_sixteen_cells_is_a_draw():
    """J. Tromp's table of solved sizes."""
    game = connect_four(4, 4)
    assert exact_value(game, game.start("start")) == 0


def test_positions_by_plain_minimax():
    draw = random.Random(1)
    for game in (tic_tac_toe(), connect_four(4, 3, 3)):
        for state in (draw.choice(played(game, draw)[:-1]) for _ in range(40)):
            assert exact_value(game, state) == minimax(game, state)
            values = {a: -minimax(game, game.after(state, a)) for a in game.actions(state)}
            assert {values[a] for a in best_actions(game, state, 16)} == {max(values.values())}


def test_lines_of_the_full_board():
    game = connect_four()
    assert len(game.lines) == 69  # 24 + 21 + 12 + 12
    assert game.start("4 4").cells[-4 - 7] == "O"


def test_the_player_takes_a_win_and_stops_one():
    game = connect_four()
    assert best_actions(game, game.start("4 1 4 1 4 1"), 4) == ["4"]
    assert best_actions(game, game.start("4 1 4 1 4"), 4) == ["4"]
    # three in the open row below would win at both ends
    assert set(best_actions(game, game.start("4 4 3"), 4)) <= {"2", "5"}


def test_the_player_beats_random_moves():
    game, draw, wins = connect_four(), random.Random(0), 0
    for n in range(10):
        state = game.start("start")
        while (player := game.mover(state)) is not None:
            actions = best_actions(game, state, 3) if player == n % 2 else game.actions(state)
            state = game.after(state, draw.choice(actions))
        wins += state.winner == n % 2
    assert wins == 10


def test_estimates_are_smaller_than_a_win_and_favour_the_centre():
    game = connect_four()
    for state in played(game, random.Random(3))[:-1]:
        assert -1 < open_lines(game, state) < 1
    assert open_lines(game, game.start("4")) < open_lines(game, game.start("1")) < 0  # the other player is to act


@pytest.mark.parametrize("game", GAMES, ids=lambda game: f"{game.title} {game.rows}")
def test_boards_are_read_back(game):
    for state in played(game, random.Random(5))[:-1]:
        assert game.board(game.prompt(state, game.mover(state))) == state
    assert game.board("") is None
    assert game.board("Actions: 1.") is None


@pytest.mark.parametrize("deal", ["10", "1 1", "x", "1 2 3 5 4 6 7", ""])
def test_openings_that_are_none(deal):
    game = tic_tac_toe()
    if deal == "":
        assert game.start(deal) == BoardState("." * 9)
    else:
        with pytest.raises(TaskError, match=r"not a legal move|is over"):
            game.start(deal)
