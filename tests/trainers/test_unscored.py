"""What could not be judged is left out of its group: never a reward of 0, in comparisons, means and trees."""

from __future__ import annotations

import pytest

from palaver.agents.simple import ScriptedPolicy
from palaver.core import Sampling, ScoringError
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.episodes import only_scored
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.rollout.evaluation import evaluate, summarize
from palaver.trainers.rollout.metrics import describe


class Judged(TextEnv):
    """Pays the number said; a judge that fails on "fail"."""

    def __init__(self, turns=1):
        super().__init__(["a"], [Task("t", {}), Task("u", {})])
        self.turns = turns

    def initial_observations(self, task):
        return {"a": "say a number"}

    def transition(self, actions):
        said = actions["a"]
        if said == "fail":
            return StepResult({"a": {"number": 0.0}}, unscored=True, reason="the judge is ill")
        over = self.turn + 1 >= self.turns
        return StepResult(
            {"a": {"number": float(said)}}, {} if over else {"a": "again"}, terminated=over, reason="heard"
        )


def play(say, plan, turns=1, tasks=("t",)):
    """`say(seed, turn)` is what the policy says; seeds are numbered as they come."""
    seeds = {}

    def answer(conversation, seed):
        return say(seeds.setdefault(seed, len(seeds)), len(conversation) // 2)

    team = {"a": ScriptedPolicy(answer, "script")}
    return rollout(Judged(turns), team, tasks, plan, sampling={"a": Sampling()}, seed=0)


def test_an_unscored_episode_is_marked_and_says_why():
    episodes = play(lambda n, _: "fail" if n == 1 else str(n), SamplingPlan(group_size=4))
    assert [episode.stop for episode in episodes] == ["terminated", "unscored", "terminated", "terminated"]
    assert [episode.scored for episode in episodes] == [True, False, True, True]
    assert episodes[1].turns[-1].reason == "the judge is ill"
    assert episodes[0].turns[-1].reason == "heard"


def test_the_group_is_compared_without_it():
    episodes = play(lambda n, _: "fail" if n == 1 else str(n), SamplingPlan(group_size=4))
    table = make_batch(only_scored(episodes, "here"))
    assert table.reward[:, 0].tolist() == [0.0, 2.0, 3.0]
    assert [completion.text for completion in table.completions] == ["0", "2", "3"]
    assert len(set(table.group.tolist())) == 1
    shown = describe(episodes)
    assert shown["reward/mean"] == pytest.approx(5 / 3)
    assert shown["episodes/unscored"] == 1
    assert "episodes/unscored" not in describe(only_scored(episodes, "here"))


def test_in_a_tree_only_its_own_last_turn_is_lost():
    episodes = play(lambda n, turn: "fail" if turn and n == 2 else "1", SamplingPlan(group_size=2), turns=2)
    assert [episode.stop for episode in episodes].count("unscored") == 1
    table = make_batch(only_scored(episodes, "here"))
    assert table.step_turn.tolist().count(0) == 2
    assert table.step_turn.tolist().count(1) == 3


def test_neither_the_best_sibling_nor_the_threshold_heeds_it():
    episodes = play(
        lambda n, turn: ("fail", "-3", "-2")[n] if not turn else "0", SamplingPlan(group_size=3, turns="best"), turns=2
    )
    assert [(episode.stop, len(episode.turns)) for episode in episodes][:3] == [
        ("unscored", 1), ("pruned", 1), ("terminated", 2),
    ]  # fmt: skip
    above = play(
        lambda n, turn: ("fail", "-3", "-3")[n] if not turn else "0",
        SamplingPlan(group_size=3, stop_above=-2.5),
        turns=2,
    )
    # with the failure as 0 the mean would be -2, above the threshold
    assert {episode.stop for episode in above} == {"unscored", "terminated"}


def test_a_second_turn_that_fails_is_unscored_too():
    episodes = play(lambda n, turn: "fail" if turn else "1", SamplingPlan(group_size=1), turns=2)
    assert [(episode.stop, len(episode.turns)) for episode in episodes] == [("unscored", 2)]


def test_where_nothing_can_be_scored_there_is_nothing_to_learn():
    episodes = play(lambda *_: "fail", SamplingPlan(group_size=2))
    with pytest.raises(ScoringError, match=r"none of the 2 episodes in step 3 could be scored: the judge is ill"):
        only_scored(episodes, "in step 3")
    with pytest.raises(ScoringError, match="in the evaluation"):
        summarize(episodes)
    assert only_scored([], "here") == []


def test_an_evaluation_leaves_it_out():
    said = iter(["1", "fail", "3", "5"])
    team = {"a": ScriptedPolicy(lambda *_: next(said), "script")}
    episodes = evaluate(Judged(), team, ["t", "u"], samples=2, sampling={"a": Sampling()}, seed=0)
    summary = summarize(episodes)
    assert (summary.n, summary.unscored, summary.by_task) == (3, 1, {"t": 1.0, "u": 4.0})
