"""Who sits where: heterogeneous seats, frozen partners, and what is refused before a model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import palaver
from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, as_trained, measure
from palaver.core import CheckpointError, ConfigError, PolicyError, Sampling
from palaver.trainers.config.loading import load, parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.rollout.team import load_run
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import prepare, train
from palaver.utils.config import dump
from tests.trainers.learning import episode
from tests.trainers.toys import register_toy, save_model, save_other


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, str]:
    """Two models that share nothing: architecture, width, vocabulary, order of ids."""
    register_toy()
    folder = tmp_path_factory.mktemp("models")
    return {"qwen": save_model(folder / "qwen"), "gpt2": save_other(folder / "gpt2")}


def config(model: str, **changes: Any) -> RunConfig:
    values = {
        "env": {"id": "lengths-v0"},
        "policy": {"model": model, "max_tokens": 8},
        "algorithm": {"group_size": 2},
        "optim": {"lr": 1e-2},
        "train": {"steps": 2, "checkpoint_every": 1},
        "eval": {"n": 2},
        "log": {"tensorboard": False},
        "device": "cpu",
    }
    return parse(values | {key: values.get(key, {}) | value for key, value in changes.items()})


def test_a_seat_has_the_policy_section_but_for_its_own():
    seats = {"b": {"model": "other", "max_tokens": 3, "stop": ["."], "temperature": 0.5}}
    both = parse({"policy": {"top_k": 7}, "team": {"kind": "heterogeneous", "agents": seats}})
    assert both.agent("a") == both.policy
    assert (both.agent("b").model, both.agent("b").top_k) == ("other", 7)
    sampling = both.agent("b").sampling()
    assert (sampling.temperature, sampling.max_tokens, sampling.stop) == (0.5, 3, (".",))


@pytest.mark.parametrize(
    ("team", "says"),
    [
        (
            {"kind": "heterogeneous", "agents": {"c": {}}},
            "team.agents names 'c', which is no agent of this environment",
        ),
        ({"frozen": {"z": "random"}}, "team.frozen names 'z', which is no agent of this environment"),
        ({"agents": {"a": {"top_k": 1}}}, "set team.kind=heterogeneous"),
        ({"frozen": {"a": "random", "b": "random"}}, "leaves no agent to train"),
        (
            {"kind": "heterogeneous", "agents": {"a": {"top_k": 1}}, "frozen": {"a": "random"}},
            "in team.agents and in team.frozen",
        ),
    ],
)
def test_teams_that_do_not_fit_are_refused(models, team, says):
    with pytest.raises(ConfigError, match=says):
        prepare(config(models["qwen"], team=team))


def test_an_unknown_key_of_a_seat_is_named():
    with pytest.raises(ConfigError, match=r"unknown key 'team.agents.a.modle'. Did you mean 'model'"):
        load("arxiv-magrpo", ["team.kind=heterogeneous", "team.agents.a.modle=x"])


def test_two_kinds_of_model_learn_together(models, tmp_path):
    seats = {"b": {"model": models["gpt2"], "max_tokens": 5, "temperature": 0.9}}
    settings = config(models["qwen"], team={"kind": "heterogeneous", "agents": seats}, kl={"coef": 0.1})
    folder = train(settings, tmp_path / "run")
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if line["kind"] == "train"]
    assert all(line["b/tokens"] <= 5 < line["a/tokens"] for line in lines)
    assert all(line[f"{seat}/drift"] < 1e-5 for line in lines for seat in "ab")
    saved = folder / "checkpoints" / "step-000002" / "policies"
    for seat, name in (("a", "qwen"), ("b", "gpt2")):
        before, after = (load_file(Path(place) / "model.safetensors") for place in (models[name], saved / seat))
        assert set(before) == set(after)
        assert any(not torch.equal(before[key], after[key]) for key in before)
    assert load(str(folder / "config.yaml")) == settings
    assert parse(load_yaml(dump(settings))) == settings
    team = load_run(folder, ["a", "b"], ModelOptions(device="cpu"))
    assert [type(team[seat].model).__name__ for seat in "ab"] == ["Qwen3ForCausalLM", "GPT2LMHeadModel"]
    keywords, all_, own = as_trained(f"run:{folder}", "lengths-v0")
    result, _ = measure(EvaluationConfig("lengths-v0", keywords, f"run:{folder}", 2, sampling=all_, agent_sampling=own))
    assert result.tokens["b"] <= 5 < result.tokens["a"] <= 8

    mixed = f"a=random,b=run:{folder}"
    assert as_trained(mixed, "lengths-v0") == (keywords, Sampling(), {"b": own["b"]})
    assert as_trained({"b": f"run:{folder}"}, "lengths-v0") == as_trained(mixed, "lengths-v0")
    assert as_trained(mixed, "echo-v0") == ({}, Sampling(), {})
    result, _ = palaver.evaluate("lengths-v0", {"a": "random", "b": f"run:{folder}"}, n=2)
    assert result.policies == {"a": "random", "b": "run:run/b@2"}
    assert result.tokens["b"] <= 5
    with pytest.raises(CheckpointError, match="there is no run in 'nowhere'"):
        measure(EvaluationConfig("lengths-v0", team=f"a=run:nowhere,b=run:{folder}"))


def test_runs_of_one_team_keep_the_keywords_they_share(models, tmp_path):
    runs = {}
    for agent, (turns, temperature) in {"a": (1, 0.3), "b": (2, 0.6)}.items():
        env = {"id": "lengths-v0", "tasks": "sample[:2]", "turns": turns}
        chosen = config(models["qwen"], env=env, policy={"temperature": temperature}, team={"kind": "separate"})
        runs[agent] = train(chosen, tmp_path / agent)
    notes: list[str] = []
    team = ",".join(f"{agent}=run:{folder}" for agent, folder in runs.items())
    keywords, sampling, by_agent = as_trained(team, "lengths-v0", notes.append)
    assert "turns" not in keywords
    assert keywords["tasks"] == "sample[:2]"
    assert notes == ["the runs of this team differ in turns; the environment's defaults hold unless given"]
    assert sampling == Sampling()
    assert {agent: drawn.temperature for agent, drawn in by_agent.items()} == {"a": 0.3, "b": 0.6}
    result, _ = measure(EvaluationConfig("lengths-v0", keywords, team, 2, agent_sampling=by_agent))
    assert result.policies == {"a": "run:a/a@2", "b": "run:b/b@2"}


def load_yaml(text: str) -> Any:
    import yaml

    return yaml.safe_load(text)


def test_a_frozen_partner_plays_and_does_not_learn(models, tmp_path):
    first = train(config(models["qwen"]), tmp_path / "first")
    settings = config(models["qwen"], team={"kind": "separate", "frozen": {"b": f"run:{first}"}})
    folder = train(settings, tmp_path / "second")
    names = [entry.name for entry in (folder / "checkpoints" / "step-000002" / "policies").iterdir()]
    assert names == ["a"]
    line = read_metrics(folder / "metrics.jsonl")[-2]
    assert line["b/tokens"] > 0  # it speaks
    assert "b/loss" not in line  # and has no optimiser
    team = load_run(folder, ["a", "b"], ModelOptions(device="cpu"))
    theirs = load_file(first / "checkpoints" / "step-000002" / "policies" / "b" / "model.safetensors")
    kept = dict(team["b"].model.state_dict())
    assert all(torch.equal(kept[name], value) for name, value in theirs.items())


@pytest.mark.parametrize("algorithm", ["magrpo", "maac", "happo", "rae"])
def test_a_scripted_partner_in_any_algorithm(models, tmp_path, algorithm):
    settings = config(models["qwen"], algorithm={"name": algorithm}, team={"frozen": {"a": "random"}})
    folder = train(settings, tmp_path / algorithm)
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if line["kind"] == "train"]
    assert [line["b/rows"] for line in lines] == [2, 2]


def test_a_trained_team_brings_its_partner_along(models, tmp_path):
    first = train(config(models["qwen"], team={"frozen": {"b": "random"}}), tmp_path / "first")
    kept = load_run(first, ["a", "b"], ModelOptions(device="cpu"))
    assert kept["b"].name == "random"
    with pytest.raises(PolicyError, match="has no policy for the agent 'c'"):
        load_run(first, ["c"], ModelOptions(device="cpu"))


def test_a_partner_that_does_not_exist_is_refused(models, tmp_path):
    with pytest.raises(PolicyError, match="no model folder"):
        train(config(models["qwen"], team={"frozen": {"b": "hf:./nowhere"}}), tmp_path / "run")


def test_rows_are_the_trained_agents_and_rewards_everyones():
    table = make_batch([episode("0", 0, [[1.0, 2.0], [3.0, 4.0]])], ["b"])
    assert {table.agents[number] for number in table.agent.tolist()} == {"b"}
    assert table.agents == ("a", "b")
    assert table.reward.shape == (len(table.steps), 2)
    assert len(table) == 2
