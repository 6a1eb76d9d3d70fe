"""A sequence classifier as a reward: R(observations, completions) = logits[:, 0]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.scoring.packing import token_batches
from palaver.agents.reward_models.reading import conversation
from palaver.core import PolicyError
from palaver.scoring import Cost, Score, ScoringRequest

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
        device: torch.device = next(self.model.parameters()).device
        return device

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
        read: list[Ids | None] = []
        refused: dict[int, str] = {}
        for index, case in enumerate(cases):
            try:
                read.append(self.read(case))
            except PolicyError as error:
                read.append(None)
                refused[index] = str(error)
        known = self.scores([ids for ids in read if ids is not None and len(ids) <= self.max_tokens])
        return [self._verdict(ids, known, refused.get(index, "")) for index, ids in enumerate(read)]

    def scores(self, texts: Sequence[Ids]) -> dict[Ids, float]:
        """Text -> score, in batches of like length; equal texts are computed once."""
        scores: dict[Ids, float] = {}
        with torch.inference_mode():
            for batch in self._batches(dict.fromkeys(texts)):
                width = max(map(len, batch))
                ids = torch.tensor([[*text, *[self.padding] * (width - len(text))] for text in batch])
                mask = torch.tensor([[1] * len(text) + [0] * (width - len(text)) for text in batch])
                out = self.model(input_ids=ids.to(self.device), attention_mask=mask.to(self.device))
                scores |= zip(batch, out.logits[:, 0].double().tolist(), strict=True)
        return scores

    def _verdict(self, ids: Ids | None, known: dict[Ids, float], refused: str) -> Score:
        if ids is None:
            return Score(None, failure=f"unparseable: {refused}")
        if ids not in known:
            return Score(
                None, failure=f"unparseable: {len(ids)} tokens, but {self.name!r} reads at most {self.max_tokens}"
            )
        cost = Cost(prompt_tokens=len(ids), calls=1)
        if not math.isfinite(known[ids]):
            return Score(None, cost=cost, failure=f"unparseable: the score of {self.name!r} is {known[ids]}")
        return Score(known[ids], cost=cost)

    def _batches(self, texts: dict[Ids, None]) -> Iterator[list[Ids]]:
        """Long texts first, so that the first batch is the largest."""
        ordered = sorted(texts, key=lambda text: (-len(text), text))
        return token_batches(ordered, len, PASS_TOKENS.get(self.device.type, ELSEWHERE))
