"""One agent as a Gymnasium environment: its checks, turns played through, partners, seeds and rewards."""

from __future__ import annotations

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import palaver
from palaver.agents.simple import EchoPolicy, ScriptedPolicy
from palaver.benchmarks.doors.single_agent import SingleAgentEnv
from palaver.core import ConfigError, PolicyError, TaskError
from palaver.registry import Spec, agent_ids
from tests.benchmarks.doors.conftest import EVERY, Babbler
from tests.envs.rewards import Length

SINGLE = [(id, agent) for id, spec in palaver.specs().items() for agent in spec.agents]


def finish(env, answer, seed=0):
    """Play one episode: the sum of its rewards, and the last info."""
    observation, info = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        assert observation in env.observation_space
        observation, reward, terminated, truncated, info = env.step(answer(observation))
        assert reward == pytest.approx(sum(info["reward_components"].values()), abs=1e-9)
        total, ended = total + reward, terminated or truncated
    return total, info


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(("id", "agent"), SINGLE)
def test_every_agent_passes_gymnasiums_checks(id, agent, request):
    if id.startswith("pokemon"):
        request.getfixturevalue("pool")
    env = gymnasium.make(f"palaver:{agent_ids(palaver.spec(id))[agent]}")
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("id", EVERY)
def test_rewards_are_those_of_the_environment(id, native):
    agents = palaver.spec(id).agents
    envs = [gymnasium.make(agent_ids(palaver.spec(id))[agent]).unwrapped for agent in agents]
    distinct = set()
    for seed in range(100):
        env = envs[seed % len(envs)]
        total, _ = finish(env, Babbler(id, seed, remembers=True), seed)
        assert total == pytest.approx(native(id, seed, env.turns)[env.agent], abs=1e-9)
        distinct.add(total)
    assert len(distinct) > 1


@pytest.mark.parametrize("agent", ["a", "b", "c"])
def test_turns_of_others_are_played_and_their_rewards_summed(relay, agent, native):
    env = SingleAgentEnv(relay, agent, {a: EchoPolicy() for a in "abc"})
    for seed in range(100):
        total, _ = finish(env, Babbler("arxiv-v0", seed), seed)
        assert total == pytest.approx(native(relay, seed, env.turns)[agent], abs=1e-9)


def test_an_observation_is_what_the_agent_has_not_answered(relay):
    def says(name):
        return ScriptedPolicy(lambda conversation, seed: f"{name}{len(conversation)}")

    env = SingleAgentEnv(relay, "c", {"a": says("a"), "b": says("b")})
    first, info = env.reset(seed=3, options={"task": "two"})
    assert first.startswith("two ")
    assert first.endswith("\n\nturn 0: a1")
    assert info["can_act"]
    assert info["task_id"] == "two"
    second, reward, terminated, truncated, info = env.step("word")
    assert second == "turn 1: word\n\nturn 2: b1\n\nturn 3: a3"
    assert (terminated, truncated) == (False, False)
    rewards = [(2 / 7 + 0.3), (4 / 7 + 0.3 / 2), (2 / 7 + 0.3 / 4), (2 / 7 + 0.3 / 8)]
    assert reward == pytest.approx(sum(rewards), abs=1e-9)
    assert info["reward_components"] == pytest.approx({"length": 10 / 7, "turn": 0.3 * (1 + 1 / 2 + 1 / 4 + 1 / 8)})
    assert info["rewards"]["b"] == pytest.approx(10 / 7 + 0.2 * (1 + 1 / 2 + 1 / 4 + 1 / 8))
    *_, terminated, truncated, _ = env.step("end")
    assert (terminated, truncated) == (False, True)
    with pytest.raises(ResetNeeded, match="call reset first"):
        env.step("late")


def test_long_observations_keep_their_end_and_fresh_ones_the_last(relay):
    partners = {a: EchoPolicy() for a in "ab"}
    short = SingleAgentEnv(relay, "c", partners, max_length=20)
    short.reset(seed=3)
    observation, *_ = short.step("w" * 20)
    assert len(observation) == 20
    fresh = SingleAgentEnv(relay, "c", partners, conversation="fresh")
    assert fresh.reset(seed=3)[0].startswith("turn 0: ")


def test_an_agent_that_leaves_is_done_while_others_go_on(relay):
    env = SingleAgentEnv(relay, "b", {a: EchoPolicy() for a in "ac"})
    env.reset(seed=0)
    *_, terminated, truncated, info = env.step("bye")
    assert (terminated, truncated) == (True, False)
    assert len(env.turns) == 4
    assert info["metrics"]["illegal"] == 0


def test_the_same_seed_and_actions_give_the_same_episode():
    def play(env, seed):
        finish(env, Babbler("echo-v0", 5), seed)
        return [(dict(turn.observations), {a: c.text for a, c in turn.completions.items()}) for turn in env.turns]

    def make():
        return gymnasium.make("palaver/echo-a1-v0", partners="random").unwrapped

    env = make()
    assert play(env, 7) == play(env, 7) == play(make(), 7) != play(env, 8)
    first, second = play(env, None), play(env, None)
    assert first != second


def test_keywords_of_the_environment_and_of_the_reward():
    reward = Length()
    env = SingleAgentEnv("echo-v0", "a3", "scripted:lazy", agents=3, reward=reward)
    total, info = finish(env, lambda _: "x" * 50)
    assert total > 0
    assert reward.calls
    assert info["reward_components"].keys() == {"judge"}
    made = gymnasium.make("palaver/echo-a1-v0", agent="a3", agents=3, partners="a1=random,a2=echo", render_mode="ansi")
    made.reset(seed=1)
    assert "echo_v0" in made.render()


def test_an_action_that_could_not_be_scored_cuts_the_episode():
    env = SingleAgentEnv("arxiv-v0", "method", "echo", reward=Length(ratio=1.0))
    env.reset(seed=0)
    *_, terminated, truncated, info = env.step("fail")
    assert (terminated, truncated, info["unscored"]) == (False, True, True)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"agent": "metod"}, ConfigError, "there is no agent 'metod' in arxiv-v0. Did you mean 'method'"),
        ({"partners": "scripted:refrence"}, PolicyError, "there is no scripted policy 'refrence'. Did you mean"),
        ({"partners": "metod=random"}, PolicyError, "there is no agent 'metod'"),
        ({"partners": "background=random,method=random"}, ConfigError, "name partners for method only"),
        ({"partners": {"background": EchoPolicy()}}, ConfigError, "partners has no policy for 'method'"),
        ({"partners": ""}, PolicyError, "policy name '' is empty"),
        ({"lenght": [1, 2]}, ConfigError, "arxiv-v0 has no keyword 'lenght'. Did you mean 'length'"),
        ({"tasks": "no such file.jsonl"}, TaskError, "no such file"),
    ],
)
def test_mistakes_are_refused_in_one_line(keywords, error, message):
    with pytest.raises(error) as caught:
        gymnasium.make("palaver/arxiv-background-v0", **keywords)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_players_of_the_arena_are_refused():
    with pytest.raises(ConfigError, match="plays in the arena alone"):
        SingleAgentEnv("matrix-v1", "a1", "first")


def test_a_task_that_does_not_exist_is_refused():
    with pytest.raises(TaskError, match="there is no task 'x'"):
        gymnasium.make("palaver/arxiv-background-v0").reset(options={"task": "x"})


def test_vector_environments():
    def make():
        return gymnasium.make("palaver:palaver/echo-a1-v0", partners="scripted:lazy")

    expected = SyncVectorEnv([make, make])
    other = AsyncVectorEnv([make, make], shared_memory=False)
    try:
        assert expected.reset(seed=[1, 2])[0] == other.reset(seed=[1, 2])[0]
        for actions in (("a b", "c"), ("", "d"), ("e", "f"), ("g", "h")):
            one, two = expected.step(actions), other.step(actions)
            assert one[0] == two[0]
            assert one[1].tolist() == two[1].tolist()
            assert one[4].keys() == two[4].keys()
    finally:
        other.close()


def test_shared_memory_is_refused():
    with pytest.raises(ValueError, match="shared_memory=False"):
        AsyncVectorEnv([lambda: gymnasium.make("palaver:palaver/echo-a1-v0")])


def test_ids_of_agents():
    assert agent_ids(Spec("toy-v12", "x:y", agents=("one", "two words", "p_1"))) == {
        "one": "palaver/toy-one-v12",
        "p_1": "palaver/toy-p_1-v12",
    }
    assert agent_ids(Spec("toy", "x:y", agents=("one",))) == {}
