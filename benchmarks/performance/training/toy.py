"""Models and environments of the benchmarks: random models, an in-memory tokenizer, rewards by text length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from palaver.benchmarks.performance.training.settings import AGENTS, END, PAD, ModelShape
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task

REPEAT = 2  # of the task's sentence; the peer's script has the same default


class LengthRatio(TextEnv):
    """Reward 1 if the second text is twice as long as the first, less the further the ratio is from 2."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "length_ratio_v0"}

    def __init__(self, n: int) -> None:
        tasks = [Task(f"{i:03d}", {"text": f"Task {i:03d}: " + "describe the garden. " * REPEAT}) for i in range(n)]
        super().__init__(list(AGENTS), tasks)

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        """The task and the agent's name; rendering ends it with a line break instead of the peer's colon."""
        return {agent: f"{task.data['text']}\n{agent.capitalize()}" for agent in self.agents}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """max(0, 1 - |r - 2| / 2) with r = (characters of the second + 1) / (characters of the first + 1)."""
        first, second = (len(actions[agent]) for agent in AGENTS)
        reward = max(0.0, 1 - abs((second + 1) / (first + 1) - 2) / 2)
        return StepResult({agent: {"ratio": reward} for agent in self.agents}, terminated=True)


class MeanLength(TextEnv):
    """Shared reward that is higher the nearer the mean text length is to a target, regardless of content.

    Args:
        agents: their names.
        n: tasks.
        target: the best mean number of characters.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "mean_length_v0"}

    def __init__(self, agents: Sequence[str], n: int, target: int) -> None:
        tasks = [Task(f"{i:03d}", {"text": f"Task {i:03d}: " + "describe the garden. " * REPEAT}) for i in range(n)]
        super().__init__(list(agents), tasks)
        self.target = target

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        """The task and the agent's name."""
        return {agent: f"{task.data['text']}\n{agent}" for agent in self.agents}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """1 / (1 + |m - target| / target) with m the mean number of characters."""
        mean = sum(map(len, actions.values())) / len(actions)
        reward = 1 / (1 + abs(mean - self.target) / self.target)
        return StepResult({agent: {"length": reward} for agent in self.agents}, terminated=True)


def tokenizer(vocab: int, backwards: bool = False) -> PreTrainedTokenizerFast:
    """Two control tokens, one per byte, and made-up words that no text encodes to, so that every sampled id decodes.

    Args:
        vocab: ids.
        backwards: give the bytes the same ids in the opposite order.
    """
    symbols = ["<|pad|>", "<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=backwards)]
    symbols += [f"w{index}" for index in range(len(symbols), vocab)]
    core = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(symbols)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token=symbols[PAD], eos_token=symbols[END])


def model(setting: ModelShape, device: str, seed: int) -> Any:
    """A Qwen3 of that shape, fp32."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(**setting.model(), attn_implementation="sdpa")).to(device).eval()
