"""Which action a text names, where play goes, and how tables are written and read."""

from __future__ import annotations

import pytest

from palaver.envs.matrix import games, prompts, rules
from palaver.envs.matrix import rules as reward
from palaver.envs.matrix.games import from_mapping
from palaver.envs.matrix.rules import Position, action_index, advance
from palaver.envs.matrix.solve import solve

THREE = ("red", "green", "blue")


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("red", "red"),
        (" RED\n", "red"),
        ("Blue.", "blue"),
        ('"green"', "green"),
        ("«Green»!", "green"),
        ("**blue**", "blue"),
        ("__red__", "red"),
        ("`green`", "green"),
        ("1. blue", "blue"),
        ("- red\n- green", "red"),
        ("I choose blue, not red.", "blue"),
        ("not red but green", "red"),
        ("Action:green", "green"),
        ('{"action": "blue"}', "blue"),
        ("<answer>red</answer>", "red"),
        ("\\boxed{green}", "green"),
        ("My answer's red", "red"),
        ("red-green", "red"),
        ("blue/red", "blue"),
        ("ｒｅｄ", "red"),
        ("𝐛𝐥𝐮𝐞", "blue"),
        ("redder than green", "green"),
        ("Red", "red"),
        ("the blue\u2028red", "blue"),
        ("🔴 red", "red"),
        ("", None),
        ("   \n", None),
        ("redgreen", None),
        ("infrared", None),
        ("blues", None),
        ("red2", None),
        ("2red", None),
        ("rëd", None),
        ("r e d", None),
        ("yellow", None),
        ("?", None),
        ("RE\u200bD", None),
        ("\x00", None),
        (".*", None),
        ("(red", "red"),
    ],
)
def test_messy_answers(text, action):
    found = action_index(text, THREE)
    assert (None if found is None else THREE[found]) == action


def test_names_beyond_ascii():
    assert action_index("GRÜN, bitte", ("rot", "grün")) == 1
    assert action_index("gru\u0308n", ("rot", "grün")) == 1  # written with a combining mark
    assert action_index("STRASSE", ("Straße",)) == 0
    assert action_index("left2", ("left", "left2")) == 1


def test_play_goes_on_by_the_table():
    game = games.built_in("two-step")
    start = Position(0, game.horizon)
    assert start == Position(state=0, left=2, round=0)
    assert advance(game, start, (0, 1), 1) == Position(1, 1, 0)
    assert advance(game, start, (1, 0), 1) == Position(2, 1, 0)
    assert advance(game, Position(2, 1, 0), (1, 1), 1) is None
    assert advance(game, Position(2, 1, 0), (1, 1), 2) == Position(0, 2, 1)
    assert advance(game, start, None, 1) is None
    assert advance(game, start, None, 2) == Position(0, 2, 1)


def test_a_round_ends_after_its_steps():
    game = from_mapping({"agents": 1, "actions": ["on"], "states": {"x": {"payoffs": 1, "next": "x"}}, "steps": 3})
    at, turns = Position(0, game.horizon), 0
    while at is not None:
        at, turns = advance(game, at, (0,), 2), turns + 1
    assert turns == 6


def test_pay_and_forfeit():
    solution = solve(games.built_in("two-step"))
    both, one = (False, False), (True, False)
    assert (
        reward.score(solution.game, solution.worst, Position(2, 1), (1, 1), None, both)
        == [{"payoff": 8.0, "illegal": 0.0}] * 2
    )
    assert (
        reward.score(solution.game, solution.worst, Position(1, 1), None, None, one)
        == [{"payoff": 0.0, "illegal": 7.0}] * 2
    )
    assert (
        reward.score(solution.game, solution.worst, Position(1, 1), None, -2.0, one)
        == [{"payoff": 0.0, "illegal": -2.0}] * 2
    )
    dilemma = solve(games.built_in("prisoners-dilemma"))
    for forfeit, paid in ((None, 0.0), (-1.0, -1.0)):  # a cooperation was drawn, the other defected
        assert reward.score(dilemma.game, dilemma.worst, Position(0, 1), (0, 1), forfeit, one) == [
            {"payoff": 0.0, "illegal": paid},
            {"payoff": 5.0, "illegal": 0.0},
        ]


def test_regrets_add_up_to_what_was_missed():
    solution = solve(games.built_in("two-step"))
    start = Position(0, 2)
    assert reward.regret(solution.game, solution.best, start, (1, 0), 0.0) == 0  # the way to 8
    assert reward.regret(solution.game, solution.best, start, (0, 0), 0.0) == 1  # the way to 7
    assert reward.regret(solution.game, solution.best, Position(2, 1), (0, 1), 1.0) == 7
    assert reward.regret(solution.game, solution.best, Position(1, 1), (0, 1), 7.0) == 0
    assert reward.regret(solution.game, solution.best, start, None, 0.0) == 8


@pytest.mark.parametrize(
    "record",
    [
        *({"title": name} for name in games.BUILT_IN),
        {"agents": 3, "actions": ["x", "y"], "payoffs": [[[0.1, -1e-7], [2.5, 3]], [[1e9, 4], [5, [6, 7.25, -8]]]]},
        {"agents": ["x", "_y"], "actions": {"x": ["1"], "_y": ["2", "3"]}, "payoffs": [[[1, 2], 3]]},
        {
            "agents": 1,
            "actions": ["on", "off"],
            "states": {"p": {"payoffs": 1, "next": ["q", None]}, "q": {"payoffs": -1, "next": "p"}},
            "steps": 7,
        },
        {"agents": 1, "actions": ["on", "off"], "states": {"s": {"payoffs": [1, 2], "next": ["s", None]}}, "steps": 2},
        {
            "agents": 2,
            "actions": ["c", "d"],
            "states": {"s": {"payoffs": [[[3, 3], [0, 5]], 1], "next": [["t", None], "t"]}, "t": {"payoffs": 0}},
        },
    ],
    ids=str,
)
def test_a_table_in_a_prompt_is_read_as_it_was_written(record):
    game = games.built_in(record["title"]) if "title" in record else from_mapping(record)
    prompt = prompts.opening(game, game.agents[0], "Say = a; word, then (stop).", tables=prompts.written(game))
    again = prompts.read(prompt)
    assert (again.agents, again.actions, again.states) == (game.agents, game.actions, game.states)
    assert again.payoffs.tolist() == game.payoffs.tolist()
    assert again.successor.tolist() == game.successor.tolist()
    assert (again.steps, again.horizon) == (game.steps, game.horizon)


def test_a_prompt_without_tables_is_no_game():
    assert prompts.read(prompts.opening(games.built_in("qtran"), "a1", "Choose.")) is None


@pytest.mark.parametrize(("name", "kwargs"), [("xor", {"agents": 6}), ("penalty", {"k": -0.5}), ("coordination", {})])
def test_a_title_tells_the_game(name, kwargs):
    game = games.built_in(name, **kwargs)
    assert games.titled(game.title).payoffs.tolist() == game.payoffs.tolist()


@pytest.mark.parametrize(
    "title",
    ["", "bridge", "xor n=3", "xor n=9999", "penalty k=5", "penalty k=1e999", "penalty k=.", "happo k=-1", "qtran\n"],
)
def test_other_titles_are_no_game(title):
    assert games.titled(title) is None


def test_folding_is_the_same_on_both_sides():
    assert rules.fold("ﬁx") == "fix"
    assert action_index("I say ﬁx", ("fix",)) == 0
