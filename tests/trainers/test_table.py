"""From episodes to returns and advantages: who is compared with whom, values, costs; numbers by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from palaver.core import Completion
from palaver.episodes import Episode, Turn
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.algorithms.mareinforce import MAREINFORCE
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.rollout.batch import add_advantages, by_step, make_batch, task_groups, tree_weights
from tests.trainers.learning import episode, together

OWN = replace(MAGRPO, credit=lambda reward: reward)


def places(table) -> dict[tuple[str, int, int], int]:
    """(agent, turn, episode) -> row."""
    keys = zip(table.agent.tolist(), table.turn.tolist(), table.episode.tolist(), strict=True)
    return {(table.agents[a], t, e): row for row, (a, t, e) in enumerate(keys)}


def two_by_two():
    """Two lanes of two turns of two agents; no discount, so that turns are paid for themselves.

    Agent a is paid 1, 2 in lane 0 and 3, 6 in lane 1; agent b 0, 0 and 0, 4.
    """
    return make_batch([episode("0", 0, [(1.0, 0.0), (2.0, 0.0)]), episode("0", 1, [(3.0, 0.0), (6.0, 4.0)])])


def test_groups_by_prompt_compare_an_agents_lanes_at_a_turn():
    table = two_by_two()
    at = places(table)
    filled = add_advantages(table, OWN, AlgorithmConfig(discount=0.0))
    order = [at[key] for key in (("a", 0, 0), ("a", 0, 1), ("a", 1, 0), ("a", 1, 1), ("b", 1, 0), ("b", 1, 1))]
    assert filled.advantage[order].tolist() == [-1.0, 1.0, -2.0, 2.0, -2.0, 2.0]


def test_groups_by_turn_are_those_of_a_turn_whatever_the_prompts():
    """Returns of agent a, discount 1: 3 and 2 in lane 0, 9 and 6 in lane 1; turn means 6 and 4."""
    table = two_by_two()
    at = places(table)
    filled = add_advantages(table, OWN, AlgorithmConfig(discount=1.0, turns="independent", group_by="turn"))
    order = [at[key] for key in (("a", 0, 0), ("a", 0, 1), ("a", 1, 0), ("a", 1, 1))]
    assert filled.advantage[order].tolist() == [-3.0, 3.0, -2.0, 2.0]


@pytest.mark.parametrize(("kind", "spread"), [("population", (3.5, 3.0)), ("unbiased", (14 / 3, 4.0))])
def test_dr_mas_pools_all_of_an_agents_answers_to_a_task(kind, spread):
    """arXiv 2602.08847. Agent a: 1, 2, 3, 6, mean 3, squares 14 over 4 or 3. Agent b: 0, 0, 0, 4: 1 and 12."""
    table = two_by_two()
    at = places(table)
    groups = task_groups(table)
    assert sorted(torch.bincount(groups).tolist()) == [4, 4]
    assert len({int(groups[row]) for (agent, _, _), row in at.items() if agent == "a"}) == 1
    filled = add_advantages(table, OWN, AlgorithmConfig(discount=0.0, group_by="agent", normalize="std", std=kind))
    order = [(0, 0), (1, 0), (0, 1), (1, 1)]
    for agent, apart, square in (("a", [-2.0, -1.0, 0.0, 3.0], spread[0]), ("b", [-1.0, -1.0, -1.0, 3.0], spread[1])):
        got = filled.advantage[[at[agent, turn, lane] for turn, lane in order]].tolist()
        assert got == pytest.approx([each / square**0.5 for each in apart])


def test_dr_mas_keeps_tasks_apart():
    table = make_batch([episode(root, lane, [(1.0, 1.0)]) for root in ("0", "1", "10") for lane in (0, 1)])
    assert sorted(torch.bincount(task_groups(table)).tolist()) == [2] * 6


def test_values_reach_back_over_turns():
    """marl_llm.md, section 1.8, for both agents of a team: r = [0, 1], V = [.3, .6], discount .9, TD(0)."""
    table = make_batch([episode("0", 0, [(0.0, 0.0), (2.0, 0.0)])])
    value = torch.where(table.turn == 0, 0.3, 0.6).double()
    config = AlgorithmConfig(discount=0.9, gae_lambda=0.0)
    for name in ("iac", "maac", "ippo", "mappo", "happo"):
        filled = add_advantages(table, algorithm(name), config, value)
        assert filled.returns.tolist() == pytest.approx([0.54, 0.54, 1.0, 1.0])
        assert filled.advantage.tolist() == pytest.approx([0.24, 0.24, 0.4, 0.4])


def test_gae_of_an_agent_that_waits_and_a_cost():
    """Agent a speaks at both turns, b at the second; both are paid 1 then 3; gamma .5, lambda .5; b pays .5 itself.

    a: G_1 = 3, G_0 = 1 + .5 (.5 * 2 + .5 * 3) = 2.25; b: 3 - .5.
    """
    word = Completion("x", (1,), (3,), (-1.0,), (-1.0,))
    table = make_batch([episode("0", 0, [(1.0, 1.0), (3.0, 3.0)], [{"a": word}, {"a": word, "b": word}])])
    at = places(table)
    value, cost = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    value[at["a", 0, 0]], value[at["a", 1, 0]], value[at["b", 1, 0]] = 1.0, 2.0, 4.0
    cost[at["b", 1, 0]] = 0.5
    filled = add_advantages(table, algorithm("ippo"), AlgorithmConfig(discount=0.5, gae_lambda=0.5), value, cost)
    order = [at["a", 0, 0], at["a", 1, 0], at["b", 1, 0]]
    assert filled.returns[order].tolist() == [2.25, 3.0, 2.5]
    assert filled.advantage[order].tolist() == [1.25, 1.0, -1.5]
    steps = by_step(table, value)
    assert steps[1].tolist() == [2.0, 4.0]
    assert steps[0].isnan().tolist() == [False, True]


def test_whitened_advantages_are_those_of_each_agent():
    """Values 0: a's advantages 1, 3 become -1, 1; b's 0, 0 stay 0, though they are 0 below a's mean."""
    row = replace(algorithm("rae"), critic="own")
    table = make_batch([episode("0", 0, [(1.0, 0.0)]), episode("0", 1, [(3.0, 0.0)])])
    filled = add_advantages(table, row, AlgorithmConfig(normalize="whiten"), torch.zeros(4, dtype=torch.float64))
    assert filled.advantage.tolist() == pytest.approx([-1.0, 0.0, 1.0, 0.0])


def test_crossed_answers_take_the_mean_over_partners():
    """One agent's answers 0 and 1 against the other's: team rewards 1, 2, 3, 6."""
    paid = {(0, 0): 1.0, (0, 1): 2.0, (1, 0): 3.0, (1, 1): 6.0}
    episodes = []
    for number, ((first, second), reward) in enumerate(paid.items()):
        made = episode("0", number, [(reward, reward)])
        turn = replace(made.turns[0], choice={"a": first, "b": second})
        episodes.append(replace(made, turns=(turn,)))
    table = make_batch(episodes)
    filled = add_advantages(table, MAREINFORCE, AlgorithmConfig())
    assert len(table) == 4
    assert filled.returns[table.rows_of(["a"])].tolist() == [1.5, 4.5]
    assert filled.returns[table.rows_of(["b"])].tolist() == [2.0, 4.0]
    value = torch.full((4,), 0.5, dtype=torch.float64)
    assert add_advantages(table, algorithm("mappo"), AlgorithmConfig(), value).advantage[0] == 1.0


@pytest.mark.parametrize("how", ["batch", "whiten"])
@pytest.mark.parametrize("kind", ["population", "unbiased"])
def test_two_processes_scale_as_one(how, kind):
    """Two tasks, on one process each, one of them with an agent that says nothing."""
    word = Completion("x", (1,), (3,), (-1.0,), (-1.0,))
    one = [episode("0", lane, [(float(lane), 3.0 * lane)]) for lane in (0, 1)]
    two = [episode("1", lane, [(5.0 * lane * lane, 0.0)], [{"a": word}]) for lane in (0, 1, 2)]
    config = AlgorithmConfig(normalize=how, std=kind)
    whole = add_advantages(make_batch(one + two), OWN, config).advantage.tolist()
    tables = [make_batch(one), make_batch(two)]
    parts = together([lambda total, each=each: add_advantages(each, OWN, config, total=total) for each in tables])
    assert [*parts[0].advantage.tolist(), *parts[1].advantage.tolist()] == pytest.approx(whole)
    assert parts[0].advantage.tolist() != pytest.approx(add_advantages(tables[0], OWN, config).advantage.tolist())


def turn(node: str, choice: int = 0) -> Turn:
    """A joint step of agent a; the nodes of a rollout say whose child it is."""
    above, _, _ = node.rpartition("/")
    said = {"a": Completion("x", (1,), (3,), (-1.0,), (-1.0,))}
    return Turn(
        node.count("/") - 1, node, above if "/" in above else "", above, {"a": choice}, {"a": ""}, said, {"a": 0.0},
        {"a": {}},
    )  # fmt: skip


def weights(*nodes: str, pruned: tuple[str, ...] = ()) -> list[float]:
    return tree_weights([turn(node) for node in nodes], pruned)


def test_weights_of_a_tree_are_the_shares_of_its_leaves():
    """Three branches of 1/3; the first has two children, the second four, the third ends."""
    nodes = ["0/0", "0/1", "0/2", "0/0/0", "0/0/1", "0/1/0", "0/1/1", "0/1/2", "0/1/3"]
    assert weights(*nodes) == pytest.approx([1 / 3] * 3 + [1 / 6] * 2 + [1 / 12] * 4)
    assert weights("7/0", "7/1", "8/0") == [0.5, 0.5, 1.0], "tasks by themselves"
    assert weights("0/0", "0/1", "0/0/0", "0/1/0") == [0.5] * 4, "chains"


def test_the_sibling_that_was_selected_goes_on_with_the_weight_of_all():
    assert weights("0/0", "0/1", "0/1/0", "0/1/1", pruned=("0/0", "0/1/0")) == [0.5] * 4


def test_rows_weigh_what_their_joint_steps_do():
    """Two candidates crossed with two: each is in two of the four joint steps."""
    said = [Completion(str(n), (1,), (n,), (-1.0,), (-1.0,)) for n in range(4)]
    turns = [
        replace(turn(f"0/{a}.{b}"), choice={"a": a, "b": b}, completions={"a": said[a], "b": said[2 + b]},
                rewards={"a": 0.0, "b": 0.0})
        for a in range(2) for b in range(2)
    ]  # fmt: skip
    table = make_batch([Episode("made", "t", 0, (each,), "terminated") for each in turns])
    assert table.weight.tolist() == [0.5] * 4
    assert table.tasks == 1
