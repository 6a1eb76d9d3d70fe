from __future__ import annotations

import pytest

import palaver as package
from palaver.cli.commands.play import choose_task
from palaver.core import ConfigError, TaskError
from palaver.utils.config import parse_overrides as keywords


def test_values_are_yaml():
    pairs = [
        "length=[32, 64]",
        "gated=false",
        "ratio=1.5",
        "tasks=sample[:4]",
        "weights.length=0.5",
        "ending=''",
        "x=null",
    ]
    assert keywords(pairs) == {
        "length": [32, 64], "gated": False, "ratio": 1.5, "tasks": "sample[:4]", "weights": {"length": 0.5},
        "ending": "", "x": None,
    }  # fmt: skip
    assert keywords([]) == {}


@pytest.mark.parametrize(
    "pair", ["length", "=3", "[=", " =1", "a..b=1", "a[0=1", "length=[1,", "x={", "x=${y}", "x=${oc.env:HOME_}"]
)
def test_what_cannot_be_read_is_a_mistake(pair):
    with pytest.raises(ConfigError):
        keywords([pair])


def test_a_task_is_chosen_by_id_by_index_or_by_seed():
    env = package.make("echo-v0")
    ids = [task.id for task in env.tasks]
    assert choose_task(env, ids[3], seed=0) == ids[3]
    assert choose_task(env, "2", seed=0) == ids[2]
    assert choose_task(env, None, seed=len(ids) + 1) == ids[1]
    with pytest.raises(TaskError, match=f"there is no task '999' among the {len(ids)}"):
        choose_task(env, "999", seed=0)
