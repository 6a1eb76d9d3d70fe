"""TRL's own `GRPOTrainer` runs with the rollout and with the tool environment."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from palaver.benchmarks.doors.trl.tool_environment import ToolEnvironment, task_dataset
from tests.benchmarks.doors.conftest import native_returns

trl = pytest.importorskip("trl")
torch = pytest.importorskip("torch")
rollout = pytest.importorskip("palaver.benchmarks.doors.trl.rollout")


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


def config(folder, **settings):
    base = {
        "output_dir": str(folder), "max_steps": 2, "num_generations": 4, "per_device_train_batch_size": 8,
        "max_completion_length": 24, "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
        "report_to": [], "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True, "learning_rate": 1e-3,
    }  # fmt: skip
    return trl.GRPOConfig(**(base | settings))


def test_grpo_trainer_trains_on_whole_episodes(tmp_path):
    model, tokenizer = rollout.load_model("tiny", "arxiv-v0")
    play = rollout.EpisodeRollout("echo-v0", "a1", "scripted:lazy", num_turns=2, seed=1)
    rewards = []

    def reward(completions, episode_reward, **_):
        assert episode_reward == [sum(turn.rewards["a1"] for turn in episode.turns) for episode in play.episodes]
        rewards.append(sum(episode_reward) / len(episode_reward))
        return [float(len(text) % 7) for text in completions]  # one that varies

    before = [parameter.detach().clone() for parameter in model.parameters()]
    trainer = trl.GRPOTrainer(
        model, [reward, rollout.episode_reward], args=config(tmp_path), train_dataset=play.dataset(),
        processing_class=tokenizer, rollout_func=play,
    )  # fmt: skip
    trainer.train()
    logged = [line["rewards/episode_reward/mean"] for line in trainer.state.log_history if "reward" in line]
    assert logged == pytest.approx(rewards, abs=1e-6)
    assert len(rewards) == 2
    assert any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert len(play.evaluate(trainer, [task.id for task in play.env.tasks][:3], samples=2)) == 6


class Scripted(trl.GRPOTrainer):
    """A trainer whose model writes given texts, one a turn, in place of its own."""

    script = (
        '<tool_call>\n{"name": "say", "arguments": {"text": "one word"}}\n</tool_call>',
        '<tool_call>\n{"name": "say", "arguments": {"words": 1}}\n</tool_call>',
        '<tool_call>\n{"name": "say", "arguments": {"text": "two"}}\n</tool_call>',
        '<tool_call>\n{"name": "say", "arguments": {"text": "three"}}\n</tool_call>',
        '<tool_call>\n{"name": "say", "arguments": {"text": "too late"}}\n</tool_call>',
        "Done.",
    )

    def _generate_single_turn(self, prompt_ids, *_, **__):
        tokenizer = self.processing_class
        texts = [self.script[tokenizer.decode(ids).count("<tool_response>")] for ids in prompt_ids]
        return [tokenizer.encode(f"{text}<|im_end|>", add_special_tokens=False) for text in texts], None


def test_a_scripted_model_plays_whole_episodes_by_the_tool(tmp_path):
    model, tokenizer = rollout.load_model("tiny", "arxiv-v0")
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    model.config.max_position_embeddings = 16_384
    made = []

    class Kept(ToolEnvironment):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            made.append(self)

    factory = partial(Kept, "echo-v0", "a1", "scripted:reference", num_turns=3)
    data = task_dataset("echo-v0", seed=4)
    trainer = Scripted(
        model, args=config(tmp_path, max_steps=1, max_completion_length=4096), train_dataset=data,
        processing_class=tokenizer, environment_factory=factory,
    )  # fmt: skip
    trainer.train()
    (line,) = (line for line in trainer.state.log_history if "reward" in line)
    assert line["tools/call_frequency"] == 5
    assert line["tools/failure_frequency"] == pytest.approx(2 / 5)  # the wrong argument, and the one after the end
    seeds = {row["task"]: row["seed"] for row in data}
    returns = []
    for env in made:
        turns = env._env.turns
        assert [turn.completions["a1"].text for turn in turns] == ["one word", "two", "three"]
        task = env._env._branch.task
        returns.append(native_returns("echo-v0", seeds[task], turns, task)["a1"])
    assert line["reward"] == pytest.approx(sum(returns) / len(returns), abs=1e-6)
