"""Candidates of one agent compared while all else is frozen: AT-GRPO's sweeps and C3's alternatives."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import torch

from palaver.agents.make_policy import make_policy
from palaver.core import Sampling
from palaver.envs.base.env import StepResult
from palaver.episodes import Episode
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.rollout.batch import Batch, add_advantages, make_batch, tree_weights
from palaver.trainers.rollout.branches import counterfactual, frozen, swept
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.rollout.replays import again
from tests.trainers.test_rollout import Waiting
from tests.trainers.toys import SEATS, Lengths

SAMPLING = dict.fromkeys(SEATS, Sampling(max_tokens=4))


def worth(text: str) -> float:
    """A number in [0, 1) for each text."""
    return zlib.crc32(text.encode()) / 2**32


class Additive(Lengths):
    """Rewards each agent for its own text; the team's reward is the mean, the last turn's where `late`."""

    def __init__(self, turns: int = 1, late: bool = False, split: bool = True) -> None:
        super().__init__(turns=turns)
        self.late, self.split = late, split

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        due = {seat: worth(f"{seat}{self.turn}{text}") for seat, text in actions.items()}
        last = self.turn + 1 >= self.turns
        if self.late and not last:
            due = dict.fromkeys(due, 0.0)
        if not self.split:
            due = dict.fromkeys(due, sum(due.values()))
        return StepResult(
            {seat: {"own": due[seat]} for seat in due}, dict.fromkeys(self.agents, "next"), terminated=last
        )


def random_team() -> dict[str, Any]:
    return {seat: make_policy("random") for seat in SEATS}


def played(env: Any, plan: SamplingPlan, tasks: int = 1, seed: int = 0) -> tuple[list[Episode], Batch]:
    names = [f"t{n}" for n in range(tasks)]
    episodes = rollout(env, random_team(), names, plan, sampling=SAMPLING, seed=seed)
    return episodes, make_batch(episodes)


def correlation(name: str, turns: str, width: int) -> list[float]:
    """Of advantage and own contribution, by agent, over the candidates of one turn of one task."""
    config = AlgorithmConfig.model_validate({"name": name, "turns": turns})
    _, table = played(Additive(split=False), SamplingPlan(width, turns=config.turns))
    filled = add_advantages(table, algorithm(name), config)
    found = []
    for agent in SEATS:
        rows = filled.rows_of([agent])
        own = torch.tensor([worth(f"{agent}0{filled.completions[row].text}") for row in rows], dtype=torch.float64)
        found.append(float(torch.corrcoef(torch.stack([own, filled.advantage[rows]]))[0, 1]))
    return found


@pytest.mark.parametrize(("name", "turns"), [("atgrpo", "by_agent"), ("c3", "counterfactual")])
def test_the_advantage_is_the_own_contribution_in_an_additive_game(name, turns):
    """r = x_1 + x_2 for both: with the partner frozen the correlation is 1; with teams of candidates 1/sqrt 2."""
    assert min(correlation(name, turns, 64)) >= 0.99
    assert max(correlation("atgrpo-team", "best", 64)) < 0.9


def test_a_sweep_keeps_the_best_of_the_agents_before_it():
    """Agent a's three candidates with b's first, then b's three with a's best by a's own reward."""
    chosen = set()
    for seed in range(5):
        episodes, table = played(Additive(), SamplingPlan(3, turns="by_agent"), seed=seed)
        turns = [episode.turns[0] for episode in episodes]
        assert [turn.node for turn in turns] == ["0/0.0", "0/0.1", "0/0.2", "0/1.0", "0/1.1", "0/1.2"]
        assert [turn.choice for turn in turns] == [{"a": 0}, {"a": 1}, {"a": 2}, {"b": 0}, {"b": 1}, {"b": 2}]
        first, second = turns[:3], turns[3:]
        assert len({turn.completions["b"].text for turn in first}) == 1
        best = max(first, key=lambda turn: turn.rewards["a"])
        chosen.add(best.node)
        assert {turn.completions["a"].text for turn in second} == {best.completions["a"].text}
        assert first[0].completions["b"] == second[0].completions["b"]
        assert len(table) == 6
        assert table.weight.tolist() == pytest.approx([1 / 3] * 6)
    assert len(chosen) > 1, "the best is not always the first"


def test_the_next_turn_goes_on_from_the_last_agents_best():
    episodes, table = played(Additive(turns=2), SamplingPlan(3, turns="by_agent"))
    assert [e.stop for e in episodes].count("pruned") == 5
    later = [turn for episode in episodes for turn in episode.turns if turn.index == 1]
    swept_last = {e.turns[0].node: e.turns[0] for e in episodes if e.turns[0].node.startswith("0/1.")}
    best = max(swept_last.values(), key=lambda turn: turn.rewards["b"])
    assert {turn.parent for turn in later} == {best.node}
    assert len(later) == 6
    assert table.weight.tolist() == pytest.approx([1 / 3] * 12)
    config = AlgorithmConfig(name="atgrpo")
    filled = add_advantages(table, algorithm("atgrpo"), config)
    for group in range(4):
        assert float(filled.advantage[filled.group == group].sum()) == pytest.approx(0.0, abs=1e-9)


def test_alternatives_change_one_message():
    episodes, table = played(Additive(), SamplingPlan(3, turns="counterfactual"))
    turns = {e.turns[0].node: e.turns[0] for e in episodes}
    assert list(turns) == ["0/0", "0/1.1", "0/1.2", "0/2.1", "0/2.2"]
    base = turns["0/0"]
    assert base.choice == {"a": 0, "b": 0}
    for node, turn in turns.items():
        assert turn.aside == (node != "0/0")
        changed = {seat for seat in SEATS if turn.completions[seat].text != base.completions[seat].text}
        assert changed == {"0/1": {"a"}, "0/2": {"b"}}.get(node[:3], set())
        assert set(turn.choice) == (changed or set(SEATS))
    assert len(table) == 6
    assert table.group.bincount().tolist() == [3, 3]
    assert table.weight.tolist() == pytest.approx([1 / 3] * 6)


def test_alternatives_of_every_turn_and_leave_one_out_by_hand():
    """Two turns, reward at the end alone: the return of an alternative is that of its own continuation."""
    episodes, table = played(Additive(turns=2, late=True), SamplingPlan(2, turns="counterfactual"))
    nodes = [turn.node for e in episodes for turn in e.turns if turn.index == 1]
    assert nodes == ["0/0/0", "0/0/1.1", "0/0/2.1", "0/1.1/0", "0/2.1/0"]
    assert len(table) == 8, "two candidates of two agents at two turns; what follows an alternative is no row"
    assert table.weight.tolist() == pytest.approx([0.5] * 8)
    filled = add_advantages(table, algorithm("c3"), AlgorithmConfig(name="c3"))
    team = {e.turns[-1].node: e.turns[-1].team_reward for e in episodes}
    by_hand = {("a", 0, 0): team["0/0/0"] - team["0/1.1/0"], ("b", 0, 0): team["0/0/0"] - team["0/2.1/0"],
               ("a", 1, 0): team["0/0/0"] - team["0/0/1.1"], ("b", 1, 0): team["0/0/0"] - team["0/0/2.1"]}  # fmt: skip
    steps = dict(zip(table.member_row.tolist(), table.member_step.tolist(), strict=False))
    for row in range(len(table)):
        agent, turn = table.agents[int(table.agent[row])], int(table.turn[row])
        first = not table.steps[steps[row]].aside
        expected = by_hand[agent, turn, 0] if first else -by_hand[agent, turn, 0]
        assert float(filled.advantage[row]) == pytest.approx(expected)


def test_a_message_that_changes_nothing_has_an_advantage_of_zero():
    """Observations after turn 0 do not depend on the texts, and rewards come in turn 1 alone."""

    class Deaf(Additive):
        metadata: ClassVar[dict[str, Any]] = {**Additive.metadata, "conversation": "fresh"}

    _, table = played(Deaf(turns=2, late=True), SamplingPlan(4, turns="counterfactual"), tasks=3)
    filled = add_advantages(table, algorithm("c3"), AlgorithmConfig(name="c3"))
    assert filled.advantage[table.turn == 0].abs().max() == 0.0
    assert filled.advantage[table.turn == 1].abs().min() > 0.0
    _, tree = played(Deaf(turns=2, late=True), SamplingPlan(4), tasks=3)
    other = add_advantages(tree, algorithm("marloo"), AlgorithmConfig())
    assert other.advantage[tree.turn == 0].abs().min() > 0.0


@pytest.mark.parametrize("turns", ["by_agent", "counterfactual"])
def test_workers_and_files_change_nothing(turns):
    plan = SamplingPlan(3, turns=turns)
    tasks = ["t0", "t1"]
    one, four = (
        rollout(Additive(turns=2), random_team(), tasks, plan, sampling=SAMPLING, seed=5, workers=workers)
        for workers in (1, 4)
    )
    assert one == four
    kept = [Episode.from_dict(json.loads(json.dumps(e.to_dict(tokens=True)))) for e in one]
    assert kept == one
    assert again(Additive(turns=2), one) == one


@pytest.mark.parametrize("turns", ["by_agent", "counterfactual"])
def test_agents_that_wait_or_have_left(turns):
    """Both speak, then a, then b, then a alone: ten candidates, in groups of two."""
    episodes, table = played(Waiting(), SamplingPlan(2, turns=turns))
    assert len(table) == 10
    assert table.group.bincount().tolist() == [2] * 5
    assert table.weight.tolist() == pytest.approx([0.5] * 10)
    assert {len(e.turns) for e in episodes if e.stop == "terminated"} == {4}


def test_joint_actions_by_hand():
    assert [dict(p.index) for p in swept(SEATS, 1, 2, {"a": 1, "b": 0})] == [{"a": 1, "b": 0}, {"a": 1, "b": 1}]
    assert [dict(p.index) for p in counterfactual(["a"], 2)] == [{"a": 0}, {"a": 1}]
    assert [p.label for p in counterfactual([], 4)] == ["0"]
    assert [p.label for p in swept([], 0, 4, {})] == ["0"]
    assert frozen(SEATS)[0].compared == ()


def test_weights_of_alternatives_are_not_those_of_what_goes_on():
    episodes, _ = played(Additive(turns=3), SamplingPlan(4, turns="counterfactual"))
    turns = list({turn.node: turn for e in episodes for turn in e.turns}.values())
    weights = dict(zip([turn.node for turn in turns], tree_weights(turns), strict=True))
    assert {weights[node] for node in weights if node.rpartition("/")[0] in ("0", "0/0", "0/0/0")} == {0.25}
