"""Feature dropout: words of observations are replaced by `unknown` in training."""

from __future__ import annotations

import torch
from torch import Tensor

from palaver.core import ConfigError


def feature_dropout(words: Tensor, share: float, max_share: float, seed: int) -> Tensor:
    """Some words of some battles become `unknown` (id 0).

    As in Grigsby et al., Human-Level Competitive Pokémon via Scalable Offline RL with Transformers (2025): a battle is
    chosen with probability `share`, and each of its words hidden with one probability drawn from U(0, max_share).

    Args:
        words: (B, S, W) ids; stay as they are.
        share: of battles.
        max_share: of words.
        seed: decides all.

    Raises:
        ConfigError: a share outside 0 to 1.
    """
    if not 0 <= share <= 1 or not 0 <= max_share <= 1:
        raise ConfigError(f"shares of hidden words lie between 0 and 1, got {share} and {max_share}")
    draw = torch.Generator().manual_seed(seed)
    B = words.shape[0]
    chance = torch.rand(B, generator=draw) * max_share * (torch.rand(B, generator=draw) < share)
    hidden = torch.rand(words.shape, generator=draw) < chance[:, None, None]
    return words.masked_fill(hidden, 0)
