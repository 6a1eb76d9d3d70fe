"""Runs over legal actions: play, learning, resume, what is refused, what is left for others to play with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from palaver.agents.simple import ScriptedPolicy
from palaver.core import CheckpointError, ConfigError, Message, PolicyError, Sampling
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.registry import make
from palaver.trainers.config.loading import load, parse
from palaver.trainers.rollout.branches import with_observation
from palaver.trainers.rollout.team import load_run, model_options
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import prepare, resume, train
from palaver.trainers.value_decomposition.legal import Assignment, play
from palaver.trainers.value_decomposition.players import ValueTeam, load_players

QUIET = ["log.tensorboard=false", "device=cpu"]


class Steps(TextEnv):
    """`a` and `b` move, `b` alone every second turn; the actions of a turn are named after it, and grow by one a turn.

    Every turn pays a 1 and b 3; the last is turn 4, or the cut of an outer limit.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "steps_v0"}

    def __init__(self, cut: bool = False) -> None:
        super().__init__(["a", "b"], [Task("t", {})])
        self.cut = cut

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        self._offer(0)
        return {agent: f"turn 0 of {agent}" for agent in self.agents}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        last = self.turn == 3
        self._offer(self.turn + 1)
        acting = ["a", "b"] if self.turn % 2 else ["b"]
        return StepResult(
            {"a": {"r": 1.0}, "b": {"r": 3.0}}, dict.fromkeys(self.agents, f"turn {self.turn + 1}"),
            terminated=last and not self.cut, truncated=last and self.cut, can_act=acting,
        )  # fmt: skip

    def _offer(self, turn: int) -> None:
        self.legal_actions = {agent: [f"{turn}-{n}" for n in range(turn + 2)] for agent in self.possible_agents}


def seats(*agents: str, **mixer: Any) -> Assignment:
    config = parse({"algorithm": {"name": "vdn", "mixer": {"actions": "legal", "features": 64} | mixer}})
    return Assignment(ValueTeam(config, agents, "cpu"))


def test_play_of_a_team_that_moves_together_and_alone():
    found = play(Steps(), seats("a", "b"), ["t", "t"], epsilon=1.0, discount=0.5, seed=0)
    assert [episode.stop for episode in found.episodes] == ["terminated"] * 2
    turns = found.episodes[0].turns
    assert [sorted(turn.completions) for turn in turns] == [["a", "b"], ["b"], ["a", "b"], ["b"]]
    assert all(u.text.startswith(f"{turn.index}-") for turn in turns for u in turn.completions.values())
    assert found.episodes[0].team_return() == 8.0
    mine = [each for each in found.transitions if each.scene.allowed.shape[1] == 2]
    assert len(found.transitions) == 8
    assert len(mine) == 2
    assert {each.reward for each in found.transitions} == {2.0}
    assert sorted(each.goes_on for each in found.transitions) == [0.0] * 2 + [0.5] * 6
    assert mine[0].then.allowed.sum(dim=1).tolist() == [0, 3]


def test_what_a_team_is_paid_while_it_waits_belongs_to_its_last_decision():
    """Turns 0 and 2 are a's, turns 1 and 3 b's alone, who is scripted: a's own pay 1 + 0.5 * 1, twice; 0.25 goes on."""
    partner = ScriptedPolicy(lambda heard, seed: "anything", "scripted:x")
    table = seats("a")
    seating = Assignment(table.team, {"b": partner}, {"b": Sampling()})
    found = play(Steps(), seating, ["t"], epsilon=0.0, discount=0.5, seed=0)
    assert [(each.reward, each.goes_on) for each in found.transitions] == [(1.5, 0.25), (1.5, 0.0)]
    assert found.transitions[0].then is found.transitions[1].scene
    assert found.episodes[0].team == {"a": "values", "b": "scripted:x"}
    assert found.episodes[0].turns[1].completions["b"].text == "anything"


def test_what_was_cut_leads_to_the_state_after_the_cut():
    """Turn 4, which nobody plays: both may act, and have the six actions that it lists."""
    found = play(Steps(cut=True), seats("a", "b"), ["t"], epsilon=0.0, discount=0.5, seed=0)
    assert found.episodes[0].stop == "truncated"
    assert [each.goes_on for each in found.transitions] == [0.5] * 4
    assert found.transitions[-1].then.allowed.sum(dim=1).tolist() == [6, 6]
    assert len(found.episodes[0].turns) == 4


def test_exploration_is_as_likely_as_it_says_and_fixed_by_the_seed():
    env, table = make("matrix-v1", game="climbing", tasks="sample[:1]"), seats("a1", "a2")
    chosen = {}
    for epsilon in (0.0, 0.5, 1.0):
        found, again = (
            play(env, table, ["wording-0-0"] * 300, epsilon=epsilon, discount=1.0, seed=4) for _ in range(2)
        )
        texts = [said.text for episode in found.episodes for said in episode.turns[0].completions.values()]
        assert texts == [said.text for episode in again.episodes for said in episode.turns[0].completions.values()]
        chosen[epsilon] = texts.count("red") / len(texts)  # all values are 0, so the first action is the best
    assert chosen[0.0] == 1.0
    assert chosen[0.5] == pytest.approx(1 / 2 + 1 / 6, abs=0.08)  # 600 draws: 4 standard errors are 0.077
    assert chosen[1.0] == pytest.approx(1 / 3, abs=0.08)


def test_what_was_not_read_yet_is_one_message_with_what_is_new():
    first = with_observation((), "a", fresh=False)
    assert [m.content for m in with_observation(first, "b", fresh=False)] == ["a\n\nb"]
    assert [m.content for m in with_observation(first, "", fresh=False)] == ["a"]
    assert [m.content for m in with_observation((*first, Message("assistant", "x")), "b", fresh=False)] == [
        "a",
        "x",
        "b",
    ]
    assert [m.content for m in with_observation(first, "b", fresh=True)] == ["b"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    config = load("matrix-qmix", [*QUIET, "train.steps=6", "train.checkpoint_every=3", "algorithm.mixer.updates=3"])
    return train(config, tmp_path_factory.mktemp("runs") / "whole")


TIMINGS = ("wall_s", "cpu_s", "time/")


def numbers(folder: Path) -> list[dict[str, Any]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in lines]


def test_the_run_folder(finished):
    lines = numbers(finished)
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("eval", 0), *(("train", step) for step in range(1, 7)), ("eval", 6),
    ]  # fmt: skip
    assert [line["mixer/updates"] for line in lines[1:7]] == [0, 3, 3, 3, 3, 3]  # 32 joint steps a step, batches of 64
    assert [line["mixer/replay"] for line in lines[1:7]] == [32, 64, 96, 128, 160, 192]
    assert {line["mixer/epsilon"] for line in lines[1:7]} == {1.0}
    assert (finished / "episodes" / "train-000006.jsonl").is_file()


def test_a_resumed_run_equals_the_uninterrupted_one(finished, tmp_path):
    cut = shutil.copytree(finished, tmp_path / "cut")
    shutil.rmtree(cut / "checkpoints" / "step-000006")
    resume(cut)
    assert numbers(cut) == numbers(finished)
    states = [
        torch.load(run / "checkpoints/step-000006/updater.pt", weights_only=True)["team"]["values"]["live"]
        for run in (cut, finished)
    ]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("changes", [["algorithm.mixer.encoder=words"], ["team.kind=shared"]], ids=str)
def test_other_encoders_and_one_network_for_all(tmp_path, changes):
    more = ["train.steps=3", "algorithm.mixer.updates=2", "algorithm.mixer.batch=8", "eval.n=0", *changes]
    lines = numbers(train(load("matrix-vdn", [*QUIET, *more]), tmp_path / "run"))
    assert lines[-1]["mixer/updates"] == 2


def test_a_partner_may_be_scripted(tmp_path):
    more = ["train.steps=2", "eval.n=0", "team.frozen={a2: scripted:reference}", "env.game=climbing"]
    folder = train(load("matrix-vdn", [*QUIET, *more]), tmp_path / "run")
    assert "values" in (folder / "episodes" / "train-000002.jsonl").read_text()


def test_players_of_a_finished_run(finished):
    env = make("matrix-v1", game="two-step", tasks="sample[:1]")
    players = load_players(finished, env)
    assert set(players) == {"a1", "a2"}
    said, infos = env.reset(seed=0)
    paid = 0.0
    first = {agent: make_one() for agent, make_one in players.items()}
    while env.agents:
        actions = {agent: first[agent](said[agent], infos[agent]) for agent in env.agents}
        assert all(actions[agent] in infos[agent]["legal_actions"] for agent in env.agents)
        said, rewards, *_, infos = env.step(actions)
        paid += rewards["a1"]
    assert paid == numbers(finished)[-1]["mean"]  # what the evaluation of these weights found
    assert first["a1"]("over", {"legal_actions": []}) == ""


def test_what_is_no_run_of_values(tmp_path, finished):
    with pytest.raises(CheckpointError, match="there is no run"):
        load_players(tmp_path, Steps())
    config = parse({"env": {"id": "matrix-v1"}})
    with pytest.raises(PolicyError, match="load_players"):
        load_run(finished, ["a1", "a2"], model_options(config, "cpu"))


REFUSED = [
    (["env.id=echo-v0", "env.game=null"], "lists no legal_actions"),
    (["team.kind=lora"], "team.kind=lora has no meaning"),
    (["team.swap_every=2"], "set it to 0"),
    (["algorithm.mixer.encoder=policy"], "table, words or hf:NAME"),
    (["algorithm.credit=both"], "algorithm.credit=team"),
]


@pytest.mark.parametrize(("overrides", "told"), REFUSED, ids=lambda each: each if isinstance(each, str) else each[0])
def test_refused(overrides, told):
    config = load("matrix-vdn", [*QUIET, *overrides]) if "echo" not in overrides[0] else parse(
        {"env": {"id": "echo-v0"}, "algorithm": {"name": "vdn", "mixer": {"actions": "legal"}}}
    )  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        prepare(config)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_full_table_ends_the_run_with_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match=r"algorithm\.mixer\.features"):
        train(load("matrix-vdn", [*QUIET, "algorithm.mixer.features=4"]), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.timeout(1800)  # ten runs, two CPU minutes
@pytest.mark.parametrize(("recipe", "returned"), [("matrix-vdn", 7.0), ("matrix-qmix", 8.0)])
def test_the_recipes_end_where_theory_says_in_nine_of_ten_seeds(tmp_path, recipe, returned):
    found = [
        numbers(train(load(recipe, [*QUIET, f"seed={seed}", "log.episodes=false"]), tmp_path / str(seed)))[-1]["mean"]
        for seed in range(10)
    ]
    assert sum(mean == returned for mean in found) >= 9
