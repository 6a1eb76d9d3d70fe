"""The moving baseline of self-play, against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from palaver.trainers.algorithm import algorithm
from palaver.trainers.moving import Moving
from palaver.trainers.study import Study
from palaver.trainers.table import Table, tabulate
from palaver.trainers.world import World
from tests.trainers.learning import config, episode, learners, policy


def game(*won: float) -> Table:
    """Zero-sum games: what agent a wins, agent b loses."""
    return tabulate([episode("0", lane, [(reward, -reward)]) for lane, reward in enumerate(won)])


def test_each_role_has_a_mean_of_its_own_and_is_judged_by_the_mean_before_the_step():
    """decay .95: a wins 1 and 0, mean .5, so b_a = .025; then 2: A = 2 - .025; b_a = .95 * .025 + .05 * 2 = .12375."""
    settings = config(algorithm={"name": "rae", "group_size": 1})
    study = Study(
        algorithm("rae"), settings, learners({"a": policy(0), "b": policy(1)}, settings), World("cpu", "fp32")
    )
    first = study.judge(game(1.0, 0.0))
    assert first.table.advantage[first.table.rows_of(["a"])].tolist() == [1.0, 0.0]
    assert first.table.advantage[first.table.rows_of(["b"])].tolist() == [-1.0, 0.0]
    study.learn(first, 1)
    assert study.moving.means == pytest.approx({"a": 0.025, "b": -0.025})
    second = study.judge(game(2.0))
    assert second.table.advantage.tolist() == pytest.approx([1.975, -1.975])
    study.learn(second, 2)
    assert study.moving.means == pytest.approx({"a": 0.12375, "b": -0.12375})


def test_one_shared_policy_still_has_a_mean_for_each_role():
    settings = config(algorithm={"name": "rae", "group_size": 1, "decay": 0.5})
    one = policy(0)
    study = Study(algorithm("rae"), settings, learners({"a": one, "b": one}, settings), World("cpu", "fp32"))
    study.learn(study.judge(game(1.0)), 1)
    assert study.judge(game(1.0)).table.advantage.tolist() == [0.5, -0.5]


def test_an_agent_that_said_nothing_keeps_its_mean():
    moving = Moving(0.5)
    table = game(4.0)
    table = Table(**{name: getattr(table, name) for name in Table.__slots__} | {"returns": torch.tensor([4.0, -4.0])})
    moving.update(table, World("cpu", "fp32"))
    assert moving.means == {"a": 2.0, "b": -2.0}
    silent = tabulate([episode("0", 0, [(1.0, 0.0)], [{"b": table.utterances[1]}])])
    silent = Table(**{name: getattr(silent, name) for name in Table.__slots__} | {"returns": torch.tensor([0.0])})
    moving.update(silent, World("cpu", "fp32"))
    assert moving.means == {"a": 2.0, "b": -1.0}
    assert moving.values(silent).tolist() == [-1.0]
