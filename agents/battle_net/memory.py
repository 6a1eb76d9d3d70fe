"""Memory of turns: a causal transformer with a window.

It runs over whole battles at once, or over one more turn of many battles. Pre-norm blocks (Xiong et al., On Layer
Normalization in the Transformer Architecture, 2020) with RMS norms (Zhang and Sennrich, 2019), rotary positions (Su et
al., RoFormer, 2021) and a sliding window (Beltagy et al., Longformer, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palaver.agents.battle_net.shape import NetSize

BASE = 1000.0  # of the rotation's wavelengths: battles are some hundred turns long


class Recall:
    """Memory of one battle: keys and values of its last W turns in every layer.

    The oldest turn is overwritten.

    Attributes:
        held: (2, L, W, E), the place of a turn is its number modulo W.
        turns: that were remembered.
    """

    def __init__(self, size: NetSize) -> None:
        self.held = torch.zeros(2, size.layers, size.window, size.width)
        self.turns = 0


def rotate(vectors: Tensor, turns: Tensor) -> Tensor:
    """RoFormer's rotation (its section 3.2): pairs (x_i, x_{i + D/2}) turned by t BASE^(-2i/D).

    Args:
        vectors: (B, S, H, D).
        turns: (B or 1, S) t.
    """
    half = vectors.shape[-1] // 2
    rates = BASE ** (-torch.arange(half, device=vectors.device) / half)
    angle = (turns[..., None] * rates)[:, :, None]
    cos, sin = angle.cos(), angle.sin()
    one, two = vectors[..., :half], vectors[..., half:]
    return torch.cat((one * cos - two * sin, one * sin + two * cos), -1)


class AttentionBlock(nn.Module):
    """Attention over turns, then a layer of 4E units; both are added to what came in."""

    def __init__(self, size: NetSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.before_look, self.before_think = nn.RMSNorm(size.width), nn.RMSNorm(size.width)
        self.look = nn.Linear(size.width, 3 * size.width, bias=False)
        self.found = nn.Linear(size.width, size.width, bias=False)
        self.think = nn.Sequential(
            nn.Linear(size.width, 4 * size.width), nn.GELU(approximate="tanh"), nn.Linear(4 * size.width, size.width)
        )

    @torch.no_grad()
    def quieten(self, layers: int) -> None:
        """Begin small, that L blocks together add about as much as came in (GPT-2's 1 / sqrt(2 L))."""
        for last in (self.found, self.think[-1]):
            assert isinstance(last, nn.Linear)
            last.weight.div_((2 * layers) ** 0.5)

    def parts(self, x: Tensor, turns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, S, H, D), keys and values (B, S, E) of turns x (B, S, E)."""
        query, key, value = self.look(self.before_look(x)).chunk(3, -1)
        query, key = (rotate(tensor.view(*tensor.shape[:-1], self.heads, -1), turns) for tensor in (query, key))
        return query, key.flatten(-2), value

    def finish(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
        """Output (B, S, E) of the block, given keys and values (B, T, E) and a mask.

        The mask, (B or 1, 1, S, T), is True where a turn attends to another.
        """
        key, value = (tensor.view(*tensor.shape[:-1], self.heads, -1).transpose(1, 2) for tensor in (key, value))
        looked = F.scaled_dot_product_attention(query.transpose(1, 2), key, value, attn_mask=seen)
        x = x + self.found(looked.transpose(1, 2).flatten(-2))
        added: Tensor = self.think(self.before_think(x))
        return x + added


class TurnMemory(nn.Module):
    """L blocks and a norm."""

    def __init__(self, size: NetSize) -> None:
        super().__init__()
        self.size = size
        self.blocks = nn.ModuleList(AttentionBlock(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width)

    def forward(self, x: Tensor) -> Tensor:
        """Turns (B, S, E) of B battles, each after those before it; padding is at the end."""
        turns = torch.arange(x.shape[1], device=x.device)
        back = turns[:, None] - turns
        seen = ((back >= 0) & (back < self.size.window))[None, None]
        for block in self.blocks:
            assert isinstance(block, AttentionBlock)
            x = block.finish(x, *block.parts(x, turns[None]), seen)
        hidden: Tensor = self.norm(x)
        return hidden

    def follow(self, x: Tensor, recalls: Sequence[Recall]) -> Tensor:
        """Add one more turn (B, E) of B battles and update their recalls.

        The result equals that of `forward` up to rounding.
        """
        turns = torch.tensor([recall.turns for recall in recalls], device=x.device)
        window = min(int(turns.max()) + 1, self.size.window)
        held = torch.stack([recall.held[:, :, :window] for recall in recalls]).to(x.device)  # (B, 2, L, T, E)
        slot = turns % self.size.window
        seen = (torch.arange(window, device=x.device) <= turns[:, None])[:, None, None]
        rows = torch.arange(len(recalls), device=x.device)
        x = x[:, None]
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, AttentionBlock)
            query, key, value = block.parts(x, turns[:, None])
            held[rows, 0, layer, slot], held[rows, 1, layer, slot] = key[:, 0], value[:, 0]
            x = block.finish(x, query, held[:, 0, layer], held[:, 1, layer], seen)
        new = held[rows, :, :, slot].cpu()
        for recall, at, added in zip(recalls, slot.tolist(), new, strict=True):
            recall.held[:, :, at] = added
            recall.turns += 1
        hidden: Tensor = self.norm(x[:, 0])
        return hidden
