"""Models and environments of the training benchmarks, which need no download.

Models have random weights, the tokenizer is made in memory, and rewards depend on the lengths of texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from palaver.benchmarks.performance.training.settings import AGENTS, END, PAD, ModelShape
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task

SENTENCES = 2  # of a task; the peer's script has the same default


class LengthRatio(TextEnv):
    """Two agents with a shared reward.

    It is highest if the second text is twice as long as the first.

    Args:
        n: number of tasks.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "length_ratio_v0"}

    def __init__(self, n: int) -> None:
        super().__init__(list(AGENTS), _tasks(n))

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        """The task's text and the agent's name; the peer's prompt also ends with a colon."""
        return {agent: f"{task.data['text']}\n{agent.capitalize()}" for agent in self.agents}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Reward max(0, 1 - |r - 2| / 2), with r = (second length + 1) / (first length + 1).

        Lengths are in characters.
        """
        first_length, second_length = (len(actions[agent]) for agent in AGENTS)
        ratio = (second_length + 1) / (first_length + 1)
        reward = max(0.0, 1 - abs(ratio - 2) / 2)
        return StepResult({agent: {"ratio": reward} for agent in self.agents}, terminated=True)


class MeanLength(TextEnv):
    """Any number of agents with a shared reward that is highest at a mean text length.

    Args:
        agents: names of the agents.
        n: number of tasks.
        target: mean number of characters with the highest reward.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "mean_length_v0"}

    def __init__(self, agents: Sequence[str], n: int, target: int) -> None:
        super().__init__(list(agents), _tasks(n))
        self.target = target

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        """The task's text and the agent's name."""
        return {agent: f"{task.data['text']}\n{agent}" for agent in self.agents}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Reward 1 / (1 + |m - target| / target), with m the mean number of characters."""
        mean_length = sum(map(len, actions.values())) / len(actions)
        reward = 1 / (1 + abs(mean_length - self.target) / self.target)
        return StepResult({agent: {"length": reward} for agent in self.agents}, terminated=True)


def _tasks(n: int) -> list[Task]:
    text = "describe the garden. " * SENTENCES
    return [Task(f"{i:03d}", {"text": f"Task {i:03d}: {text}"}) for i in range(n)]


def tokenizer(vocab: int, backwards: bool = False) -> PreTrainedTokenizerFast:
    """Make a tokenizer of bytes in which every id of the vocabulary decodes.

    Its ids are padding, the end of text, the bytes, and for the rest words that no text encodes to.

    Args:
        vocab: size of the vocabulary.
        backwards: assign the ids of the bytes in reverse order.
    """
    symbols = ["<|pad|>", "<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=backwards)]
    symbols += [f"w{index}" for index in range(len(symbols), vocab)]
    bpe = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(symbols)}, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token=symbols[PAD], eos_token=symbols[END])


def model(setting: ModelShape, device: str, seed: int) -> Any:
    """Make a Qwen3 with random fp32 weights in evaluation mode; seeds torch's global generator."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(**setting.model(), attn_implementation="sdpa")).to(device).eval()
