"""`algorithm.entropy`: the mean entropy of the next token is paid, beside the advantage."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from palaver.trainers.objectives.losses import reinforce
from palaver.trainers.update.update_records import UpdateInput
from tests.closeness import assert_gradients_close
from tests.trainers.learning import config, learners, played, policy


def entropies(model, table, rows) -> dict[int, torch.Tensor]:
    """Row -> (T,) from full logits, with gradient."""
    found = {}
    for row in rows:
        said = table.completions[row]
        logits = model(input_ids=torch.tensor([[*said.prompt_ids, *said.token_ids]])).logits[0]
        found[row] = torch.distributions.Categorical(logits=logits[len(said.prompt_ids) - 1 : -1]).entropy()
    return found


def started(coef: float, **algorithm):
    team = {"a": policy(0, name="a"), "b": policy(1, name="b")}
    settings = config(algorithm={"entropy": coef, "aggregate": "token", **algorithm})
    table = played(team, settings)
    nothing = torch.zeros(len(table), dtype=torch.float64)
    (learner, _) = learners(team, settings)
    return learner, replace(table, advantage=nothing, returns=nothing)


@pytest.mark.parametrize("factor", [None, 3.0])
def test_the_step_is_that_of_the_mean_entropy(factor):
    """SGD of rate 1: the weights move by coef times the gradient of the mean; a factor of HAPPO leaves it alone."""
    learner, table = started(0.5)
    rows, before = table.rows_of(("a",)), copy.deepcopy(learner.model)
    mean = torch.cat(list(entropies(before, table, rows).values())).mean()
    mean.backward()
    learner.optimizer = torch.optim.SGD(learner.model.parameters(), lr=1.0)
    learner.config = learner.config.model_copy(update={"optim": learner.config.optim.model_copy(update={"lr": 1.0})})
    weight = None if factor is None else torch.full((len(table),), factor)
    stats = learner.update(UpdateInput(table, rows, reinforce, 1, factor=weight))
    assert stats.entropy == pytest.approx(mean.item(), abs=1e-4)
    assert stats.loss == pytest.approx(-0.5 * mean.item(), abs=1e-4)
    assert stats.rows == len(rows)
    moved = [new - old for old, new in zip(before.parameters(), learner.model.parameters(), strict=True)]
    assert_gradients_close(moved, [0.5 * old.grad for old in before.parameters()])


def test_entropy_rises_and_is_not_computed_where_it_is_not_paid():
    learner, table = started(1.0, epochs=5)
    rows = table.rows_of(("a",))
    first = torch.cat([h.detach() for h in entropies(learner.model, table, rows).values()]).mean()
    learner.update(UpdateInput(table, rows, reinforce, 1))
    assert torch.cat([h.detach() for h in entropies(learner.model, table, rows).values()]).mean() > first
    learner, table = started(0.0)
    stats = learner.update(UpdateInput(table, table.rows_of(("a",)), reinforce, 1))
    assert (stats.entropy, stats.rows) == (0.0, 0)
