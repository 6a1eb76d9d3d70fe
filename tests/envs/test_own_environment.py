"""The environment in the docs is short, runs, and keeps the contract."""

from __future__ import annotations

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import palaver
from palaver.core import Message
from palaver.envs.base.checks import check
from tests.architecture.source import ROOT
from tests.docs.blocks import module

PAGE = ROOT / "docs" / "own-environment.md"


@pytest.fixture(scope="module")
def code() -> str:
    return module(PAGE)


@pytest.fixture(scope="module")
def names(code):
    space = {"__name__": "own_environment"}
    exec(compile(code, str(PAGE), "exec"), space)
    yield space
    palaver.registry._SPECS.pop("animals-v0")
    palaver.registry.registration.parallel_registry.pop("palaver/animals-v0")


def test_it_is_short(code):
    assert len(code.splitlines()) < 60


def test_it_keeps_the_contract(names):
    check(names["Animals"])
    check(lambda: palaver.make("animals-v0", render_mode="ansi"))
    parallel_api_test(names["Animals"]())
    parallel_seed_test(names["Animals"])


def test_the_honest_team_wins(names):
    env = palaver.make("animals-v0")
    observations, _ = env.reset(seed=0, options={"task": "owl"})
    hint = names["honest"]((Message("user", observations["helper"]),), 0)
    assert hint == "hunts at night"
    observations, rewards, _, _, infos = env.step({"helper": hint, "asker": "too early"})
    assert rewards == {"helper": 0.0, "asker": 0.0}
    assert {agent: info["can_act"] for agent, info in infos.items()} == {"asker": True, "helper": False}
    answer = names["honest"]((Message("user", observations["asker"]),), 0)
    _, rewards, terminated, _, _ = env.step({"asker": answer})
    assert rewards == {"helper": 1.0, "asker": 1.0}
    assert all(terminated.values())


def test_naming_the_animal_is_illegal_and_costs(names):
    env = palaver.make("animals-v0")
    env.reset(options={"task": "bee"})
    observations, rewards, _, _, infos = env.step({"helper": "a BEE"})
    assert rewards["helper"] == -1.0
    assert infos["helper"]["metrics"]["illegal"] == 1.0
    assert observations["asker"] == "Hint: ...\nWhich animal?"
