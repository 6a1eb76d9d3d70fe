"""Environments with another reward: what is paid, what is asked, and that everything else stays the environment's."""

from __future__ import annotations

import copy
import functools
import math

import pytest

import palaver
from palaver.core import ConfigError
from palaver.envs.base import checks
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.reward_wrapper import RewardSpec, RewardWrapper, parse_reward
from palaver.envs.base.tasks import Task
from palaver.envs.echo.env import EchoEnv
from palaver.scoring import RewardPlacement, Score
from tests.envs.rewards import Length

NAME = "judge:scripted:tests.envs.rewards:by_length"
ADDED = RewardPlacement("added", 0.5)


def wrapped(placement=None, **kwargs):
    return RewardWrapper(EchoEnv(**{"num_turns": 2, "shared": False, **kwargs}), Length(), placement)


class Toy(TextEnv):
    """Pays 1 for "good"; `b` speaks in the second turn only; books what each turn earned at the end."""

    def __init__(self, fresh=False):
        super().__init__(["a", "b"], [Task("t", {"reference": "gold"})])
        if fresh:
            self.metadata = {**TextEnv.metadata, "conversation": "fresh"}
        self.first_to_act, self.num_turns, self.max_return = ["a"], 2, 2.0

    def initial_observations(self, task):
        return {"a": "a opens", "b": "b opens"}

    def transition(self, actions):
        if "broken" in actions.values():
            return StepResult({agent: {"good": 0.0} for agent in self.agents}, unscored=True, reason="own judge ill")
        good = float("good" in actions.values())
        last = self.turn == 1
        told = {} if last else {"a": "a again", "b": "b again"}
        earned = {agent: [{"good": 0.25}, {"good": good - 0.25}] for agent in self.agents} if last else None
        parts = {agent: {"good": good} for agent in self.agents}
        return StepResult(parts, told, last, can_act=["b"], reason="own", turn_rewards=earned, metrics={"m": 1.0})


# --- spelling ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "own", "placement"),
    [
        ("judge:x", "judge:x", "", None),
        ("rm:some/folder", "rm:some/folder", "", None),
        ("+judge:x?a=1", "judge:x?a=1", "", RewardPlacement("added")),
        ("+0.5*rm:x", "rm:x", "", RewardPlacement("added", 0.5)),
        ("2*judge:x", "judge:x", "", RewardPlacement("replaced", 2.0)),
        ("gate@0.8:judge:x", "judge:x", "", RewardPlacement("gate", 1.0, 0.8)),
        ("gate@-1:3*judge:x", "judge:x", "", RewardPlacement("gate", 3.0, -1.0)),
        ("iou,+judge:x", "judge:x", "iou", RewardPlacement("added")),
        ("iou,judge:openai:m@http://h/v1", "judge:openai:m@http://h/v1", "iou", None),
    ],
)
def test_spellings(text, name, own, placement):
    assert parse_reward(text) == RewardSpec(name, own, placement)


@pytest.mark.parametrize("value", ["iou", "binary", "", None, 3, "judge", "judge:", "a judge:x", ["judge:x"]])
def test_everything_else_is_the_environments_own(value):
    assert parse_reward(value) is None


@pytest.mark.parametrize("text", ["+1.2.3*judge:x", "gate@.:judge:x"])
def test_a_weight_or_gate_that_is_no_number(text):
    with pytest.raises(ConfigError, match="is no number"):
        parse_reward(text)


# --- what is paid --------------------------------------------------------------------------------


def test_the_score_is_the_whole_reward():
    env = wrapped()
    env.reset(seed=0)
    _, rewards, _, _, infos = env.step({"a1": "x" * 20, "a2": "y" * 5})
    assert rewards == {"a1": 0.25, "a2": 0.25}
    assert infos["a1"]["reward_components"] == {"judge": 0.25}
    assert infos["a1"]["metrics"] == {
        "illegal": 0.0, "words": 1.0, "own": 0.0, "judge/long": 0.25, "holdout_gap": 0.25,
    }  # fmt: skip
    assert infos["a1"]["reason"] == "25 characters␛[2J"


def test_beside_the_own_reward():
    env = wrapped(ADDED)
    env.reset(seed=0)
    word = env.targets["a1"]
    _, rewards, _, _, infos = env.step({"a1": word, "a2": ""})
    assert infos["a1"]["reward_components"] == {"echo": 1.0, "brevity": 0.5, "judge": 0.5 * len(word) / 100}
    assert infos["a2"]["reward_components"]["judge"] == 0.5 * len(word) / 100
    assert rewards["a1"] == math.fsum(infos["a1"]["reward_components"].values())
    assert "own" not in infos["a1"]["metrics"]


def test_behind_a_gate():
    env = wrapped(RewardPlacement("gate", 2.0, 0.75))
    env.reset(seed=0)
    words = dict(env.targets)
    _, rewards, _, _, infos = env.step({"a1": words["a1"], "a2": "no"})
    # own: (1.5 + 0) / 2 = 0.75, just enough
    said = len(words["a1"]) + 2
    assert rewards == pytest.approx({"a1": said / 50, "a2": said / 50})
    assert (infos["a1"]["metrics"]["own"], infos["a1"]["metrics"]["gate"]) == (0.75, 1.0)
    _, rewards, _, _, infos = env.step({"a1": "zzz", "a2": "zzz"})
    assert rewards == {"a1": 0.0, "a2": 0.0}
    assert (infos["a1"]["metrics"]["own"], infos["a1"]["metrics"]["gate"]) == (0.0, 0.0)
    assert infos["a1"]["reward_components"] == {"judge": 0.0}
    assert [len(cases) for cases in env.reward.calls] == [1], "nobody was asked the second time"


def test_the_last_turn_alone():
    env = wrapped(RewardPlacement(when="last"))
    env.reset(seed=0)
    assert env.step({"a1": "x" * 20})[1] == {"a1": 0.0, "a2": 0.0}
    assert env.reward.calls == []
    assert env.step({"a1": "x" * 20})[1] == {"a1": 0.2, "a2": 0.2}


def test_what_was_earned_when_is_told_with_the_score():
    env = RewardWrapper(Toy(), Length(), ADDED)
    env.reset(seed=0)
    env.step({"a": "good"})
    *_, infos = env.step({"b": "x" * 10})
    assert infos["a"]["turn_rewards"] == [{"good": 0.25, "judge": 0.02}, {"good": -0.25, "judge": 0.05}]
    assert infos["a"]["reason"] == "own; 10 characters␛[2J"


def test_the_most_that_can_be_paid():
    assert RewardWrapper(Toy(), Length()).max_return == 2.0
    assert RewardWrapper(Toy(), Length(), RewardPlacement(weight=3.0, when="last")).max_return == 3.0
    assert RewardWrapper(Toy(), Length(), ADDED).max_return == 2.0 + 2 * 0.5
    endless = Length()
    endless.most = math.inf
    assert palaver.make("echo-v0", reward=endless).max_return == math.inf


def test_names_do_not_collide():
    inner = RewardWrapper(Toy(), Length(), ADDED)
    env = RewardWrapper(inner, Length(), ADDED)
    env.reset(seed=0)
    *_, infos = env.step({"a": "x" * 10})
    assert infos["a"]["reward_components"] == {"good": 0.0, "judge": 0.05, "outer_judge": 0.05}


# --- what is asked -------------------------------------------------------------------------------


def test_a_case_holds_who_could_act_and_all_they_were_told():
    env = RewardWrapper(Toy(), Length())
    env.reset(seed=0)
    env.step({"a": "one", "b": "not heard"})
    env.step({"a": "not heard", "b": b"two\xff"})
    (first,), (second,) = env.reward.calls
    assert (first.task, first.turn, first.group, first.reference) == ("t", 0, "", "gold")
    assert (first.completions, first.observations) == ({"a": "one"}, {"a": "a opens"})
    assert (second.completions, second.observations, second.turn) == (
        {"b": "two\ufffd"},
        {"b": "b opens\n\nb again"},
        1,
    )


def test_a_fresh_conversation_is_what_was_told_last():
    env = RewardWrapper(Toy(fresh=True), Length())
    env.reset(seed=0)
    env.step({"a": "one"})
    env.step({"b": "two"})
    assert env.reward.calls[1][0].observations == {"b": "b again"}


def test_all_are_scored_in_one_call_with_their_groups():
    env = wrapped()
    env.reset(seed=0)
    envs = [env, *(env.fork() for _ in range(3))]
    steps = RewardWrapper.step_together(envs, [{"a1": "x" * n} for n in range(4)], ["g", "g", "h", "h"])
    (cases,) = env.reward.calls
    assert [case.group for case in cases] == ["g", "g", "h", "h"]
    assert [step[1]["a1"] for step in steps] == [0.0, 0.01, 0.02, 0.03]
    assert len({id(each.watch) for each in envs}) == 1
    assert RewardWrapper.step_together([], []) == []


def test_instances_with_rewards_of_their_own_are_scored_by_them():
    one, other = wrapped(), wrapped()
    for env in (one, other):
        env.reset(seed=0)
    RewardWrapper.step_together([one, other], [{"a1": "x"}, {"a1": "yy"}])
    assert [case.completions["a1"] for case in one.reward.calls[0]] == ["x"]
    assert [case.completions["a1"] for case in other.reward.calls[0]] == ["yy"]


# --- what cannot be scored -----------------------------------------------------------------------


@pytest.mark.parametrize("placement", [RewardPlacement(), ADDED, RewardPlacement("gate", 1.0, 0.0)])
def test_what_could_not_be_scored_ends_the_episode_unscored(placement):
    env = wrapped(placement)
    env.reset(seed=0)
    _, rewards, terminated, truncated, infos = env.step({"a1": "fail"})
    assert rewards == {"a1": 0.0, "a2": 0.0}
    assert set(truncated.values()) == {True}
    assert set(terminated.values()) == {False}
    assert infos["a1"]["unscored"] is True
    assert infos["a1"]["reason"] == "not scored: timeout: late"
    assert infos["a1"]["reward_components"] == {"judge": 0.0}
    assert env.agents == []
    assert env.step({}) == ({}, {}, {}, {}, {})
    env.reset(seed=0)
    assert env.agents == ["a1", "a2"]


def test_what_the_environment_could_not_score_is_not_asked():
    env = RewardWrapper(Toy(), Length())
    env.reset(seed=0)
    *_, infos = env.step({"a": "broken"})
    assert infos["a"]["unscored"] is True
    assert infos["a"]["reason"] == "own judge ill"
    assert env.reward.calls == []


# --- everything else -----------------------------------------------------------------------------


def test_the_rest_is_the_environments():
    inner = EchoEnv(num_turns=5, render_mode="ansi")
    env = RewardWrapper(inner, Length())
    assert (env.num_turns, env.metadata, env.source, env.tasks) == (5, inner.metadata, "sample", inner.tasks)
    assert env.observation_space("a1") is inner.observation_space("a1")
    assert env.competitive is env.shared_prompt_turns is None
    env.reset(seed=0, options={"task": 1})
    env.step({"a1": "hello"})
    assert env.state() == inner.state()
    assert env.task is inner.tasks[1]
    assert env.render().startswith(inner.render())
    assert env.render().endswith("\n[judge, turn 1: 0.05] 5 characters␛[2J")
    env.render_mode = None
    assert env.render() is None
    with pytest.raises(AttributeError):
        env.nonsense  # noqa: B018 - the look-up itself is meant


def test_copies_share_the_reward_and_nothing_else():
    env = wrapped()
    env.reset(seed=0)
    env.step({"a1": "x"})
    for twin in (env.fork(), copy.deepcopy(env)):
        assert twin.reward is env.reward
        assert twin.inner is not env.inner
        twin.step({"a1": "y"})
        assert (twin.agents, env.agents, env.turn) == ([], ["a1", "a2"], 1)


def test_another_reward_may_take_over():
    env, other = wrapped(), Length()
    env.score_with(other)
    env.reset(seed=0)
    env.step({"a1": "x"})
    assert len(other.calls) == 1
    assert env.measured()["cases"] == 1.0


def test_ready_loads_what_there_is_to_load():
    loaded = []
    RewardWrapper(EchoEnv(), Length(ready=lambda: loaded.append(1))).ready()
    wrapped().ready()
    assert loaded == [1]


# --- by name -------------------------------------------------------------------------------------


def test_every_environment_takes_a_judge_by_name():
    env = palaver.make("arxiv-v0", reward=f"+0.5*{NAME}", agents=1)
    assert isinstance(env, RewardWrapper)
    assert (env.reward.name, env.placement) == (NAME, ADDED)
    env.reset(seed=0)
    *_, infos = env.step(dict.fromkeys(env.agents, "text"))
    assert {"judge", *infos[env.possible_agents[0]]["reward_components"]} == set(
        infos[env.possible_agents[0]]["reward_components"]
    )
    assert {"judge/done", "judge/correct", "judge/together"} < set(infos[env.possible_agents[0]]["metrics"])


def test_an_environments_own_reward_goes_on_working():
    assert not isinstance(palaver.make("housebuild-v0", reward="iou"), RewardWrapper)
    assert palaver.make("housebuild-v0", reward=f"iou,+{NAME}").reward_config == "iou"
    assert palaver.make("housebuild-v0", reward=NAME).reward_config == "published"
    with pytest.raises(ConfigError, match="reward must be one of"):
        palaver.make("housebuild-v0", reward=f"best,{NAME}")
    with pytest.raises(ConfigError, match="there is no reward 'iou'"):
        palaver.make("echo-v0", reward="iou")
    with pytest.raises(ConfigError, match="there is no reward 'iou'"):
        palaver.make("echo-v0", reward=f"iou,{NAME}")
    with pytest.raises(ConfigError, match="no keyword 'turns'"):
        palaver.make("echo-v0", reward=NAME, turns=3)


def test_the_environments_of_other_wings_get_it_too():
    env = palaver.make("pioneer-v0", env="echo-v0", keywords={"num_turns": 1}, reward=Length())
    env.reset(seed=0)
    assert env.step({"pioneer": "x" * 10})[1] == {"pioneer": 0.1, "observer": 0.1}


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("reward", [f"+0.5*{NAME}", f"gate@0.1:{NAME}"])
def test_the_contract_holds(check, reward):
    make = functools.partial(palaver.make, "echo-v0", reward=reward, render_mode="ansi", num_turns=2)
    check(make)


@pytest.mark.slow
@pytest.mark.parametrize("id", [id for id in palaver.specs() if id != "pokemon-v1"])
def test_the_contract_holds_everywhere(id):
    checks.check(functools.partial(palaver.make, id, reward=Length()))
    checks.check(
        functools.partial(palaver.make, id, reward=Length(placement=RewardPlacement("added", 0.5, when="last")))
    )


def test_pokemon_steps_together(pool):
    env = palaver.make("pokemon-v1", format="gen1ou", reward=Length(placement=ADDED))
    env.reset(seed=0)
    twin = env.fork()
    said = [dict.fromkeys(env.agents, env.inner.battle and "")] * 2
    steps = RewardWrapper.step_together([env, twin], said)
    assert len(env.reward.calls) == 1
    assert steps[0][1] == steps[1][1] == {"p1": -0.05, "p2": -0.05}  # silence is illegal


def test_a_score_need_not_be_a_share():
    class Logit(Length):
        def score(self, cases):
            return [Score(-3.5) for _ in cases]

    env = palaver.make("echo-v0", reward=Logit())
    env.reset(seed=0)
    assert env.step({})[1] == {"a1": -3.5, "a2": -3.5}
