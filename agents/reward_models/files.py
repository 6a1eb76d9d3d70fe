"""Reward models in folders, in the ordinary format of transformers.

A file records how the model was trained to read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from transformers import AutoModelForSequenceClassification

from palaver.agents.llm.model.load import Kind, is_adapter, load_pretrained, pick_device, save_pretrained
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.reward_models.model import RewardModel
from palaver.core import PolicyError, stable_seed
from palaver.text import one_line
from palaver.utils.run_folder import replace_text

READING = "palaver_reward.json"
CLASSIFIER = AutoModelForSequenceClassification
HEAD = "score.weight"
HINT = "a language model becomes a reward model by `palaver experiment marlhf reward-model`"
FALLBACK_TOKENS = 4096  # where neither the folder nor the model's config knows


class InputFormat(BaseModel):
    """Text format that a reward model was trained with.

    Attributes:
        chat: `template` for the tokenizer's chat template, `plain` for texts one below the other.
        max_tokens: the longest text it was trained on, or may read.
        labels: version of the labels over the agents' parts; another one is another text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    chat: Literal["template", "plain"]
    max_tokens: int = Field(ge=1)
    labels: Literal[1] = 1


def load(source: str, options: ModelOptions) -> RewardModel:
    """See `palaver.agents.reward_models.load`."""
    if is_adapter(source):
        raise PolicyError(
            f"{source!r} is an adapter; merge it into its base, or train with `palaver experiment marlhf reward-model`"
        )
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    model: Any
    try:
        model, tokenizer = load_pretrained(source, pick_device(options.device), dtype, Kind(CLASSIFIER))
    except PolicyError as error:
        raise PolicyError(f"{error}; {HINT}") if HEAD in str(error) else error from error
    if model.config.num_labels != 1:
        raise PolicyError(f"{source!r} has {model.config.num_labels} outputs and a reward model has one; {HINT}")
    reading = _reading(Path(source).expanduser() / READING)
    return wrap(model, tokenizer, reading.chat if reading else options.chat, reading, f"rm:{source}")


def wrap(model: Any, tokenizer: Any, chat: str, reading: InputFormat | None, name: str) -> RewardModel:
    """A reward model around a classifier that has one output, with its padding set.

    Raises:
        PolicyError: there is no token to pad with.
    """
    config = model.config.get_text_config()
    padding = next(
        (token for token in (tokenizer.pad_token_id, config.pad_token_id, tokenizer.eos_token_id) if token is not None),
        None,
    )
    if padding is None:
        raise PolicyError(f"{name!r} has neither a padding nor an end token, so that texts cannot be scored together")
    config.pad_token_id = model.config.pad_token_id = padding  # the classifier reads its output before the padding
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(padding)
    config.use_cache = False
    context = getattr(config, "max_position_embeddings", None) or FALLBACK_TOKENS
    return RewardModel(model, tokenizer, chat, reading.max_tokens if reading else context, name)


def fresh(source: str, device: str, chat: str, max_tokens: int, seed: int) -> RewardModel:
    """The trunk of a language model under a head drawn from `seed`.

    A reward model keeps its own head.

    Args:
        source: a folder or a name on the hub.
        device: as torch names it.
        chat: how it shall read; `auto` takes the template where there is one.
        max_tokens: the longest text it shall read; the model's context, if that is shorter.
        seed: of the head.

    Raises:
        PolicyError: the model cannot be read, or its family has no sequence classifier.
    """
    kind = Kind(CLASSIFIER, fresh=(HEAD,), settings={"num_labels": 1})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stable_seed("reward head", seed))
        model, tokenizer = load_pretrained(source, pick_device(device), torch.float32, kind)
    reward_model = wrap(model, tokenizer, chat, None, f"rm:{source}")
    reward_model.max_tokens = min(reward_model.max_tokens, max_tokens)
    return reward_model


def save(model: RewardModel, folder: Path) -> None:
    """Write model, tokenizer and how it reads; `load` gives the same scores."""
    save_pretrained(model.model, model.tokenizer, folder)
    reading = InputFormat(chat="template" if model.chat == "template" else "plain", max_tokens=model.max_tokens)
    replace_text(folder / READING, reading.model_dump_json(indent=1) + "\n")


def _reading(path: Path) -> InputFormat | None:
    if not path.is_file():
        return None
    try:
        return InputFormat.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise PolicyError(f"{str(path)!r} does not say how the reward model reads: {one_line(error)}") from error
