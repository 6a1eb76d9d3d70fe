"""Advantage Alignment, against numbers worked out by hand, and in the iterated prisoner's dilemma without a model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.objectives.alignment import aligned_advantage, past_advantage
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.updater import Updater
from tests.trainers.learning import config, episode, learners, policy

CHAIN = torch.tensor([-1, 0, 1]), torch.tensor([0, 1, 2])


def columns(*agents):
    return torch.tensor(agents, dtype=torch.float64).T


def test_the_golden_numbers():
    """w_1 = [0, 1, 3], so A*_1 = [1, 2 + 1, 3 + 3]; w_2 = [0, 1, 2], so A*_2 = [1, 1 + 2, 1 + 6]."""
    advantage = columns([1, 2, 3], [1, 1, 1])
    assert past_advantage(advantage, *CHAIN, 1.0).T.tolist() == [[0, 1, 3], [0, 1, 2]]
    assert aligned_advantage(advantage, *CHAIN, 1.0, 1.0).T.tolist() == [[1, 3, 6], [1, 3, 7]]


def test_discount_and_beta():
    """gamma = 1/2: w_1 = [0, 1/2, 1/4 + 1]; beta = 4: A*_1 = [1, 2 + 2, 3 + 5]."""
    aligned = aligned_advantage(columns([1, 2, 3], [1, 1, 1]), *CHAIN, 0.5, 4.0)
    assert aligned[:, 0].tolist() == [1, 4, 8]
    assert aligned_advantage(columns([1, 2, 3], [1, 1, 1]), *CHAIN, 0.5, 0.0)[:, 0].tolist() == [1, 2, 3]


def test_of_three_agents_the_others_advantages_are_added():
    """w_1 at turn 1 is 2, the others have 3 - 1 there: 5 + 2 x 2."""
    aligned = aligned_advantage(columns([2, 5], [0, 3], [0, -1]), CHAIN[0][:2], CHAIN[1][:2], 1.0, 1.0)
    assert aligned[1].tolist() == [9, 3, -1]


def test_in_a_tree_the_past_is_that_of_the_own_path():
    parent, turn = torch.tensor([-1, -1, 0, 1, 2]), torch.tensor([0, 0, 1, 1, 2])
    advantage = columns([1, -1, 2, 3, 0], [0, 0, 0, 0, 0])
    assert past_advantage(advantage, parent, turn, 1.0)[:, 0].tolist() == [0, 0, 1, -1, 3]


def test_a_batch_is_filled_from_the_advantages_of_all_agents():
    """Two episodes of two turns, gamma = 1, beta = 2.

    Returns of a: 1 + 2, 2 and 3 + 0, 0; of b: 0 + 1, 1 and 4 + 3, 3. Less the other episode's: a 0, 2 and 0, -2; b -6,
    -2 and 6, 2. A* of a: 0, 2 + 2 x 0 x -2 and 0, -2; of b: -6, -2 + 2 x -6 x 2 and 6, 2 + 2 x 6 x -2.
    """
    chains = [episode("0", 0, [(1.0, 0.0), (2.0, 1.0)]), episode("0", 1, [(3.0, 4.0), (0.0, 3.0)])]
    settings = config(algorithm={"name": "adalign", "discount": 1.0, "group_size": 2})
    team = {"a": policy(0), "b": policy(1)}
    updater = Updater(algorithm("adalign"), settings, learners(team, settings), Distributed("cpu", "fp32"))
    table = make_batch(chains)
    filled = updater.estimate_advantages(table).batch
    assert filled.advantage[table.rows_of(["a"])].tolist() == [0, 2, 0, -2]
    assert filled.advantage[table.rows_of(["b"])].tolist() == [-6, -26, 6, -22]
    alone = updater.estimate_advantages(make_batch(chains, ["a"])).batch
    assert alone.advantage.tolist() == [0, 2, 0, -2], "an agent that is not trained has advantages too"


def test_a_beta_that_falls_to_0_counts_updates_and_resumes():
    """Of 4 steps: 2, 1.5, 1, 0.5, as 2 (1 - n/4)."""
    settings = config(
        algorithm={"name": "adalign", "beta": 2.0, "beta_schedule": "linear", "group_size": 2}, train={"steps": 4}
    )

    def fresh():
        team = {"a": policy(0), "b": policy(1)}
        return Updater(algorithm("adalign"), settings, learners(team, settings), Distributed("cpu", "fp32"))

    updater, betas = fresh(), []
    table = make_batch([episode("0", 0, [(1.0, 0.0)]), episode("0", 1, [(3.0, 4.0)])])
    for step in range(1, 4):
        betas.append(updater.estimator.beta)
        updater.update(updater.estimate_advantages(table), step)
    resumed = fresh()
    resumed.load_state_dict(updater.state_dict())
    assert [*betas, resumed.estimator.beta] == [2.0, 1.5, 1.0, 0.5]


# --- tabular ---

PAYOFFS = np.array([[[3, 3], [0, 5]], [[5, 0], [1, 1]]], dtype=float)
ROUNDS, EPISODES, STEPS, DISCOUNT = 20, 128, 400, 0.96
DEFECTS = np.array([1.0] * 5)


def play(chances, rng, count):
    """States, actions and payoffs of games, (E, T, 2, ...); state 0 is the first round, then 1 + 2 own + other's."""
    state, record = np.zeros((count, 2), int), []
    for _ in range(ROUNDS):
        probability = np.stack([chances[n][state[:, n]] for n in range(2)], axis=1)
        action = (rng.random((count, 2)) < probability).astype(int)
        record.append((state, action, PAYOFFS[action[:, 0], action[:, 1]]))
        state = np.stack([1 + 2 * action[:, 0] + action[:, 1], 1 + 2 * action[:, 1] + action[:, 0]], axis=1)
    return tuple(np.stack(column, axis=1) for column in zip(*record, strict=True))


def learn(beta, seed):
    """Policies with a memory of one round, by ascent along A* times the score; all logits begin at 0."""
    rng, logits = np.random.default_rng(seed), np.zeros((2, 5))
    turn = torch.arange(ROUNDS).repeat(EPISODES)
    parent = torch.where(turn == 0, -1, torch.arange(EPISODES * ROUNDS) - 1)
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-logits))
        state, action, payoff = play(chances, rng, EPISODES)
        returns, ahead = np.zeros_like(payoff), np.zeros((EPISODES, 2))
        for t in reversed(range(ROUNDS)):
            returns[:, t] = ahead = payoff[:, t] + DISCOUNT * ahead
        advantage = torch.tensor((returns - returns.mean(axis=0)) * EPISODES / (EPISODES - 1)).reshape(-1, 2)
        aligned = aligned_advantage(advantage, parent, turn, DISCOUNT, beta).reshape(payoff.shape).numpy()
        for n in range(2):
            score = (action[:, :, n] - chances[n][state[:, :, n]]) * aligned[:, :, n]
            logits[n] += np.bincount(state[:, :, n].ravel(), score.ravel(), 5) / (EPISODES * ROUNDS)
    return 1 / (1 + np.exp(-logits)), rng


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_alignment_finds_cooperation_where_independent_learning_ends_in_defection(seed):
    chances, rng = learn(0.02, seed)
    assert play(chances, rng, 500)[2].mean() > 2.7
    for n in range(2):
        against = [DEFECTS, DEFECTS]
        against[n] = chances[n]
        assert play(against, rng, 500)[2][:, :, n].mean() > 0.9, "not exploited by one who always defects"
    alone, rng = learn(0.0, seed)
    assert play(alone, rng, 500)[2].mean() < 1.2
