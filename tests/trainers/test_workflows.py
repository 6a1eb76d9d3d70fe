"""Workflows under the trainers: what is earned late is booked by turn in chains, and groups are asked the same."""

from __future__ import annotations

import pytest

from palaver.agents.make_policy import make_policy
from palaver.agents.simple import ScriptedPolicy
from palaver.core import ConfigError, PolicyError, Sampling
from palaver.envs.maths.mini.env import MathsMiniEnv
from palaver.trainers.config.loading import load
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.train import prepare

RECIPE = "env: {id: maths-mini-v0, tasks: 'sample[:8]'}\npolicy: {model: nowhere}\nalgorithm: {group_size: 4}\n"
SCRIPTED = {"reference": "palaver.envs.maths.reference:reference"}


def play(turns, **reward_scheme):
    env = MathsMiniEnv(tasks="sample[:2]", reward_scheme=reward_scheme)
    right = env.tasks[0]["answer"]
    wrong = ScriptedPolicy(lambda conversation, _seed: right if len(conversation) > 1 else "#### 99")
    team = {"solver1": wrong, "solver2": make_policy("scripted:reference", scripted=SCRIPTED)}
    sampling = dict.fromkeys(team, Sampling())
    return rollout(env, team, [env.tasks[0].id], SamplingPlan(group_size=2, turns=turns), sampling=sampling, seed=0)


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return str(path)


def test_a_chain_books_what_each_turn_earned():
    """Scores 0 and 1, then 1 and 1: (0 + 0.3) / 1.3 and (1 + 0.3) / 1.3 for the first turn, 1 and 1 for the second."""
    for episode in play("independent", when="influence"):
        first, second = (turn.rewards for turn in episode.turns)
        assert first == {"solver1": pytest.approx(0.3 / 1.3), "solver2": pytest.approx(1.0)}
        assert second == {"solver1": 1.0, "solver2": 1.0}
        assert episode.turns[0].components["solver1"] == {"score": pytest.approx(0.3 / 1.3)}


def test_a_tree_keeps_it_where_it_was_paid():
    episodes = play("tree", when="influence")
    assert len(episodes) == 4
    for episode in episodes:
        assert set(episode.turns[0].rewards.values()) == {0.0}
        assert episode.turns[1].rewards["solver1"] == pytest.approx(0.3 / 1.3 + 1)
        assert episode.team_return() == pytest.approx((0.3 / 1.3 + 1 + 2) / 2)


def test_what_is_known_at_once_is_left_alone():
    for episode in play("independent"):
        assert [turn.rewards["solver1"] for turn in episode.turns] == [0.5, 1.0]


@pytest.mark.parametrize(
    "items",
    [
        ["algorithm.name=magrpo", "algorithm.turns=tree"],
        ["algorithm.name=magrpo", "algorithm.turns=independent", "algorithm.group_by=agent"],
        ["algorithm.name=magrpo", "algorithm.turns=independent", "algorithm.group_by=turn"],
        ["algorithm.name=ippo", "algorithm.turns=independent"],
        ["algorithm.name=magrpo", "algorithm.turns=independent", "env.workflow=vote"],
    ],
)
def test_groups_that_are_asked_the_same(recipe, items):
    prepare(load(recipe, items))


def test_groups_that_are_not_are_refused(recipe):
    config = load(recipe, ["algorithm.name=magrpo", "algorithm.turns=independent"])
    with pytest.raises(ConfigError, match=r"algorithm\.turns=tree, algorithm\.group_by=turn"):
        prepare(config)


def test_the_tiny_model_reads_what_is_made_here_and_no_file(recipe, tmp_path):
    prepare(load(recipe, ["policy.model=tiny", "env.tasks=generated:1:16"]))
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "1 + 1?", "answer": "2"}')
    with pytest.raises(PolicyError, match="knows only the texts"):
        prepare(load(recipe, ["policy.model=tiny", f"env.tasks={path}"]))
