"""Inspect: tasks with a model for each agent, scores, tools; stored episodes as a log."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import palaver
from palaver.core import ConfigError
from palaver.episodes import Episode
from tests.benchmarks.doors.conftest import QUICK, native_returns

inspect_ai = pytest.importorskip("inspect_ai", reason="pip install 'palaver[inspect]'")
from inspect_ai.log import read_eval_log  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402

from palaver.benchmarks.doors.inspect_ai import export, tasks, transcripts  # noqa: E402

RELAY = "tests.benchmarks.doors.relay:Relay"


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("INSPECT_DISPLAY", "none")


def mock(answer):
    """A model that answers a list of messages by a function, which returns a text or an output."""

    def outputs(messages, tools, *_):
        made = answer(messages, tools)
        output = made if isinstance(made, ModelOutput) else ModelOutput.from_content("mockllm/model", made)
        output.usage = ModelUsage(
            input_tokens=1, output_tokens=1, total_tokens=2
        )  # else tiktoken counts, by a download
        return output

    return get_model("mockllm/model", custom_outputs=outputs, memoize=False)


def babbler(seed):
    draws = random.Random(seed)
    return mock(lambda *_: " ".join(draws.choices(("however", "42", "one", "left", "é", ""), k=5)))


def play(task, tmp_path, **settings):
    (log,) = inspect_ai.eval(task, log_dir=str(tmp_path), **settings)
    assert log.status == "success", log.error
    return log


def record(episode):
    return json.dumps(episode.to_dict(), sort_keys=True)


def episode_of(sample):
    return Episode.from_dict(json.loads(sample.store["episode"]))


@pytest.mark.parametrize("id", QUICK)
def test_rewards_are_those_of_the_environment(id, tmp_path):
    name, agents = transcripts.task_name(id), palaver.spec(id).agents
    roles = {agent: babbler(f"{id}{n}") for n, agent in enumerate(agents)}
    epochs = -(-100 // min(10, len(palaver.make(id).tasks)))
    log = play(f"palaver/{name}", tmp_path, model_roles=roles, model="mockllm/model", limit=10, epochs=epochs)
    samples = read_eval_log(log.location).samples
    assert len(samples) >= 100
    for sample in samples:
        episode = episode_of(sample)
        assert episode.task == sample.id
        returns = native_returns(id, episode.seed % 2**31, episode.turns, task=episode.task)
        assert sample.scores["agent_returns"].value == pytest.approx(returns, abs=1e-9)
        assert sample.scores["team_return"].value == pytest.approx(sum(returns.values()) / len(returns), abs=1e-9)
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    wanted = sum(sample.scores["team_return"].value for sample in samples) / len(samples)
    assert means["team_return"] == pytest.approx(wanted, abs=1e-9)
    assert set(means) == {"team_return", *agents}


def test_seeds_are_those_of_an_evaluation_and_each_role_has_its_model(tmp_path):
    roles = {agent: mock(lambda *_, agent=agent: f"{agent} writes.") for agent in ("background", "method")}
    task = tasks.environment_task("arxiv-v0", seed=5, length=[32, 64])
    log = play(task, tmp_path, model_roles=roles, model="mockllm/model", limit=3)
    native = palaver.evaluate("arxiv-v0", team="scripted:reference", n=3, seed=5, length=[32, 64]).episodes
    played = {sample.id: episode_of(sample) for sample in log.samples}
    assert {task: e.seed for task, e in played.items()} == {e.task: e.seed for e in native}
    for sample in log.samples:
        turn = episode_of(sample).turns[0]
        assert {agent: c.text for agent, c in turn.completions.items()} == {a: f"{a} writes." for a in roles}
        assert [m.metadata["agent"] for m in sample.messages] == ["background"] * 2 + ["method"] * 2
        assert sample.messages[0].text == f"[background reads]\n\n{turn.observations['background']}"
    assert log.eval.viewer.trust_content is False


def test_what_could_not_be_scored_has_no_score(tmp_path):
    from tests.envs.rewards import Length

    task = tasks.environment_task("arxiv-v0", reward=Length(ratio=1.0))
    texts = iter(["fail"] + ["word"] * 100)
    model = mock(lambda *_: next(texts))
    log = play(task, tmp_path, model=model, limit=4, max_samples=1)
    scored = [sample.scores is not None and "team_return" in sample.scores for sample in log.samples]
    assert sorted(scored) == [False, True, True, True]
    (score,) = [score for score in log.results.scores if score.name == "team_return"]
    assert score.scored_samples == 3
    assert score.metrics["mean"].value == pytest.approx(0.08)  # a hundredth a character of two words


@pytest.mark.timeout(60)
def test_an_error_of_a_model_ends_the_other_samples(tmp_path):
    draws = random.Random(0)

    def answer(*_):
        if draws.random() < 0.05:
            raise ValueError("the model is gone")
        return "word"

    (log,) = inspect_ai.eval("palaver/echo", model=mock(answer), epochs=13, log_dir=str(tmp_path))
    assert log.status == "error"
    assert "the model is gone" in log.error.message


def test_texts_that_no_log_can_hold_are_kept_in_the_episode(tmp_path):
    result = palaver.evaluate("echo-v0", team=lambda *_: "half \ud800 a pair", n=2)
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(e.to_dict()) + "\n" for e in result.episodes))
    assert export.export_episodes(tmp_path / "e.jsonl", tmp_path / "e.eval") == 2
    for sample in read_eval_log(str(tmp_path / "e.eval")).samples:
        assert "half ? a pair" in sample.messages[-1].text
        assert episode_of(sample).turns[-1].completions["a1"].text == "half \ud800 a pair"


def test_tools_are_offered_and_called(tmp_path):
    def answer(messages, tools):
        assert [tool.name for tool in tools] == ["calculator"] or not tools
        if messages[-1].role == "tool":
            return f"\\boxed{{{messages[-1].text}}}"
        return ModelOutput.for_tool_call("mockllm/model", "calculator", {"expression": "6*7"})

    task = tasks.environment_task("gsm8k-v0", calculator=True)
    log = play(task, tmp_path, model=mock(answer), limit=1)
    (completion, *_) = episode_of(log.samples[0]).turns[0].completions.values()
    assert completion.text == "\\boxed{42}"
    assert [result.content for step in completion.steps for result in step.results] == ["42"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["palaver/arxiv", "-T", "lenght=[1,2]"], "arxiv-v0 has no keyword 'lenght'. Did you mean 'length'"),
        (["palaver/environment", "-T", "id=arxive-v0"], "there is no environment 'arxive-v0'"),
        (["palaver/echo", "-T", "tasks=no such file.jsonl"], "no such file"),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path):
    command = [str(Path(sys.executable).with_name("inspect")), "eval", *arguments, "--model", "mockllm/model"]
    plain = {**os.environ, "INSPECT_DISPLAY": "plain"}
    done = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=120)
    assert done.returncode
    written = " ".join((done.stdout + done.stderr).split())
    assert message in written
    assert "Traceback" not in written


def test_code_that_a_log_names_is_not_loaded(tmp_path):
    """`inspect eval-retry` takes arguments from the log: `module:attribute` is loaded from the command line alone."""
    from inspect_ai._util.error import PrerequisiteError

    with pytest.raises(PrerequisiteError, match="is code that a file names"):
        inspect_ai.eval(
            "palaver/environment", task_args={"id": "tests.benchmarks.doors.relay:Relay"}, model="none/none"
        )
    assert tasks.environment_task("tests.benchmarks.doors.relay:Relay").metadata["agents"] == ["a", "b", "c"]


def test_stored_episodes_are_read_back(tmp_path):
    result = palaver.evaluate("echo-v0", team="random", n=4, samples=2)
    path = tmp_path / "episodes.jsonl"
    path.write_text("".join(json.dumps(e.to_dict()) + "\n" for e in result.episodes), encoding="utf-8")
    assert export.export_episodes(path, tmp_path / "logs" / "echo.eval") == 8
    log = read_eval_log(str(tmp_path / "logs" / "echo.eval"))
    assert (log.status, log.eval.task, len(log.samples)) == ("success", "palaver/echo", 8)
    assert sorted(map(record, map(episode_of, log.samples))) == sorted(map(record, result.episodes))
    for sample in log.samples:
        episode = episode_of(sample)
        assert sample.id == episode.task
        assert sample.scores["team_return"].value == pytest.approx(episode.team_return(), abs=1e-9)
    assert sorted({sample.epoch for sample in log.samples}) == [1, 2]
    (mean,) = [s.metrics["mean"].value for s in log.results.scores if s.name == "team_return"]
    assert mean == pytest.approx(result.result.mean, abs=1e-9)
    assert log.eval.viewer.trust_content is False


def test_mistakes_in_an_export(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_text("")
    for name, message in {"x.txt": "end it with .eval", "x.eval": "has no episodes"}.items():
        with pytest.raises(ConfigError, match=message):
            export.export_episodes(path, tmp_path / name)
    path.write_text("{}\n")
    with pytest.raises(ConfigError, match="line 1: this is no episode"):
        export.export_episodes(path, tmp_path / "x.eval")
    lines = [palaver.evaluate(id, team="random", n=1).episodes[0].to_dict() for id in ("echo-v0", "arxiv-v0")]
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ConfigError, match="episodes of arxiv-v0, echo-v0: export one environment"):
        export.export_episodes(path, tmp_path / "x.eval")
    path.write_text(json.dumps(lines[0]))
    for _ in range(2):  # a log of that name is replaced
        assert export.export_episodes(path, tmp_path / "new" / "x.eval") == 1
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["x.eval"]
