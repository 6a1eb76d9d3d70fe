"""Past selves as opponents: the tasks they play, that nothing they say is trained on, and resuming exactly."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest

from palaver.core import Message, Request, Sampling
from palaver.trainers.config.loading import parse
from palaver.trainers.config.team import PastConfig
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.rollout.past_selves import PastSelves
from palaver.trainers.run import checkpoint
from palaver.trainers.train import resume, train
from tests.trainers.learning import episode, policy, shaken, untimed
from tests.trainers.toys import register_toy, save_model

TASKS = [(place, f"t{place}") for place in range(4)]


def made(share=0.5, every=2, keep=2):
    team = {"a": policy(0, name="a"), "b": policy(1, name="b"), "c": policy(2, name="frozen")}
    return PastSelves(PastConfig(share=share, every=every, keep=keep), [team["a"], team["b"]], seed=0), team


def test_only_the_newest_weights_are_kept_when_they_are_due():
    past, _ = made()
    for step in range(1, 8):
        past.take(step)
    assert [step for step, _ in past.snapshots] == [4, 6]


def test_half_of_the_tasks_are_played_by_one_past_self_each():
    past, team = made()
    assert past.lineups(1, team, TASKS, 4) == [(team, TASKS)], "none is kept yet"
    past.take(2)
    lineups = past.lineups(3, team, TASKS, 4)
    assert [[place for place, _ in tasks] for _, tasks in lineups] == [[0], [1], [2, 3]]
    names = [{agent: player.name for agent, player in players.items()} for players, _ in lineups]
    assert names == [
        {"a": "a", "b": "b@2", "c": "frozen"},
        {"a": "a@2", "b": "b", "c": "frozen"},
        {"a": "a", "b": "b", "c": "frozen"},
    ]
    assert past.lineups(3, team, TASKS[2:], 4) == [(team, TASKS[2:])], "places are those of the whole step"


def test_a_past_self_answers_with_the_weights_of_its_time():
    past, team = made(keep=1)
    request = Request("a", (Message("user", "hello"),), (3,), Sampling(max_tokens=8))
    before = team["a"].act([request])
    past.take(2)
    shaken(team["a"].model, by=0.5)
    team["a"].refresh()
    players = next(players for players, _ in past.lineups(4, team, TASKS, 4) if players["a"].name == "a@2")
    assert players["a"].act([request])[0][0].token_ids == before[0][0].token_ids
    assert team["a"].act([request])[0][0].token_ids != before[0][0].token_ids


def test_all_kept_selves_are_drawn():
    past, team = made(every=1, keep=4)
    for step in range(1, 5):
        past.take(step)
    drawn = Counter(past.lineups(step, team, TASKS, 4)[0][0]["a"].name for step in range(5, 405) if step % 2 == 0)
    assert set(drawn) == {"a@1", "a@2", "a@3", "a@4"}
    assert min(drawn.values()) > 30, "50 each are expected"


def test_what_a_past_self_says_is_no_row():
    chains = [episode("0", 0, [(1.0, 0.0)]), episode("1", 0, [(0.0, 1.0)])]
    chains[1].team["b"] = "b@2"
    table = make_batch(chains, ["a", "b"], ["p"])
    assert [table.agents[n] for n in table.agent.tolist()] == ["a", "b", "a"]
    assert table.reward.tolist() == [[1, 0], [0, 1]], "its reward is known"


@pytest.mark.parametrize("kind", ["separate", "shared"])
def test_a_resumed_run_has_the_same_past(tmp_path, kind):
    register_toy()
    settings = parse({
        "env": {"id": "echo-v0", "tasks": "sample[:4]", "num_turns": 2},
        "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 6},
        "team": {"kind": kind, "past": {"share": 0.5, "every": 1, "keep": 2}},
        "algorithm": {"name": "adalign", "group_size": 2},
        "optim": {"lr": 1e-2},
        "train": {"steps": 4, "prompts_per_step": 2, "checkpoint_every": 2, "keep": 9},
        "eval": {"n": 0},
        "log": {"tensorboard": False},
        "device": "cpu",
    })  # fmt: skip
    whole = train(settings, tmp_path / "whole")
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(checkpoint.folder_of(cut, 4))
    assert [step for step, _ in checkpoint.load_updater(checkpoint.folder_of(cut, 2))["past"]] == [1, 2]
    resume(cut)
    assert untimed(cut) == untimed(whole)
    lines = [json.loads(line) for path in sorted((whole / "episodes").glob("train*")) for line in path.open()]
    assert {"@" in name for line in lines for name in line["team"].values()} == {True, False}
    for name in checkpoint.policy_folders(checkpoint.folder_of(whole, 4)).values():
        path = name.relative_to(whole) / "model.safetensors"
        assert (whole / path).read_bytes() == (cut / path).read_bytes()
