"""Episodes of battles say what was asked for, what was legal and what was played."""

from __future__ import annotations

import json

import pytest

from palaver.agents.plain import ScriptedPolicy
from palaver.core import Episode, Sampling
from palaver.envs.pokemon.env import PokemonEnv
from palaver.trainers.rollout import Plan, rollout

pytestmark = pytest.mark.usefixtures("pool")


def test_what_was_said_legal_and_played_is_kept():
    env = PokemonEnv("gen1ou", turn_limit=3)
    team = {"p1": ScriptedPolicy(lambda _heard, _seed: "I would rather sleep"), "p2": ScriptedPolicy(_first_move)}
    how = dict.fromkeys(team, Sampling())
    (played,) = rollout(env, team, [env.tasks[0].id], Plan(), sampling=how, seed=1)
    read = Episode.from_dict(json.loads(json.dumps(played.to_dict())))
    assert len(read.turns) >= 3
    for turn in read.turns:
        assert set(turn.executed) == set(turn.legal) == set(turn.utterances)
        for agent, action in turn.executed.items():
            assert action in turn.legal[agent]
        assert turn.executed["p1"] == turn.legal["p1"][0]  # what is not legal becomes the first
        assert turn.utterances["p1"].text == "I would rather sleep"


def _first_move(_heard, _seed):
    return "move 1"
