"""Repeated matrix games with memory: the dilemma's strategies, zero-sum games, and their exact NashConv."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import palaver
from palaver.core import Message
from palaver.envs.matrix import games, reference
from palaver.envs.matrix.solve import best_response_return, expected_return, nash_conv

ROUNDS = 20


def mean_by_round(*rules, task=1, **kwargs):
    """Mean reward by round of both players; task 1 lists the actions in another order than the table."""
    env = palaver.make("matrix-v1", repeats=ROUNDS, feedback=True, **kwargs)
    observations, _ = env.reset(seed=0, options={"task": task})
    conversations, totals = dict.fromkeys(env.agents, ()), dict.fromkeys(env.agents, 0.0)
    while env.agents:
        conversations = {agent: (*past, Message("user", observations[agent])) for agent, past in conversations.items()}
        said = {agent: rule(conversations[agent], 0) for agent, rule in zip(env.agents, rules, strict=True)}
        conversations = {agent: (*past, Message("assistant", said[agent])) for agent, past in conversations.items()}
        observations, rewards, *_ = env.step(said)
        totals = {agent: totals[agent] + reward for agent, reward in rewards.items()}
    return tuple(total / ROUNDS for total in totals.values())


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (reference.always_first, reference.always_first, (3.0, 3.0)),
        (reference.always_last, reference.always_last, (1.0, 1.0)),
        (reference.always_first, reference.always_last, (0.0, 5.0)),
        (reference.tit_for_tat, reference.tit_for_tat, (3.0, 3.0)),
        # exploited once, then 19 rounds of punishment: 19 and 5 + 19 of 20 rounds
        (reference.tit_for_tat, reference.always_last, (0.95, 1.2)),
        (reference.always_first, reference.tit_for_tat, (3.0, 3.0)),
    ],
)
def test_the_iterated_dilemma(first, second, expected):
    for task in (0, 1):
        assert mean_by_round(first, second, game="prisoners-dilemma", task=task) == pytest.approx(expected)


def test_fresh_observations_stand_alone_and_remember_one_round():
    env = palaver.make("matrix-v1", game="prisoners-dilemma", repeats=3, feedback=True, fresh=True)
    assert env.metadata["conversation"] == "fresh"
    first = env.reset(options={"task": 0})[0]
    assert "Round" not in first["a1"]
    for joint in (("defect", "cooperate"), ("cooperate", "cooperate")):
        after = env.step(dict(zip(env.agents, joint, strict=True)))[0]
        paid = "5, 0" if joint[0] == "defect" else "3, 3"
        for agent, prompt in after.items():
            assert prompt == f"{first[agent]}\na1 chose {joint[0]}, a2 chose {joint[1]}. Paid: {paid}."
    assert env.num_turns == 3


def test_payoffs_of_the_other_games():
    def table(name):
        game = games.built_in(name)
        return {joint: tuple(pay) for joint, pay in zip(game.joints(), game.payoffs[0].tolist(), strict=True)}

    assert table("chicken") == {("yield", "yield"): (3, 3), ("yield", "dare"): (1, 4),
                                ("dare", "yield"): (4, 1), ("dare", "dare"): (0, 0)}  # fmt: skip
    assert table("stag-hunt")["hare", "stag"] == (3, 0)
    wins = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
    for (first, second), pay in table("rock-paper-scissors").items():
        expected = 0 if first == second else 1 if (first, second) in wins else -1
        assert pay == (expected, -expected)
    assert {pay for (a, b), pay in table("matching-pennies").items() if a == b} == {(1, -1)}


@pytest.mark.parametrize("name", ["rock-paper-scissors", "matching-pennies"])
def test_zero_sum_games_say_so(name):
    env = palaver.make("matrix-v1", game=name)
    assert env.competitive
    assert env.zero_sum
    assert env.max_return == 0.0


@pytest.mark.parametrize(
    ("name", "chances", "expected"),
    [
        ("rock-paper-scissors", [[1 / 3] * 3] * 2, 0.0),
        ("rock-paper-scissors", [[1, 0, 0]] * 2, 2.0),  # both answer with paper
        ("rock-paper-scissors", [[0.5, 0.25, 0.25], [1 / 3] * 3], 0.25),  # paper wins 1/2 and loses 1/4
        ("matching-pennies", [[0.5, 0.5]] * 2, 0.0),
        ("matching-pennies", [[0.75, 0.25], [0.5, 0.5]], 0.5),  # tails wins 3/4 and loses 1/4
        ("prisoners-dilemma", [[0, 1]] * 2, 0.0),
        ("prisoners-dilemma", [[1, 0]] * 2, 4.0),  # 5 in place of 3, twice
        ("chicken", [[0, 1], [1, 0]], 0.0),
        ("chicken", [[0.5, 0.5]] * 2, 0.0),  # 3/2 + 1/2 = 4/2: indifferent
        ("stag-hunt", [[0.75, 0.25]] * 2, 0.0),  # 4 q = 3
    ],
)
def test_nash_conv_by_hand(name, chances, expected):
    assert nash_conv(games.built_in(name), {"start": chances}) == pytest.approx(expected, abs=1e-12)


def test_a_best_response_in_several_states_is_the_best_pure_policy():
    """Against a mixed partner in the two-step game, all pure policies tried."""
    game = games.built_in("two-step")
    mixed = [0.3, 0.7]
    pure = []
    for choice in itertools.product((0, 1), repeat=len(game.states)):
        chances = {s: [list(np.eye(2)[a]), mixed] for s, a in zip(game.states, choice, strict=True)}
        pure.append(float(expected_return(game, chances)[0]))
    any_own = {state: [[0.5, 0.5], mixed] for state in game.states}
    assert best_response_return(game, any_own, 0) == pytest.approx(max(pure))
    assert max(pure) == pytest.approx(7.0)  # B pays .3 x 1 + .7 x 8 = 5.9
