"""A battle net that plays: many battles at once, each with its own recall."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from palaver.agents.battle_net import files
from palaver.agents.battle_net.net import Recall
from palaver.agents.battle_net.shape import SLOTS, WORDS
from palaver.core import PolicyError


@dataclass
class GameState:
    """One side of one battle: what the net recalls of it, and who throws its dice."""

    recall: Recall
    draw: random.Random


@dataclass(frozen=True)
class TurnFeatures:
    """Input of a side: 135 words, K numbers, 14 legal slots of which at least one is true."""

    game: GameState
    words: Sequence[str]
    numbers: Sequence[float] | np.ndarray
    mask: Sequence[bool]


@dataclass
class NetPlayer:
    """Chooses slots.

    Attributes:
        plan: of the net.
        net: on its device.
        temperature: divides the scores; 0 takes the best.
    """

    plan: files.NetConfig
    net: torch.nn.Module = field(repr=False)
    temperature: float = 0.0

    @classmethod
    def load(cls, folder: Path | str, temperature: float = 0.0, device: torch.device | None = None) -> NetPlayer:
        """From a folder.

        Raises:
            CheckpointError: there is no sound net.
        """
        plan, net = files.load(folder)
        return cls(plan, net.to(device or torch.device("cpu")), temperature)

    def begin(self, seed: int) -> GameState:
        """A side of a new battle."""
        return GameState(Recall(self.plan.size), random.Random(seed))

    @torch.inference_mode()
    def decide(self, turns: Sequence[TurnFeatures]) -> list[int]:
        """A legal slot for each turn, which is taken up into its game's recall.

        The draw of a game depends on its own seed alone, the scores up to rounding.

        Raises:
            PolicyError: words or numbers of another version of the observation, or no legal slot.
        """
        count = self.plan.layout.count
        for turn in turns:
            if (len(turn.words), len(turn.numbers), len(turn.mask)) != (WORDS, count, SLOTS) or not any(turn.mask):
                raise PolicyError(
                    f"this net reads {WORDS} words, {count} numbers and {SLOTS} slots with a legal one, got "
                    f"{len(turn.words)}, {len(turn.numbers)}, {len(turn.mask)}; it was trained on another version"
                )
        device = next(self.net.parameters()).device
        words = torch.tensor([self.plan.vocabulary.ids(turn.words) for turn in turns], device=device)
        numbers = torch.from_numpy(np.array([turn.numbers for turn in turns], np.float32)).to(device)
        scores, _ = self.net.follow(words, numbers, [turn.game.recall for turn in turns])  # type: ignore[operator]
        legal = [np.flatnonzero(turn.mask) for turn in turns]
        rows = scores.float().cpu().numpy().astype(np.float64)
        return [
            int(slots[self._pick(row[slots], turn.game.draw)])
            for row, slots, turn in zip(rows, legal, turns, strict=True)
        ]

    def _pick(self, scores: np.ndarray, draw: random.Random) -> int:
        if not self.temperature:
            return int(scores.argmax())
        chances = np.exp((scores - scores.max()) / self.temperature)
        return int(
            np.searchsorted(chances.cumsum(), draw.random() * chances.sum(), side="right").clip(0, len(scores) - 1)
        )
