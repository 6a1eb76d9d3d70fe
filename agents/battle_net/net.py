"""The network: words and numbers of a turn to a score for each slot and a value.

All twelve Pokémon pass through the same weights, and so do the moves of each; what is learnt of one helps with all. A
slot is scored from the vector of its own move or Pokémon (as pointer networks point at their inputs: Vinyals, Fortunato
and Jaitly, 2015), not by its number, so that what was learnt of a move holds in every team.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palaver.agents.battle_net.shape import ABOUT, HEADING, MONS, MOVES, TEAM, WORDS, Layout, NetSize

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
    """Memory of turns: L blocks of a causal transformer with a window, and a norm.

    It runs over whole battles at once, or over one more turn of many battles. Pre-norm blocks (Xiong et al., On Layer
    Normalization in the Transformer Architecture, 2020) with RMS norms (Zhang and Sennrich, 2019), rotary positions (Su
    et al., RoFormer, 2021) and a sliding window (Beltagy et al., Longformer, 2020).
    """

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


_PLACES = (0, *[1] * (TEAM - 1), 2, *[3] * (TEAM - 1))  # own active, own others, their active, their others


def order(words: Tensor) -> Tensor:
    """Index of the own Pokémon in each place of the alphabetical team, (..., 6).

    An observation puts the active one first and the others behind it in alphabetical order; slots go by the alphabet
    alone. Before a Pokémon is sent out, the last of six comes first; of a smaller team the first place is empty and
    comes last.

    Args:
        words: (..., 135) ids of a vocabulary in alphabetical order, unmasked.
    """
    species = words[..., HEADING :: ABOUT + MOVES][..., :TEAM]
    active, bench = species[..., :1], species[..., 1:]
    rank = ((bench < active) & (bench > 1)).sum(-1, keepdim=True)
    rank = torch.where(active == 1, TEAM - 1, rank)
    slots = torch.arange(TEAM, device=words.device)
    return torch.where(slots == rank, 0, torch.where(slots < rank, slots + 1, slots))


class BattleNet(nn.Module):
    """See the module.

    Args:
        size: of it.
        layout: of the K numbers.
        words: it knows, V.
        values: outputs of the value head, Q.
    """

    def __init__(self, size: NetSize, layout: Layout, words: int, values: int = 1) -> None:
        super().__init__()
        self.size, self.layout = size, layout
        for name in ("shared", "mons", "left", "attacks"):
            self.register_buffer(f"_{name}", torch.tensor(getattr(layout, name)).flatten(), persistent=False)
        self.register_buffer("_places", torch.tensor(_PLACES), persistent=False)
        e, m, d = size.word, size.mon, size.width
        self.words = nn.Embedding(words, e)
        self.move = nn.Linear(e + 1, m)
        self.about = nn.Linear(ABOUT * e + len(layout.mons[0]), m)
        self.moves = nn.Linear(m, m, bias=False)
        self.places = nn.Embedding(4, m)
        self.mon = nn.Linear(m, m)
        mon_width = len(layout.mons[0])
        turn = 4 * m + len(layout.shared) + len(layout.attacks) * len(layout.attacks[0]) + HEADING * e + 4 * mon_width
        self.turn = nn.Sequential(nn.Linear(turn, 2 * d), nn.GELU(approximate="tanh"), nn.Linear(2 * d, d))
        self.memory = TurnMemory(size)
        self.ask = nn.Linear(d, 2 * m)
        self.by_move = nn.Linear(m + len(layout.attacks[0]), 2 * m, bias=False)
        self.by_mon = nn.Linear(m, 2 * m, bias=False)
        self.against = nn.Linear(m, 2 * m, bias=False)
        self.kinds = nn.Embedding(3, 2 * m)  # a move, one with a gimmick, a Pokémon
        self.score = nn.Linear(2 * m, 1)
        self.value = nn.Sequential(nn.Linear(d, d), nn.GELU(approximate="tanh"), nn.Linear(d, values))
        self._begin()

    def forward(self, words: Tensor, numbers: Tensor, places: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Scores (B, S, 14) of all slots and values (B, S, Q) of whole battles.

        Battles are given from their first turn; illegal slots have scores too.

        Args:
            words: (B, S, 135) ids.
            numbers: (B, S, K).
            places: (B, S, 6) of `order`, where some of the words were hidden since.
        """
        turn, keys = self._turn(words, numbers, order(words) if places is None else places)
        return self._answer(self.memory(turn), keys)

    def follow(self, words: Tensor, numbers: Tensor, recalls: Sequence[Recall]) -> tuple[Tensor, Tensor]:
        """Scores (B, 14) and values (B, Q) of one more turn of B battles.

        The recalls of the battles are updated with the turn.

        Args:
            words: (B, 135) ids.
            numbers: (B, K).
            recalls: of the battles.
        """
        turn, keys = self._turn(words, numbers, order(words))
        return self._answer(self.memory.follow(turn, recalls), keys)

    @torch.no_grad()
    def _begin(self) -> None:
        """Draw weights that preserve the variance of activations (He et al., 2015).

        K. He et al., Delving Deep into Rectifiers. torch's own draw shrinks it in every layer, until all turns look
        alike to the value and it stays at its mean.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.normal_(std=(2 / module.in_features) ** 0.5)
                if module.bias is not None:
                    module.bias.zero_()
            if isinstance(module, nn.Embedding):
                module.weight.normal_(std=0.1)
        self.words.weight.normal_(std=0.5)
        for last in (self.score, self.value[-1]):
            assert isinstance(last, nn.Linear)
            last.weight.mul_(0.3)
        for block in self.memory.blocks:
            assert isinstance(block, AttentionBlock)
            for last in (block.found, block.think[-1]):  # together they add about what came in (GPT-2's 1 / sqrt(2 L))
                assert isinstance(last, nn.Linear)
                last.weight.div_((2 * self.size.layers) ** 0.5)

    def _turn(self, words: Tensor, numbers: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Turns (..., E) and the keys (..., 14, 2M) of their slots."""
        lead = words.shape[:-1]
        known = F.embedding(words, self.words.weight)
        head = known[..., :HEADING, :].flatten(-2)
        cards = known[..., HEADING:WORDS, :].reshape(*lead, MONS, ABOUT + MOVES, -1)
        about = numbers[..., self._buffer("mons")].view(*lead, MONS, -1)
        left = numbers[..., self._buffer("left")].view(*lead, MONS, MOVES, 1)
        moves = F.relu(self.move(torch.cat((cards[..., ABOUT:, :], left), -1)))  # (..., 12, 4, M)
        features = self.about(torch.cat((cards[..., :ABOUT, :].flatten(-2), about), -1)) + self.moves(moves.sum(-2))
        mons = F.relu(features + self.places(self._buffer("places")))
        mons = mons + F.relu(self.mon(mons))  # (..., 12, M)
        attacks = numbers[..., self._buffer("attacks")]
        own_mons, opposing_mons = mons[..., :TEAM, :], mons[..., TEAM:, :]
        parts = (
            own_mons[..., 0, :],
            own_mons[..., 1:, :].mean(-2),
            opposing_mons[..., 0, :],
            opposing_mons[..., 1:, :].mean(-2),
        )
        sums = [about[..., a:b, :].sum(-2) for a, b in ((0, 1), (1, TEAM), (TEAM, TEAM + 1), (TEAM + 1, MONS))]
        turn = self.turn(torch.cat((*parts, numbers[..., self._buffer("shared")], attacks, head, *sums), -1))
        team = own_mons.gather(-2, places[..., None].expand(*places.shape, own_mons.shape[-1]))
        held = torch.cat((moves[..., 0, :, :], attacks.view(*lead, MOVES, -1)), -1)
        by_move, by_mon, kinds = self.by_move(held), self.by_mon(team), self.kinds.weight
        keys = torch.cat((by_move + kinds[0], by_move + kinds[1], by_mon + kinds[2]), -2)
        return turn, keys + self.against(opposing_mons[..., :1, :])

    def _answer(self, turn: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        return self.score(F.relu(keys + self.ask(turn)[..., None, :]))[..., 0], self.value(turn)

    def _buffer(self, name: str) -> Tensor:
        buffer: Tensor = getattr(self, f"_{name}")
        return buffer
