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

from palaver.agents.battle_net.memory import AttentionBlock, Recall, TurnMemory
from palaver.agents.battle_net.shape import ABOUT, HEADING, MONS, MOVES, TEAM, WORDS, Layout, NetSize

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
            block.quieten(self.size.layers)

    def _turn(self, words: Tensor, numbers: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Turns (..., E) and the keys (..., 14, 2M) of their slots."""
        lead = words.shape[:-1]
        known = F.embedding(words, self.words.weight)
        head = known[..., :HEADING, :].flatten(-2)
        cards = known[..., HEADING:WORDS, :].reshape(*lead, MONS, ABOUT + MOVES, -1)
        about = numbers[..., self._buffer("mons")].view(*lead, MONS, -1)
        left = numbers[..., self._buffer("left")].view(*lead, MONS, MOVES, 1)
        moves = _bend(self.move(torch.cat((cards[..., ABOUT:, :], left), -1)))  # (..., 12, 4, M)
        features = self.about(torch.cat((cards[..., :ABOUT, :].flatten(-2), about), -1)) + self.moves(moves.sum(-2))
        mons = _bend(features + self.places(self._buffer("places")))
        mons = mons + _bend(self.mon(mons))  # (..., 12, M)
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
        query = self.ask(turn)[..., None, :]
        return self.score(_bend(keys + query))[..., 0], self.value(turn)

    def _buffer(self, name: str) -> Tensor:
        buffer: Tensor = getattr(self, f"_{name}")
        return buffer


def _bend(x: Tensor) -> Tensor:
    return F.relu(x)
