"""The AEC view: PettingZoo's test, the agents it selects, and rewards."""

from __future__ import annotations

import contextlib
import io

import pettingzoo
import pytest
from gymnasium.spaces import Dict, Text
from pettingzoo.test import api_test

import palaver
from palaver.core import ConfigError
from tests.benchmarks.doors.conftest import EVERY, Babbler


def finish(view, id, seed):
    """Play one episode: the order of the agents, and their returns."""
    answer = Babbler(id, seed)
    view.reset(seed=seed)
    order, returns = [], dict.fromkeys(view.possible_agents, 0.0)
    for agent in view.agent_iter():
        observation, reward, terminated, truncated, _ = view.last()
        assert observation in view.observation_space(agent)
        returns[agent] += reward
        done = terminated or truncated
        if not done:
            order.append(agent)
        view.step(None if done else answer(observation["text"]))
    return order, returns


@pytest.mark.filterwarnings("ignore::UserWarning")  # that spaces are usually boxes, and agents named player_0
@pytest.mark.parametrize("id", palaver.specs())
def test_every_environment_passes_pettingzoos_test(id, request):
    if id.startswith("pokemon"):
        request.getfixturevalue("pool")
    view = pettingzoo.make("aec", f"palaver/{id}")
    with contextlib.redirect_stdout(io.StringIO()):
        api_test(view, num_cycles=100)
    space = view.observation_space(view.possible_agents[0])
    assert isinstance(space, Dict)
    assert isinstance(space["text"], Text)


@pytest.mark.parametrize("id", EVERY)
def test_rewards_are_those_of_the_environment(id, native):
    view = pettingzoo.make("aec", f"palaver/{id}")
    for seed in range(100):
        _, returns = finish(view, id, seed)
        assert returns == pytest.approx(native(id, seed, view.turns), abs=1e-9)


def test_only_agents_that_may_act_are_selected(relay, native):
    view = pettingzoo.make("aec", f"palaver/{relay}")
    for seed in range(100):
        order, returns = finish(view, "arxiv-v0", seed)
        assert order == ["a", "c", "b", "a", "c", "a"]
        assert returns == pytest.approx(native(relay, seed, view.turns), abs=1e-9)


def test_agents_do_not_see_what_others_write_in_the_same_turn():
    view = pettingzoo.make("aec", "palaver/echo-v0")
    view.reset(seed=0)
    before = view.observe("a2")
    view.step("something that a2 must not read yet")
    assert view.agent_selection == "a2"
    assert view.last()[0] == before
    assert view.rewards == {"a1": 0, "a2": 0}


def test_keywords_reach_the_environment():
    assert pettingzoo.make("aec", "palaver/echo-v0", agents=3).possible_agents == ["a1", "a2", "a3"]
    view = pettingzoo.make("aec", "palaver/arxiv-v0", render_mode="ansi")
    view.reset(seed=0)
    assert "arxiv_v0" in view.render()
    assert view.state()
    with pytest.raises(ConfigError, match=r"has no keyword 'lenght'\. Did you mean 'length'"):
        pettingzoo.make("aec", "palaver/arxiv-v0", lenght=[1, 2])
