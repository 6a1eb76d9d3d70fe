"""Reward models: language models with one number for an output, `rm:NAME_OR_FOLDER`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaver.agents.llm.options import DEFAULT_OPTIONS, ModelOptions

if TYPE_CHECKING:
    from palaver.agents.reward_models.model import RewardModel


def load(source: str, options: ModelOptions = DEFAULT_OPTIONS) -> RewardModel:
    """The reward model in a folder or on the hub, ready to score.

    Args:
        source: a folder that `palaver train reward-model` wrote, or any sequence classifier with one output.
        options: device and number format; `chat` where the folder does not say how it was trained to read.

    Raises:
        PolicyError: it cannot be read, or is no reward model.
    """
    from palaver.agents.reward_models import files

    return files.load(source, options)
