"""Rollout and table: who speaks when, what is compared with what."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from palaver.agents.make_policy import make_policy
from palaver.core import ConfigError, Sampling
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.rollout import branches
from palaver.trainers.rollout.batch import add_advantages, make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.rollout.evaluation import summarize
from tests.trainers.toys import SEATS, Lengths, Script

SAMPLING = dict.fromkeys(SEATS, Sampling())


def play(plan: SamplingPlan, turns: int = 1, tasks: tuple[str, ...] = ("t0",), shared: bool = False):
    one = Script("x")
    team = {"a": one, "b": one if shared else Script("y")}
    return rollout(Lengths(turns=turns), team, tasks, plan, sampling=SAMPLING, seed=0), team


class Waiting(TextEnv):
    """Turn 0: both speak; turn 1: only `a`; turn 2: only `b`; then `b` leaves, and `a` is paid 1 for turn 3."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "waiting_v0"}

    def __init__(self) -> None:
        super().__init__(list(SEATS), [Task("t0", {})])

    def initial_observations(self, task):
        return {seat: f"{seat} opens" for seat in self.agents}

    def transition(self, actions):
        heard = {seat: f"{seat} after {self.turn}" for seat in self.agents}
        paid = {seat: {"pay": float(self.turn == 3)} for seat in self.agents}
        over = {2: ["b"], 3: True}.get(self.turn, False)
        return StepResult(paid, heard, terminated=over, can_act={0: ["a"], 1: ["b"]}.get(self.turn))


def test_an_agent_that_waited_is_told_all_it_missed():
    b = Script("y")
    (episode,) = rollout(Waiting(), {"a": Script("x"), "b": b}, ["t0"], SamplingPlan(), sampling=SAMPLING, seed=0)
    first, second = [calls[0].conversation for calls in b.calls]
    assert [message.content for message in first] == ["b opens"]
    assert [message.content for message in second] == ["b opens", "y", "b after 0\n\nb after 1"]
    assert episode.turns[2].observations["b"] == "b after 1", "the record says what was new"


def test_the_team_return_counts_all_agents_of_the_episode():
    """`a` is paid 1 after `b` has left: the team's reward is the mean over both, 1/2, in every place that tells it."""
    (episode,) = rollout(
        Waiting(), {"a": Script("x"), "b": Script("y")}, ["t0"], SamplingPlan(), sampling=SAMPLING, seed=0
    )
    assert episode.team_return() == 0.5
    table = add_advantages(make_batch([episode]), MAGRPO, AlgorithmConfig())
    assert table.root_return.tolist() == [0.5, 0.5]
    assert summarize([episode]).components == {"pay": 0.5}


def test_aligned_pairs_candidates_by_index():
    episodes, team = play(SamplingPlan(3))
    said = [tuple(e.turns[0].completions[s].text for s in SEATS) for e in episodes]
    assert said == [("x", "y"), ("xx", "yy"), ("xxx", "yyy")]
    assert len(team["a"].calls) == 1
    assert len(team["a"].calls[0]) == 1, "the samples of a prompt are one request"


def test_cross_plays_all_combinations_and_rows_stay_2g():
    episodes, _ = play(SamplingPlan(3, joint="cross"))
    assert len(episodes) == 9
    table = make_batch(episodes)
    assert len(table) == 6
    assert table.reward.shape == (9, 2)
    # own reward of candidate k of agent a is (k+1)/50 + .5; the team reward of (i, j) is (i+1 + j+1)/100 + .5,
    # so candidate i's mean over partners is (i+1)/100 + 2/100 + .5
    filled = add_advantages(table, MAGRPO, AlgorithmConfig())
    of_a = [filled.returns[r].item() for r in filled.rows_of(["a"])]
    assert of_a == pytest.approx([0.53, 0.54, 0.55])
    assert [filled.advantage[r].item() for r in filled.rows_of(["a"])] == pytest.approx([-0.01, 0.0, 0.01])


def test_tree_shares_the_first_turn():
    episodes, team = play(SamplingPlan(2), turns=3)
    assert len(episodes) == 8
    table = make_batch(episodes)
    assert len(table) == 2 * (2 + 4 + 8)
    assert [len(calls) for calls in team["a"].calls] == [1, 2, 4], "one batch a turn holds all nodes"
    sizes = table.group.bincount().tolist()
    assert set(sizes) == {2}


def test_independent_continuation_compares_lanes_of_a_turn():
    episodes, _ = play(SamplingPlan(4, turns="independent"), turns=3)
    assert len(episodes) == 4
    table = make_batch(episodes)
    assert len(table) == 2 * 3 * 4
    assert set(table.group.bincount().tolist()) == {4}
    assert [turn.choice["a"] for turn in episodes[2].turns] == [2, 2, 2]


def test_cross_with_independent_continuation():
    episodes, _ = play(SamplingPlan(2, joint="cross", turns="independent"), turns=2)
    table = make_batch(episodes)
    assert len(episodes) == 4
    assert len(table) == 4 + 8


def test_returns_are_discounted_over_turns():
    episodes, _ = play(SamplingPlan(1, turns="independent"), turns=2)
    table = add_advantages(make_batch(episodes), MAGRPO, AlgorithmConfig(group_size=2, discount=0.5))
    # every turn pays 1/50 + 0.5 = 0.52: 0.52 + 0.26 at the first, 0.52 at the second
    assert sorted({round(r, 6) for r in table.returns.tolist()}) == [0.52, 0.78]


def test_conversations_grow_and_a_policy_hears_its_own_words():
    _, team = play(SamplingPlan(1, turns="independent"), turns=2)
    second = team["a"].calls[1][0].conversation
    assert [m.role for m in second] == ["user", "assistant", "user"]
    assert [m.content for m in second] == ["a: task t0", "x", "1 characters"]


def test_shared_policies_get_one_batch_for_all_agents():
    _, team = play(SamplingPlan(2), tasks=("t0", "t1"), shared=True)
    assert len(team["a"].calls) == 1
    assert [r.agent for r in team["a"].calls[0]] == ["a", "b", "a", "b"]


def test_threshold_ends_siblings_above_it():
    episodes, _ = play(SamplingPlan(2, stop_above=0.4), turns=3)
    assert {e.stop for e in episodes} == {"threshold"}
    assert {len(e.turns) for e in episodes} == {1}
    longer, _ = play(SamplingPlan(2, stop_above=0.9), turns=3)
    assert {e.stop for e in longer} == {"terminated"}


def test_a_task_listed_twice_is_two_groups():
    episodes, _ = play(SamplingPlan(2), tasks=("t3", "t3"))
    table = make_batch(episodes)
    assert len(table) == 8
    assert set(table.group.bincount().tolist()) == {2}


@pytest.mark.parametrize(
    "plan", [SamplingPlan(2), SamplingPlan(2, joint="cross"), SamplingPlan(3, turns="independent")]
)
def test_the_same_seed_gives_the_same_episodes_with_any_number_of_workers(plan):
    def once(workers: int):
        team = {seat: make_policy("random") for seat in SEATS}
        return rollout(Lengths(turns=2), team, ["t0", "t1"], plan, sampling=SAMPLING, seed=5, workers=workers)

    assert once(1) == once(1) == once(4)


def test_candidates_of_one_group_are_drawn_with_different_seeds():
    team = {seat: make_policy("random") for seat in SEATS}
    episodes = rollout(Lengths(), team, ["t0"], SamplingPlan(4), sampling=SAMPLING, seed=1)
    assert len({e.turns[0].completions["a"].text for e in episodes}) == 4


def test_an_empty_table_is_refused():
    with pytest.raises(ValueError, match="nothing to make a batch of"):
        make_batch([])


def test_the_best_sibling_goes_on_alone():
    """AT-GRPO, 2 agents x 2 turns x K = 4: four groups of four answers to one prompt each, whose advantages sum to 0.

    Candidate k says its word k + 1 times and is paid (k + 1) / 50 + .5: the last is the best. Its own pay less the mean
    of its group is (k - 1.5) / 50.
    """
    episodes, team = play(SamplingPlan(4, turns="best"), turns=2)
    assert [e.stop for e in episodes] == ["pruned"] * 3 + ["terminated"] * 4
    table = make_batch(episodes)
    assert table.group.bincount().tolist() == [4] * 4
    for seat, word in (("a", "x"), ("b", "y")):
        assert [len(calls) for calls in team[seat].calls] == [1, 1], "one prompt a turn, with four samples"
        (second,) = team[seat].calls[1]
        assert len(second.seeds) == 4
        assert second.conversation[1].content == word * 4
    filled = add_advantages(table, MAGRPO, AlgorithmConfig(discount=0.0))
    for group in range(4):
        advantage = filled.advantage[filled.group == group]
        assert sorted(advantage.tolist()) == pytest.approx([-0.03, -0.01, 0.01, 0.03])
    assert {turn.group for e in episodes for turn in e.turns} == {"0", "0/3"}


def test_of_equal_siblings_the_first_goes_on():
    one = make_policy("echo")
    team = dict.fromkeys(SEATS, one)
    episodes = rollout(Lengths(turns=2), team, ["t0"], SamplingPlan(3, turns="best"), sampling=SAMPLING, seed=0)
    assert [len(e.turns) for e in episodes] == [2, 2, 2, 1, 1]


def test_a_tree_that_grows_without_end_is_refused(monkeypatch):
    """Three ways in each turn: 3, 9 and 27 joint actions of one task; two tasks have as many each."""
    monkeypatch.setattr(branches, "MOST_WIDE", 9)
    episodes, _ = play(SamplingPlan(3), turns=2, tasks=("t0", "t1"))
    assert len(episodes) == 18
    with pytest.raises(ConfigError, match=r"more than 9 joint actions in one turn: set algorithm\.turns=independent"):
        play(SamplingPlan(3), turns=3)
