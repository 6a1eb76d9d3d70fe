"""Tiny Hanabi: published best returns, enumeration from the table, and the environment around it."""

from __future__ import annotations

import itertools

import pytest

import palaver
from palaver.core import ConfigError, Message, TaskError
from palaver.envs.games import reference
from palaver.envs.games.solve import GameTree, best_team, expected_value, nash_conv, profile_of, uniform_weights
from palaver.envs.games.tiny_hanabi import PAYOFFS, TinyHanabi

BEST = {"A": 2.25, "B": 1.0, "C": 2.5, "D": 2.5, "E": 10.0, "F": 7 / 3}  # of the suite's authors


@pytest.mark.parametrize("name", PAYOFFS)
def test_the_best_team_earns_what_is_published(name):
    tree = GameTree.of(TinyHanabi(name))
    value, profile = best_team(tree)
    assert value == pytest.approx(BEST[name])
    assert expected_value(tree, profile) == pytest.approx(value)
    assert nash_conv(tree, profile) == pytest.approx(0, abs=1e-12)
    assert set(profile) == set(tree.infosets)


@pytest.mark.parametrize("name", ["A", "D", "E"])
def test_the_best_team_by_enumeration_of_the_table(name):
    table, cards, words = PAYOFFS[name], range(2), range(len(PAYOFFS[name][0][0]))
    best = max(
        sum(table[c][d][first[c]][second[d * len(words) + first[c]]] for c in cards for d in cards) / 4
        for first in itertools.product(words, repeat=2)
        for second in itertools.product(words, repeat=2 * len(words))
    )
    assert best == pytest.approx(BEST[name])


def test_an_equilibrium_without_signals_in_game_e():
    """Both play green always: 8, and nobody gains alone; uniform play earns the mean of the table, 134 / 36."""
    tree = GameTree.of(TinyHanabi("E"))
    green = profile_of(tree, lambda prompts, _: [[0, 1, 0] for _ in prompts])
    assert expected_value(tree, green) == 8
    assert nash_conv(tree, green) == 0
    uniform = profile_of(tree, uniform_weights)
    assert expected_value(tree, uniform) == pytest.approx(134 / 36)
    # best responses to a uniform partner: p1 green, 16 / 3; p2 in its six sets, by the sums of the table's rows
    # card 1, after red (10, 0, 10): red or blue 5; green: 8; blue: red 5. card 2, red (10, 0, 10), green 8, blue 5
    assert nash_conv(tree, uniform) == pytest.approx(16 / 3 + (5 + 8 + 5 + 5 + 8 + 5) / 6 - 2 * 134 / 36)


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("name", PAYOFFS)
def test_the_reference_plays_the_best_team(name, shown):
    env = palaver.make("tiny-hanabi-v0", game=name, show_payoffs=shown)
    earned = []
    for task in range(len(env.tasks)):
        observations, _ = env.reset(seed=0, options={"task": task})
        while env.agents:
            said = {
                agent: reference.tiny_hanabi_reference((Message("user", text),), 0)
                for agent, text in observations.items()
            }
            observations, rewards, _, _, infos = env.step(said)
            assert infos["p1"]["metrics"]["illegal"] == 0
        assert rewards["p1"] == rewards["p2"]
        earned.append(rewards["p1"])
    assert sum(earned) / len(earned) == pytest.approx(BEST[name])


def test_the_table_is_shown_on_request_alone():
    env = palaver.make("tiny-hanabi-v0", game="B", show_payoffs=True)
    observations, _ = env.reset(options={"task": "1-2"})
    line = "Cards 1 2, actions of p1 and p2: left left 0, left right 1, right left 0, right right 1."
    assert line in observations["p1"]
    observations, _ = palaver.make("tiny-hanabi-v0", game="B").reset(options={"task": "1-2"})
    assert "left left" not in observations["p1"]
    assert observations["p2"] == ""


def test_the_result_and_the_questions():
    env = palaver.make("tiny-hanabi-v0", infer="before")
    env.reset(options={"task": "1-2"})
    (question,) = env.unwrapped.questions("p1", {})
    assert (question.about, question.truth) == ("p2", ("2",))
    env = palaver.make("tiny-hanabi-v0")
    env.reset(options={"task": "1-2"})
    env.step({"p1": "red", "p2": None})
    observations, rewards, *_ = env.step({"p1": None, "p2": "blue"})
    assert observations["p1"] == "Your card: 1. Actions so far: p1 red, p2 blue.\nBoth earn 10."
    assert rewards == {"p1": 10.0, "p2": 10.0}


def test_bad_input():
    with pytest.raises(ConfigError, match="game"):
        palaver.make("tiny-hanabi-v0", game="G")
    with pytest.raises(TaskError, match="as '1 2'"):
        TinyHanabi("E").start("1 3")
