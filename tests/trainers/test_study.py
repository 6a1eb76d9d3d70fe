"""The study of a step: HAPPO's factor on a game whose returns are known, the order of agents, what is saved."""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from palaver.core import Completion
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.objectives.advantages import no_baseline
from palaver.trainers.rollout.batch import Batch, make_batch
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.update_records import UpdateStats
from palaver.trainers.update.updater import Updater
from tests.trainers.learning import Softmax, config, episode, learners, played, policy

WORLD = Distributed("cpu", "fp32")
GAME = [[0.0, 1.0], [1.0, -2.0]]  # team reward of both agents' actions; uniform policies return 0
NEW = (0.2, 0.8)
BARE = replace(algorithm("happo"), critic="none", baseline=no_baseline)  # the value of the one state is 0


class Jump(torch.optim.SGD):
    """Whatever the gradient, the step is to the new policy."""

    def step(self, closure=None):
        with torch.no_grad():
            self.param_groups[0]["params"][0].copy_(torch.tensor(NEW).log())


def game_learner(agent: str, settings) -> PolicyUpdater:
    model = Softmax()
    speaker = SimpleNamespace(
        model=model, name=agent, refresh=lambda: None, parameters=model.parameters, active=lambda: nullcontext(model)
    )
    speaker.shared_engine = speaker
    learner = PolicyUpdater(speaker, [agent], settings, WORLD)
    learner.optimizer = Jump(learner.model.parameters(), lr=0.0)
    return learner


def game_table() -> Batch:
    """All four joint actions, each as often as uniform policies play them."""
    episodes = []
    for lane in range(4):
        first, second = divmod(lane, 2)
        said = {
            "a": Completion(str(first), (0,), (first,), (math.log(0.5),), (math.log(0.5),)),
            "b": Completion(str(second), (0,), (second,), (math.log(0.5),), (math.log(0.5),)),
        }
        episodes.append(episode("0", lane, [(GAME[first][second],) * 2], [said]))
    return make_batch(episodes)


def played_game(order: str, **changes):
    """A study of the game in which both policies jump in the first of two passes."""
    values = {"epochs": 2, "clip": (100.0, 100.0), "factor": "sum", "factor_clamp": 50.0, "order": "fixed"}
    settings = config(algorithm=values | changes)
    study = Updater(replace(BARE, order=order), settings, [game_learner(agent, settings) for agent in "ab"], WORLD)
    judged = study.estimate_advantages(game_table())
    assert judged.batch.advantage.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, -2.0, -2.0]
    return study, study.update(judged, 1)


def test_happos_surrogate_is_the_exact_change_of_the_return():
    """marl_llm.md, section 1.4: J(old) = 0, J(new) = .16 + .16 - 2 * .64 = -.96.

    In the second pass a loss is that of the new policy. Agent a alone moves the return to .5 * .2 - .5 * .8 = -.3;
    with the factor of the first, the last agent's surrogate E[M rho A] is the return of the new joint policy.
    """
    assert sum(NEW[i] * NEW[j] * GAME[i][j] for i in range(2) for j in range(2)) == pytest.approx(-0.96)
    _, shown = played_game("sequence")
    assert -shown["a/loss"] == pytest.approx(-0.30, abs=1e-6)
    assert -shown["b/loss"] == pytest.approx(-0.96, abs=1e-6)


def test_independent_surrogates_are_not_exact():
    _, shown = played_game("together")
    assert -shown["a/loss"] - shown["b/loss"] == pytest.approx(-0.60, abs=1e-6)


def test_the_factor_is_clamped():
    """The first agent's log factors, log .4 and log 1.6, are held at -.1 and .1."""
    low, high = math.exp(-0.1), math.exp(0.1)
    second = (low * 0.4 * 0.0 + low * 1.6 * 1.0 + high * 0.4 * 1.0 + high * 1.6 * -2.0) / 4
    _, shown = played_game("sequence", factor_clamp=0.1)
    assert -shown["b/loss"] == pytest.approx(second, abs=1e-6)


class Mover:
    """A learner that only tells how its log-probs have moved, and keeps the factor it was given."""

    def __init__(self, agent: str, moves: list[list[float]]) -> None:
        self.agents, self.model, self.moves = (agent,), None, moves
        self.policy = SimpleNamespace(name=agent, shared_engine=self, active=lambda: nullcontext(None))
        self.factor: list[float] | None = None

    def log_probs(self, table, rows):
        said = [torch.tensor(table.completions[row].sample_logprobs) for row in rows]
        return {row: old + torch.tensor(move) for row, old, move in zip(rows, said, self.moves, strict=True)}

    def update(self, work):
        mine = work.batch.rows_of(self.agents)
        self.factor = None if work.factor is None else work.factor[mine].tolist()
        return UpdateStats(0.0, 0.0, 0.0, 0.0, 0.0, 1, len(mine), 0.0)


@pytest.mark.parametrize(("how", "first", "second"), [("mean", 0.2, -0.3), ("sum", 0.4, -0.3)])
def test_the_factor_of_completions_of_several_tokens(how, first, second):
    """Agent a's two rows moved by (.1, .3) and (-.3); agent b's factor is exp of their mean or sum, a's is 1."""
    words = [Completion("x", (1,), (3, 4), (-1.0, -2.0), (-1.0, -2.0)), Completion("y", (1,), (5,), (-1.0,), (-1.0,))]
    episodes = [
        episode("0", lane, [(1.0, 1.0)], [{"a": words[lane], "b": Completion("z", (1,), (3,), (-0.5,), (-0.5,))}])
        for lane in (0, 1)
    ]
    a, b = Mover("a", [[0.1, 0.3], [-0.3]]), Mover("b", [[0.0], [0.0]])
    settings = config(algorithm={"factor": how, "order": "fixed"})
    study = Updater(BARE, settings, [a, b], WORLD)
    study.update(study.estimate_advantages(make_batch(episodes)), 1)
    assert a.factor == [1.0, 1.0]
    assert b.factor == pytest.approx([math.exp(first), math.exp(second)], abs=1e-6)


def test_factors_multiply_and_who_waited_has_moved_nothing():
    """Two turns: both speak, then b alone. b's second row stands alone in its joint step: factor 1."""
    word = Completion("x", (1,), (3,), (-1.0,), (-1.0,))
    table = make_batch([episode("0", 0, [(1.0, 1.0), (1.0, 1.0)], [{"a": word, "b": word}, {"b": word}])])
    study = Updater(
        BARE, config(algorithm={"order": "fixed"}), [Mover("a", [[0.5]]), Mover("b", [[0.2], [0.3]])], WORLD
    )
    ahead = torch.zeros(2, dtype=torch.float64)
    for learner in study.learners:
        ahead = ahead + study._log_ratio_after(learner, table, table.rows_of(learner.agents))
    assert ahead.tolist() == pytest.approx([0.7, 0.3], abs=1e-6)
    study.update(study.estimate_advantages(table), 1)
    assert study.learners[1].factor == pytest.approx([math.exp(0.5), 1.0], abs=1e-6)


def test_an_algorithm_whose_agents_update_together_has_no_factor():
    word = Completion("x", (1,), (3,), (-1.0,), (-1.0,))
    movers = [Mover("a", [[0.5]]), Mover("b", [[0.5]])]
    study = Updater(replace(BARE, order="together"), config(), movers, WORLD)
    study.update(study.estimate_advantages(make_batch([episode("0", 0, [(1.0, 1.0)], [{"a": word, "b": word}])])), 1)
    assert [mover.factor for mover in movers] == [None, None]


def orders(order: str, seed: int = 0) -> list[str]:
    settings = config(algorithm={"order": order}).model_copy(update={"seed": seed})
    study = Updater(BARE, settings, [Mover(agent, []) for agent in "abc"], WORLD)
    return ["".join(each.agents[0] for each in study._order(step)) for step in range(1, 31)]


def test_the_order_is_fixed_or_drawn_anew_each_step_from_the_seed():
    assert set(orders("fixed")) == {"abc"}
    assert orders("random") == orders("random")
    assert orders("random") != orders("random", seed=1)
    assert set(orders("random")) == {"abc", "acb", "bac", "bca", "cab", "cba"}


@pytest.mark.parametrize("name", ["ippo", "happo", "rae", "magrpo"])
def test_a_loaded_study_goes_on_as_the_first(name):
    """After one step the state is given to a fresh study, whose critics (or means) then expect the same."""
    settings = config(algorithm={"name": name, "group_size": 2}, critic={"lr": 1e-2, "normalize": True})
    team = {"a": policy(0), "b": policy(1)}
    first = Updater(algorithm(name), settings, learners(team, settings), WORLD)
    table = played(team, settings)
    first.update(first.estimate_advantages(table), 1)
    second = Updater(algorithm(name), settings, learners(team, settings), WORLD)
    fresh = second.estimate_advantages(table).batch.advantage
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    one, other = first.estimate_advantages(table).batch, second.estimate_advantages(table).batch
    assert torch.equal(one.advantage, other.advantage)
    assert torch.equal(one.advantage, fresh) == (name == "magrpo")


@pytest.mark.parametrize(("ratio", "left"), [(0.9, (1.0, 0.26, 0.13, 0.03)), (1.1, (1.0, 0.24, 0.12, 0.03))])
def test_what_a_mean_over_tokens_leaves_of_the_correction(ratio, left):
    """One token decides: of M - 1 is left (ratio^(1/L) - 1) / (ratio - 1), the table of docs/algorithms/happo.md."""
    for length, share in zip((1, 4, 8, 32), left, strict=True):
        said = Completion("x", (1,), (3,) * length, (-1.0,) * length, (-1.0,) * length)
        found = {}
        for how in ("sum", "mean"):
            a, b = Mover("a", [[math.log(ratio), *[0.0] * (length - 1)]]), Mover("b", [[0.0] * length])
            study = Updater(BARE, config(algorithm={"factor": how, "order": "fixed"}), [a, b], WORLD)
            study.update(
                study.estimate_advantages(make_batch([episode("0", 0, [(1.0, 1.0)], [{"a": said, "b": said}])])), 1
            )
            (found[how],) = b.factor
        assert found["sum"] == pytest.approx(ratio, abs=1e-6)
        assert (found["mean"] - 1) / (ratio - 1) == pytest.approx((ratio ** (1 / length) - 1) / (ratio - 1), abs=1e-4)
        assert (found["mean"] - 1) / (ratio - 1) == pytest.approx(share, abs=5e-3)


def test_the_share_of_factors_at_the_clamp():
    """By default the sum, clamped at 2: log factors 3, -2.5, 1.2 + 1.2 and 1 of agent b's four rows, three held."""
    one, two = ((-1.0,) * n for n in (1, 2))
    words = [Completion("x", (1,), (3,) * len(old), old, old) for old in (one, one, two, one)]
    table = make_batch(
        [episode("0", lane, [(1.0, 1.0)], [{"a": word, "b": words[0]}]) for lane, word in enumerate(words)]
    )
    a, b = Mover("a", [[3.0], [-2.5], [1.2, 1.2], [1.0]]), Mover("b", [[0.0]] * 4)
    study = Updater(BARE, config(algorithm={"order": "fixed"}), [a, b], WORLD)
    shown = study.update(study.estimate_advantages(table), 1)
    assert (shown["a/factor_clamped"], shown["b/factor_clamped"]) == (0.0, 0.75)
    assert b.factor == pytest.approx([math.exp(2), math.exp(-2), math.exp(2), math.e], abs=1e-5)
    together = Updater(replace(BARE, order="together"), config(), [a, b], WORLD)
    assert "b/factor_clamped" not in together.update(together.estimate_advantages(table), 1)
