"""A team of adapters on one base, from the first step to the folder of the run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from palaver.agents.llm.model.options import ModelOptions
from palaver.core import PolicyError
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.team import load_run, trainable_team
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import resume, train
from tests.trainers.toys import LENGTHS, SEATS, register_toy, save_model

TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def config(model: str, **changes: Any) -> RunConfig:
    values = {
        "env": {"id": "lengths-v0"},
        "policy": {"model": model, "max_tokens": 12},
        "team": {"kind": "lora", "lora": {"rank": 4, "alpha": 8, "targets": ["q_proj", "v_proj"]}},
        "algorithm": {"name": "iac", "group_size": 2},
        "critic": {"lr": 1e-3},
        "kl": {"coef": 0.05},
        "optim": {"lr": 1e-2},
        "train": {"steps": 4, "checkpoint_every": 2},
        "eval": {"n": 2, "samples": 4},
        "log": {"tensorboard": False},
        "device": "cpu",
    }
    return parse(values | {key: values.get(key, {}) | value for key, value in changes.items()})


def numbers(folder: Path) -> list[dict[str, Any]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in lines]


@pytest.fixture(scope="module")
def finished(model, tmp_path_factory) -> Path:
    return train(config(model), tmp_path_factory.mktemp("runs") / "whole")


def test_only_adapters_are_trained_and_kept(model, finished):
    """q_proj and v_proj of 2 layers, A and B each: 8 matrices of rank 4 an agent."""
    before = load_file(f"{model}/model.safetensors")
    for seat in SEATS:
        folder = finished / "checkpoints" / "step-000004" / "policies" / seat
        assert not (folder / "model.safetensors").exists()
        kept = load_file(folder / "adapter_model.safetensors")
        assert len(kept) == 8
        assert {4} == {min(matrix.shape) for matrix in kept.values()}
        base = AutoModelForCausalLM.from_pretrained(model)
        ordinary = PeftModel.from_pretrained(base, str(folder))
        ids = torch.tensor([[9, 8, 7]])
        bare = AutoModelForCausalLM.from_pretrained(model)
        assert all(torch.equal(bare.state_dict()[name], weight) for name, weight in before.items())
        assert not torch.allclose(ordinary(input_ids=ids).logits, bare(input_ids=ids).logits, atol=1e-4)


def test_agents_speak_as_they_were_trained(finished):
    """The evaluation of the loaded team gives the run's last texts, token for token."""
    from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, as_trained, measure

    keywords, sampling, own = as_trained(f"run:{finished}", "lengths-v0")
    setting = EvaluationConfig("lengths-v0", keywords, f"run:{finished}", 2, 4, sampling=sampling, agent_sampling=own)
    result, _ = measure(setting)
    last = [line for line in read_metrics(finished / "metrics.jsonl") if line["kind"] == "eval"][-1]
    assert result.mean == pytest.approx(last["mean"], abs=1e-12)
    team = load_run(finished, list(SEATS), ModelOptions(device="cpu"))
    assert team["a"].shared_engine is team["b"].shared_engine


def test_a_resumed_run_is_the_uninterrupted_one(model, finished, tmp_path):
    """Killed after step 2: what adapters, critics, references and optimisers do is the same, number for number."""
    folder = tmp_path / "cut"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "checkpoints" / "step-000004")
    resume(folder)
    assert numbers(folder) == numbers(finished)


def test_log_probs_at_training_are_those_of_the_mixed_batch(finished):
    lines = [line for line in read_metrics(finished / "metrics.jsonl") if line["kind"] == "train"]
    assert all(line[f"{seat}/drift"] < 1e-5 for line in lines for seat in SEATS)
    assert lines[0]["a/kl"] == pytest.approx(0.0, abs=1e-6)  # a new adapter computes nothing
    assert lines[-1]["a/kl"] > 1e-6


def test_a_run_goes_on_from_stored_adapters(model, finished, tmp_path):
    source = str(finished / "checkpoints" / "step-000004" / "policies" / "a")
    settings = config(source)
    team = trainable_team(settings, LENGTHS, SEATS, "cpu")
    assert team["a"].shared_engine is team["b"].shared_engine
    kept = load_file(f"{source}/adapter_model.safetensors")
    assert sorted(p.numel() for p in team["b"].parameters()) == sorted(p.numel() for p in kept.values())
    train(settings.model_copy(update={"train": settings.train.model_copy(update={"steps": 1})}), tmp_path / "run")


@pytest.mark.parametrize(
    ("team", "says"),
    [
        ({"kind": "lora", "lora": {"targets": ["nothing_proj"]}}, "q_proj"),
        ({"kind": "lora"}, "scripted:x"),
    ],
)
def test_what_cannot_carry_adapters_is_refused(model, tmp_path, team, says):
    changes = {} if "lora" in team else {"policy": {"model": "scripted:x"}}
    with pytest.raises(PolicyError, match=says):
        train(config(model, team=team, **changes), tmp_path / "run")
