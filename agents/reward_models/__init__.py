"""Reward models: language models with one number for an output, `rm:NAME_OR_FOLDER`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from palaver.agents.llm.model.options import DEFAULT_OPTIONS, ModelOptions
from palaver.core import ConfigError, did_you_mean

KNOWN = ("device", "dtype", "chat")

if TYPE_CHECKING:
    from palaver.agents.reward_models.model import RewardModel


def load(source: str, options: Mapping[str, str] | ModelOptions = DEFAULT_OPTIONS) -> RewardModel:
    """The reward model in a folder or on the hub, ready to score.

    Args:
        source: a folder that `palaver experiment marlhf reward-model` wrote, or any sequence classifier with one output.
        options: device and number format, also as texts by name; `chat` where the folder does not say how it was
            trained to read.

    Raises:
        ConfigError: an option that there is not, or a value that it cannot have.
        PolicyError: it cannot be read, or is no reward model.
    """
    from palaver.agents.reward_models import files

    if not isinstance(options, ModelOptions):
        if unknown := sorted(set(options) - set(KNOWN)):
            raise ConfigError(f"a reward model has no option {unknown[0]!r}.{did_you_mean(unknown[0], KNOWN)}")
        options = ModelOptions(**options)  # type: ignore[arg-type]  # checks its own values
    return files.load(source, options)
