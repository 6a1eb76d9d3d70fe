"""Targets, losses and schedules with numbers by hand."""

from __future__ import annotations

import pytest
import torch

from palaver.trainers.value_decomposition.targets import epsilon, greedy, picked, td_loss, td_target


def test_the_best_of_what_is_allowed():
    q = torch.tensor([[[5.0, 1.0, 3.0], [2.0, 9.0, 4.0]]])
    allowed = torch.tensor([[[False, True, True], [False, False, False]]])
    assert greedy(q, allowed).tolist() == [[2, 0]]
    assert picked(q, torch.tensor([[2, 1]]), allowed).tolist() == [[3.0, 0.0]]  # the second may not act


def test_a_target_by_hand():
    """1 + 0.9 * 5 = 5.5, and 2 where the episode ended; the loss of (5, 2.5) is (0.25 + 0.25) / 2."""
    y = td_target(torch.tensor([1.0, 2.0]), torch.tensor([0.9, 0.0]), torch.tensor([5.0, 7.0]))
    assert y.tolist() == [5.5, 2.0]
    q = torch.tensor([5.0, 2.5], requires_grad=True)
    loss = td_loss(q, y)
    assert loss.item() == 0.25
    (slope,) = torch.autograd.grad(loss, q)
    assert slope.tolist() == [-0.5, 0.5]  # 2 (Q - y) / B


def test_no_gradient_reaches_a_target():
    y = torch.tensor([1.0], requires_grad=True)
    loss = td_loss(torch.tensor([0.0], requires_grad=True), y)
    loss.backward()
    assert y.grad is None


@pytest.mark.parametrize(("step", "expected"), [(1, 1.0), (2, 0.7625), (3, 0.525), (5, 0.05), (6, 0.05), (500, 0.05)])
def test_the_chance_of_a_random_action(step, expected):
    """From 1 to 0.05 in 4 equal parts of 0.2375 over steps 1 to 5."""
    assert epsilon(1.0, 0.05, 5, step) == pytest.approx(expected)


def test_a_schedule_of_one_step_is_at_its_end():
    assert epsilon(1.0, 0.1, 1, 1) == pytest.approx(0.1)
