"""`train.rollout_lead: 1`: versions, records in checkpoints, resumes, refusals."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from palaver.core import CheckpointError, Completion, ConfigError, Message, PolicyError, ToolCall, ToolStep
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.checks import refuse_contradictions
from palaver.trainers.config.loading import load, parse
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.rollout.tasks import ResampledEpisodes, sampled
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import resume, train
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.rollout_lead import StepRollout, from_plain, to_plain
from palaver.trainers.update.updater import Updater
from tests.trainers.learning import config as toy_config
from tests.trainers.learning import episode, learners, played, policy, untimed
from tests.trainers.placement.loopback import Loopback
from tests.trainers.toys import register_toy, save_model

CLIPPED = {"name": "magrpo", "group_size": 2, "surrogate": "clip"}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def settings(model, lead=1, algorithm=CLIPPED, steps=4, **sections):
    values = {
        "env": {"id": "lengths-v0", "turns": 2},
        "policy": {"model": model, "max_tokens": 6},
        "algorithm": algorithm,
        "optim": {"lr": 1e-2},
        "critic": {"lr": 1e-3},
        "train": {"steps": steps, "checkpoint_every": 1, "keep": steps, "rollout_lead": lead},
        "eval": {"n": 1, "every": 2},
        "log": {"tensorboard": False, "tokens": True},
        "device": "cpu",
    }
    for key, value in sections.items():
        values[key] = {**values.get(key, {}), **value} if key != "env" else value
    return parse(values)


def versions(folder, step):
    """Versions of the policies that sampled the episodes of a step, from its file."""
    lines = (folder / "episodes" / f"train-{step:06d}.jsonl").read_text().splitlines()
    turns = [turn for line in lines for turn in json.loads(line)["turns"]]
    return {completion["version"] for turn in turns for completion in turn["completions"].values()}


def resumed(whole, folder, step):
    """A copy of a run that was killed after the checkpoint of a step, resumed; its metrics."""
    shutil.copytree(whole, folder)
    for later in sorted((folder / "checkpoints").glob("step-*"))[step:]:
        shutil.rmtree(later)
    resume(folder)
    return untimed(folder)


@pytest.mark.parametrize(("lead", "sampled_by"), [(0, [0, 1, 2, 3]), (1, [0, 0, 1, 2])])
def test_samples_are_as_many_updates_behind(model, tmp_path, lead, sampled_by):
    folder = train(settings(model, lead), tmp_path / "run")
    assert [versions(folder, step) for step in (1, 2, 3, 4)] == [{version} for version in sampled_by]
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if line["kind"] == "train"]
    assert [line.get("a/staleness") for line in lines] == ([None] * 4 if lead == 0 else [0, 1, 1, 1])
    assert all((line["a/drift"] > 1e-4) == (line.get("a/staleness") == 1) for line in lines)
    held = [sorted(checkpoint.load_rollouts(checkpoint.folder_of(folder, step))) for step in (1, 2, 3, 4)]
    assert held == ([[]] * 4 if lead == 0 else [[2], [3], [4], []])


def test_with_weights_that_stay_the_lead_changes_no_number(model, tmp_path):
    """Updates of 1e-30 are lost in rounding, so that samples are the same one update earlier."""
    runs = [train(settings(model, lead, optim={"lr": 1e-30}), tmp_path / str(lead)) for lead in (0, 1)]
    before, ahead = map(untimed, runs)
    assert [{k: v for k, v in line.items() if not k.endswith("/staleness")} for line in ahead] == before


RUNS = {
    "clip": {},
    "reinforce": {"algorithm": {"name": "magrpo", "group_size": 2, "truncate": 2.0}},
    "decoupled": {"algorithm": CLIPPED | {"old": "learner", "truncate": 2.0, "epochs": 2, "mask": [0.5, 5]}},
    "cut states": {"algorithm": {"name": "ippo", "stop_above": 0.1, "epochs": 1, "minibatches": 1}},
    "look ahead": {
        "algorithm": {
            "name": "qmix",
            "group_size": 2,
            "stop_above": 0.1,
            "truncate": 2.0,
            "mixer": {"batch": 4, "start": 0},
        }
    },
    "asides": {"algorithm": {"name": "c3", "group_size": 2, "surrogate": "clip"}},
    "resampled": {"algorithm": CLIPPED | {"resample": 2}},
    "sequence": {"algorithm": {"name": "happo", "epochs": 1, "minibatches": 1}, "kl": {"coef": 0.1}},
    "moving": {"algorithm": {"name": "rae", "group_size": 2, "truncate": 2.0}, "team": {"swap_every": 1}},
    "lora": {"team": {"kind": "lora"}},
}


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_equals_the_uninterrupted_one(model, tmp_path, name):
    whole = train(settings(model, steps=3, **RUNS[name]), tmp_path / "whole")
    assert resumed(whole, tmp_path / "run", 2) == untimed(whole)
    last = checkpoint.folder_of(whole, 3), checkpoint.folder_of(tmp_path / "run", 3)
    for file in sorted(path.relative_to(last[0]) for path in last[0].rglob("*.safetensors")):
        assert (last[0] / file).read_bytes() == (last[1] / file).read_bytes()


def test_a_checkpoint_without_its_rollout_is_refused(model, tmp_path):
    folder = train(settings(model, steps=2), tmp_path / "run")
    shutil.rmtree(checkpoint.folder_of(folder, 2))
    start = checkpoint.folder_of(folder, 1)
    manifest = start / "manifest.json"
    (start / checkpoint.ROLLOUTS).write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"rollouts\.pt is not what was written"):
        resume(folder)
    (start / checkpoint.ROLLOUTS).unlink()
    lines = [line for line in manifest.read_text().splitlines(True) if checkpoint.ROLLOUTS not in line]
    manifest.write_text("".join(lines))
    with pytest.raises(CheckpointError, match="lacks the rollout of step 2"):
        resume(folder)


@pytest.mark.parametrize("kind", ["separate", "lora"])
def test_on_workers_the_numbers_are_those_of_one_process(model, tmp_path, monkeypatch, kind):
    loopback = Loopback(("update", 3)).install(monkeypatch)
    for placement in ("local", "ray"):
        sections = {"team": {"kind": kind}, "placement": {"kind": placement}}
        train(settings(model, steps=3, **sections), tmp_path / placement)
    assert not loopback.losses, "the worker was never lost"
    assert untimed(tmp_path / "ray") == untimed(tmp_path / "local")


# --- staleness -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "version", "lead", "allowed"),
    [(0, 0, 0, True), (1, 0, 0, False), (5, 4, 1, True), (5, 5, 1, True), (5, 3, 1, False), (5, 6, 1, False)],
)
def test_the_bound_of_staleness(now, version, lead, allowed):
    trained = policy()
    trained.version = now
    run = toy_config(train={"rollout_lead": lead})
    updater = Updater(MAGRPO, run, learners({"a": trained}, run), Distributed("cpu", "fp32"))
    said = [Completion("x", (1,), (2,), (-1.0,), (-1.0,), each) for each in (now, version)]
    batch = make_batch([episode("0", lane, [(0.0,)], [{"a": word}]) for lane, word in enumerate(said)])
    if allowed:
        assert updater.staleness(batch) == {"a": now - version}
        return
    with pytest.raises(PolicyError, match=rf"updates behind its weights, and train\.rollout_lead={lead} allows"):
        updater.staleness(batch)


def test_an_update_of_samples_that_are_too_old_stops_the_run(model, tmp_path, monkeypatch):
    """As if weights had been updated twice between rollout and update."""
    update = PolicyUpdater.update

    def twice(self, work):
        self.policy.version += work.step == 2
        return update(self, work)

    monkeypatch.setattr(PolicyUpdater, "update", twice)
    with pytest.raises(PolicyError, match=r"completions of 'a' are 2 to 2 updates behind"):
        train(settings(model), tmp_path / "run")


# --- records -------------------------------------------------------------------------------------


def test_records_come_back_from_a_checkpoint_as_they_were(tmp_path):
    config, team = toy_config(env={"turns": 2}), {"a": policy(0), "b": policy(1)}
    batch = played(team, config)
    call = Completion("", (1,), (2,), (-1.0,), (-1.0,), 3, "length", (ToolCall("calc", {"x": [1, {"y": None}]}, "c0"),))
    tool = replace(batch.completions[0], steps=(ToolStep(call, (Message("tool", "12", call_id="c0"),), ("lost",)),))
    episodes = [episode("0", lane, [(1.0, 2.0)], [{"a": tool, "b": batch.completions[1]}]) for lane in (0, 1)]
    numpy = replace(episodes[0], turns=(replace(episodes[0].turns[0], metrics={"n": np.float64(0.1)}),))
    rollout = StepRollout(ResampledEpisodes([*episodes, numpy], [episodes[0]], 1), episodes, batch, {"a/drift": 0.5})
    checkpoint.save_state(to_plain({7: rollout}), tmp_path / "r.pt")
    found = from_plain(torch.load(tmp_path / "r.pt", weights_only=True))[7]
    assert found.drawn == rollout.drawn
    assert (found.episodes, found.drifts) == (rollout.episodes, rollout.drifts)
    assert found.batch.completions == batch.completions
    assert found.batch.steps == batch.steps
    for column in ("agent", "group", "turn", "episode", "reward", "parent", "member_row", "member_step", "step_weight"):
        assert torch.equal(getattr(found.batch, column), getattr(batch, column))
    assert found.batch.returns.isnan().all()
    assert sampled(found.drawn.episodes, ["a", "b"]) == sampled(rollout.drawn.episodes, ["a", "b"])
    assert found.episodes[0] is found.drawn.episodes[0]
    assert type(found.drawn.episodes[2].turns[0].metrics["n"]) is float


def test_what_a_checkpoint_cannot_keep_is_named():
    made = episode("0", 0, [(1.0,)])
    odd = replace(made, turns=(replace(made.turns[0], metrics={"n": object()}),))
    rollout = StepRollout(ResampledEpisodes([odd], [], 0), [odd], make_batch([made]), {})
    with pytest.raises(CheckpointError, match=r"object of type 'object'.*train\.rollout_lead=0"):
        to_plain({1: rollout})


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "sections", "match"),
    [
        ({"name": "magrpo"}, {}, "takes all samples for fresh, .*set algorithm.truncate=2"),
        ({"name": "ippo", "old": "learner", "epochs": 1}, {}, "without a weight from the sampler"),
        ({"name": "ippo", "epochs": 2, "minibatches": 1}, {}, "the ratio begins away from 1"),
        ({"name": "ippo", "epochs": 1, "minibatches": 2}, {}, "the ratio begins away from 1"),
        ({"name": "madpo"}, {"kl": {"coef": 0.1}}, "weighs each pair by the weights that sampled it"),
        ({"name": "qmix", "mixer": {"actions": "legal"}}, {}, "learn from a replay"),
        (
            {"name": "ippo", "epochs": 1, "minibatches": 1},
            {"policy": {"top_p": 0.9, "score_truncated": True}},
            "whose part of the vocabulary",
        ),
    ],
)
def test_refusals(algorithm, sections, match):
    run = settings("tiny", algorithm=algorithm, **sections)
    with pytest.raises(ConfigError, match=match):
        refuse_contradictions(run, chosen(run.algorithm), 2, 1)
    refuse_contradictions(settings("tiny", 0, algorithm, **sections), chosen(run.algorithm), 2, 1)


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    run = settings("tiny")
    with pytest.raises(ConfigError, match="this run has several"):
        refuse_contradictions(run, chosen(run.algorithm), 2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_game_with_a_known_answer_is_learnt_one_update_behind(tmp_path, seed):
    """XOR has the optimum 1 and pays 0.5 at random."""
    overrides = [
        "env.game=xor",
        f"seed={seed}",
        "train.rollout_lead=1",
        "algorithm.truncate=2",
        "log.tensorboard=false",
    ]
    folder = train(load("matrix-drmas", overrides), tmp_path / "run")
    first, *_, last = [line["mean"] for line in read_metrics(folder / "metrics.jsonl") if line["kind"] == "eval"]
    assert first < 0.8
    assert last > 0.9
