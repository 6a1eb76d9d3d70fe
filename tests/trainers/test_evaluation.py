"""The summary of an evaluation: what one task can and cannot say."""

from __future__ import annotations

import json

import pytest

from palaver.core import Completion
from palaver.episodes import Episode, Turn
from palaver.trainers.rollout.evaluation import summarize


def episode(task, reward):
    turn = Turn(0, "0", "", task, {"a": 0}, {"a": "?"}, {"a": Completion("x")}, {"a": reward}, {"a": {"x": reward}})
    return Episode("toy-v0", task, 0, (turn,), "terminated")


def test_one_task_has_no_interval():
    found = summarize([episode("t", 1.0), episode("t", 2.0)])
    assert (found.mean, found.low, found.high, found.n, found.tasks) == (1.5, None, None, 2, 1)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["low"] is None


def test_tasks_that_agree_have_an_interval_without_width():
    found = summarize([episode("s", 2.0), episode("t", 2.0)])
    assert (found.low, found.high) == (2.0, 2.0)


def test_the_interval_is_over_tasks():
    # means of two tasks are 0 and 4; a resample has both of one (1/4 each) or one of each (1/2), so 2.5 % is 0
    found = summarize([episode("s", 0.0), episode("t", 3.0), episode("t", 5.0)])
    assert (found.mean, found.low, found.high) == (2.0, 0.0, 4.0)
    assert found.by_task == {"s": 0.0, "t": 4.0}
    with pytest.raises(ValueError, match="no episodes"):
        summarize([])
