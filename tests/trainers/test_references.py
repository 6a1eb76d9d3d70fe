"""What a policy is pulled to: which weights each reference has when, that scoring leaves no trace, exact resume."""

from __future__ import annotations

import copy
import shutil

import pytest
import torch

from palaver.core import CheckpointError
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.loading import parse
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.run.memory import estimate, model_facts, reference_weights
from palaver.trainers.train import resume, train
from palaver.trainers.update.reference_model import reference_of
from palaver.trainers.update.updater import Updater
from tests.closeness import assert_gradients_close, assert_values_close
from tests.models import tiny_gpt2, tiny_qwen3
from tests.trainers.learning import (
    config,
    learners,
    played,
    policy,
    row_log_probs,
    scattered,
    shaken,
    spied,
    untimed,
)
from tests.trainers.toys import register_toy, save_model


def pulled(reference: str, **kl):
    return config(kl={"coef": 0.1, "reference": reference} | kl)


def marked(model, number: float) -> None:
    """Write a number into every weight."""
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(number)


def read(model) -> float:
    """The number in every weight."""
    numbers = {float(each) for p in model.parameters() for each in (p.min(), p.max())}
    assert len(numbers) == 1
    return numbers.pop()


@pytest.mark.parametrize(
    ("reference", "before"),
    [
        # the update whose weights the reference has before updates 1, 2, ... 7
        ("start", [0, 0, 0, 0, 0, 0, 0]),
        ("step:0", [0, 0, 0, 0, 0, 0, 0]),
        ("step:3", [0, 0, 0, 3, 3, 3, 3]),
        ("lag:1", [0, 0, 1, 2, 3, 4, 5]),
        ("lag:3", [0, 0, 0, 0, 1, 2, 3]),
        ("lag:99", [0, 0, 0, 0, 0, 0, 0]),
        ("every:1", [0, 1, 2, 3, 4, 5, 6]),
        ("every:3", [0, 0, 0, 3, 3, 3, 6]),
    ],
)
@pytest.mark.parametrize("stopped", [None, 1, 4])
def test_whose_weights_it_has(reference, before, stopped):
    """Stopped after an update or not: a new reference then goes on with what the old one was."""
    who, settings = policy(0), pulled(reference)
    marked(who.model, 0)
    found = reference_of(who, settings)
    seen = []
    for step in range(1, 8):
        with found.active() as model:
            seen.append(read(model))
        marked(who.model, step)
        found.advance(step)
        if step == stopped:
            state = copy.deepcopy(found.state_dict())
            found = reference_of(who, settings)
            found.load_state_dict(state)
    assert seen == before


@pytest.mark.parametrize("reference", ["start", "step:1", "lag:2", "every:2"])
def test_it_is_apart_from_the_policy(reference):
    who = policy(0)
    found = reference_of(who, pulled(reference))
    found.advance(1)
    before = read_all(anchor_of(found))
    shaken(who.model)
    assert all(torch.equal(one, other) for one, other in zip(before, read_all(anchor_of(found)), strict=True))


def anchor_of(reference):
    with reference.active() as model:
        return model


def read_all(model) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("given", [False, True])
def test_scoring_leaves_no_trace(given):
    """Dropout of .5 in a model in training mode: the reference scores without it, and modes and generator are kept."""
    drops = {"resid_pdrop": 0.5, "embd_pdrop": 0.5, "attn_pdrop": 0.5}
    settings = pulled("model:x" if given else "start")
    team = {"a": policy(0), "b": policy(1)}
    table = played(team, settings)
    other = tiny_gpt2(3, **drops).train()
    team["a"].model.train()
    (learner, _) = learners(team, settings)
    if given:
        learner.reference = reference_of(team["a"], settings, other)
    whose = other if given else team["a"].model
    weights, modes = read_all(whose), [module.training for module in whose.modules()]
    wanted = [p.requires_grad for p in whose.parameters()]
    rows = table.rows_of(["a"])
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first, second = learner.reference_log_probs(table, rows), learner.reference_log_probs(table, rows)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in whose.modules()] == modes
    assert [p.requires_grad for p in whose.parameters()] == wanted
    assert all(torch.equal(one, other) for one, other in zip(weights, read_all(whose), strict=True))
    assert torch.is_grad_enabled()
    still = copy.deepcopy(whose).eval()
    for row in rows:
        assert torch.equal(first[row], second[row])
        assert not first[row].requires_grad
        expected = row_log_probs(still, table.completions[row]).detach()
        assert_values_close(first[row], expected)


def test_what_the_reference_draws_is_given_back():
    """Were a model to draw in evaluation mode, the run's own draws would be as without it."""
    found = reference_of(policy(0), pulled("start"))
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    with found.active():
        torch.rand(9)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("reference", ["start", "step:1", "lag:1"])
@pytest.mark.parametrize("place", ["loss", "reward", "advantage"])
def test_neither_packing_nor_padding_nor_micro_batches_change_the_pull(reference, place):
    """Two updates made, then the gradients of a third from one row at a time, packed rows and padded batches."""
    found = []
    for micro in (1, 150, 100000):
        settings = config(
            kl={"coef": 0.3, "place": place, "reference": reference},
            algorithm={"group_size": 2}, train={"steps": 10, "micro_tokens": micro},
        )  # fmt: skip
        team = {"a": policy(0), "b": policy(1)}
        study = Updater(algorithm("magrpo"), settings, learners(team, settings), Distributed("cpu", "fp32"))
        for step in (1, 2):
            for number, learner in enumerate(study.learners):
                shaken(learner.model, seed=10 * step + number)
                learner.policy.refresh()
                learner.reference.advance(step)
        judged = study.estimate_advantages(scattered(played(team, settings), settings))
        assert max(float(k.abs().max()) for k in judged.kl.log_ratio.values()) > 1e-3, "it has moved away"
        spy = spied(study.learners[0])
        study.update(judged, 3)
        found.append(spy.steps[0])
    for other in found[1:]:
        assert_gradients_close(other, found[0])


def run_of(tmp_path, kl, **changes):
    register_toy()
    values = {
        "env": {"id": "lengths-v0"}, "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 4},
        "algorithm": {"group_size": 2}, "optim": {"lr": 1e-2}, "eval": {"n": 0}, "device": "cpu", "kl": kl,
        "log": {"tensorboard": False, "episodes": False}, "train": {"steps": 6, "checkpoint_every": 4},
    }  # fmt: skip
    return train(parse(values | changes), tmp_path / "run")


@pytest.mark.parametrize(
    "kl",
    [
        {"coef": 0.1, "reference": "start", "target": 0.5, "horizon": 20},
        {"coef": 0.1, "reference": "step:2", "place": "advantage"},
        {"coef": 0.1, "reference": "step:5", "place": "loss", "estimator": "k2"},
        {"coef": 0.1, "reference": "lag:1", "place": "reward", "target": 0.5, "horizon": 20},
        {"coef": 0.1, "reference": "lag:3", "place": "loss"},
    ],
    ids=lambda kl: kl["reference"],
)
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, kl):
    run = run_of(tmp_path, kl)
    whole = untimed(run)
    assert max(line["a/k1_max"] for line in whole) > 1e-3
    shutil.rmtree(run / "checkpoints" / "step-000006")
    resume(run)
    assert untimed(run) == whole
    if "target" in kl:
        assert len({line["b/kl_coef"] for line in whole}) > 3, "it moves"


def test_drift_is_none_where_the_reference_has_the_policys_weights(tmp_path):
    """step:2 has them before update 3, and is the start before; from then on the policy moves away from it."""
    # eight answers: two are often paid the same, and nothing is learnt from them
    run = run_of(tmp_path, {"coef": 0.1, "reference": "step:2"}, algorithm={"group_size": 8})
    drift = [line["a/k1_max"] for line in read_metrics(run / "metrics.jsonl")]
    assert [far < 1e-4 for far in drift] == [True, False, True, False, False, False]


def test_a_checkpoint_without_references_is_refused(tmp_path):
    settings = pulled("start")
    team = {"a": policy(0), "b": policy(1)}
    study = Updater(algorithm("magrpo"), settings, learners(team, settings), Distributed("cpu", "fp32"))
    with pytest.raises(CheckpointError, match="lacks the reference of 'p0'"):
        study.load_state_dict({"critics": {}, "moving": {}})


def test_what_memory_they_take():
    """A copy each; the shared model once; snapshots are in host memory, which is the device here."""
    size, team = tiny_qwen3().num_parameters(), [policy(0), policy(1)]
    other = tiny_qwen3(9, hidden=64)

    def numbers(reference, given=None):
        settings = pulled(reference)
        found = [(who, reference_of(who, settings, given)) for who in team]
        return reference_weights([model_facts(settings, who, own.held, own.shared) for who, own in found])

    assert numbers("start") == numbers("step:4") == 2 * size
    assert numbers("lag:3") == 2 * (1 + 3) * size
    assert numbers("lag:10") == 2 * size, "ten steps: it will never come to any"
    assert numbers("model:x", other) == other.num_parameters()
    known = [model_facts(config(), who) for who in team]
    assert reference_weights(known) == 0
    less, more = (estimate(config(), known, 30, 8, 0, pull).weights for pull in (0, 100))
    assert more - less == 400
