"""Returns over turns and trees, against numbers worked out by hand."""

from __future__ import annotations

import torch

from palaver.trainers.objectives.advantages import row_returns, shared_reward, tree_returns


def test_team_is_the_mean_over_agents():
    reward = torch.tensor([[1.0, 3.0], [0.0, -2.0]])
    assert shared_reward(reward).tolist() == [[2.0, 2.0], [-1.0, -1.0]]


def test_a_chain_gives_the_discounted_reward_to_go():
    # r = 1, 2, 4 with gamma 0.5: R2 = 4, R1 = 2 + 2 = 4, R0 = 1 + 2 = 3
    returns = tree_returns(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([-1, 0, 1]), torch.tensor([0, 1, 2]), 0.5)
    assert returns[:, 0].tolist() == [3.0, 4.0, 4.0]


def test_a_node_of_a_tree_takes_the_mean_of_its_children():
    # root 0 (r=1) has children 1 (r=2) and 2 (r=6); child 2 has one child 3 (r=10); another root 4 (r=5) has none
    reward = torch.tensor([[1.0], [2.0], [6.0], [10.0], [5.0]])
    parent = torch.tensor([-1, 0, 0, 2, -1])
    turn = torch.tensor([0, 1, 1, 2, 0])
    assert tree_returns(reward, parent, turn, 1.0)[:, 0].tolist() == [1 + (2 + 16) / 2, 2.0, 16.0, 10.0, 5.0]
    # gamma 0.1: R2 = 6 + 1 = 7, R0 = 1 + 0.1 * (2 + 7) / 2 = 1.45
    assert torch.allclose(
        tree_returns(reward, parent, turn, 0.1)[:, 0], torch.tensor([1.45, 2.0, 7.0, 10.0, 5.0]), atol=1e-6
    )


def test_discount_zero_pays_each_turn_for_itself():
    returns = tree_returns(torch.tensor([[1.0], [2.0]]), torch.tensor([-1, 0]), torch.tensor([0, 1]), 0.0)
    assert returns[:, 0].tolist() == [1.0, 2.0]


def test_an_completion_takes_the_mean_over_the_joint_steps_it_was_in():
    # two agents with two candidates each, crossed: steps (0,0) (0,1) (1,0) (1,1) return 1, 2, 3, 6
    returns = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [6.0, 60.0]])
    step = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    row = torch.tensor([0, 2, 0, 3, 1, 2, 1, 3])  # rows 0, 1 are agent 0's; 2, 3 agent 1's
    agent = torch.tensor([0, 0, 1, 1])
    assert row_returns(returns, step, row, agent).tolist() == [1.5, 4.5, 20.0, 40.0]
