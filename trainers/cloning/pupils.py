"""Who learns from battles: a battle net, or a causal language model that reads them as text.

A pupil makes batches of a mixture and scores the legal actions of each decision. The loop and the losses are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from palaver.agents.battle_net import files
from palaver.agents.battle_net.net import BattleNet, order
from palaver.agents.battle_net.shape import size
from palaver.agents.llm.choice import choice_scores, prompt_ids
from palaver.agents.llm.load import load_pretrained, save_pretrained
from palaver.agents.llm.render import Renderer
from palaver.core import ConfigError, stable_seed
from palaver.trainers.battles.loader import Batch, batches, plan
from palaver.trainers.battles.record import MISSING, Decision
from palaver.trainers.cloning.config import Cloning
from palaver.trainers.cloning.hide import hide
from palaver.trainers.cloning.mixture import Mixture
from palaver.trainers.cloning.world import layout, vocabulary


@dataclass(frozen=True)
class Scored:
    """What a pupil makes of B battles of S decisions with A slots.

    Attributes:
        scores: (B, S, A), with gradients.
        values: (B, S, Q), with gradients; None of a pupil without a value head.
        mask, slot, reward, result, real: as of `palaver.trainers.battles.loader.Batch`.
    """

    scores: Tensor
    values: Tensor | None
    mask: Tensor
    slot: Tensor
    reward: Tensor
    result: Tensor
    real: Tensor


class Pupil(Protocol):
    """What the loop needs; `version` counts updates."""

    version: int

    @property
    def module(self) -> nn.Module:
        """What holds the weights."""
        ...

    def batches(self, mixture: Mixture, config: Cloning, epoch: int, skip: int = 0) -> Iterator[Any]:
        """Of one epoch, the first `skip` left out."""
        ...

    def score(self, batch: Any, config: Cloning, step: int) -> Scored:
        """Of one of its batches; what is drawn depends on seed and step alone. Step 0 only looks: nothing is hidden."""
        ...

    def save(self, folder: Path) -> None:
        """Write what `net:FOLDER` or `text:FOLDER` loads."""
        ...


class NetPupil:
    """A battle net.

    Args:
        plan: of it.
        net: on its device.
    """

    def __init__(self, plan: files.Plan, net: BattleNet) -> None:
        self.plan, self.module, self.version = plan, net, 0

    @classmethod
    def make(cls, config: Cloning, format: str, start: Path | None, device: torch.device) -> NetPupil:
        """From a folder, or new with weights that the seed decides.

        Raises:
            CheckpointError: no sound net in the folder.
            ConfigError: it is of another size or its value means something else.
        """
        bins = config.bins if config.value == "return" else 1
        if start is None:
            made = files.Plan(format, size(config.size), layout(), vocabulary(format), config.value, bins)
            return cls(made, files.fresh(made, stable_seed(config.seed, "battle net")).to(device))
        plan, net = files.load(start)
        if plan.size != size(config.size) or (plan.reply, plan.bins) != (config.value, bins):
            raise ConfigError(
                f"the net in {str(start)!r} is another one than size={config.size}, value={config.value}, bins={bins}; "
                "begin with one of these, or give its own settings"
            )
        return cls(plan, net.to(device))

    def batches(self, mixture: Mixture, config: Cloning, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """Padded trajectories."""
        ids, weights = self.plan.vocabulary.ids, mixture.weights
        return batches(mixture, ids, config.decisions, config.seed, epoch, weights, skip)

    def score(self, batch: Batch, config: Cloning, step: int) -> Scored:
        """Whole battles, each decision from all before it."""
        device = next(self.module.parameters()).device
        words, places = batch.words, None
        if config.hide and step:
            places = order(words).to(device)
            words = hide(words, config.hide, config.hide_most, stable_seed(config.seed, "hide", step))
        parts = {name: getattr(batch, name).to(device) for name in ("mask", "slot", "reward", "result", "real")}
        scores, values = self.module(words.to(device), batch.numbers.to(device), places)
        return Scored(scores, values, **parts)

    def save(self, folder: Path) -> None:
        """`net.json` and `net.safetensors`."""
        files.save(folder, self.plan, self.module)


@dataclass(frozen=True)
class Question:
    """A decision as text."""

    decision: Decision
    result: float


class TextPupil:
    """A causal language model. The text of an action is scored by the sum of its tokens' log-probabilities.

    Args:
        model: of transformers.
        tokenizer: its own.
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        self.module, self.tokenizer, self.version = model, tokenizer, 0
        self._render = Renderer(tokenizer)

    @classmethod
    def make(cls, config: Cloning, start: Path | None, device: torch.device) -> TextPupil:
        """From a folder, or the model that the config names.

        Raises:
            PolicyError: it cannot be loaded.
        """
        return cls(*load_pretrained(str(start or config.model), device))

    def batches(self, mixture: Mixture, config: Cloning, epoch: int, skip: int = 0) -> Iterator[list[Question]]:
        """Decisions of as many trajectories as the budget allows; those whose action is not known are left out.

        Raises:
            ConfigError: the battles were recorded without their texts.
        """
        lengths = [entry.decisions for entry in mixture.entries]
        for chosen in plan(lengths, config.decisions, config.seed, epoch, mixture.weights)[skip:]:
            found = [mixture[n] for n in chosen]
            asked = [Question(each, battle.result) for battle in found for each in battle.decisions]
            if not all(each.decision.text for each in asked):
                raise ConfigError("a language model learns from texts; record the battles with --record-text")
            yield asked

    def score(self, batch: Sequence[Question], config: Cloning, step: int) -> Scored:  # noqa: ARG002 - nothing is drawn
        """Each decision for itself: B of them, S = 1, A the most legal actions that one has."""
        prompts = [prompt_ids(self._render, each.decision.text) for each in batch]
        legal = [each.decision.legal for each in batch]
        scores, mask = choice_scores(self.module, self.tokenizer, prompts, legal)
        played = [_place(each.decision) for each in batch]
        device = scores.device
        reward = torch.tensor([each.decision.reward for each in batch], device=device)
        result = torch.tensor([each.result for each in batch], device=device)
        slot = torch.tensor(played, device=device)
        parts = (part[:, None] for part in (mask, slot, reward))
        return Scored(scores[:, None], None, *parts, result, torch.ones(len(batch), 1, dtype=torch.bool, device=device))

    def save(self, folder: Path) -> None:
        """In the ordinary format of transformers."""
        folder.mkdir(parents=True, exist_ok=True)
        save_pretrained(self.module, self.tokenizer, folder)


def _place(decision: Decision) -> int:
    known = decision.slot != MISSING and decision.executed in decision.legal
    return decision.legal.index(decision.executed) if known else MISSING
