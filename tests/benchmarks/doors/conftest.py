from __future__ import annotations

import random

import gymnasium
import pytest
from pettingzoo.env_registry import registration

import palaver
from palaver import registry
from palaver.agents.make_policy import make_policy
from palaver.core import Message, Request
from tests.benchmarks.doors.relay import AGENTS, Relay

QUICK = ("arxiv-v0", "echo-v0", "pioneer-v0", "gsm8k-v0", "matrix-v1", "strbuild-v0")
EVERY = [pytest.param(id, marks=[] if id in QUICK else pytest.mark.slow) for id in palaver.specs()]


@pytest.fixture
def relay():
    """The id of an environment in which one agent acts at a time."""
    spec = palaver.register(registry.Spec("relay-v0", Relay, agents=AGENTS))
    yield spec.id
    forget(spec)


def forget(spec):
    registry._SPECS.pop(spec.id)
    registration.parallel_registry.pop(f"palaver/{spec.id}")
    registration.aec_registry.pop(f"palaver/{spec.id}")
    for id in registry.agent_ids(spec).values():
        gymnasium.registry.pop(id)


@pytest.fixture
def native(request):
    """`native_returns`, where the simulator of battles is set up if it is needed."""
    if "pokemon" in request.node.name:
        request.getfixturevalue("pool")
    return native_returns


class Babbler:
    """The reference's answer to an observation, or some words, drawn from a seed.

    Args:
        remembers: if the reference is given the whole conversation, as that of one agent in one episode.
    """

    def __init__(self, id, seed, remembers=False):
        self.draws = random.Random(seed)
        self.conversation = [] if remembers else None
        self.reference = make_policy("scripted:reference", scripted=palaver.spec(id).scripted)

    def __call__(self, observation):
        messages = (*(self.conversation or ()), Message("user", observation))
        if self.draws.random() < 0.3:
            text = " ".join(self.draws.choices(("however", "42", "one", "left", "\ud800", "é", ""), k=5))
        else:
            text = self.reference.act([Request("x", messages, (self.draws.randrange(2**31),))])[0][0].text
        if self.conversation is not None:
            self.conversation = [*messages, Message("assistant", text)]
        return text


def native_returns(id, seed, turns, task=None):
    """Agent -> return, from the environment itself with the same seed and actions."""
    env = palaver.make(id)
    env.reset(seed=seed, options={"task": task})
    returns = dict.fromkeys(env.possible_agents, 0.0)
    for turn in turns:
        actions = {agent: completion.text for agent, completion in turn.completions.items()}
        for agent, reward in env.step(actions)[1].items():
            returns[agent] += reward
    return returns
