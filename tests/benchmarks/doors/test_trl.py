"""TRL: rows of whole episodes for `rollout_func`, the tool environment, exported scripts."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

import palaver
from palaver.agents.simple import EchoPolicy
from palaver.benchmarks.doors.trl.export import export_trl
from palaver.core import ConfigError, PolicyError, Sampling
from tests.benchmarks.doors.conftest import EVERY, Babbler

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl")
rollout = pytest.importorskip("palaver.benchmarks.doors.trl.rollout")
tools = pytest.importorskip("palaver.benchmarks.doors.trl.tool_environment")


@pytest.fixture(scope="module")
def loaded():
    return rollout.load_model("tiny", "arxiv-v0")


def trainer(loaded, **changes):
    """The attributes of a `GRPOTrainer` that a rollout reads."""
    model, tokenizer = loaded
    settings = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    return SimpleNamespace(
        model=model, processing_class=tokenizer, max_completion_length=12, state=SimpleNamespace(global_step=0),
        accelerator=SimpleNamespace(unwrap_model=lambda model: model, process_index=0),
        args=SimpleNamespace(**{**settings, "use_vllm": False, **changes}),
    )  # fmt: skip


@pytest.mark.parametrize(("id", "agent"), [("echo-v0", "a2"), ("pioneer-v0", "observer"), ("arxiv-v0", "method")])
def test_rows_are_episodes_and_rewards_those_of_the_environment(loaded, id, agent, native):
    play = rollout.EpisodeRollout(id, agent, seed=3)
    tasks = [task.id for task in play.env.tasks][:10]
    rows = play([task for task in tasks for _ in range(10)], trainer(loaded))
    assert {len(row) for row in rows.values()} == {100}
    for n, episode in enumerate(play.episodes):
        assert episode.task == tasks[n // 10]
        returns = native(id, episode.seed % 2**31, episode.turns, task=episode.task)
        assert rows["episode_reward"][n] == pytest.approx(returns[agent], abs=1e-9)
        lengths = {len(rows[name][n]) for name in ("completion_ids", "logprobs", "env_mask")}
        assert len(lengths) == 1
        assert rows["env_mask"][n][0] == rows["env_mask"][n][-1] == 1
    assert len({episode.seed for episode in play.episodes}) == 10  # equal within a task
    assert len({tuple(ids) for ids in rows["completion_ids"]}) > 50


def test_the_team_reward_is_the_mean_of_the_agents(loaded, relay, native):
    partners = {a: EchoPolicy() for a in "ac"}
    play = rollout.EpisodeRollout(relay, "b", partners, reward="team", max_tokens=4)
    (reward,) = play(["one"], trainer(loaded))["episode_reward"]
    returns = native(relay, play.episodes[0].seed % 2**31, play.episodes[0].turns, task="one")
    assert reward == pytest.approx(sum(returns.values()) / 3, abs=1e-9)


def test_tokens_of_all_turns_are_one_sequence_and_log_probs_are_the_models(loaded):
    """Scored in one forward pass, as TRL does, every sampled token has the log-probability it was drawn with."""
    model, tokenizer = loaded
    play = rollout.EpisodeRollout("echo-v0", "a1", "scripted:lazy", num_turns=3)
    rows = play([task.id for task in play.env.tasks][:4], trainer(loaded, temperature=0.7))
    for n, episode in enumerate(play.episodes):
        prompt, completion, mask = (rows[name][n] for name in ("prompt_ids", "completion_ids", "env_mask"))
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1].double() / 0.7
        own = logits.log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0]
        for token, sampled in enumerate(mask):
            expected = own[token].item() if sampled else 0.0
            assert rows["logprobs"][n][token] == pytest.approx(expected, abs=1e-4)
        text = tokenizer.decode(prompt + completion)
        assert text.count("<|im_start|>assistant\n") == len(episode.turns) == 3
        assert text.count("<|im_start|>user\n") == 3
        assert "<|im_end|><|im_end|>" not in text
        assert episode.turns[1].observations["a1"].splitlines()[0] in text


def test_a_rollout_repeats_with_its_seed_and_differs_between_calls(loaded):
    def ids(play, calls=1):
        for _ in range(calls):
            rows = play(["w0", "w0"] if play.env.tasks[0].id == "w0" else [play.env.tasks[0].id] * 2, trainer(loaded))
        return rows["completion_ids"]

    make = rollout.EpisodeRollout
    first = ids(make("echo-v0", "a1"))
    assert first[0] != first[1]
    assert first == ids(make("echo-v0", "a1")) != ids(make("echo-v0", "a1"), calls=2)
    assert first != ids(make("echo-v0", "a1", seed=1))


def test_an_agent_whose_context_is_full_is_silent(loaded, monkeypatch):
    play = rollout.EpisodeRollout("echo-v0", "a1", "scripted:lazy", num_turns=6)
    task = play.env.tasks[0].id
    whole = play([task], trainer(loaded))
    longest = len(whole["prompt_ids"][0]) + 60
    monkeypatch.setattr(loaded[0].config, "max_position_embeddings", longest)
    cut = rollout.EpisodeRollout("echo-v0", "a1", "scripted:lazy", num_turns=6)
    rows = cut([task], trainer(loaded))
    assert len(rows["prompt_ids"][0]) + len(rows["completion_ids"][0]) <= longest
    assert cut.episodes[0].turns[-1].completions["a1"].text == ""
    monkeypatch.setattr(loaded[0].config, "max_position_embeddings", 20)
    with pytest.raises(PolicyError, match="does not fit the context of 20 tokens"):
        rollout.EpisodeRollout("echo-v0", "a1")([task], trainer(loaded))


@pytest.mark.parametrize("changes", [{"use_vllm": True}, {"min_p": 0.1}, {"repetition_penalty": 2}])
def test_sampling_that_a_rollout_does_not_have_is_refused(loaded, changes):
    with pytest.raises(ConfigError, match=next(iter(changes))):
        rollout.EpisodeRollout("echo-v0", "a1")(["x"], trainer(loaded, **changes))


def test_mistakes_in_a_rollout():
    with pytest.raises(ConfigError, match="there is no agent 'a9'"):
        rollout.EpisodeRollout("echo-v0", "a9")
    with pytest.raises(ConfigError, match="reward must be agent or team, got 'mine'"):
        rollout.EpisodeRollout("echo-v0", "a1", reward="mine")


@pytest.mark.parametrize("id", EVERY)
def test_rewards_of_the_tool_environment_are_those_of_the_environment(id, native):
    agent = palaver.spec(id).agents[0]
    env = tools.ToolEnvironment(id, agent)
    for n, row in enumerate([*tools.task_dataset(id).select(range(1))] * 100):
        answer, draws = Babbler(id, n), random.Random(n)
        observation = env.reset(**{**row, "seed": n})
        while not env._over and draws.random() < 0.9:
            observation = env.say(answer(observation))
        reward = env.get_reward()  # plays turns that are left
        returns = native(id, n, env._env.turns, task=row["task"])
        assert reward == pytest.approx(returns[agent], abs=1e-9)
        with pytest.raises(ValueError, match="the episode is over"):
            env.say("more")


def test_export_writes_scripts_once(tmp_path):
    paths = export_trl("arxiv_v0", "background", tmp_path / "out", "random", {"length": [32, 64], "ending": "."})
    for path in paths:
        source = path.read_text()
        compile(source, str(path), "exec")
        assert "ENV = 'arxiv-v0'\nAGENT = 'background'\nPARTNERS = 'random'" in source
        assert "KEYWORDS = {'length': [32, 64], 'ending': '.'}" in source
    with pytest.raises(ConfigError, match="exists; name another folder"):
        export_trl("arxiv-v0", "background", tmp_path / "out")
    with pytest.raises(ConfigError, match="there is no agent 'x'"):
        export_trl("arxiv-v0", "x", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_sampling_follows_the_trainer(loaded):
    made = rollout._Player(trainer(loaded, temperature=0.5, top_p=0.9, top_k=7), None, "auto")
    assert made.sampling == Sampling(0.5, 0.9, 7, 12)
