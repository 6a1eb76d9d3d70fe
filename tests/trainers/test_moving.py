"""The moving baseline of self-play, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from palaver.core import Completion
from palaver.episodes import Turn
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.rollout.batch import Batch, make_batch
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.advantage_estimators import KLTerms
from palaver.trainers.update.moving_baseline import MovingBaseline
from palaver.trainers.update.updater import Updater
from tests.trainers.learning import config, episode, learners, policy

ONE = Distributed("cpu", "fp32")


def game(*won: float) -> Batch:
    """Zero-sum games: what agent a wins, agent b loses."""
    return make_batch([episode("0", lane, [(reward, -reward)]) for lane, reward in enumerate(won)])


def made(**algorithm_: object) -> Updater:
    settings = config(algorithm={"name": "rae", "group_size": 1, **algorithm_})
    return Updater(algorithm("rae"), settings, learners({"a": policy(0), "b": policy(1)}, settings), ONE)


def advantages(study: Updater, table: Batch, agent: str) -> list[float]:
    judged = study.estimate_advantages(table).batch
    return judged.advantage[judged.rows_of([agent])].tolist()


def test_the_mean_moves_once_an_episode_and_is_subtracted_as_it_was_before():
    """b: 0, .05, .95 x .05 - .05 = -.0025, .95 x -.0025 + .05 = .047625; then .95 x .047625 + .05 = .09524375."""
    study, four = made(), game(1.0, -1.0, 1.0, 1.0)
    assert advantages(study, four, "a") == pytest.approx([1, -1.05, 1.0025, 0.952375], abs=1e-12)
    assert advantages(study, four, "b") == pytest.approx([-1, 1.05, -1.0025, -0.952375], abs=1e-12)
    assert study.estimator.means == {}, "judging moves nothing"
    study.update(study.estimate_advantages(four), 1)
    assert study.estimator.means == pytest.approx({"a": 0.09524375, "b": -0.09524375}, abs=1e-12)
    assert advantages(study, game(2.0), "a") == pytest.approx([2 - 0.09524375], abs=1e-12)


def test_ninety_per_cent_of_a_constant_return_after_45_episodes():
    """1 - .95^n >= .9 from n = 45 on: two steps of 24 games, where a mean a step took 45 steps."""
    study = made()
    study.update(study.estimate_advantages(game(*[1.0] * 24)), 1)
    assert study.estimator.means["a"] == pytest.approx(1 - 0.95**24)
    study.update(study.estimate_advantages(game(*[1.0] * 20)), 2)
    assert study.estimator.means["a"] < 0.9
    study.update(study.estimate_advantages(game(1.0)), 3)
    assert study.estimator.means["a"] > 0.9


def test_one_shared_policy_still_has_a_mean_for_each_role():
    settings = config(algorithm={"name": "rae", "group_size": 1, "decay": 0.5})
    one = policy(0)
    study = Updater(algorithm("rae"), settings, learners({"a": one, "b": one}, settings), ONE)
    study.update(study.estimate_advantages(game(1.0)), 1)
    assert study.estimate_advantages(game(1.0)).batch.advantage.tolist() == [0.5, -0.5]


def test_the_turns_of_an_episode_share_its_baseline():
    """decay .5, discount .5. Episode 1: R = 1 + .5 x 2 = 2, of b 0 + .5 x 4 = 2; so b_a = b_b = 1 for episode 2."""
    table = make_batch([episode("0", lane, [(1.0, 0.0), (2.0, 4.0)]) for lane in range(2)])
    study = made(decay=0.5, discount=0.5, turns="independent")
    judged = study.estimate_advantages(table)
    assert judged.value.tolist() == [0.0] * 4 + [1.0] * 4
    assert judged.batch.advantage.tolist() == [2.0, 2.0, 2.0, 4.0, 1.0, 1.0, 1.0, 3.0]
    assert judged.means == {"a": 1.5, "b": 1.5}


def means_of(
    table: Batch, decay: float, reward: torch.Tensor | None = None, world: Distributed = ONE
) -> tuple[torch.Tensor, dict[str, float]]:
    """The baseline of every row and the means after it, of plain returns of each agent's own."""
    settings = config(algorithm={"name": "rae", "decay": decay, "discount": 1.0, "turn_weights": "rows"})
    table = table if reward is None else replace(table, reward=reward)
    judged = MovingBaseline(algorithm("rae"), settings, [], world).estimate(table, KLTerms())
    return judged.value, judged.means


def test_an_agent_that_said_nothing_keeps_its_mean():
    said = Completion("x", (1, 2), (3,), (-0.5,), (-0.5,))
    table = make_batch([episode("0", 0, [(4.0, -4.0)]), episode("1", 0, [(1.0, 0.0)], [{"b": said}])])
    value, after = means_of(table, 0.5)
    assert value.tolist() == [0.0, 0.0, -2.0]
    assert after == {"a": 2.0, "b": -1.0}


def tree() -> Batch:
    """Agent a alone: turns 0 and 1, two answers each time; the first turn earns nothing, the second 1, 2, 3, 4."""
    said = [Completion(str(n), (1,), (n,), (-0.5,), (-0.5,)) for n in range(6)]
    episodes = []
    for leaf in range(4):
        first, second = divmod(leaf, 2)
        turns = (
            Turn(0, f"0/{first}", "", "0", {"a": first}, {}, {"a": said[first]}, {"a": 0.0}, {}),
            Turn(1, f"0/{first}/{second}", f"0/{first}", f"0/{first}", {"a": second}, {}, {"a": said[2 + leaf]},
                 {"a": leaf + 1.0}, {}),
        )  # fmt: skip
        episodes.append(replace(episode("0", 0, [(0.0,)]), turns=turns))
    return make_batch(episodes)


def test_an_completion_of_several_episodes_has_the_mean_before_the_first():
    """decay .5: b = 0, .5, 1.25, 2.125 before the leaves; the answers of turn 0 are in leaves 1, 2 and 3, 4."""
    table = tree()
    value, after = means_of(table, 0.5)
    texts = [said.text for said in table.completions]
    assert dict(zip(texts, value.tolist(), strict=True)) == {
        "0": 0.0, "2": 0.0, "3": 0.5, "1": 1.25, "4": 1.25, "5": 2.125,
    }  # fmt: skip
    assert after == {"a": 0.5 * 2.125 + 0.5 * 4}


@pytest.mark.parametrize("table", [tree(), game(1.0, -1.0, 1.0, 1.0)], ids=["tree", "chain"])
def test_no_return_that_an_completion_had_a_part_in_is_in_its_baseline(table):
    """Every joint step it is in, and all after them, may pay anything: its baseline stays to the last bit."""
    plain, after = means_of(table, 0.95)
    for row in range(len(table)):
        changed, below = table.reward.clone(), set(table.member_step[table.member_row == row].tolist())
        for step, parent in enumerate(table.parent.tolist()):
            below |= {step} if parent in below else set()
        changed[sorted(below)] += 100.0
        value, then = means_of(table, 0.95, changed)
        assert value[row] == plain[row]
        assert then != after, "later episodes are compared with another mean"


class Half(Distributed):
    """A process of two, that knows what the other would send."""

    def __init__(self, rank: int, other: Batch) -> None:
        super().__init__("cpu", "fp32")
        self.rank, self.size, self.other = rank, 2, other

    def gather(self, items):
        from palaver.trainers.update.moving_baseline import episode_returns

        theirs = [
            (each, 1 - self.rank, n) for n, each in enumerate(episode_returns(self.other, self.other.reward, 1.0))
        ]
        return [*items, *theirs] if self.rank == 0 else [*theirs, *items]


def test_the_number_of_processes_changes_nothing():
    """12 tasks of two games; tasks 0, 2, ... and 1, 3, ... on two processes, gathered by rank."""
    games = [episode(str(task), lane, [(w := float((7 * task + 3 * lane) % 5), -w)])
             for task in range(12) for lane in range(2)]  # fmt: skip
    whole = make_batch(games)
    value, after = means_of(whole, 0.9)
    parts = [make_batch([each for each in games if int(each.task) % 2 == rank]) for rank in range(2)]
    for rank in range(2):
        mine, means = means_of(parts[rank], 0.9, world=Half(rank, parts[1 - rank]))
        assert means == after
        rows = [row for row in range(len(whole)) if int(games[int(whole.episode[row])].task) % 2 == rank]
        assert mine.tolist() == value[rows].tolist()
