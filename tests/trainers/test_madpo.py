"""MADPO: the loss and its slope by hand, the gradient against autograd of the formula, runs from rollouts and files."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.functional import logsigmoid

from palaver.core import ConfigError, PolicyError, TaskError
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.checks import refuse_contradictions
from palaver.trainers.config.loading import parse
from palaver.trainers.preferences.dpo import dpo_loss, dpo_slope, row_weights, step_log_ratios
from palaver.trainers.rollout.batch import Batch, make_batch
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import resume, train
from palaver.trainers.update.advantage_estimators import AdvantageBatch, KLTerms, PairEstimator, Pairs
from palaver.trainers.update.updater import Updater
from tests.closeness import assert_gradients_close
from tests.trainers.learning import (
    config,
    episode,
    gradients,
    learners,
    played,
    policy,
    row_log_probs,
    shaken,
    spied,
    untimed,
)
from tests.trainers.toys import SEATS, register_toy, save_model

BETA = 0.5


def test_the_loss_and_its_slope_by_hand():
    """beta h = -1, 0, 1: log(1 + e) = 1.313262, log 2 = 0.693147, log(1 + 1/e) = 0.313262.

    The slope is beta / (1 + e^(beta h)).
    """
    margin = torch.tensor([-2.0, 0.0, 2.0], dtype=torch.float64)
    assert dpo_loss(margin, BETA).tolist() == pytest.approx([1.313262, 0.693147, 0.313262], abs=1e-6)
    assert dpo_slope(margin, BETA).tolist() == pytest.approx([0.365529, 0.25, 0.134471], abs=1e-6)
    assert dpo_loss(torch.tensor([-1e6, 1e6], dtype=torch.float64), 1.0).tolist() == [1e6, 0.0], "no overflow"


def test_what_joint_steps_and_rows_have_of_it():
    """Two agents, rows 0-1 and 2-3; joint steps (0, 2), (1, 3), (0, 3): row 0 and row 3 are in two of them."""
    row, step = torch.tensor([0, 2, 1, 3, 0, 3]), torch.tensor([0, 0, 1, 1, 2, 2])
    ratio = torch.tensor([0.1, -0.2, 0.4, 0.8], dtype=torch.float64)
    assert step_log_ratios(ratio, row, step, 3).tolist() == pytest.approx([0.5, 0.6, 0.9])
    # pairs 0 > 1 with slope 0.3 and 2 > 0 with slope 0.2: steps get 0.3 - 0.2, -0.3, 0.2
    weights = row_weights(torch.tensor([0.3, 0.2]), torch.tensor([0, 2]), torch.tensor([1, 0]), row, step, 4)
    assert weights.tolist() == pytest.approx([0.1 + 0.2, -0.3, 0.1, -0.3 + 0.2], abs=1e-7)


def _judged(**changes: Any) -> tuple[Batch, Updater, Any]:
    """A table of policies that have moved away from their references, with rewards that differ, and its study."""
    shared = changes.pop("shared", False)
    algorithm = {"name": "madpo", "group_size": 3, **changes}
    run = config(algorithm=algorithm, kl={"coef": BETA}, optim={"lr": 0.05, "max_grad_norm": 0})
    one = policy(0, name="shared")
    team = dict.fromkeys(SEATS, one) if shared else {seat: policy(n, name=seat) for n, seat in enumerate(SEATS)}
    made = learners(team, run)
    for learner in made:
        shaken(learner.policy.model, 0.05)
        learner.policy.refresh()
    table = played(team, run)
    reward = torch.randn(len(table.steps), 1, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    table = replace(table, reward=reward.expand(-1, 2))
    study = Updater(chosen(run.algorithm), run, made, Distributed("cpu", "fp32"))
    return table, study, made


def _pairs(table: Batch) -> list[tuple[int, int]]:
    """Joint steps of one group, the better first, by the mean of what is below them: written without the trainer."""
    children = {n: [c for c, above in enumerate(table.parent.tolist()) if above == n] for n in range(len(table.steps))}

    def worth(step: int) -> float:
        below = [worth(child) for child in children[step]]
        return float(table.reward[step, 0]) + (sum(below) / len(below) if below else 0.0)

    same = [(a, b) for a, b in combinations(range(len(table.steps)), 2) if table.steps[a].group == table.steps[b].group]
    return [(a, b) if worth(a) > worth(b) else (b, a) for a, b in same]


def _terms(table: Batch, learner: Any, live: bool) -> dict[int, torch.Tensor]:
    """Row -> log pi - log ref of what this learner's agents said."""
    found = {}
    for row in table.rows_of(learner.agents):
        said = table.completions[row]
        with learner.reference.active() as model:
            still = row_log_probs(model, said).sum()
        now = row_log_probs(learner.policy.model, said).sum()
        found[row] = (now if live else now.detach()) - still
    return found


def _formula(table: Batch, terms: dict[int, torch.Tensor]) -> torch.Tensor:
    rows: dict[int, list[int]] = {}
    for row, step in zip(table.member_row.tolist(), table.member_step.tolist(), strict=True):
        rows.setdefault(step, []).append(row)
    h = [sum(terms[r] for r in rows[good]) - sum(terms[r] for r in rows[bad]) for good, bad in _pairs(table)]
    return -torch.stack([logsigmoid(BETA * each) for each in h]).mean()


@pytest.mark.parametrize("joint", ["aligned", "cross"])
@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
def test_the_gradient_is_that_of_the_formula(joint, shared):
    """Also that of the loss per agent, with the terms of the others without gradient, where agents have own weights."""
    size = 2 if joint == "cross" else 3
    table, study, made = _judged(joint=joint, shared=shared, group_size=size)
    expected = {}
    for learner in made:
        live = {k: v for other in made for k, v in _terms(table, other, True).items()}
        expected[learner.policy.name] = gradients(learner.policy.model, _formula(table, live))
        alone = {k: v for other in made for k, v in _terms(table, other, other is learner).items()}
        assert_gradients_close(gradients(learner.policy.model, _formula(table, alone)), expected[learner.policy.name])
    spies = {learner.policy.name: spied(learner) for learner in made}
    shown = study.update(study.estimate_advantages(table), 1)
    for name, spy in spies.items():
        (found,) = spy.steps
        assert_gradients_close(found, expected[name])
    with torch.no_grad():
        terms = {k: v for other in made for k, v in _terms(table, other, False).items()}
        assert shown["pairs/loss"] == pytest.approx(float(_formula(table, terms)), abs=1e-5)
    assert shown["pairs/count"] == len(_pairs(table))


def test_one_after_the_other_knows_how_the_former_has_moved():
    """The second agent's gradient is the formula's at the first one's new weights."""
    table, study, made = _judged(pairs={"others": "joint"}, order="fixed")
    assert study.algorithm.order == "sequence"
    spy = spied(made[1])
    study.update(study.estimate_advantages(table), 1)
    terms = _terms(table, made[0], False) | _terms(table, made[1], True)
    assert_gradients_close(spy.steps[0], gradients(made[1].policy.model, _formula(table, terms)))


def test_weights_are_scaled_to_the_mean_over_pairs():
    """Margins 0 and 2, beta 0.5: slopes 0.25 and 0.134471; 4 rows of one policy and 2 pairs: times 2."""
    table = make_batch([episode("0", lane, [[float(lane)]]) for lane in range(4)])
    pairs = Pairs(torch.tensor([1, 3]), torch.tensor([0, 2]), torch.tensor([0.0, 1.0], dtype=torch.float64), 2.0)
    ahead = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)  # the better of the second pair has moved by 1
    run = config(algorithm={"name": "madpo"}, kl={"coef": BETA})
    learner = SimpleNamespace(agents=("a",))
    estimator = PairEstimator(chosen(run.algorithm), run, [learner], Distributed("cpu", "fp32"))
    moved, _ = estimator.in_sequence(AdvantageBatch(table, KLTerms(), pairs=pairs), ahead)
    found = moved.batch.advantage.tolist()
    assert found == pytest.approx([-0.5, 0.5, -0.268941, 0.268941], abs=1e-6)


BAD = [
    ({"kl": {"coef": 0.0}}, "kl.coef"),
    ({"kl": {"coef": 0.1, "place": "reward"}}, "kl.place"),
    ({"kl": {"coef": 0.1, "target": 1.0}}, "kl.target"),
    ({"algorithm": {"epochs": 2, "truncate": 2.0}}, "algorithm.epochs"),
    ({"algorithm": {"aggregate": "mean"}}, "algorithm.aggregate=sum"),
    ({"algorithm": {"normalize": "std"}}, "algorithm.normalize=none"),
    ({"algorithm": {"credit": "own"}}, "algorithm.credit"),
    ({"algorithm": {"turns": "independent"}}, "algorithm.turns=tree"),
]


@pytest.mark.parametrize(("changes", "hint"), BAD, ids=[hint for _, hint in BAD])
def test_what_makes_no_pairs_is_refused(changes, hint):
    values = {"kl": {"coef": 0.1}, **changes, "algorithm": {"name": "madpo", **changes.get("algorithm", {})}}
    run = parse(values)
    with pytest.raises(ConfigError, match=hint):
        refuse_contradictions(run, chosen(run.algorithm), 2, 2)


def _run(model: str, source: str, **train: Any) -> Any:
    return parse({
        "env": {"id": "lengths-v0"}, "policy": {"model": model, "max_tokens": 12}, "device": "cpu", "eval": {"n": 0},
        "algorithm": {"name": "madpo", "pairs": {"file": source}}, "kl": {"coef": 0.3}, "optim": {"lr": 1e-2},
        "train": {"prompts_per_step": 2, "steps": 6, **train}, "log": {"tensorboard": False, "episodes": False},
    })  # fmt: skip


def _file(path: Path, agents: tuple[str, ...] = SEATS, extra: str = "") -> str:
    said = {a: {"chosen": f"yes {a}{extra}", "rejected": "no"} for a in agents}
    rows = [
        {"task": f"t{n}", "agents": {a: {"prompt": f"say {n}", **own} for a, own in said.items()}} for n in range(2)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_pairs_of_a_file_are_learnt_and_a_resumed_run_is_the_same(tmp_path):
    register_toy()
    model, source = save_model(tmp_path / "model"), _file(tmp_path / "pairs.jsonl")
    whole = train(_run(model, source), tmp_path / "whole")
    lines = [line for line in read_metrics(whole / "metrics.jsonl") if line["kind"] == "train"]
    losses = [line["pairs/loss"] for line in lines]
    assert losses[0] == pytest.approx(0.693147, abs=1e-5), "the policies begin as their references"
    assert losses[-1] < 0.2
    assert lines[-1]["pairs/accuracy"] == 1.0
    assert all(line["a/drift"] < 1e-4 for line in lines), "the log-probs are those of the weights of now"
    more = _file(tmp_path / "more.jsonl", (*SEATS, "c"))
    three = read_metrics(train(_run(model, more), tmp_path / "more") / "metrics.jsonl")
    assert [line["pairs/loss"] for line in three] == pytest.approx(losses), "who has no seat is not heard"
    half = train(_run(model, source, checkpoint_every=3), tmp_path / "half")
    (half / "checkpoints" / "step-000006").rename(tmp_path / "gone")
    assert untimed(resume(half)) == untimed(whole)


def test_pairs_of_others_are_refused(tmp_path):
    register_toy()
    model = save_model(tmp_path / "model", max_position_embeddings=64)
    with pytest.raises(TaskError, match="says nothing for 'b'"):
        train(_run(model, _file(tmp_path / "one.jsonl", ("a",))), tmp_path / "run")
    with pytest.raises(PolicyError, match="more than the 64"):
        train(_run(model, _file(tmp_path / "long.jsonl", extra="!" * 80)), tmp_path / "run2")


@pytest.mark.slow
def test_the_recipe_improves_the_demo(tmp_path):
    """Thirty steps on the arXiv demo; measured at docs/algorithms/madpo.md."""
    from palaver.trainers.config.loading import load

    run = load("arxiv-madpo", ["train.steps=30", "eval.n=24", "log.tensorboard=false", "device=cpu"])
    evaluations = [line for line in read_metrics(train(run, tmp_path) / "metrics.jsonl") if line["kind"] == "eval"]
    assert evaluations[-1]["mean"] > evaluations[0]["high"]
