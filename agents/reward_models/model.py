"""A sequence classifier as a reward: R(observations, completions) = logits[:, 0]."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from transformers import AutoModelForSequenceClassification

from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.model.load import Kind, is_adapter, load_pretrained, pick_device, save_pretrained
from palaver.agents.llm.model.options import DEFAULT_OPTIONS, ModelOptions
from palaver.agents.llm.scoring.logprobs import token_batches
from palaver.agents.reward_models.reading import conversation
from palaver.core import ConfigError, PolicyError, did_you_mean, stable_seed
from palaver.scoring import Cost, Score, ScoringRequest
from palaver.text import one_line
from palaver.utils.run_folder import replace_text

PASS_TOKENS = {"cpu": 8192}  # padded tokens of one forward pass; elsewhere
ELSEWHERE = 65536

Ids = tuple[int, ...]


class RewardModel:
    """Scores joint actions; see `palaver.scoring.Reward`.

    Scores are logits: only their differences mean something.

    Args:
        model: of transformers, with one output, in evaluation mode.
        tokenizer: of the model.
        chat: `template` reads through the tokenizer's chat template, `plain` without; as in training.
        max_tokens: a longer text is not scored.
        name: in records and messages.
    """

    def __init__(self, model: Any, tokenizer: Any, chat: str, max_tokens: int, name: str) -> None:
        self.model = model
        self.tokenizer, self.name, self.max_tokens = tokenizer, name, max_tokens
        self._renderer = Renderer(tokenizer, chat)
        self.chat = "template" if self._renderer.uses_template else "plain"
        self.padding: int = self.model.config.get_text_config().pad_token_id

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return torch.device(next(self.model.parameters()).device)

    def read(self, case: ScoringRequest) -> Ids:
        """The tokens of a joint action.

        Raises:
            PolicyError: the chat template refuses it.
        """
        return tuple(self._renderer.ids_with_answer(conversation(case)))

    def score(self, cases: Sequence[ScoringRequest]) -> list[Score]:
        """One verdict a case, in order; equal texts are computed once.

        A text that is too long or that the template refuses, and a score that is no finite number, is a failure.
        """
        read: list[Ids | PolicyError] = []
        for case in cases:
            try:
                read.append(self.read(case))
            except PolicyError as error:
                read.append(error)
        known = self.scores([ids for ids in read if isinstance(ids, tuple) and len(ids) <= self.max_tokens])
        return [self._verdict(ids, known) for ids in read]

    def scores(self, texts: Sequence[Ids]) -> dict[Ids, float]:
        """Text -> score, in batches of like length; equal texts are computed once."""
        scores: dict[Ids, float] = {}
        with torch.inference_mode():
            # long texts first, so that the first batch is the largest
            ordered = sorted(set(texts), key=lambda text: (-len(text), text))
            for batch in token_batches(ordered, list(map(len, ordered)), PASS_TOKENS.get(self.device.type, ELSEWHERE)):
                width = max(map(len, batch))
                ids = torch.tensor([[*text, *[self.padding] * (width - len(text))] for text in batch])
                mask = torch.tensor([[1] * len(text) + [0] * (width - len(text)) for text in batch])
                out = self.model(input_ids=ids.to(self.device), attention_mask=mask.to(self.device))
                scores |= zip(batch, out.logits[:, 0].tolist(), strict=True)
        return scores

    def _verdict(self, ids: Ids | PolicyError, known: dict[Ids, float]) -> Score:
        if isinstance(ids, PolicyError):
            return Score(None, failure=f"unparseable: {ids}")
        if ids not in known:
            return Score(
                None, failure=f"unparseable: {len(ids)} tokens, but {self.name!r} reads at most {self.max_tokens}"
            )
        cost = Cost(prompt_tokens=len(ids), calls=1)
        if not math.isfinite(known[ids]):
            return Score(None, cost=cost, failure=f"unparseable: the score of {self.name!r} is {known[ids]}")
        return Score(known[ids], cost=cost)


KNOWN = ("device", "dtype", "chat")  # options of a name
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


def load(source: str, options: Mapping[str, str] | ModelOptions = DEFAULT_OPTIONS) -> RewardModel:
    """The reward model in a folder or on the hub, ready to score.

    Args:
        source: a folder that `palaver experiment marlhf` wrote, or any sequence classifier with one output.
        options: device and number format, also as texts by name; `chat` where the folder does not say how it was
            trained to read.

    Raises:
        ConfigError: an option that there is not, or a value that it cannot have.
        PolicyError: it cannot be read, or is no reward model.
    """
    if not isinstance(options, ModelOptions):
        if unknown := sorted(set(options) - set(KNOWN)):
            raise ConfigError(f"a reward model has no option {unknown[0]!r}.{did_you_mean(unknown[0], KNOWN)}")
        options = ModelOptions(**options)  # type: ignore[arg-type]  # checks its own values
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
