"""What peers lack: small steps are not lost, what is scored is said, a loss that is no number stops with its rows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from palaver.agents.llm.scoring import logprobs as logprob
from palaver.agents.llm.scoring.logprobs import response_scores
from palaver.core import Message, Request, Sampling
from palaver.trainers import train as training
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.config.loading import parse
from palaver.trainers.objectives.losses import reinforce
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import resume, train
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.update_records import UpdateInput
from tests.closeness import assert_gradients_close, assert_values_close
from tests.models import byte_tokenizer
from tests.trainers.learning import config, learners, played, policy, scattered, spied
from tests.trainers.toys import SEATS, register_toy, save_model


def test_pure_bf16_would_lose_the_steps_that_fp32_masters_keep():
    """Steps of AdamW at lr 5e-6: bf16 keeps 8 bits, so beside a weight above 2e-3 a step of 5e-6 is rounded away."""
    settings = config(optim={"lr": 5e-6}, policy={"dtype": "bf16"}, algorithm={"group_size": 2})
    who = policy(0, "bf16")
    learner = PolicyUpdater(who, SEATS, settings, Distributed("cpu", "bf16"))
    start = {name: p.detach().clone() for name, p in who.model.named_parameters()}
    table = scattered(played(dict.fromkeys(SEATS, who), settings), settings)
    for step in (1, 2):
        learner.update(replace(work_of(learner, table), step=step))
    kept, lost, large = 0, 0, 0
    for name, p in who.model.named_parameters():
        assert p.dtype == torch.float32
        above = (start[name].abs() > 4e-3) & (p.detach() != start[name])
        rounded = start[name].bfloat16()
        by_step = (p.detach() - start[name]) / 2
        kept += int((p.detach() != start[name])[above].sum())
        lost += int((rounded + by_step.bfloat16() == rounded)[above].sum())
        large += int(above.sum())
    Distributed("cpu", "fp32")
    assert large > 1000
    assert kept == large
    assert lost / large > 0.95


def work_of(learner, table):
    return UpdateInput(table, table.rows_of(learner.agents), reinforce, 1)


HOT = Sampling(temperature=0.7, top_p=0.8, top_k=40, max_tokens=16)


def nucleus(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """(n, V) probabilities of what is drawn from float64 logits (n, V), by sorting."""
    best, order = (logits / sampling.temperature).topk(sampling.top_k, -1)
    weight = best.softmax(-1)
    weight[weight.cumsum(-1) - weight >= sampling.top_p] = 0.0
    return torch.zeros_like(logits).scatter(-1, order, weight / weight.sum(-1, keepdim=True))


def test_both_log_probabilities_are_recorded_of_the_model_and_of_the_distribution_that_was_drawn_from():
    """`logprobs` of the model itself, `sample_logprobs` of the tempered nucleus. Against full logits in float64."""
    who = policy(0)
    asked = [Request("a", (Message("user", text),), tuple(range(6)), HOT) for text in ("hello", "what is it")]
    answers = [said for row in who.act(asked) for said in row]
    apart = 0.0
    for said in answers:
        ids = torch.tensor([*said.prompt_ids, *said.token_ids])
        with torch.no_grad():
            logits = who.model(ids[None]).logits[0, len(said.prompt_ids) - 1 : -1].double()
        token = torch.tensor(said.token_ids)[:, None]
        full = torch.log_softmax(logits, -1).gather(-1, token)[:, 0]
        assert_values_close(said.logprobs, full)
        drawn = nucleus(logits, HOT).gather(-1, token)
        assert_values_close(said.sample_logprobs, drawn[:, 0].log())
        apart = max(apart, float((drawn[:, 0].log() - full).max()))
    assert apart > 0.3, "the two are different distributions"


WAYS = {
    "whole": {}, "cool": {"temperature": 0.6}, "hot": {"temperature": 1.5}, "top-p": {"top_p": 0.8},
    "top-k": {"top_k": 12}, "all three": {"temperature": 0.7, "top_p": 0.8, "top_k": 40},
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_training_scores_the_distribution_that_was_sampled(way):
    """Log-probs of the learner before its first step are those of the sampler, up to rounding."""
    settings = config(policy={**WAYS[way], "score_truncated": True})
    team = {"a": policy(0), "b": policy(1)}
    found = learners(team, settings)
    table = scattered(played(team, settings, **WAYS[way]), settings)
    for learner in found:
        scored = learner.log_probs(table, table.rows_of(learner.agents))
        for row, logp in scored.items():
            assert float((logp - torch.tensor(table.completions[row].sample_logprobs)).abs().max()) < 1e-5
        spied(learner)
        assert learner.update(work_of(learner, table)).drift < 1e-5


@pytest.mark.parametrize("parts", [True, False], ids=["trunk and head", "whole model"])
def test_the_gradient_of_a_truncated_log_probability_is_that_of_its_definition(parts, monkeypatch):
    """Against autograd through the nucleus in float64; entropies too."""
    who = policy(0)
    prompts, answers = [[5, 6, 7], [8, 9]], [[1, 2, 3], [4]]
    if not parts:
        monkeypatch.setattr(logprob, "split_head", lambda _: None)
    scores = response_scores(who.model, prompts, answers, HOT, entropy=True)
    found = torch.autograd.grad(scores.logprobs.sum() + scores.entropy.sum(), list(who.model.parameters()))
    expected = 0.0
    for prompt, answer in zip(prompts, answers, strict=True):
        logits = who.model(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1].double() / 0.7
        token = torch.tensor(answer)[:, None]
        inside = (nucleus(logits.detach() * 0.7, HOT) > 0).scatter(1, token, value=True)
        logp = logits.masked_fill(~inside, -torch.inf).log_softmax(-1)
        expected = expected + logp.gather(1, token).sum() - (logp[inside].exp() * logp[inside]).sum()
    wanted = torch.autograd.grad(expected, list(who.model.parameters()))
    named = [name for name, _ in who.model.named_parameters()]
    assert_gradients_close(dict(zip(named, found, strict=True)), dict(zip(named, wanted, strict=True)))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_the_run_with_its_rows(model, tmp_path, monkeypatch, bad):
    """At step 3: the rows are on disk, there are weights of step 2 and none of step 3, the run says that it failed, and
    goes on when the cause is gone."""
    settings = parse({
        "env": {"id": "lengths-v0"}, "policy": {"model": model, "max_tokens": 6}, "algorithm": {"name": "mareinforce"},
        "optim": {"lr": 1e-3}, "train": {"steps": 4, "checkpoint_every": 1, "keep": 4}, "eval": {"n": 0},
        "device": "cpu", "log": {"tensorboard": False},
    })  # fmt: skip
    calls = []

    def broken(logp, said):
        calls.append(len(logp))
        return row.loss(logp, said) * (bad if len(calls) > 4 else 1.0)  # two policies a step

    row = chosen(settings.algorithm)
    monkeypatch.setattr(training, "chosen", lambda _: replace(row, loss=broken))
    with pytest.raises(NumericalError, match=r"not finite at step 3; its rows are in '.*not-finite-000003\.json'"):
        train(settings, tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "not-finite-000003.json").read_text())
    assert kept
    for each in kept:
        assert each.keys() == {"agent", "advantage", "task", "text", "token_ids", "logprobs"}
        assert len(each["token_ids"]) == len(each["logprobs"]) > 0
        assert byte_tokenizer().decode(each["token_ids"], skip_special_tokens=True) == each["text"]
    assert json.loads((tmp_path / "run" / "status.json").read_text())["status"] == "failed"
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2]
    assert not (tmp_path / "run" / "checkpoints" / "step-000003").exists()
    monkeypatch.undo()
    resume(tmp_path / "run")
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4]
