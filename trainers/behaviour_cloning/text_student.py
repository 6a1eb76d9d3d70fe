"""A causal language model that learns from battles as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.model.load import load_pretrained, save_pretrained
from palaver.agents.llm.scoring.logprobs import choice_scores, prompt_ids
from palaver.core import ConfigError
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.behaviour_cloning.mixture import Mixture
from palaver.trainers.behaviour_cloning.students import StudentOutputs
from palaver.trainers.trajectories.loader import plan
from palaver.trainers.trajectories.record import MISSING, Decision

TextDecision = tuple[Decision, float]  # with the result of its battle


class TextStudent:
    """A causal language model; the score of an action is the log-probability of its text.

    Args:
        model: of transformers.
        tokenizer: its own.
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        self.module, self.tokenizer, self.span, self.version = model, tokenizer, 1.0, 0
        self._render = Renderer(tokenizer)

    @classmethod
    def make(cls, config: BCConfig, start: Path | None, device: torch.device) -> TextStudent:
        """From a folder, or the model that the config names.

        Raises:
            PolicyError: it cannot be loaded.
        """
        return cls(*load_pretrained(str(start or config.model), device))

    def batches(self, mixture: Mixture, config: BCConfig, epoch: int, skip: int = 0) -> Iterator[list[TextDecision]]:
        """Decisions of as many trajectories as the budget allows.

        Those whose action is not known are left out.

        Raises:
            ConfigError: the battles were recorded without their texts.
        """
        lengths = [entry.decisions for entry in mixture.entries]
        for chosen in plan(lengths, config.decisions, config.seed, epoch, mixture.weights)[skip:]:
            battles = [mixture[n] for n in chosen]
            decisions = [(decision, battle.result) for battle in battles for decision in battle.decisions]
            if not all(decision.text for decision, _ in decisions):
                raise ConfigError(
                    "a language model learns from texts; record the battles with tournament.record_text=true"
                )
            yield decisions

    def score(self, batch: Sequence[TextDecision], config: BCConfig, step: int) -> StudentOutputs:  # noqa: ARG002 - nothing is drawn
        """Each decision for itself: B of them, S = 1, A the most legal actions that one has."""
        prompts = [prompt_ids(self._render, decision.text) for decision, _ in batch]
        legal = [decision.legal for decision, _ in batch]
        scores, mask = choice_scores(self.module, self.tokenizer, prompts, legal)
        played = [
            decision.legal.index(decision.executed)
            if decision.slot != MISSING and decision.executed in decision.legal
            else MISSING
            for decision, _ in batch
        ]
        device = scores.device
        reward = torch.tensor([decision.reward for decision, _ in batch], device=device)
        result = torch.tensor([result for _, result in batch], device=device)
        slot = torch.tensor(played, device=device)
        real = torch.ones(len(batch), 1, dtype=torch.bool, device=device)
        no_advice = torch.zeros_like(scores[:, None], dtype=torch.float32)
        return StudentOutputs(
            scores[:, None], None, mask[:, None], slot[:, None], reward[:, None], result, real, no_advice
        )

    def save(self, folder: Path) -> None:
        """In the ordinary format of transformers."""
        folder.mkdir(parents=True, exist_ok=True)
        save_pretrained(self.module, self.tokenizer, folder)

    def load(self, folder: Path) -> None:
        """Take the weights of such a folder.

        Raises:
            PolicyError: there is no model.
        """
        device = next(self.module.parameters()).device
        self.module.load_state_dict(load_pretrained(str(folder), device)[0].state_dict())
