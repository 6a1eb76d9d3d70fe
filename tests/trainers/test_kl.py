"""The pull to a reference: one definition, three places, numbers by hand and gradients by enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.config.kl import KLConfig
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.objectives.kl import describe, penalty, resolved_estimator, token_terms
from palaver.trainers.rollout.batch import add_advantages, make_batch
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.advantage_estimators import KLTerms
from palaver.trainers.update.updater import Updater
from tests.closeness import assert_gradients_close, assert_values_close
from tests.trainers.learning import (
    anchor,
    config,
    episode,
    gradients,
    learners,
    played,
    policy,
    row_log_probs,
    scattered,
    shaken,
    spied,
    together,
)

K = {0: torch.tensor([0.2, 0.4]), 1: torch.tensor([1.2]), 2: torch.tensor([0.5, 0.5])}
PART = {0: 0, 1: 0, 2: 1}  # rows 0 and 1 are one agent's, row 2 another's


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [("k1", [0.5, -1.0, 0.0]), ("k2", [0.125, 0.5, 0.0]), ("k3", [math.exp(-0.5) - 0.5, math.e - 2, 0.0])],
)
def test_penalty_of_each_token(estimator, expected):
    """log pi - log pi_ref = .5, -1 and padding; clamp .3 holds each within [-.3, .3]."""
    logp, reference = torch.tensor([[-1.0, -3.0, math.nan]]), torch.tensor([[-1.5, -2.0, -math.inf]])
    mask = torch.tensor([[True, True, False]])
    free = penalty(logp, reference, mask, KLConfig(estimator=estimator))
    assert free.tolist() == [pytest.approx(expected, abs=1e-6)]
    held = penalty(logp, reference, mask, KLConfig(estimator=estimator, clamp=0.3))
    assert held.tolist() == [pytest.approx([max(-0.3, min(0.3, k)) for k in expected], abs=1e-6)]


def test_terms_of_each_token():
    """Rows 0 and 1 are of one agent: the mean of .2, .4, 1.2 is .6; that of row 2 is .5."""
    got = token_terms(K, PART, [0.1, 0.1])
    for row, numbers in {0: [0.4, 0.2], 1: [-0.6], 2: [0.0, 0.0]}.items():
        assert got[row].tolist() == pytest.approx([0.1 * number for number in numbers], abs=1e-6)


def test_the_terms_of_an_agent_sum_to_zero():
    generator = torch.Generator().manual_seed(0)
    k = {row: torch.randn(row + 1, generator=generator, dtype=torch.float64) for row in range(6)}
    terms = token_terms(k, {row: row % 2 for row in k}, [1.0, 1.0])
    for rows in ([0, 2, 4], [1, 3, 5]):
        assert sum(float(terms[row].sum()) for row in rows) == pytest.approx(0.0, abs=1e-9)


def test_the_token_that_drifted_most_loses_most():
    terms = token_terms(K, PART, [0.1, 0.1])
    assert float(terms[1]) < 0
    assert float(terms[1]) < min(terms[0].tolist())
    assert terms[0][1] < terms[0][0]


def test_two_processes_take_one_mean():
    whole = token_terms(K, PART, [0.1, 0.1])
    halves = [{0: K[0]}, {row: K[row] for row in (1, 2)}]
    found = together([lambda total, half=half: token_terms(half, PART, [0.1, 0.1], total) for half in halves])
    for row, values in (found[0] | found[1]).items():
        assert values.tolist() == pytest.approx(whole[row].tolist())


def test_a_token_alone_in_its_set_has_no_others_to_compare_with():
    got = token_terms({0: torch.tensor([0.7])}, {0: 0}, [1.0])
    assert got[0].tolist() == [0.0]


def test_two_tokens_of_two_processes_are_not_alone():
    """k of .2 and .6: each is .2 from the mean."""
    jobs = [lambda total, k=k: token_terms({0: torch.tensor([k])}, {0: 0}, [1.0], total) for k in (0.2, 0.6)]
    assert [float(found[0]) for found in together(jobs)] == pytest.approx([0.2, -0.2])


def test_each_part_has_a_coefficient_of_its_own():
    k = {**K, 2: torch.tensor([0.5, 0.9])}
    got = token_terms(k, PART, [0.5, 2.0])
    assert {row: values.tolist() for row, values in got.items()} == {
        0: pytest.approx([0.2, 0.1]), 1: pytest.approx([-0.3]), 2: pytest.approx([0.4, -0.4]),
    }  # fmt: skip


def test_the_mean_gradient_is_that_of_the_divergence():
    """All pairs of tokens of a softmax p, each as often as p says: suites.md, section 1.4, N = 2.

    The gradient of KL(p, q) by the logits is p_i (log(p_i / q_i) - KL). A mean that holds its own token takes 1 / N.
    """
    p, q = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64), torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    apart = 0.7 * math.log(7 / 3) + 0.2 * math.log(2 / 3) + 0.1 * math.log(1 / 4)
    expected = [0.7 * (math.log(7 / 3) - apart), 0.2 * (math.log(2 / 3) - apart), 0.1 * (math.log(1 / 4) - apart)]
    logits = p.log().requires_grad_()
    loss = torch.tensor(0.0, dtype=torch.float64)
    for pair in itertools.product(range(3), repeat=2):
        k = {row: (p[token] / q[token]).log()[None] for row, token in enumerate(pair)}
        terms = token_terms(k, {0: 0, 1: 0}, [1.0])
        logp = torch.log_softmax(logits, 0)
        pays = sum(-terms[row][0] * logp[token] for row, token in enumerate(pair)) / 2
        loss = loss + p[pair[0]] * p[pair[1]] * pays
    loss.backward()
    assert logits.grad.tolist() == pytest.approx([0.5 * number for number in expected], abs=1e-7)


def test_describe():
    """Rows (.2, .4) and (1.2): mean .6, largest 1.2, one of three at the clamp; two points lie on a falling line."""
    k = {0: K[0], 1: K[1]}
    got = describe(k, torch.tensor([1.0, -2.0]), KLConfig(estimator="k1", clamp=1.0))
    third = [math.exp(-each) + each - 1 for each in (0.2, 0.4, 1.2)]  # .019, .070, .501
    expected = {"k1": 0.6, "k3": sum(third) / 3, "k1_max": 1.2, "kl_clamped": 1 / 3, "k1_with_advantage": -1.0}
    assert got == pytest.approx(expected, abs=1e-6)
    assert describe({}, torch.zeros(0), KLConfig()) == {}


@pytest.mark.parametrize(
    ("estimator", "clamp", "share"), [("k1", 0.3, 2 / 3), ("k2", 0.05, 2 / 3), ("k3", 0.05, 2 / 3), ("k3", 0.3, 1 / 3)]
)
def test_clamped_is_what_is_paid(estimator, clamp, share):
    """k1 .2 .4 1.2, k2 .02 .08 .72, k3 .019 .070 .501."""
    found = describe({0: K[0], 1: K[1]}, torch.zeros(2), KLConfig(estimator=estimator, clamp=clamp))
    assert found["kl_clamped"] == pytest.approx(share)


@pytest.mark.parametrize(("place", "k"), [("loss", "k3"), ("reward", "k1"), ("advantage", "k1")])
def test_the_estimator_by_place_where_none_was_chosen(place, k):
    assert resolved_estimator(KLConfig(place=place)) == k
    assert resolved_estimator(KLConfig(place=place, estimator="k2")) == "k2"


def test_in_the_reward_it_acts_over_turns_and_before_the_baseline():
    """Two lanes of two turns, pay 1 then 2; the second completion of lane 0 pays .5, of lane 1 nothing. gamma .5.

    Returns of agent a: lane 0 1 + .5 * 1.5 = 1.75 and 1.5, lane 1 2 and 2; advantages -.125, -.25, .125, .25.
    Agent b pays nothing: all 0.
    """
    table = make_batch([episode("0", lane, [(1.0, 1.0), (2.0, 2.0)]) for lane in (0, 1)])
    at = {(int(table.agent[r]), int(table.turn[r]), int(table.episode[r])): r for r in range(len(table))}
    cost = torch.zeros(len(table), dtype=torch.float64)
    cost[at[0, 1, 0]] = 0.5
    filled = add_advantages(table, MAGRPO, AlgorithmConfig(discount=0.5), cost=cost)
    order = [at[0, 0, 0], at[0, 1, 0], at[0, 0, 1], at[0, 1, 1]]
    assert filled.returns[order].tolist() == [1.75, 1.5, 2.0, 2.0]
    assert filled.advantage[order].tolist() == [-0.125, -0.25, 0.125, 0.25]
    assert filled.advantage[filled.rows_of(["b"])].tolist() == [0.0] * 4


def study_of(place: str, micro: int = 16384, minibatches: int = 1, **kl):
    settings = config(
        kl={"coef": 0.3, "place": place, **kl},
        algorithm={"group_size": 2, "minibatches": minibatches},
        train={"steps": 10, "micro_tokens": micro},
    )
    team = {"a": policy(0), "b": policy(1)}
    found = learners(team, settings)
    study = Updater(algorithm("magrpo"), settings, found, Distributed("cpu", "fp32"))
    return study, team, settings


def judged(study, team, settings, away: bool = True):
    """A judged step whose references are not the policies any more; returns of equal rewards are told apart."""
    if away:
        for number, learner in enumerate(study.learners):
            shaken(anchor(learner), seed=number)
    found = study.estimate_advantages(played(team, settings))
    return replace(found, batch=replace(found.batch, advantage=scattered(found.batch, settings).advantage))


@pytest.mark.parametrize("place", ["loss", "reward", "advantage"])
def test_at_the_start_it_is_zero_in_every_place(place):
    study, team, settings = study_of(place)
    found = judged(study, team, settings, away=False)
    assert max(float(each.abs().max()) for each in found.kl.log_ratio.values()) < 1e-5
    plain = study.estimate_advantages(found.batch)
    spy = spied(study.learners[0])
    study.update(found, 1)
    without, _, _ = study_of("loss")
    without.config = without.config.model_copy(update={"kl": KLConfig(coef=0.0)})
    bare = spied(without.learners[0])
    without.learners[0].config = without.config
    without.update(replace(found, kl=KLTerms()), 1)
    assert_gradients_close(spy.steps[0], bare.steps[0])
    assert_values_close(plain.batch.returns, found.batch.returns)


def test_the_whole_gradient_in_each_place():
    """Against full logits, one row at a time: -(A + extra) log pi, with coef k3 beside it in place `loss`.

    A row weighs the share of its joint steps in its task's tree, over the tasks.
    """
    for place, estimator in (("loss", "k3"), ("advantage", "k1"), ("advantage", "k3")):
        study, team, settings = study_of(place, estimator=estimator)
        found = judged(study, team, settings)
        spy = spied(study.learners[0])
        study.update(found, 1)
        table, model = found.batch, team["a"].model
        rows = table.rows_of(["a"])
        apart = {}
        with torch.no_grad():
            for row in rows:
                said = table.completions[row]
                apart[row] = torch.tensor(said.sample_logprobs).double() - row_log_probs(
                    anchor(study.learners[0]), said
                )
        k = {row: each if estimator == "k1" else (-each).exp() + each - 1 for row, each in apart.items()}
        centre = torch.cat([k[row] for row in rows]).mean()
        loss = torch.tensor(0.0, dtype=torch.float64)
        for row in rows:
            logp = row_log_probs(model, table.completions[row])
            if place == "advantage":
                loss = loss - table.weight[row] * ((table.advantage[row] + 0.3 * (centre - k[row])) * logp).sum()
            else:
                d = (torch.tensor(table.completions[row].sample_logprobs).double() - apart[row]) - logp
                loss = loss + table.weight[row] * (-table.advantage[row] * logp + 0.3 * (d.exp() - d - 1)).sum()
        assert_gradients_close(spy.steps[0], gradients(model, loss / table.tasks))


def test_neither_micro_batches_nor_packing_nor_minibatches_decide_what_is_punished():
    """The same gradient from one row at a time, packed rows, padded batches; two halves have it as their mean."""
    found = []
    for micro, minibatches in ((1, 1), (150, 1), (100000, 1), (150, 2)):
        study, team, settings = study_of("advantage", micro, minibatches, estimator="k1")
        spy = spied(study.learners[0])
        study.update(judged(study, team, settings), 1)
        assert len(spy.steps) == minibatches
        found.append({name: sum(step[name] for step in spy.steps) / minibatches for name in spy.names})
    plain = study_of("advantage", coef=1e-9)
    bare = spied(plain[0].learners[0])
    plain[0].update(judged(*plain), 1)
    assert max(float((found[0][name] - bare.steps[0][name]).abs().max()) for name in found[0]) > 1e-3, "it does act"
    for other in found[1:]:
        assert_gradients_close(other, found[0])


def test_in_the_reward_each_completion_pays_the_sum_of_its_tokens():
    study, team, settings = study_of("reward", estimator="k1")
    shaken(anchor(study.learners[0]))
    found = study.estimate_advantages(played(team, settings))
    for row in range(len(found.batch)):
        said = found.batch.completions[row]
        learner = study.learners[int(found.batch.agent[row])]
        with torch.no_grad():
            expected = float((torch.tensor(said.sample_logprobs).double() - row_log_probs(anchor(learner), said)).sum())
        assert float(found.kl.penalty[row]) == pytest.approx(0.3 * expected, abs=1e-4)
    last = (found.batch.turn == 1).nonzero()[:, 0]
    paid = torch.tensor([found.batch.steps[s].team_reward for s in found.batch.member_step[last].tolist()])
    assert_values_close(found.batch.returns[last], paid.double() - found.kl.penalty[last])
