"""Each check finds its fault: environments broken in one way each."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import textwrap
import types
from typing import ClassVar

import pytest
from gymnasium.spaces import Discrete

from palaver.envs.base import checks
from palaver.envs.base.env import StepResult
from palaver.envs.base.spaces import UnicodeText
from tests.envs.drawing import (
    DrawingDraws,
    DrawingMoves,
    Draws,
    DrawsFloats,
    DrawsGrey,
    DrawsItself,
    DrawsNoise,
    DrawsText,
    DrawsWithAlpha,
    Good,
    GrowsByTurn,
)  # fmt: skip


def test_a_good_environment_passes():
    checks.check(Good)
    checks.check(lambda: Good(render_mode="ansi"))
    checks.check(Draws)


class NoName(Good):
    metadata: ClassVar = {"render_modes": ["ansi"], "conversation": "continued"}


class BadConversation(Good):
    metadata: ClassVar = {**Good.metadata, "conversation": "sometimes"}


class AliveTooEarly(Good):
    def __init__(self):
        super().__init__()
        self.agents = ["a", "b"]


class NewSpaceEachCall(Good):
    def action_space(self, agent):
        return UnicodeText(self.max_length)


class NotText(Good):
    def observation_space(self, agent):
        return self._two

    _two = Discrete(2)


class ObservesTooMuch(Good):
    def step(self, actions):
        observations, *rest = super().step(actions)
        return {agent: text * 99 for agent, text in observations.items()}, *rest


class ObservesSurrogates(Good):
    def step(self, actions):
        observations, *rest = super().step(actions)
        return {agent: text + "\ud800" for agent, text in observations.items()}, *rest


class GlobalRandomness(Good):
    """Deterministic for two steps, as PettingZoo's seed test would see it."""

    def transition(self, actions):
        outcome = super().transition(actions)
        if self.turn < 2:
            return outcome
        return StepResult({agent: {"luck": random.random()} for agent in actions}, terminated=True)


class RemembersEpisodes(Good):
    episodes = 0

    def initial_observations(self, task):
        self.episodes += 1
        return {agent: f"{text} {self.episodes}" for agent, text in super().initial_observations(task).items()}


class Infinite(Good):
    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, {agent: float("inf") for agent in rewards}, *rest


class HiddenBonus(Good):
    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, {agent: value + 1e-6 for agent, value in rewards.items()}, *rest


class NoComponents(Good):
    def step(self, actions):
        *rest, infos = super().step(actions)
        return *rest, {agent: {k: v for k, v in i.items() if k != "reward_components"} for agent, i in infos.items()}


class NoRole(Good):
    def _info(self, agent):
        return {name: value for name, value in super()._info(agent).items() if name != "role"}


class DifferentMetrics(Good):
    def step(self, actions):
        *rest, infos = super().step(actions)
        for agent, info in infos.items():
            info["metrics"]["mine"] = float(ord(agent))
        return *rest, infos


class RaisesOnBraces(Good):
    def transition(self, actions):
        for text in actions.values():
            text.format()
        return super().transition(actions)


class CountsNothing(Good):
    def step(self, actions):
        *rest, infos = super().step(actions)
        for info in infos.values():
            info["metrics"]["illegal"] = 0.0
        return *rest, infos


class SilenceIsSpecial(Good):
    def step(self, actions):
        return super().step({agent: "nothing" if text is None else text for agent, text in actions.items()})


class ForkIsSelf(Good):
    def fork(self):
        return self


class ForkSharesState(Good):
    def fork(self):
        twin = super().fork()
        twin.said = self.said
        return twin


class ForkReseeds(Good):
    def fork(self):
        twin = super().fork()
        twin.rng = type(twin.rng)(type(twin.rng.bit_generator)(next(_SEEDS)))
        return twin


_SEEDS = itertools.count(1000)


class ForkForgets(Good):
    def fork(self):
        twin = super().fork()
        twin.said = []
        return twin


class RendersNumbers(Good):
    def __init__(self):
        super().__init__(render_mode="ansi")

    def render(self):
        return 7


class StateIsNumber(Good):
    def state(self):
        return 7


class StrictOptions(Good):
    def reset(self, seed=None, options=None):
        if set(options or {}) - {"task"}:
            raise ValueError("unknown options")
        return super().reset(seed, options)


class IgnoresTask(Good):
    def _find(self, chosen):
        return self.tasks[0] if chosen == 0 else self.tasks[1]


class CutWithoutActions(Good):
    """Truncated where agents may act, and no action is legal."""

    def transition(self, actions):
        self.legal_actions = {} if self.turn else {agent: ["yes"] for agent in self.agents}
        return StepResult({agent: {"none": 0.0} for agent in actions}, truncated=self.turn == 1)


class NeverLeaves(Good):
    def step(self, actions):
        answers = super().step(actions)
        self.agents = list(self.possible_agents)
        return answers


class NumpyFlags(Good):
    def step(self, actions):
        observations, rewards, terminated, *rest = super().step(actions)
        return observations, rewards, {agent: int(flag) for agent, flag in terminated.items()}, *rest


class AnswersTheDead(Good):
    def step(self, actions):
        return super().step(actions) if self.agents else ({"a": "over"}, {}, {}, {}, {})


class NotPlainData(Good):
    def _info(self, agent):
        return {**super()._info(agent), "tags": {agent}}


FAULTS = [
    (checks.check_attributes, NoName, "metadata lacks 'name'"),
    (checks.check_attributes, BadConversation, "'continued' or 'fresh'"),
    (checks.check_attributes, AliveTooEarly, "before the first reset"),
    (checks.check_spaces, NewSpaceEachCall, "another object"),
    (checks.check_spaces, NotText, "expected a Text space"),
    (checks.check_observations, ObservesTooMuch, "not in its space"),
    (checks.check_observations, ObservesSurrogates, "not in its space"),
    (checks.check_determinism, GlobalRandomness, "transcripts differ at step 3"),
    (checks.check_determinism, RemembersEpisodes, "reset twice with seed 5"),
    (checks.check_determinism, NotPlainData, "plain data"),
    (checks.check_rewards, Infinite, "is inf"),
    (checks.check_rewards, HiddenBonus, "components sum to"),
    (checks.check_rewards, NoComponents, "lacks reward_components"),
    (checks.check_infos, NoRole, "'role'"),
    (checks.check_infos, DifferentMetrics, "differ between agents"),
    (checks.check_hostile, RaisesOnBraces, "raised"),
    (checks.check_hostile, CountsNothing, "not counted as illegal"),
    (checks.check_hostile, SilenceIsSpecial, "None and the empty text"),
    (checks.check_fork, ForkIsSelf, "the environment itself"),
    (checks.check_fork, ForkSharesState, "the transcripts differ"),
    (checks.check_fork, ForkReseeds, "copy the generator"),
    (checks.check_fork, ForkForgets, "a fork and its original"),
    (checks.check_render, RendersNumbers, "render() gave"),
    (checks.check_render, StateIsNumber, "state() must be a text"),
    (checks.check_picture, DrawsText, "gave str after reset"),
    (checks.check_picture, DrawsFloats, "is of float64"),
    (checks.check_picture, DrawsGrey, "is of shape (4, 200)"),
    (checks.check_picture, DrawsWithAlpha, "is of shape (4, 200, 4)"),
    (checks.check_picture, GrowsByTurn, "picture 1 is (5, 200, 3), the first was (4, 200, 3)"),
    (checks.check_picture, DrawsNoise, "two pictures of the same state differ"),
    (checks.check_picture, DrawsItself, "in another instance differs"),
    (checks.check_picture, DrawingMoves, "drawing changed the state"),
    (checks.check_picture, DrawingDraws, "an episode without a picture and one with: the transcripts differ"),
    (checks.check_options, StrictOptions, "an unknown reset option raised ValueError"),
    (checks.check_options, IgnoresTask, "started another task"),
    (checks.check_leaving, NeverLeaves, "agents"),
    (checks.check_leaving, CutWithoutActions, "legal_actions are empty"),
    (checks.check_leaving, NumpyFlags, "True or False"),
    (checks.check_end, AnswersTheDead, "five empty dictionaries"),
]


@pytest.mark.parametrize(("check", "broken", "message"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_each_check_finds_its_fault(check, broken, message):
    check(Good)
    with pytest.raises(AssertionError) as caught:
        check(broken)
    assert message in str(caught.value)


@pytest.mark.parametrize("broken", [NoName, RaisesOnBraces, AnswersTheDead])
def test_the_whole_contract_finds_faults_too(broken):
    with pytest.raises(AssertionError):
        checks.check(broken)


def test_every_check_is_shown_to_find_something():
    assert {check for check, _, _ in FAULTS} | {checks.check_processes} == set(checks.CHECKS)


MODULE = """
    from palaver.envs.base.env import StepResult, TextEnv
    from palaver.envs.base.tasks import Task

    class Env(TextEnv):
        def __init__(self):
            super().__init__(["a"], [Task("t", {})])
        def initial_observations(self, task):
            return {"a": "go"}
        def transition(self, actions):
            return StepResult({"a": {"x": 1.0}}, {"a": BODY}, terminated=True)
"""


@pytest.mark.parametrize(
    ("name", "body", "fault"),
    [
        ("palaver_test_stable", "' '.join(sorted({'red', 'green', 'blue', 'black', 'white'}))", None),
        ("palaver_test_sets", "' '.join({'red', 'green', 'blue', 'black', 'white'})", "PYTHONHASHSEED"),
        ("palaver_test_exit", "str(__import__('os').environ.get('PYTHONHASHSEED') == '1' and 1 // 0)", "failed: "),
    ],
)
def test_other_processes_are_compared(tmp_path, monkeypatch, name, body, fault):
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE).replace("BODY", body))
    monkeypatch.syspath_prepend(tmp_path)
    make = __import__(name).Env
    if os.environ.get("PYTHONHASHSEED") == "1":
        pytest.skip("this process has the hash seed of the other one")
    if fault is None:
        checks.check_processes(make)
    else:
        checks.check_determinism(make)  # within one process nothing shows
        with pytest.raises(AssertionError, match=fault):
            checks.check_processes(make)
    del sys.modules[name]


def test_what_cannot_travel_is_left_to_this_process(monkeypatch):
    ended, real = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: ended.append(real(*a, **k)) or ended[-1])
    checks.check_processes(lambda: Good())
    assert ended == []
    # a module of this process alone: its class pickles by name, and the other process cannot import it
    monkeypatch.setitem(sys.modules, "palaver_test_gone", types.ModuleType("palaver_test_gone"))
    gone = type("Gone", (RemembersEpisodes,), {"__module__": "palaver_test_gone"})
    sys.modules["palaver_test_gone"].Gone = gone
    checks.check_processes(gone)
    assert [child.returncode for child in ended] == [checks._UNSHIPPABLE]
    assert ended[0].stdout == b""
