"""Episodes of battles say what was asked for, what was legal and what was played."""

from __future__ import annotations

import json

import pytest

from palaver.agents.llm.model.load import save_pretrained
from palaver.agents.simple import ScriptedPolicy
from palaver.core import Sampling
from palaver.envs.pokemon.env import PokemonEnv
from palaver.episodes import Episode
from palaver.trainers.config.loading import parse
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from tests.models import byte_tokenizer, tiny_qwen3

pytestmark = pytest.mark.usefixtures("pool")


def test_what_was_said_legal_and_played_is_kept():
    env = PokemonEnv("gen1ou", turn_limit=3)
    team = {"p1": ScriptedPolicy(lambda _heard, _seed: "I would rather sleep"), "p2": ScriptedPolicy(_first_move)}
    how = dict.fromkeys(team, Sampling())
    (played,) = rollout(env, team, [env.tasks[0].id], SamplingPlan(), sampling=how, seed=1)
    read = Episode.from_dict(json.loads(json.dumps(played.to_dict())))
    assert len(read.turns) >= 3
    for turn in read.turns:
        assert set(turn.executed) == set(turn.legal) == set(turn.completions)
        for agent, action in turn.executed.items():
            assert action in turn.legal[agent]
        assert turn.illegal == {"p1": 1}  # one of the legal actions was drawn
        assert turn.completions["p1"].text == "I would rather sleep"


def _first_move(_heard, _seed):
    return "move 1"


def test_a_run_learns_from_battles(tmp_path):
    """The recipe's tasks go to `teams`, which pokemon-v1 has in their place."""
    save_pretrained(tiny_qwen3(), byte_tokenizer(), tmp_path / "model")
    values = {
        "env": {"id": "pokemon-v1", "tasks": "generated:2", "turn_limit": 1, "reward": "shaped"},
        "policy": {"model": str(tmp_path / "model"), "max_tokens": 4}, "eval": {"n": 1, "tasks": "sample[:2]"},
        "algorithm": {"name": "rae", "group_size": 2, "credit": "own"}, "train": {"steps": 1}, "device": "cpu",
        "log": {"tensorboard": False, "episodes": False},
    }  # fmt: skip
    run = train(parse(values), tmp_path / "run")
    assert read_metrics(run / "metrics.jsonl")[-1]["step"] == 1
