"""OpenEnv: servers of all agents and of one, their rewards, exported packages, OpenEnv's own validation."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import palaver
from palaver.benchmarks.doors.openenv.export import export_openenv
from palaver.core import ConfigError, PolicyError, TaskError
from tests.benchmarks.doors.conftest import QUICK, Babbler, native_returns

BIN = Path(sys.executable).parent


def test_an_export_writes_a_package_once(tmp_path):
    paths = export_openenv("arxiv_v0", tmp_path / "one", "background", "random", {"length": [32, 64]})
    for path in paths:
        if path.suffix == ".py":
            compile(path.read_text(), str(path), "exec")
    app = (tmp_path / "one" / "server" / "app.py").read_text()
    assert "make_app('arxiv-v0', agent='background', partners='random', **{'length': [32, 64]})" in app
    with pytest.raises(ConfigError, match="exists; name another folder with --out"):
        export_openenv("arxiv-v0", tmp_path / "one")
    for keywords, error in (({"agent": "x"}, ConfigError), ({"keywords": {"lenght": 1}}, ConfigError)):
        with pytest.raises(error, match=r"Did you mean|there is no agent 'x'"):
            export_openenv("arxiv-v0", tmp_path / "other", **keywords)
    with pytest.raises(PolicyError, match="there is no scripted policy"):
        export_openenv("arxiv-v0", tmp_path / "other", "background", "scripted:refrence")
    assert not (tmp_path / "other").exists()


openenv = pytest.importorskip("openenv", reason="pip install 'palaver[openenv]'")
from openenv.core.generic_client import GenericEnvClient  # noqa: E402

from palaver.benchmarks.doors.openenv import server  # noqa: E402
from palaver.benchmarks.doors.single_agent import SingleAgentEnv  # noqa: E402


@pytest.mark.parametrize("id", QUICK)
def test_joint_rewards_are_those_of_the_environment(id):
    played = server.TeamServer(palaver.make(id))
    distinct = set()
    for seed in range(100):
        answer = Babbler(id, seed)
        seen = played.reset(seed=seed)
        returns, total = dict.fromkeys(palaver.spec(id).agents, 0.0), 0.0
        while not seen.done:
            messages = {agent: answer(seen.observations.get(agent, "")) for agent in seen.can_act}
            seen = type(seen).model_validate_json(played.step(server.TeamAction(messages=messages)).model_dump_json())
            total += seen.reward
            for agent, reward in seen.rewards.items():
                returns[agent] += reward
                assert sum(seen.components[agent].values()) == pytest.approx(reward, abs=1e-9)
        native = native_returns(id, seed, played._branch.turns)
        assert returns == pytest.approx(native, abs=1e-9)
        assert total == pytest.approx(sum(native.values()) / len(native), abs=1e-9)
        distinct.add(total)
    assert len(distinct) > 1


@pytest.mark.parametrize("id", QUICK)
def test_an_agents_rewards_are_those_of_the_environment(id):
    agent = palaver.spec(id).agents[0]
    played = server.AgentServer(lambda: SingleAgentEnv(id, agent))
    for seed in range(100):
        answer = Babbler(id, seed)
        seen, total = played.reset(seed=seed), 0.0
        while not seen.done:
            seen = played.step(server.AgentAction(message=answer(seen.observation)))
            total += seen.reward
        assert total == pytest.approx(native_returns(id, seed, played._view.turns)[agent], abs=1e-9)


def test_what_could_not_be_scored_has_no_reward():
    from tests.envs.rewards import Length

    joint = server.TeamServer(palaver.make("arxiv-v0", reward=Length(ratio=1.0)))
    joint.reset(seed=0)
    seen = joint.step(server.TeamAction(messages={"background": "fail"}))
    assert (seen.done, seen.reward, seen.rewards) == (True, None, {})
    one = server.AgentServer(lambda: SingleAgentEnv("arxiv-v0", "method", "echo", reward=Length(ratio=1.0)))
    one.reset(seed=0)
    seen = one.step(server.AgentAction(message="fail"))
    assert (seen.done, seen.reward, seen.metadata["unscored"]) == (True, None, True)


def test_mistakes_are_one_line():
    joint = server.TeamServer(palaver.make("echo-v0"))
    with pytest.raises(TaskError, match="call reset first"):
        joint.step(server.TeamAction())
    joint.reset(task=3, episode_id="mine")
    assert (joint.state.episode_id, joint.state.step_count) == ("mine", 0)
    with pytest.raises(TaskError, match="there is no agent 'a9'; name a1, a2"):
        joint.step(server.TeamAction(messages={"a9": "x"}))
    with pytest.raises(TaskError, match="there is no task"):
        joint.reset(task="nothing")
    with pytest.raises(ConfigError, match="there is no agent 'a9'"):
        server.make_app("echo-v0", agent="a9")


@contextlib.contextmanager
def serving(folder):
    """The address of an exported package's server."""
    command = [str(BIN / "python"), "-m", "uvicorn", "server.app:app", "--host", "127.0.0.1", "--port", "0"]
    log = folder / "log.txt"
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 120
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.1)
            yield found[0]
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.parametrize("agent", ["", "background"])
def test_openenv_validates_a_package_and_its_server(tmp_path, agent):
    folder = tmp_path / "package"
    export_openenv("arxiv-v0", folder, agent, keywords={"length": [32, 64]})
    static = ["validate", str(folder), "--level", "static", "--skip-build"]
    with serving(folder) as url:
        for arguments in (static, ["validate", "--url", url]):
            done = subprocess.run([str(BIN / "openenv"), *arguments], capture_output=True, text=True, timeout=120)
            assert "Verdict: PASS" in done.stdout, done.stdout + done.stderr
        with GenericEnvClient(base_url=url).sync() as client:
            seen = client.reset(seed=1, task=0)
            action = {"message": "However, it is so."} if agent else {"messages": {"background": "x", "method": "y"}}
            result = client.step(action)
    env = palaver.make("arxiv-v0", length=[32, 64])
    observations, _ = env.reset(seed=1, options={"task": 0})
    if agent:
        assert seen.observation["observation"] == observations["background"]
        assert result.reward is not None
    else:
        assert seen.observation["observations"] == observations
        _, rewards, *_ = env.step({"background": "x", "method": "y"})
        assert result.reward == pytest.approx(sum(rewards.values()) / 2, abs=1e-9)
        assert result.done
