"""A judge in a run: training steps with one, unscored answers left out, and a clear end where it fails."""

from __future__ import annotations

import dataclasses
import json

import pytest

from palaver.agents.judges.judge import Judge
from palaver.agents.simple import RandomPolicy
from palaver.core import Sampling, ScoringError
from palaver.envs.base.reward_wrapper import RewardWrapper
from palaver.trainers.config.loading import parse
from palaver.trainers.rollout.episodes import SamplingPlan, rollout, text_env
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from tests.trainers.toys import save_model

NAME = "judge:scripted:tests.trainers.judges:"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model") / "m")


def run(model, folder, reward, **env):
    values = {
        "env": {"id": "echo-v0", "num_turns": 1, "reward": reward, **env},
        "policy": {"model": model, "max_tokens": 12},
        "algorithm": {"group_size": 4},
        "train": {"steps": 2, "prompts_per_step": 2, "checkpoint_every": 2},
        "eval": {"n": 2, "tasks": "sample[:2]"},
        "log": {"tensorboard": False},
        "device": "cpu",
    }
    return train(parse(values), folder)


def test_two_steps_with_a_judge(model, tmp_path):
    folder = run(model, tmp_path / "run", f"{NAME}letters")
    lines = read_metrics(folder / "metrics.jsonl")
    steps = [line for line in lines if line["kind"] == "train"]
    assert len(steps) == 2
    for line in steps:
        assert 0.375 <= line["reward/mean"] <= 1.0, "in part, mostly, no: (2 x 0.5 + 0.5 + 0) / 4"
        assert line["component/judge"] == pytest.approx(line["reward/mean"])
        assert {"metric/own", "metric/judge/done", "judge/cases", "judge/unscored"} <= set(line)
        assert (line["judge/cases"], line["judge/unscored"]) == (8.0, 0.0)
    (first, *_) = [line for line in lines if line["kind"] == "eval"]
    assert set(first["components"]) == {"judge"}
    episode = json.loads(next((folder / "episodes").glob("train*.jsonl")).read_text().splitlines()[0])
    assert episode["turns"][0]["reason"] == "done: seen; correct: seen; together: seen"
    assert f"reward: {NAME}letters" in (folder / "config.yaml").read_text()


def test_a_judge_that_fails_stops_the_run_with_its_reason(model, tmp_path):
    with pytest.raises(ScoringError, match="transport: nobody is there"):
        run(model, tmp_path / "run", f"{NAME}broken")


def players(env):
    return dict.fromkeys(env.possible_agents, RandomPolicy())


def play(env, plan, tasks, workers=1):
    sampling = dict.fromkeys(env.possible_agents, Sampling(max_tokens=8))
    return rollout(env, players(env), tasks, plan, sampling=sampling, seed=3, workers=workers)


def test_a_turn_of_all_episodes_is_one_call_with_the_groups_of_siblings(monkeypatch):
    env = text_env("echo-v0", {"reward": f"{NAME}letters", "num_turns": 2})
    calls, score = [], Judge.score
    monkeypatch.setattr(Judge, "score", lambda self, cases: calls.append(list(cases)) or score(self, cases))
    tasks = [task.id for task in env.tasks[:3]]
    play(env, SamplingPlan(group_size=2), tasks)
    assert [len(cases) for cases in calls] == [6, 12]
    assert [len({case.group for case in cases}) for cases in calls] == [3, 6], "a tree compares at every node"
    calls.clear()
    play(env, SamplingPlan(group_size=2, turns="independent"), tasks)
    assert [len(cases) for cases in calls] == [6, 6]
    assert [len({case.group for case in cases}) for cases in calls] == [3, 3]
    assert all(case.observations and case.completions for cases in calls for case in cases)


@pytest.mark.parametrize("reward", ["letters", "lists?mode=listwise"])
def test_threads_and_batches_pay_the_same(reward):
    env = text_env("echo-v0", {"reward": f"{NAME}{reward}", "num_turns": 2, "shared": False})
    tasks = [task.id for task in env.tasks[:2]]
    plan = SamplingPlan(group_size=4, turns="independent")
    one, other = play(env, plan, tasks), play(env, plan, tasks, workers=3)
    assert [dataclasses.asdict(episode) for episode in one] == [dataclasses.asdict(episode) for episode in other]
    if "lists" in reward:
        paid = [episode.turns[0].rewards["a1"] for episode in one]
        assert sorted(paid[:4]) == sorted(paid[4:]) == [0.0, 0.125, 0.25, 0.375], "each group apart"


def test_what_was_not_scored_is_left_out(monkeypatch):
    env = text_env("echo-v0", {"reward": f"{NAME}picky", "num_turns": 1})
    assert isinstance(env, RewardWrapper)
    env.watch.limit = 1.0
    episodes = play(env, SamplingPlan(group_size=8), [task.id for task in env.tasks[:4]])
    lost = [episode for episode in episodes if not episode.scored]
    assert 0 < len(lost) < len(episodes)
    assert {episode.turns[-1].reason for episode in lost} == {"not scored: refusal: not that one"}
    assert env.measured()["unscored"] == pytest.approx(len(lost) / 32)


def test_too_many_failures_stop_the_rollout():
    env = text_env("echo-v0", {"reward": f"{NAME}broken", "num_turns": 1})
    with pytest.raises(
        ScoringError, match=r"could not score 24 of its last 24 cases, more than 20%; .* nobody is there"
    ):
        play(env, SamplingPlan(group_size=6), [task.id for task in env.tasks[:4]])
