"""The mixer as a source of advantages, and whole runs of sentences."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from palaver.core import ConfigError
from palaver.trainers.algorithms.qmix import QMIX
from palaver.trainers.config.kl import KLConfig
from palaver.trainers.config.loading import load, parse
from palaver.trainers.rollout.batch import Batch, add_advantages, make_batch
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import prepare, resume, train
from palaver.trainers.update.advantage_estimators import KLTerms, MixerEstimator
from tests.closeness import assert_values_close
from tests.trainers.learning import episode, policy
from tests.trainers.toys import register_toy, save_model
from tests.trainers.value_mixing.test_scenes import said

ALONE = SimpleNamespace(device="cpu", gather=list, all_sum=lambda *numbers: list(numbers))


def settings(**mixer: Any) -> Any:
    own = {"encoder": "table", "features": 64, "optimizer": "adam", "lr": 0.05, "batch": 4, "updates": 150, "start": 0}
    return parse({"algorithm": {"name": "qmix", "mixer": own | mixer}})


def lanes() -> Batch:
    """Joint actions (good, good) 2, (good, bad) 1, (bad, good) 1, (bad, bad) 0, aligned: each answer counts 1."""
    paid = {("good", "fine"): 2.0, ("good", "dull"): 1.0, ("bad", "fine"): 1.0, ("bad", "dull"): 0.0}
    return make_batch(
        [episode("0", lane, [(pay, pay)], [said(*words)]) for lane, (words, pay) in enumerate(paid.items())]
    )


def mixer_of(kind: str, config: Any) -> MixerEstimator:
    return MixerEstimator(
        replace(QMIX, mixer=kind), config, [SimpleNamespace(agents=("a", "b"), policy=policy())], ALONE
    )


def judged(kind: str, times: int = 1, **mixer: Any) -> tuple[MixerEstimator, Batch, Batch]:
    config = settings(**mixer)
    mixing = mixer_of(kind, config)
    filled = add_advantages(lanes(), QMIX, config.algorithm)
    for _ in range(times):
        found = mixing.estimate(filled, KLTerms()).batch
    return mixing, filled, found


def by_text(table: Batch) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row, each in enumerate(table.completions):
        found.setdefault(each.text, []).append(float(table.advantage[row]))
    return found


@pytest.mark.parametrize("credit", ["counterfactual", "value"])
@pytest.mark.parametrize("kind", ["sum", "monotonic"])
def test_each_answer_is_paid_for_its_own_part(kind, credit):
    """The sum of the parts: +-0.5 of an answer, in whatever company; the plain return would pay (good, dull) nothing.

    Q_i under a mixer has a scale of its own, so of its values the signs alone are held.
    """
    _, filled, found = judged(kind, times=6 if kind == "monotonic" else 3, credit=credit, lr=0.01)
    assert by_text(filled)["good"] == [1.0, 0.0]  # returns 2, 1, 1, 0 less their mean
    for text, sign in (("good", 1), ("fine", 1), ("bad", -1), ("dull", -1)):
        given = by_text(found)[text]
        assert all(sign * each > 0.05 for each in given)
        if kind == "sum" or credit == "counterfactual":
            assert given == pytest.approx([sign * 0.5] * 2, abs=0.05 if kind == "sum" else 0.2)


def test_for_a_sum_both_credits_are_one():
    first, second = (judged("sum", credit=credit)[2].advantage for credit in ("counterfactual", "value"))
    assert_values_close(first, second)


@pytest.mark.parametrize("settings", [{"start": 1}, {"batch": 5}])
def test_until_the_values_are_learnt_the_plain_return_is_compared(settings):
    mixing, filled, found = judged("monotonic", **settings)
    assert torch.equal(found.advantage, filled.advantage)
    assert mixing.replay.transitions
    if "start" in settings:
        assert mixing.stats.updates
        assert not torch.equal(mixing.estimate(filled, KLTerms()).batch.advantage, filled.advantage)


def test_a_cost_is_taken_from_what_the_team_is_paid():
    mixing, filled, _ = judged("sum")
    mixing.replay.transitions.clear()
    mixing.config = mixing.config.model_copy(update={"kl": KLConfig(place="reward")})
    mixing.estimate(filled, KLTerms(tokens=[torch.tensor([0.25])] * len(filled), coef=torch.ones(len(filled)).double()))
    assert sorted(each.reward for each in mixing.replay.transitions) == [-0.25, 0.75, 0.75, 1.75]


TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")


def numbers(folder: Path) -> list[dict[str, Any]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in lines]


@pytest.mark.parametrize("name", ["qmix"])
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, name):
    """Values, targets, optimiser, replay and the copy that reads are part of the checkpoint."""
    register_toy()
    config = parse({
        "env": {"id": "lengths-v0", "turns": 2}, "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 8},
        "algorithm": {
            "name": name, "group_size": 2, "discount": 0.9,
            "mixer": {"batch": 4, "start": 1, "target_every": 3},
        },
        "optim": {"lr": 1e-2}, "train": {"steps": 4, "checkpoint_every": 2}, "eval": {"n": 0}, "device": "cpu",
        "log": {"tensorboard": False, "episodes": False},
    })  # fmt: skip
    whole = train(config, tmp_path / "whole")
    lines = numbers(whole)
    assert [line["mixer/replay"] for line in lines] == [6, 12, 18, 24]  # 2 joint steps, then 2 below each
    assert all(line["mixer/updates"] == 8 and line["mixer/td_loss"] > 0 for line in lines)
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(cut / "checkpoints" / "step-000004")
    shutil.rmtree(tmp_path / "m")
    resume(cut)
    assert numbers(cut) == lines


REFUSED = [
    (["algorithm.credit=own"], "algorithm.credit=team"),
    (["algorithm.mixer.batch=64", "algorithm.mixer.buffer=32"], "lower the one"),
    (["env.id=echo-v0", "algorithm.turns=independent"], "algorithm.turns=tree"),
    (["algorithm.group_size=1"], "group_size must be 2 or more"),
    (["algorithm.normalize=whiten"], "none, std or batch"),
    (["algorithm.mixer.actions=legal"], "lists no legal_actions"),
]


@pytest.mark.parametrize(("overrides", "told"), REFUSED, ids=lambda each: each if isinstance(each, str) else each[0])
@pytest.mark.parametrize("name", ["vdn", "qmix"])
def test_refused(tmp_path, name, overrides, told):
    register_toy()
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"env: {{id: lengths-v0}}\npolicy: {{model: nowhere}}\nalgorithm: {{name: {name}}}\n")
    with pytest.raises(ConfigError) as caught:
        prepare(load(str(recipe), overrides))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_branches_may_be_compared_by_their_values(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("env: {id: echo-v0}\npolicy: {model: nowhere}\nalgorithm: {name: qmix, turns: independent}\n")
    prepare(load(str(recipe), ["algorithm.mixer.credit=value"]))


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("algorithm.mixer.embd=3", "embed"), ("algorithm.mixer.epsilon=[2,0]", "algorithm.mixer.epsilon"),
        ("algorithm.mixer.actions=words", "sentences"), ("algorithm.mixer.credit=all", "algorithm.mixer.credit"),
        ("algorithm.mixer.batch=0", "algorithm.mixer.batch"), ("algorithm.mixer.lr=-1", "algorithm.mixer.lr"),
    ],
)  # fmt: skip
def test_keys_are_checked(key, told):
    with pytest.raises(ConfigError) as caught:
        load("arxiv-magrpo", [key])
    assert told in str(caught.value)
    assert "algorithm.mixer" in str(caught.value)
