"""Twenty steps of training with vLLM as generator: every transfer is right, and the check notices two that are not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from palaver.agents.llm.vllm.sync import AdapterSync, ModelSync
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import resume, train
from tests.agents.vllm.served import SHAPE
from tests.trainers.placement.loopback import Loopback
from tests.trainers.toys import SEATS, forget_toy, register_toy, save_model

STEPS = 20
TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")


@pytest.fixture(scope="module", autouse=True)
def _toy():
    register_toy()
    yield
    forget_toy()


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[bool, str]:
    """Models by whether their heads are tied."""
    folder = tmp_path_factory.mktemp("models")
    return {tied: save_model(folder / str(tied), tie_word_embeddings=tied, **SHAPE) for tied in (True, False)}


def config(model: str, kind: str, **changes: Any) -> RunConfig:
    values = {
        "env": {"id": "letters-v0"},
        "policy": {"model": model, "max_tokens": 16, "engine": "vllm"},
        "team": {"kind": kind, "lora": {"rank": 4, "alpha": 8}},
        "algorithm": {"group_size": 4},
        "optim": {"lr": 2e-3 if kind != "lora" else 2e-2},
        "train": {"steps": STEPS, "checkpoint_every": 10},
        "eval": {"n": 0},
        "log": {"tensorboard": False},
        "device": "cpu",
    }
    return parse(values | {key: values.get(key, {}) | value for key, value in changes.items()})


def lines(folder: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(folder / "metrics.jsonl") if line["kind"] == "train"]


def numbers(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in lines(folder)]


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("kind", ["separate", "shared", "lora"])
def test_every_step_trains_on_rows_of_the_present_weights(models, tmp_path, kind, tied):
    folder = train(config(models[tied], kind), tmp_path / "run")
    drifts = [line[f"{seat}/engine_drift"] for line in lines(folder) for seat in SEATS]
    assert len(drifts) == 2 * STEPS
    assert 0 < max(drifts) <= 1e-4
    assert all(line[f"{seat}/drift"] <= 1e-4 for line in lines(folder) for seat in SEATS)
    assert max(line[f"{seat}/grad_norm"] for line in lines(folder) for seat in SEATS) > 0
    print(f"{kind} {'tied' if tied else 'untied'}: largest mean drift {max(drifts):.1e}")


@pytest.mark.parametrize("kind", ["separate", "lora"])
def test_a_sampler_apart_trains_on_rows_of_the_weights_that_it_was_sent(models, tmp_path, monkeypatch, kind):
    """Behind a pickling boundary in place of Ray: the learner scores what the sampler's engine drew."""
    Loopback().install(monkeypatch)
    placement = {"kind": "ray", "samplers": {"place": "apart"}}
    folder = train(config(models[True], kind, placement=placement, train={"steps": 6}), tmp_path / "run")
    drifts = [line[f"{seat}/engine_drift"] for line in lines(folder) for seat in SEATS]
    assert len(drifts) == 2 * 6
    assert 0 < max(drifts) <= 1e-4
    assert all(line[f"{seat}/drift"] <= 1e-4 for line in lines(folder) for seat in SEATS)


def test_rows_of_a_tempered_distribution_are_completed(models, tmp_path):
    """vLLM tells log-probs at temperature 1 alone: those at 0.7 are the policy's, so that ratios start at 1."""
    made = config(models[True], "shared", policy={"temperature": 0.7, "top_p": 0.9, "score_truncated": True})
    made = made.model_copy(update={"train": made.train.model_copy(update={"steps": 3})})
    for line in lines(train(made, tmp_path / "run")):
        assert line["a/engine_drift"] <= 1e-4
        assert line["a/drift"] <= 1e-4


def test_a_resumed_run_is_the_uninterrupted_one(models, tmp_path):
    whole = train(config(models[True], "lora"), tmp_path / "whole")
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(cut / "checkpoints" / "step-000020")
    resume(cut)
    assert numbers(cut) == numbers(whole)


def stopped(made: RunConfig, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """Message of a run that the check stops, and the rows it saved."""
    with pytest.raises(NumericalError, match="generated with others") as failure:
        train(made, folder)
    (saved,) = folder.glob("not-finite-*.json")
    assert str(saved) in str(failure.value)
    return str(failure.value), json.loads(saved.read_text())


def test_a_tied_head_that_goes_on_with_old_weights_is_noticed(models, tmp_path, monkeypatch):
    """vLLM 0.32 keeps the packed kernel of a tied head at a reload; here it is not served untied."""
    monkeypatch.setattr(ModelSync, "separates_head", False)
    message, rows = stopped(config(models[True], "shared"), tmp_path / "run")
    assert "at step 1" in message
    assert all(len(row["logprobs"]) == len(row["token_ids"]) > 0 for row in rows)


def test_the_same_model_untied_is_not(models, tmp_path, monkeypatch):
    monkeypatch.setattr(ModelSync, "separates_head", False)
    made = config(models[False], "shared")
    train(made.model_copy(update={"train": made.train.model_copy(update={"steps": 2})}), tmp_path / "run")


def test_rows_without_adapter_beside_rows_with_one_are_noticed(models, tmp_path, monkeypatch):
    """vLLM 0.32 computes them with the last adapter. New adapters are 0, so that it shows from the second step on."""
    known = AdapterSync.adapter
    monkeypatch.setattr(AdapterSync, "adapter", lambda self, index: None if index == 0 else known(self, index))
    message, rows = stopped(config(models[True], "lora"), tmp_path / "run")
    assert "'a'" in message
    assert {row["agent"] for row in rows} == {"a"}
    assert len(lines(tmp_path / "run")) >= 1


def test_a_transfer_that_is_left_out_is_noticed(models, tmp_path, monkeypatch):
    sent = []

    def once(self, engine):
        if not sent:
            transfer(self, engine)
        sent.append(torch.get_num_threads())

    transfer = ModelSync.transfer
    monkeypatch.setattr(ModelSync, "transfer", once)
    message, _ = stopped(config(models[True], "shared"), tmp_path / "run")
    assert "at step 2" in message
