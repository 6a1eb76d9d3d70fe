"""The weight of the pull: numbers of the adaptive one by hand, one weight in all three places, one per policy."""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from palaver.core import Completion
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.objectives.kl import adapted
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.advantage_estimators import KLTerms
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.updater import Updater
from tests.closeness import assert_gradients_close
from tests.trainers.learning import (
    Softmax,
    anchor,
    config,
    episode,
    learners,
    played,
    policy,
    scattered,
    shaken,
    spied,
    together,
)

WORLD = Distributed("cpu", "fp32")


@pytest.mark.parametrize(
    ("kl", "expected"),
    [
        (4.0, 0.1),  # at the target
        (4.4, 0.101),  # e = .1, n / horizon = .1
        (3.8, 0.0995),  # e = -.05
        (4.8, 0.102),  # e = .2
        (40.0, 0.102),  # clipped
        (0.0, 0.098),
        (-40.0, 0.098),
    ],
)
def test_the_weight_follows_the_divergence(kl, expected):
    assert adapted(0.1, kl, n=16, target=4.0, horizon=160) == pytest.approx(expected, abs=1e-12)


def test_nothing_said_changes_nothing():
    assert adapted(0.1, 0.0, n=0, target=4.0, horizon=160) == 0.1


def study_of(team, place="loss", coef=0.3, total=None, **kl):
    settings = config(kl={"coef": coef, "place": place, **kl}, algorithm={"group_size": 2})
    world = WORLD if total is None else SimpleNamespace(**WORLD.__dict__ | {"all_sum": total})
    found = Updater(algorithm("magrpo"), settings, learners(team, settings), WORLD)
    found.distributed = world
    for number, learner in enumerate(found.learners):
        shaken(anchor(learner), seed=number)
    return found, settings


def fresh_team(shared=False):
    first = policy(0)
    return {"a": first, "b": first if shared else policy(1)}


def apart(judged, rows) -> list[float]:
    """log pi - log pi_ref of whole completions."""
    return [float(judged.kl.log_ratio[row].double().sum()) for row in rows]


@pytest.mark.parametrize("shared", [False, True])
def test_each_policy_has_a_weight_of_its_own_for_all_that_it_says(shared):
    """Mean over completions, of both seats where they share; the weight used is logged, the next one used next."""
    team = fresh_team(shared)
    study, settings = study_of(team, target=0.05, horizon=40)
    judged = study.estimate_advantages(played(team, settings))
    shown = study.update(judged, 1)
    for learner in study.learners:
        said = apart(judged, judged.batch.rows_of(learner.agents))
        mean, n = sum(said) / len(said), len(said)
        assert n == 12 * len(learner.agents)
        error = min(0.2, max(-0.2, (mean - 0.05) / 0.05))
        assert abs(error) > 1e-3
        assert learner.coef == pytest.approx(0.3 * (1 + error * n / 40), rel=1e-12)
        for agent in learner.agents:
            assert shown[f"{agent}/kl_coef"] == 0.3
            assert shown[f"{agent}/k1_text"] == pytest.approx(mean)
    then = study.update(study.estimate_advantages(played(team, settings)), 2)
    assert then["b/kl_coef"] != 0.3


def test_without_a_target_the_weight_stays():
    team = fresh_team()
    study, settings = study_of(team)
    shown = study.update(study.estimate_advantages(played(team, settings)), 1)
    assert [learner.coef for learner in study.learners] == [0.3, 0.3]
    assert shown["a/kl_coef"] == 0.3


def test_a_linear_weight_falls_to_zero_over_the_steps_of_the_run():
    """Three steps from .3: .3, .2, .1, and 0 after the last; a resumed run goes on with the same."""
    used, team = [], fresh_team()
    settings = config(kl={"coef": 0.3, "schedule": "linear"}, algorithm={"group_size": 2}, train={"steps": 3})
    updater = Updater(algorithm("magrpo"), settings, learners(team, settings), WORLD)
    for step in (1, 2, 3):
        used.append(updater.update(updater.estimate_advantages(played(team, settings)), step)["a/kl_coef"])
        other = Updater(algorithm("magrpo"), settings, learners(fresh_team(), settings), WORLD)
        other.load_state_dict(copy.deepcopy(updater.state_dict()))
        assert [one.coef for one in other.learners] == [one.coef for one in updater.learners]
    assert used == pytest.approx([0.3, 0.2, 0.1])
    assert [learner.coef for learner in updater.learners] == [0.0, 0.0]
    assert "a/loss" in updater.update(updater.estimate_advantages(played(team, settings)), 4), "weight 0 is allowed"


def test_two_processes_have_one_weight():
    """Ten completions of 1 nat here, thirty of 2 there: mean 1.75, e = .2 of target 1, n = 40 of horizon 80."""
    judged = [
        SimpleNamespace(
            kl=KLTerms(log_ratio={row: torch.full((2,), nats / 2) for row in range(count)}),
            batch=SimpleNamespace(rows_of=lambda _, count=count: list(range(count))),
        )
        for count, nats in ((10, 1.0), (30, 2.0))
    ]

    def job(total, mine):
        study, _ = study_of({"a": policy(0)}, total=total, target=1.0, horizon=80)
        (learner,) = study.learners
        return study._update_reference(learner, mine, 1), learner.coef

    found = together([lambda total, mine=mine: job(total, mine) for mine in judged])
    assert found[0] == found[1]
    assert found[0][0]["a/k1_text"] == pytest.approx(1.75)
    assert found[0][1] == pytest.approx(0.3 * 1.1)


@pytest.mark.parametrize("place", ["loss", "reward", "advantage"])
def test_the_present_weight_holds_in_every_place(place):
    """A weight that has moved from .3 to .9 teaches as one set to .9."""
    found = []
    for coef in (0.3, 0.9):
        team = fresh_team()
        study, settings = study_of(team, place, coef)
        for learner in study.learners:
            learner.coef = 0.9
        judged = study.estimate_advantages(scattered(played(team, settings), settings))
        spy = spied(study.learners[0])
        study.update(judged, 1)
        found.append(spy.steps[0])
    assert_gradients_close(*found)
    team = fresh_team()
    study, settings = study_of(team, place, 0.3)
    spy = spied(study.learners[0])
    study.update(study.estimate_advantages(scattered(played(team, settings), settings)), 1)
    assert max(float((found[0][name] - spy.steps[0][name]).abs().max()) for name in spy.names) > 1e-3, "it does act"


def test_the_weight_is_part_of_the_state():
    team = fresh_team()
    study, settings = study_of(team, target=0.05, horizon=40)
    study.update(study.estimate_advantages(played(team, settings)), 1)
    other, _ = study_of(fresh_team(), target=0.05, horizon=40)
    other.load_state_dict(copy.deepcopy(study.state_dict()))
    assert [learner.coef for learner in other.learners] == [learner.coef for learner in study.learners]
    assert other.learners[0].coef != 0.3


@pytest.mark.parametrize(
    ("place", "kl"),
    [("loss", {"estimator": "k2"}), ("reward", {}), ("advantage", {})],
)
def test_in_every_place_it_is_the_gradient_of_one_divergence(place, kl):
    """A uniform policy of two tokens, the reference (.8, .2), and each token said as often as the policy says it.

    KL = .5 log(.5/.8) + .5 log(.5/.2) = .2231436; by the logits it is .5 (log(.5/.8) - KL) = -.3465736, and the
    opposite. The tokens are dealt, not drawn, so that their mean is KL and a centre that holds them all takes nothing.
    """
    settings = config(
        kl={"coef": 0.5, "place": place, "reference": "model:x"} | kl,
        algorithm={"group_size": 2, "name": "mareinforce"},
    )
    model = Softmax()
    speaker = SimpleNamespace(
        model=model, name="a", refresh=lambda: None, parameters=model.parameters, active=lambda: nullcontext(model)
    )
    speaker.shared_engine = speaker
    learner = PolicyUpdater(speaker, ["a"], settings, WORLD, Softmax((math.log(0.8), math.log(0.2))))
    study = Updater(algorithm("mareinforce"), settings, [learner], WORLD)
    said = [Completion(str(n), (0,), (n % 2,), (math.log(0.5),), (math.log(0.5),)) for n in range(4)]
    table = make_batch([episode("0", lane, [(0.0,)], [{"a": word}]) for lane, word in enumerate(said)])
    spy = spied(learner)
    shown = study.update(study.estimate_advantages(table), 1)
    assert spy.steps[0]["logits"].tolist() == pytest.approx([-0.5 * 0.3465736, 0.5 * 0.3465736], abs=1e-6)
    assert shown["a/k1_text"] == pytest.approx(0.2231436, abs=1e-6)
