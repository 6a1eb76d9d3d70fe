"""Texts with exact counts, and an environment that scores two of them."""

from __future__ import annotations

import itertools
import json

import pytest

import palaver

# consonants only: no expression of the lexicon, each of which has a vowel, can hide in these
TOKENS = ["".join(letters) for letters in itertools.product("bcdfghjk", repeat=4)]


@pytest.fixture(autouse=True)
def _simulator(request):
    """Skips what needs the simulator of Pokémon battles where it is missing."""
    if getattr(request.node, "callspec", None) and request.node.callspec.params.get("id") == "pokemon-v1":
        request.getfixturevalue("pool")


@pytest.fixture(scope="session")
def write():
    """write(n, d, c, offset, tail): n tokens, d different, c characters; from TOKENS[offset] on, then a tail."""

    def text(n, d, c, offset=0, tail=""):
        last = tail.split()
        fillers, different = n - len(last), d - len(set(last))
        body = " ".join([TOKENS[offset + i % different] for i in range(fillers)] + last)
        assert len(body) <= c
        assert fillers >= different
        return body + "!" * (c - len(body))

    return text


@pytest.fixture(scope="session")
def scored(tmp_path_factory):
    """scored(id, first, second, **kwargs): the infos of the first agent after both texts were said."""
    row = {"abstract_text": "Rivers carry sand.", "prompt": "POST: Rivers carry sand.", "id": "r"}
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    path.write_text(json.dumps(row))

    def score(id, first, second, **kwargs):
        env = palaver.make(id, tasks=str(path), **kwargs)
        env.reset(seed=0)
        joint = dict(zip(env.possible_agents, (first, second), strict=False))
        _, rewards, terminated, truncated, infos = env.step(joint)
        assert len(set(rewards.values())) == 1
        assert set(terminated.values()) == {True}
        assert set(truncated.values()) == {False}
        info = infos[env.possible_agents[0]]
        assert sum(info["reward_components"].values()) == pytest.approx(rewards[env.possible_agents[0]], abs=1e-12)
        return info

    return score
