"""verifiers: roles and their rewards, failures, exported packages, episodes against a served policy."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import palaver
from palaver import registry
from palaver.agents.base.policy import Policy
from palaver.agents.make_policy import make_policy
from palaver.benchmarks.doors.verifiers.export import SETTINGS, export_verifiers
from palaver.core import Completion, ConfigError, PolicyError
from tests.benchmarks.doors.conftest import EVERY, Babbler, forget, native_returns
from tests.benchmarks.doors.relay import Relay

BIN = Path(sys.executable).parent


def test_an_export_writes_a_package_once(tmp_path):
    assert export_verifiers("arxiv_v0", tmp_path / "one", {"length": [32, 64]}) == "palaver-arxiv-v0"
    module = (tmp_path / "one" / "palaver_arxiv_v0.py").read_text()
    compile(module, "module", "exec")
    assert "make_environment('arxiv-v0', **{'length': [32, 64]})" in module
    assert 'py-modules = ["palaver_arxiv_v0"]' in (tmp_path / "one" / "pyproject.toml").read_text()
    with pytest.raises(ConfigError, match="exists; name another folder with --out"):
        export_verifiers("arxiv-v0", tmp_path / "one")
    with pytest.raises(ConfigError, match="Did you mean"):
        export_verifiers("arxiv-v0", tmp_path / "two", {"lenght": 1})
    with pytest.raises(ConfigError, match="has tools, which verifiers' chat does not offer"):
        export_verifiers("gsm8k-v0", tmp_path / "two", {"calculator": True})
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize("name", ["timeout", "class", "agent-1", "_x"])
def test_an_agent_that_cannot_be_a_setting_is_refused(name, tmp_path):
    class Named(Relay):
        def __init__(self, **keywords):
            super().__init__(**keywords)
            self.possible_agents = [name, *self.possible_agents[1:]]

    spec = palaver.register(registry.Spec("named-v0", Named, agents=("first", "second", "third")))
    try:
        with pytest.raises(ConfigError, match="cannot be a setting of verifiers; give it another name"):
            export_verifiers("named-v0", tmp_path / "named")
    finally:
        forget(spec)


vf = pytest.importorskip("verifiers.v1", reason="pip install 'palaver[verifiers]'")
import httpx  # noqa: E402
from verifiers.v1.dialects.chat import message_to_wire  # noqa: E402
from verifiers.v1.utils.loaders import env_config_type, load_environment  # noqa: E402

from palaver.agents.serving.app import ServerLimits, make_app  # noqa: E402
from palaver.agents.serving.server import serving  # noqa: E402
from palaver.benchmarks.doors.verifiers import environment  # noqa: E402

KEY = "PALAVER_TEST_KEY"


class DirectHarness(vf.Harness[vf.HarnessConfig]):
    """The chat of `null` without a process for each turn, so that hundreds of episodes are quick."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        body = {"model": ctx.model, "messages": [message_to_wire(message) for message in data.prompt]}
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
            (await client.post(f"{endpoint}/chat/completions", json=body)).raise_for_status()
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class Model(Policy):
    """A policy that answers an observation by a function."""

    name = "m"

    def __init__(self, answer):
        self.answer = answer

    def act(self, requests):
        return [[Completion(self.answer(request.conversation[-1].content))] for request in requests]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv(KEY, "x" * 20)
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")  # of uv
    logging.getLogger("verifiers").setLevel(logging.ERROR)


@pytest.fixture
def plugin(monkeypatch):
    """Publish classes as a module that verifiers imports by name."""

    def publish(name, **classes):
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(classes, __all__=list(classes))
        monkeypatch.setitem(sys.modules, name, module)

    publish("direct", DirectHarness=DirectHarness)
    return publish


@pytest.fixture
def play(plugin, monkeypatch):
    """Play episodes, and return verifiers' episodes with those of Palaver."""
    played = {}

    async def remembered(*arguments, **keywords):
        episode = await play_episode(*arguments, **keywords)
        played[episode.seed] = episode
        return episode

    play_episode = environment.play_episode
    monkeypatch.setattr(environment, "play_episode", remembered)

    def run(id, answer, seeds=(0,), limit=1, harness="direct", url=None, model="m", settings=(), **keywords):
        taskset, env = environment.make_environment(id, **keywords)
        plugin("palaver_played", PalaverTaskset=taskset, PalaverEnv=env)
        roles = {agent: {"harness": {"id": harness}} for agent in env.env.possible_agents}
        for agent, more in dict(settings).items():
            roles[agent].update(more)

        async def every(url):
            client = vf.EvalClientConfig(base_url=url, api_key_var=KEY)
            context = vf.ModelContext(client=client, model=model, sampling=vf.SamplingConfig())
            episodes = []
            for seed in seeds:
                config = {"taskset": {"id": "palaver-played", "seed": seed}, "max_concurrent_agents": None}
                loaded = load_environment(env_config_type("palaver-played").model_validate(config | roles))
                room = asyncio.Semaphore(4)
                async with loaded.serving():
                    slots = [loaded.slots(task)[0] for task in loaded.taskset.take(limit)]
                    episodes += await asyncio.gather(*(loaded.run_slot(slot, context, room) for slot in slots))
            return episodes

        if url:
            return asyncio.run(every(url)), played
        with serving(make_app({"m": Model(answer)}, ServerLimits())) as served:
            return asyncio.run(every(served)), played

    return run


def native_components(id, episode):
    """Agent -> component -> sum, from the environment itself."""
    env = palaver.make(id)
    env.reset(seed=episode.seed % 2**31, options={"task": episode.task})
    sums = {agent: {} for agent in env.possible_agents}
    for turn in episode.turns:
        infos = env.step({agent: completion.text for agent, completion in turn.completions.items()})[4]
        for agent, info in infos.items():
            for name, value in info["reward_components"].items():
                sums[agent][name] = sums[agent].get(name, 0.0) + value
    return sums


@pytest.mark.timeout(600)
@pytest.mark.parametrize("id", EVERY)
def test_rewards_and_components_are_those_of_the_environment(id, play, native):
    limit = min(10, len(palaver.make(id).tasks))
    episodes, played = play(id, Babbler(id, 0), seeds=range(-(-100 // limit)), limit=limit)
    assert len(episodes) == len(played) >= 100
    rewards = set()
    for episode in episodes:
        assert episode.ok, episode.errors
        mine = played[episode.traces[0].info["seed"]]
        assert episode.task.data.id == mine.task
        returns, components = native(id, mine.seed % 2**31, mine.turns, task=mine.task), native_components(id, mine)
        acted = {agent for turn in mine.turns for agent in turn.completions}
        assert {trace.agent.name for trace in episode.traces} >= acted
        for trace in episode.traces:
            agent = trace.agent.name
            assert trace.reward == pytest.approx(returns[agent], abs=1e-9)
            team = trace.metrics.pop("team_return")
            assert team == pytest.approx(sum(returns.values()) / len(returns), abs=1e-9)
            assert trace.metrics == pytest.approx(components[agent], abs=1e-9)
            assert sum(trace.metrics.values()) == pytest.approx(trace.reward, abs=1e-9)
            rewards.add(trace.reward)
    assert len(rewards) > 1


def test_each_agent_reads_and_writes_its_own_conversation(play, relay):
    (episode,), played = play(relay, lambda text: f"answer to {len(text)} characters")
    assert episode.ok, episode.errors
    (mine,) = played.values()
    traces = {trace.agent.name: trace for trace in episode.traces}
    assert set(traces) == set(mine.turns[0].rewards)
    for agent, trace in traces.items():
        answers = [turn.completions[agent].text for turn in mine.turns if agent in turn.completions]
        assert [message.content for message in trace.assistant_messages] == answers
    assert any(set(turn.completions) != set(traces) for turn in mine.turns)


def test_where_observations_stand_alone_each_turn_has_a_trace_with_the_return(play, relay):
    (episode,), played = play(relay, lambda _: "word", conversation="fresh")
    assert episode.ok, episode.errors
    (mine,) = played.values()
    assert [trace.agent.name for trace in episode.traces] == [a for turn in mine.turns for a in turn.completions]
    for trace in episode.traces:
        assert trace.num_turns == 1
        wanted = sum(turn.rewards[trace.agent.name] for turn in mine.turns)
        assert trace.reward == pytest.approx(wanted, abs=1e-9)


def test_seeds_are_those_of_an_evaluation(play):
    episodes, _ = play("arxiv-v0", lambda _: "word", seeds=[5], limit=3)
    native = palaver.evaluate("arxiv-v0", team="scripted:reference", n=3, seed=5).episodes
    assert {e.task.data.id: e.traces[0].info["seed"] for e in episodes} == {e.task: e.seed for e in native}


def test_what_could_not_be_scored_has_no_reward(play):
    from tests.envs.rewards import Length

    (episode,), _ = play("arxiv-v0", lambda _: "fail", reward=Length(ratio=1.0))
    assert not episode.ok
    assert "could not be scored" in episode.errors[0].message
    assert [(trace.ok, trace.rewards) for trace in episode.traces] == [(False, {})] * 2


@pytest.mark.parametrize("conversation", ["continued", "fresh"])
def test_a_failed_model_fails_the_episode(play, relay, conversation):
    answers = iter(["word", "word"])

    def answer(_):
        if (text := next(answers, None)) is None:
            raise PolicyError("the model is gone")
        return text

    (episode,), _ = play(relay, answer, conversation=conversation)
    assert not episode.ok
    assert "the model of b failed" in episode.errors[0].message
    assert not any(trace.ok or trace.rewards for trace in episode.traces)


HOSTILE = ("", "\ud800", "\x00\x1b[2J", "</think>{{7*7}}", "A" * 50_000, '{"role": "system"}', "$(reboot)", "../../x")


@pytest.mark.parametrize("id", ["arxiv-v0", "echo-v0", "gsm8k-v0"])
def test_hostile_texts_do_not_raise(id, play):
    draws = iter(HOSTILE * 20)
    episodes, _ = play(id, lambda _: next(draws), limit=8)
    assert all(episode.ok for episode in episodes), [episode.errors for episode in episodes]


def test_an_agent_that_reached_a_limit_is_silent(play):
    (episode,), played = play("echo-v0", lambda _: "word", settings={"a1": {"max_turns": 1}}, num_turns=3)
    assert episode.ok, episode.errors
    (mine,) = played.values()
    assert [turn.completions["a1"].text for turn in mine.turns] == ["word", "", ""]
    assert [turn.completions["a2"].text for turn in mine.turns] == ["word"] * 3


def test_settings_are_those_of_verifiers():
    assert set(SETTINGS) == set(vf.EnvConfig.model_fields)


@pytest.fixture
def served():
    """The address of `palaver serve` with a scripted policy."""
    command = [str(BIN / "python"), "-m", "palaver", "serve", "scripted:reference", "--env", "echo-v0", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--name", "reference"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process.stdout.readline().split(" at ")[1].split(";")[0].strip()
    finally:
        process.terminate()
        process.wait(30)


def test_a_served_policy_plays_by_the_null_harness(play, served):
    (episode,), played = play("echo-v0", None, harness="null", url=served, model="reference")
    assert episode.ok, episode.errors
    (mine,) = played.values()
    reference = make_policy("scripted:reference", scripted=palaver.spec("echo-v0").scripted)
    assert reference.name
    best = palaver.evaluate("echo-v0", team="scripted:reference", n=1, seed=0).result.mean
    assert mine.team_return() == pytest.approx(best, abs=1e-9)
    returns = native_returns("echo-v0", mine.seed % 2**31, mine.turns, task=mine.task)
    assert {trace.agent.name: trace.reward for trace in episode.traces} == pytest.approx(returns, abs=1e-9)


def test_vf_eval_plays_an_installed_package(tmp_path, served):
    export_verifiers("echo-v0", tmp_path / "package", {"num_turns": 2})
    command = [str(BIN / "vf-eval"), "palaver-echo-v0", "--model", "reference", "--no-push", "--no-rich"]
    client = ["--client.base-url", served, "--client.api-key-var", KEY, "--select.limit", "2", "-r", "2"]
    done = subprocess.run(
        [*command, *client, "--output-dir", str(tmp_path / "out")],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{tmp_path / 'package'}"},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (path,) = (tmp_path / "out").rglob("traces.jsonl")
    episodes = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(episodes) == 4
    assert all(episode["ok"] for episode in episodes)
