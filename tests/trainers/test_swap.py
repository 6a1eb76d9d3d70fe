"""Policies that move from seat to seat: who sits where, what moves with them, and that a resumed run goes on alike."""

from __future__ import annotations

import copy
import json
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, as_trained, measure
from palaver.core import FORMAT, CheckpointError, ConfigError, Sampling
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.loading import load, parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.config.team import TeamConfig
from palaver.trainers.rollout.evaluation import evaluate, summarize
from palaver.trainers.rollout.team import load_run
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import prepare, resume, train
from palaver.trainers.update.updater import Updater
from tests.trainers import learning
from tests.trainers.toys import Lengths, register_toy, save_model

SEATS = ["a", "b"]
TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def config(model: str, **changes: Any) -> RunConfig:
    """A pioneer and an observer who answer an echo task, swapped every two of six updates."""
    values = {
        "env": {"id": "pioneer-v0", "env": "echo-v0", "tasks": "sample[:4]", "keywords": {"num_turns": 1}},
        "policy": {"model": model, "max_tokens": 6},
        "team": {"swap_every": 2},
        "algorithm": {"name": "ippo", "group_size": 2, "turns": "independent", "epochs": 2},
        "critic": {"lr": 1e-3, "normalize": True},
        "kl": {"coef": 0.05, "place": "reward", "estimator": "k1"},
        "optim": {"lr": 1e-3},
        "train": {"steps": 6, "checkpoint_every": 2, "keep": 9},
        "eval": {"n": 2, "every": 3},
        "log": {"tensorboard": False},
        "device": "cpu",
    }
    return parse(values | changes)


@pytest.fixture(scope="module")
def finished(model, tmp_path_factory) -> Path:
    return train(config(model), tmp_path_factory.mktemp("runs") / "whole")


def numbers(folder: Path) -> list[dict]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in lines]


def episodes(folder: Path, kind: str, step: int) -> list[dict]:
    text = (folder / f"episodes/{kind}-{step:06d}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_who_sits_where():
    three = [TeamConfig(swap_every=3).seating(SEATS, step) for step in range(9)]
    home, other = {"a": "a", "b": "b"}, {"a": "b", "b": "a"}
    assert three == [home, home, home, home, other, other, other, home, home]
    assert [TeamConfig().seating(SEATS, step) for step in (0, 1, 99)] == [home] * 3
    each = [TeamConfig(swap_every=1).seating(["a", "b", "c"], step) for step in (1, 2, 3, 4)]
    assert ["".join(seats.values()) for seats in each] == ["abc", "bca", "cab", "abc"]


@pytest.mark.parametrize("every", [1, 2, 5])
def test_roles_are_exchanged_once_for_every_so_many_updates(every):
    team = TeamConfig(swap_every=every)
    for times in range(1, 7):
        seatings = [team.seating(SEATS, step) for step in range(1, times * every + 2)]
        assert sum(one != other for one, other in pairwise(seatings)) == times


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (
            ["team.kind=shared", "team.swap_every=2"],
            "team.kind=shared has one policy for all agents: set team.swap_every=0",
        ),
        (
            ["env.id=arxiv-v0", "env.agents=1", "team.swap_every=2"],
            "the environment has one agent: set team.swap_every=0",
        ),
    ],
)
def test_nothing_to_exchange_is_refused(overrides, says):
    with pytest.raises(ConfigError, match=says):
        prepare(load("arxiv-magrpo", overrides))


def test_both_models_get_equal_shares_of_both_roles(finished):
    """Two updates in one role, two in the other, two in the first; a task with two answers of each seat in each."""
    spoke, roles = Counter(), []
    for step in range(1, 7):
        for episode in episodes(finished, "train", step):
            roles.append((step, episode["team"]["pioneer"]))
            spoke.update((episode["team"][seat], seat) for turn in episode["turns"] for seat in turn["completions"])
    assert dict(roles) == {1: "pioneer", 2: "pioneer", 3: "observer", 4: "observer", 5: "pioneer", 6: "pioneer"}
    assert spoke["pioneer", "pioneer"] == spoke["observer", "observer"] == 2 * spoke["observer", "pioneer"] == 8
    assert spoke["pioneer", "observer"] == spoke["observer", "pioneer"]
    shifts = [line["team/shift"] for line in numbers(finished) if line["kind"] == "train"]
    assert shifts == [0, 0, 1, 1, 0, 0]


def test_the_workflow_of_cory(finished):
    """The observer reads the pioneer's words; both are paid the same, in both turns."""
    for step in range(1, 7):
        for episode in episodes(finished, "train", step):
            first, second = episode["turns"]
            assert first["completions"].keys() == {"pioneer"}
            assert second["completions"].keys() == {"observer"}
            told = second["observations"]["observer"]
            assert f"\n\nA partner answered:\n\n{first['completions']['pioneer']['text']}\n\n" in told
            assert told.startswith(first["observations"]["pioneer"])
            assert all(turn["rewards"]["pioneer"] == turn["rewards"]["observer"] for turn in (first, second))


def test_without_a_swap_it_is_a_chain_of_two(model, tmp_path):
    off = train(config(model, team={}, train={"steps": 2}), tmp_path / "off")
    late = train(config(model, team={"swap_every": 2}, train={"steps": 2}), tmp_path / "late")
    assert [{k: v for k, v in line.items() if k != "team/shift"} for line in numbers(late)] == numbers(off)
    assert not any("team/shift" in line for line in numbers(off))
    assert all(e["team"] == {"pioneer": "pioneer", "observer": "observer"} for e in episodes(off, "train", 2))


@pytest.mark.parametrize(
    ("name", "kind", "kept"),
    [
        ("ippo", "separate", 2),
        pytest.param("happo", "separate", 4, marks=pytest.mark.slow),
        pytest.param("ippo", "lora", 2, marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_swaps_as_the_uninterrupted_one(model, tmp_path, name, kind, kept):
    """From update 2 the roles change with the next; from 4 they have changed, and change back."""
    settings = config(
        model, algorithm={"name": name, "group_size": 2, "epochs": 2, "minibatches": 2},
        team={"kind": kind, "swap_every": 2},
    )  # fmt: skip
    whole = train(settings, tmp_path / "whole")
    cut = shutil.copytree(whole, tmp_path / "cut")
    for step in range(kept + 2, 7, 2):
        shutil.rmtree(checkpoint.folder_of(cut, step))
    resume(cut)
    assert numbers(cut) == numbers(whole)
    weights = sorted((whole / "checkpoints/step-000006").rglob("*.safetensors"))
    assert len(weights) == 2
    for path in weights:
        assert (cut / path.relative_to(whole)).read_bytes() == path.read_bytes()


def test_a_trained_team_sits_as_it_was_last_trained(finished, model, tmp_path):
    """After update 4 the seats are exchanged; `run:FOLDER` evaluates the very team that the run did."""
    folder = train(config(model, train={"steps": 4}, eval={"n": 2}), tmp_path / "run")
    found, _ = checkpoint.newest(folder)
    assert checkpoint.agents_of(found) == {"pioneer": "observer", "observer": "pioneer"}
    team = load_run(folder, ["pioneer", "observer"], ModelOptions(device="cpu"))
    assert [team[seat].name for seat in ("pioneer", "observer")] == ["run:run/observer@4", "run:run/pioneer@4"]
    saved = load_file(found / "policies" / "observer" / "model.safetensors")
    state = team["pioneer"].model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in saved.items())
    settings = config(model)
    _, env, _ = prepare(settings)
    again = evaluate(
        env, team, [task.id for task in env.tasks[:2]], samples=1, sampling=dict.fromkeys(team, Sampling(max_tokens=6)),
        seed=settings.eval.seed,
    )  # fmt: skip
    assert [e.turns[1].completions["observer"].text for e in again] == [
        e["turns"][1]["completions"]["observer"]["text"] for e in episodes(folder, "eval", 4)
    ]
    assert summarize(again).mean == numbers(folder)[-1]["mean"]


def test_a_checkpoint_of_another_format_is_refused(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    path = checkpoint.folder_of(folder, 6) / "manifest.json"
    manifest = json.loads(path.read_text())
    assert manifest.pop("format") == FORMAT
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="step-000006' has format 1, and this version of Palaver reads format 2"):
        load_run(folder, ["observer"], ModelOptions(device="cpu"))


def test_a_stored_partner_moves_too(model, tmp_path):
    """Who learns sits in both seats; the one that does not learn is in the other."""
    team = {"swap_every": 1, "frozen": {"observer": "random"}}
    folder = train(config(model, team=team, train={"steps": 2}, eval={"n": 0}), tmp_path / "run")
    first, second = numbers(folder)
    assert "pioneer/loss" in first
    assert "observer/loss" not in first
    assert "observer/loss" in second
    assert "pioneer/loss" not in second
    assert {e["team"]["pioneer"] for e in episodes(folder, "train", 2)} == {"random"}
    seats = load_run(folder, ["pioneer", "observer"], ModelOptions(device="cpu"))
    assert [seats[seat].name for seat in seats] == ["random", "run:run/pioneer@2"]


def study_of(name: str, **changes: Any) -> tuple[Updater, dict]:
    """Two policies in their own seats."""
    settings = learning.config(algorithm={"name": name, "group_size": 2, "epochs": 1}, critic={"lr": 1e-2}, **changes)
    team = {"a": learning.policy(0), "b": learning.policy(1)}
    return Updater(algorithm(name), settings, learning.learners(team, settings), Distributed("cpu", "fp32")), team


def exchanged(team: dict) -> dict:
    return {"a": team["b"], "b": team["a"]}


def test_moments_critics_and_references_stay_with_the_policy_bit_for_bit():
    study, team = study_of("ippo", kl={"coef": 0.1})
    study.update(study.estimate_advantages(learning.played(team, study.config)), 1)
    kept = {each.policy.name: each for each in study.learners}
    before = copy.deepcopy({name: each.optimizer.state_dict() for name, each in kept.items()})
    critics = copy.deepcopy({name: critic.state_dict() for name, critic in study.estimator.critics.items()})
    references = {name: each.reference for name, each in kept.items()}
    assert all(float(state["exp_avg"].abs().max()) > 0 for state in before["p0"]["state"].values())
    study.assign(exchanged(team))
    assert [(each.policy.name, each.agents) for each in study.learners] == [("p1", ("a",)), ("p0", ("b",))]
    for name, each in kept.items():
        state = each.optimizer.state_dict()["state"]
        assert state.keys() == before[name]["state"].keys()
        for number, moments in before[name]["state"].items():
            assert all(torch.equal(state[number][key], value) for key, value in moments.items())
        assert each.reference is references[name]
        assert torch.equal(study.estimator.critics[name].head.weight, critics[name]["head"]["weight"])
    other = learning.played(exchanged(team), study.config)
    shown = study.update(study.estimate_advantages(other), 2)
    assert shown["a/drift"] < 1e-5, "rows of seat a are trained by the policy that said them"
    assert shown["b/drift"] < 1e-5
    assert kept["p0"].optimizer.state_dict()["state"][0]["step"] == 2


def test_values_are_of_the_critic_of_whoever_spoke():
    study, team = study_of("ippo")
    for name, value in (("p0", 1.0), ("p1", 2.0)):
        torch.nn.init.constant_(study.estimator.critics[name].head.bias, value)
    for seats, expected in ((team, (1.0, 2.0)), (exchanged(team), (2.0, 1.0))):
        study.assign(seats)
        judged = study.estimate_advantages(learning.played(seats, study.config, env=Lengths(turns=1)))
        assert judged.value is not None
        for seat, value in zip(SEATS, expected, strict=True):
            assert set(judged.value[judged.batch.rows_of([seat])].tolist()) == {value}


def test_a_fixed_order_is_that_of_the_seats_and_moving_means_are_the_seats():
    study, team = study_of("happo")
    study.config = study.config.model_copy(
        update={"algorithm": study.config.algorithm.model_copy(update={"order": "fixed"})}
    )
    study.assign(exchanged(team))
    assert [each.policy.name for each in study._order(3)] == ["p1", "p0"]
    study, team = study_of("rae")
    study.estimator.means = {"a": 1.0, "b": 2.0}
    study.assign(exchanged(team))
    judged = study.estimate_advantages(learning.played(exchanged(team), study.config))
    assert judged.value is not None
    first = [int(judged.batch.rows_of([seat])[0]) for seat in SEATS]
    assert judged.value[first].tolist() == [1.0, 2.0]


def test_sampling_goes_with_the_policy(model, tmp_path):
    """A heterogeneous team whose observer at the start says three tokens at most, in whichever seat it is."""
    team = {"kind": "heterogeneous", "agents": {"observer": {"max_tokens": 3}}, "swap_every": 1}
    folder = train(config(model, team=team, train={"steps": 2}), tmp_path / "run")
    first, second = (line for line in numbers(folder) if line["kind"] == "train")
    assert first["observer/tokens"] <= 3 < first["pioneer/tokens"]
    assert second["pioneer/tokens"] <= 3 < second["observer/tokens"]
    keywords, usual, own = as_trained(f"run:{folder}", "pioneer-v0")
    assert usual.max_tokens == 6
    assert {seat: each.max_tokens for seat, each in own.items()} == {"pioneer": 3}
    result, _ = measure(
        EvaluationConfig("pioneer-v0", keywords, f"run:{folder}", 2, sampling=usual, agent_sampling=own)
    )
    assert result.tokens["pioneer"] <= 3 < result.tokens["observer"]
