"""Value mixing where a limit cuts episodes: the value after the cut counts, and is learnt where episodes go on."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from palaver.core import Message, Sampling
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.trainers.algorithms.vdn import VDN
from palaver.trainers.config.loading import parse
from palaver.trainers.rollout.batch import add_advantages, make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.train import train
from palaver.trainers.value_decomposition.encoders import OneHotEncoder
from palaver.trainers.value_decomposition.legal import play
from palaver.trainers.value_decomposition.replay import Replay, stacked, together
from palaver.trainers.value_decomposition.scenes import acts, conversation_before, transitions
from palaver.trainers.value_decomposition.sentences import CompletionMixer
from tests.trainers.learning import policy
from tests.trainers.toys import SEATS, Script, register_toy, save_model
from tests.trainers.value_mixing.test_legal import Steps, seats

SAMPLING = dict.fromkeys(SEATS, Sampling())
GAMMA = 0.5
OWN = {"encoder": "table", "features": 64, "optimizer": "adam", "lr": 0.02, "batch": 16, "updates": 40, "start": 0,
       "target_every": 20}  # fmt: skip


class Swing(TextEnv):
    """Two states that follow each other for ever: every step in the second pays 1. A limit cuts after three steps.

    By hand: V1 = GAMMA V2, V2 = 1 + GAMMA V1, so V1 = .5 / (1 - .25) = 2/3 and V2 = 4/3.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "swing_v0", "conversation": "fresh"}
    legal_actions: ClassVar = {agent: ["go"] for agent in SEATS}

    def __init__(self) -> None:
        super().__init__(list(SEATS), [Task("t", {})])

    def initial_observations(self, task):
        return dict.fromkeys(self.agents, "first")

    def transition(self, actions):
        second = self.turn % 2
        told = dict.fromkeys(self.agents, "first" if second else "second")
        return StepResult({agent: {"r": float(second)} for agent in self.agents}, told, truncated=self.turn == 2)


class Short(TextEnv):
    """Two turns that pay 1 and 3; the task `cut` is cut after the first. By hand: V = 3, then 1 + GAMMA 3 = 2.5."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "short_v0"}

    def __init__(self, **first: Any) -> None:
        super().__init__(list(SEATS), [Task("whole", {}), Task("cut", {})])
        self.first = {"truncated": True} | first

    def initial_observations(self, task):
        return dict.fromkeys(self.agents, "begin")

    def transition(self, actions):
        pays = {agent: {"r": 3.0 if self.turn else 1.0} for agent in self.agents}
        here = self.first if self.task.id == "cut" and not self.turn else {"terminated": self.turn == 1}
        return replace(StepResult(pays, dict.fromkeys(self.agents, "go on")), **here)


def rolled(env: TextEnv, tasks: list[str], **plan: Any):
    team = {"a": Script("x"), "b": Script("y")}
    return rollout(env, team, tasks, SamplingPlan(2, **plan), sampling=SAMPLING, seed=0)


def test_over_legal_actions_the_values_are_those_of_the_task_without_its_limit():
    seating = seats(*SEATS, **OWN)
    found = play(Swing(), seating, ["t"] * 8, epsilon=1.0, discount=GAMMA, seed=1)
    assert {episode.stop for episode in found.episodes} == {"truncated"}
    assert [each.goes_on for each in found.transitions] == [GAMMA] * 24
    scenes = {float(each.reward): each.scene for each in found.transitions}

    def learnt(transitions) -> list[float]:
        team = seats(*SEATS, **OWN).team
        replay = Replay(64)
        replay.add(transitions)
        for seed in range(15):
            team.values.learn(replay, seed)
        both = stacked([scenes[0.0], scenes[1.0]])
        return team.values.values(both.candidates)[..., 0].sum(dim=-1).tolist()  # VDN: the sum over agents

    assert learnt(found.transitions) == pytest.approx([2 / 3, 4 / 3], abs=0.03)
    third = found.transitions[16:]  # of each episode, in lockstep: what the limit cut
    treated = [*found.transitions[:16], *(replace(each, goes_on=0.0) for each in third)]
    wrong = learnt(treated)  # V1 = half of .5 V2 and half of 0, V2 = 1 + .5 V1: 2/7 and 8/7
    assert wrong == pytest.approx([2 / 7, 8 / 7], abs=0.1)


def mixing(**more: Any) -> CompletionMixer:
    config = parse({"algorithm": {"name": "vdn", "discount": GAMMA, "mixer": OWN | more}})
    alone = SimpleNamespace(device="cpu", gather=list, all_sum=lambda *numbers: list(numbers))
    return CompletionMixer("sum", config, SEATS, policy(), alone)


ENDS = [({}, 2.5, 0.02), ({"truncated": False, "terminated": True}, 1.75, 0.3)]


@pytest.mark.parametrize(("first", "value", "near"), ENDS, ids=["cut", "terminated"])
def test_over_sentences_a_cut_turn_is_worth_what_follows_elsewhere(first, value, near):
    """Half of the episodes go on and learn V = 3. Terminated instead of cut, the mean of 2.5 and 1 is learnt.

    That mean is of targets that differ, so the last updates leave it as near as their batches are.
    """
    table = make_batch(rolled(Short(**first), ["whole", "cut"], look_ahead=SEATS))
    made = mixing()
    filled = add_advantages(table, VDN, made.config.algorithm)
    for _ in range(12):
        made.estimate_advantages(filled, None)
    scene = acts(table, SEATS, made.encoder).scenes["0"]
    q = made.values.values(stacked([scene]).candidates)[0]  # the joint actions are x with y, xx with yy
    assert q.sum(dim=0).tolist() == pytest.approx([value] * 2, abs=near)


def test_a_cut_leads_to_a_scene_of_the_answers_sampled_there():
    encoder = OneHotEncoder(64)
    table = make_batch(rolled(Short(), ["cut"], look_ahead=SEATS))
    found = acts(table, SEATS, encoder)
    assert sorted(found.scenes) == ["0", "0/0", "0/1"]
    assert found.scenes["0/0"].allowed.tolist() == [[True, True], [True, True]]
    assert {step: where for step, where in found.scene_keys.items() if where != "0"} == {}, "no row was decided there"
    steps = transitions(table, found, table.reward.mean(dim=1), GAMMA)
    assert [(each.reward, each.goes_on) for each in steps] == [(1.0, GAMMA)] * 2
    assert [each.then for each in steps] == [found.scenes["0/0"], found.scenes["0/1"]]
    assert conversation_before(table, 0, "a", after=True) == (
        Message("user", "begin"), Message("assistant", "x"), Message("user", "go on"),
    )  # fmt: skip


def test_the_scene_after_a_cut_is_the_one_that_an_episode_that_goes_on_would_have():
    encoder = OneHotEncoder(64)
    whole, cut = (make_batch(rolled(Short(), [task], look_ahead=SEATS)) for task in ("whole", "cut"))
    one, other = (acts(table, SEATS, encoder).scenes["0/1"] for table in (whole, cut))
    for name in ("state", "candidates", "allowed"):
        assert torch.equal(getattr(one, name), getattr(other, name))


def test_stop_above_is_a_cut_like_any_other():
    table = make_batch(rolled(Short(), ["whole"], look_ahead=SEATS, stop_above=0.5))
    found = acts(table, SEATS, OneHotEncoder(64))
    assert {each.goes_on for each in transitions(table, found, table.reward.mean(dim=1), GAMMA)} == {GAMMA}


def test_where_none_of_the_team_could_act_after_a_cut_its_decision_is_left_out():
    """Where `b` alone would act a team of `a` has no value; where `a` was cut and `b` terminated it has one."""
    for first, kept in (({"can_act": ["b"]}, 0), ({"truncated": ["a"], "terminated": ["b"]}, 2)):
        table = make_batch(rolled(Short(**first), ["cut"], look_ahead=("a",)), ["a"])
        found = transitions(table, acts(table, ["a"], OneHotEncoder(64)), table.reward.mean(dim=1), GAMMA)
        assert [each.goes_on for each in found] == [GAMMA] * kept
    lonely = make_batch(rolled(Short(truncated=["b"], terminated=["a"]), ["cut"], look_ahead=("a",)), ["a"])
    found = transitions(lonely, acts(lonely, ["a"], OneHotEncoder(64)), lonely.reward.mean(dim=1), GAMMA)
    assert [(each.reward, each.goes_on) for each in found] == [(1.0, 0.0)] * 2, "the team itself has terminated"


class Last(Steps):
    """`Steps`, cut at its last turn as these flags say."""

    def __init__(self, **flags: Any) -> None:
        super().__init__(cut=True)
        self.flags = flags

    def transition(self, actions):
        return replace(super().transition(actions), **(self.flags if self.turn == 3 else {}))


def test_legal_play_follows_the_same_rule():
    def found(*agents: str, **flags: Any) -> list[float]:
        played = play(Last(**flags), seats(*agents), ["t"], epsilon=0.0, discount=0.5, seed=0)
        return [each.goes_on for each in played.transitions]

    assert found("a", "b") == [0.5] * 4
    assert found("a", "b", terminated=True, truncated=False) == [0.5] * 3 + [0.0]
    assert found("a", "b", unscored=True) == [0.5] * 3
    assert found("a", "b", terminated=["a"], truncated=["b"]) == [0.5] * 4
    assert found("a", "b", can_act=[]) == [0.5] * 3, "none of the team could act: no target"


def test_of_a_team_those_who_were_cut_have_actions_after_it():
    played = play(Last(terminated=["a"], truncated=["b"]), seats("a", "b"), ["t"], epsilon=0.0, discount=0.5, seed=0)
    assert together(played.transitions[-1:]).then.allowed.sum(dim=-1).tolist() == [[0, 6]]


def test_a_run_over_sentences_keeps_what_follows_a_cut(tmp_path):
    """Two joint actions a step, each cut after its first turn: the replay leads to two answers of each agent."""
    register_toy()
    config = parse({
        "env": {"id": "lengths-v0", "turns": 2}, "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 4},
        "algorithm": {
            "name": "qmix", "group_size": 2, "discount": 0.9, "stop_above": -1.0,
            "mixer": {"batch": 2, "start": 0, "encoder": "words", "features": 32},
        },
        "train": {"steps": 2}, "eval": {"n": 0}, "device": "cpu", "log": {"tensorboard": False, "episodes": False},
    })  # fmt: skip
    run = train(config, tmp_path / "run")
    scenes, lines = torch.load(run / "checkpoints/step-000002/updater.pt", weights_only=True)["mixing"]["replay"]
    assert [line[3] for line in lines] == [0.9] * 4
    for here, *_, then in lines:
        assert here != then
        assert scenes[then][2].tolist() == [[True, True], [True, True]]
