"""`kl.reference: model:FOLDER`: another model of the same tokens is pulled to, once for all, frozen."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken

from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.core import PolicyError
from palaver.trainers.config.loading import parse
from palaver.trainers.rollout.team import reference_model
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import resume, train
from tests.closeness import assert_values_close
from tests.models import byte_tokenizer, tiny_gpt2, tiny_qwen3
from tests.trainers.learning import config, learners, played, policy
from tests.trainers.toys import register_toy, save_model

PULL = {"coef": 0.1, "estimator": "k2"}


def pulled(folder: Path | str, **changes):
    return config(kl=PULL | {"reference": f"model:{folder}"}, **changes)


def test_the_reference_is_loaded_once_and_frozen(tmp_path):
    other = tiny_gpt2(5)
    other.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    found = reference_model(pulled(tmp_path), [policy(0), policy(1)], "cpu")
    assert not found.training
    assert not any(p.requires_grad for p in found.parameters())
    ids = torch.arange(4, 12)[None]
    assert torch.equal(found(input_ids=ids).logits, other(input_ids=ids).logits)


@pytest.mark.parametrize("kl", [{"coef": 0.1}, {"coef": 0.0, "reference": "model:nowhere"}])
def test_nothing_is_loaded_where_nothing_needs_it(kl):
    assert reference_model(config(kl=kl), [policy(0)], "cpu") is None


def test_other_tokens_are_refused(tmp_path):
    more = byte_tokenizer()
    more.add_tokens([AddedToken("<|more|>")])
    tiny_qwen3(1, vocab=261).save_pretrained(tmp_path / "more")
    more.save_pretrained(tmp_path / "more")
    with pytest.raises(PolicyError, match="other tokens than"):
        reference_model(pulled(tmp_path / "more"), [policy(0)], "cpu")


def test_a_smaller_head_is_refused(tmp_path):
    """Its tokenizer agrees, but the policy may say an id that it has no logit for."""
    tiny_qwen3(1, vocab=259).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(PolicyError, match="other tokens than"):
        reference_model(pulled(tmp_path), [policy(0)], "cpu")


def test_a_learner_scores_with_the_reference_it_is_given():
    team, other = {"a": policy(0, name="a"), "b": policy(1, name="b")}, tiny_qwen3(7)
    settings = config(kl=PULL)
    table = played(team, settings)
    (first, _) = learners(team, settings)
    given = type(first)(team["a"], ("a",), settings, first.distributed, other)
    rows = table.rows_of(("a",))
    found = given.reference_log_probs(table, rows)
    for row in rows:
        said = table.completions[row]
        expected = response_logprobs(other, [said.prompt_ids], [said.token_ids])[0][0].detach()
        assert_values_close(found[row], expected)


def test_a_run_is_pulled_to_another_model_and_resumes(tmp_path):
    register_toy()
    values = {
        "env": {"id": "lengths-v0"}, "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 4},
        "algorithm": {"group_size": 2}, "optim": {"lr": 1e-3}, "eval": {"n": 0}, "device": "cpu",
        "kl": PULL | {"reference": f"model:{save_model(tmp_path / 'r', seed=9)}"},
        "log": {"tensorboard": False, "episodes": False}, "train": {"steps": 3, "checkpoint_every": 1, "keep": 9},
    }  # fmt: skip
    run = train(parse(values), tmp_path / "run")
    whole = read_metrics(run / "metrics.jsonl")
    assert whole[0]["a/k3"] > 0.01  # not what the policy starts from
    for step in (2, 3):
        folder = run / "checkpoints" / f"step-{step:06d}"
        folder.rename(tmp_path / folder.name)
    resume(run)
    timed = {"wall_s", "cpu_s", "tokens_per_s", "time/rollout_s", "time/update_s"}
    again = read_metrics(run / "metrics.jsonl")
    assert [{k: v for k, v in line.items() if k not in timed} for line in again] == [
        {k: v for k, v in line.items() if k not in timed} for line in whole
    ]
