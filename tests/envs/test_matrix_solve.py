"""What games are worth, against numbers worked out by hand and a search that shares no code."""

from __future__ import annotations

import itertools
import random

import pytest

from palaver.core import ConfigError
from palaver.envs.matrix import games
from palaver.envs.matrix.games import from_mapping
from palaver.envs.matrix.solve import (
    best_values,
    expected_return,
    joint_values,
    least,
    max_return,
    solve,
    worst_values,
)

BEST = {
    "climbing": 11,
    "penalty": 10,
    "xor": 1,
    "two-step": 8,
    "prisoners-dilemma": 3,  # both cooperate: (3 + 3) / 2; one defects: (5 + 0) / 2
    "coordination": 1,
    "qtran": 8,
    "happo": 1,
    "chicken": 3,  # both yield: (3 + 3) / 2; one dares: (1 + 4) / 2
    "stag-hunt": 4,
    "rock-paper-scissors": 0,
    "matching-pennies": 0,
}


def even(game):
    """Uniform policies in every state."""
    return {state: [[1 / len(names)] * len(names) for names in game.actions] for state in game.states}


@pytest.mark.parametrize("name", games.BUILT_IN)
def test_the_best_return(name):
    game = games.built_in(name)
    assert max_return(game) == BEST[name]
    assert max_return(game, repeats=3) == 3 * BEST[name]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("climbing", [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]),
        ("penalty", [[10, 0, -100], [0, 2, 0], [-100, 0, 10]]),
        ("xor", [[0, 1], [1, 0]]),
        ("coordination", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        ("qtran", [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]]),
        ("happo", [[0, 1], [1, -2]]),
    ],
)
def test_the_published_tables(name, table):
    game = games.built_in(name)
    for joint in itertools.product(range(len(table)), repeat=2):
        assert game.payoffs[0, game.index(joint)].tolist() == [table[joint[0]][joint[1]]] * 2
    assert (game.states, game.horizon) == (("start",), 1)


def test_the_two_step_game_is_that_of_the_qmix_paper():
    game = games.built_in("two-step")
    assert (game.states, game.horizon) == (("start", "A", "B"), 2)
    best = best_values(game, 0.99)
    # whatever the second agent does, the first leads to 7 or to 8, one turn later
    assert joint_values(game, best, 0, 2, 0.99).tolist() == pytest.approx([6.93, 6.93, 7.92, 7.92])
    assert joint_values(game, best, 1, 1, 0.99).tolist() == [7, 7, 7, 7]
    assert joint_values(game, best, 2, 1, 0.99).tolist() == [0, 1, 1, 8]
    assert max_return(game, discount=0.99) == pytest.approx(7.92)


def test_each_is_paid_its_own_in_the_dilemma():
    game = games.built_in("prisoners-dilemma")
    assert game.payoffs[0].tolist() == [[3, 3], [0, 5], [5, 0], [1, 1]]
    assert game.shared().payoffs[0].tolist() == [[3, 3], [2.5, 2.5], [2.5, 2.5], [1, 1]]


@pytest.mark.parametrize(("n", "paid"), [(2, {"lr", "rl"}), (4, {"llrr", "rrll"}), (6, {"lllrrr", "rrrlll"})])
def test_xor_pays_two_joint_actions(n, paid):
    game = games.built_in("xor", n)
    found = {
        "".join(name[0] for name in joint) for joint, pay in zip(game.joints(), game.payoffs[0], strict=True) if pay[0]
    }
    assert found == paid


def test_discounted_rounds():
    assert max_return(games.built_in("climbing"), 3, 0.5) == 11 * (1 + 0.5 + 0.25)
    # 8 at turn 1 and at turn 3
    assert max_return(games.built_in("two-step"), 2, 0.5) == 0.5 * 8 + 0.125 * 8
    assert max_return(games.built_in("climbing"), 5, 0.0) == 11


def test_with_a_discount_the_length_of_a_round_counts():
    states = {"start": {"payoffs": [2, 0], "next": [None, "X"]}, "X": {"payoffs": 5}}
    game = from_mapping({"agents": 1, "actions": ["stop", "go"], "states": states})
    assert max_return(game, 1, 0.5) == 2.5  # go: 0 + 5 / 2 is more than 2
    # first stop: 2 + 2.5 / 2 = 3.25 is more than to go: (5 + 2.5 / 2) / 2 = 3.125
    assert max_return(game, 2, 0.5) == 3.25
    assert max_return(game, 2) == 10


def test_the_least_that_can_be_paid():
    assert worst_values(games.built_in("climbing"))[1, 0].tolist() == [-30, -30]
    assert worst_values(games.built_in("prisoners-dilemma"))[1, 0].tolist() == [0, 0]
    two_step = worst_values(games.built_in("two-step"))
    assert two_step[2, 0].tolist() == [0, 0]  # by way of B
    assert two_step[1, 1].tolist() == [7, 7]
    assert two_step[1, 2].tolist() == [0, 0]


def test_least_looks_at_every_turn():
    states = {"start": {"payoffs": 100, "next": "X"}, "X": {"payoffs": -100}, "never": {"payoffs": -999}}
    game = from_mapping({"agents": 1, "actions": ["go"], "states": states})
    solution = solve(game)
    assert solution.best[2, 0] == solution.worst[2, 0, 0] == 0
    assert least(game, solution.worst) == -100


def test_a_circle_needs_an_end():
    record = {
        "agents": 1,
        "actions": ["stay", "leave"],
        "states": {"here": {"payoffs": [1, 5], "next": ["here", None]}},
    }
    with pytest.raises(ConfigError, match=r"^game: its states go in a circle; give steps"):
        from_mapping(record)
    game = from_mapping(record | {"steps": 4})
    assert game.horizon == 4
    assert max_return(game) == 1 + 1 + 1 + 5
    assert solve(game).optimal(0, 2) == (0,)
    assert solve(game).optimal(0, 1) == (1,)
    assert expected_return(game, even(game))[0] == 3 + 3 / 2 + 3 / 4 + 3 / 8  # each turn pays 3 and goes on with 1/2


def test_steps_end_a_round_early():
    game = from_mapping({**games.two_step(), "steps": 1})
    assert (game.horizon, max_return(game)) == (1, 0)
    assert from_mapping({**games.two_step(), "steps": 9}).horizon == 2


def test_exact_returns_of_policies():
    happo = games.built_in("happo")
    assert expected_return(happo, even(happo)).tolist() == [0, 0]
    # .04 * 0 + .16 * 1 + .16 * 1 - .64 * 2
    assert expected_return(happo, {"start": [[0.2, 0.8]] * 2}).tolist() == pytest.approx([-0.96] * 2)
    dilemma = games.built_in("prisoners-dilemma")
    assert expected_return(dilemma, {"start": [[0.5, 0.5], [0, 1]]}).tolist() == [0.5, 3]
    two_step = games.built_in("two-step")
    # half of the time 7, half of the time (0 + 1 + 1 + 8) / 4
    assert expected_return(two_step, even(two_step)).tolist() == [4.75, 4.75]
    assert expected_return(two_step, even(two_step), 0.5).tolist() == [2.375, 2.375]


@pytest.mark.parametrize(("n", "bound"), [(2, 0.5), (4, 0.125), (6, 0.03125)])
def test_equal_policies_cannot_pass_the_bound_of_xor(n, bound):
    game = games.built_in("xor", n)
    reached = [expected_return(game, {"start": [[p / 20, 1 - p / 20]] * n})[0] for p in range(21)]
    assert max(reached) == reached[10] == pytest.approx(bound)
    parts = [[1, 0]] * (n // 2) + [[0, 1]] * (n // 2)
    assert expected_return(game, {"start": parts})[0] == 1


@pytest.mark.parametrize("seed", range(8))
def test_against_a_plain_search(seed):
    draw = random.Random(seed)
    names = ["s0", "s1", "s2", "s3"]

    def table(choose):
        return [[choose() for _ in range(3)] for _ in range(2)]

    states = {}
    for place, name in enumerate(names):
        later = [*names[place + 1 :], None]
        states[name] = {
            "payoffs": table(lambda: [draw.randint(-9, 9), draw.randint(-9, 9)]),
            "next": table(lambda later=later: draw.choice(later)),
        }
    game = from_mapping({"agents": 2, "actions": {"a1": ["x", "y"], "a2": ["p", "q", "r"]}, "states": states})

    def search(state, pick, value):
        if state is None:
            return 0
        cells = itertools.product(range(2), range(3))
        return pick(
            value(states[state]["payoffs"][i][j]) + search(states[state]["next"][i][j], pick, value) for i, j in cells
        )

    solution = solve(game)
    assert max_return(game) == solution.best[-1, 0] == search("s0", max, lambda pay: sum(pay) / 2)
    assert solution.worst[-1, 0].tolist() == [search("s0", min, lambda pay, n=n: pay[n]) for n in (0, 1)]
