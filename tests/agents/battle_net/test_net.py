"""The battle net: its size, what it sees of the past, how it points at slots, and that playing equals training."""

from __future__ import annotations

import pytest
import torch

from palaver.agents.battle_net.net import BattleNet, Recall, order, rotate
from palaver.agents.battle_net.shape import ABOUT, HEADING, MOVES, Layout, NetSize, Vocabulary, size
from palaver.core import ConfigError
from tests.agents.battle_net.nets import HIT, MON, PLAN, SMALL, WORDS, layout, net, turns
from tests.closeness import assert_values_close

CARD = ABOUT + MOVES


def test_count_of_weights_by_hand():
    """E = 16, M = 10, e = 6, V = 42 words, Q = 1; numbers: 2 of the field, 3 and 4 of a Pokémon, 2 of a move."""
    words, move, about, moves, places, mon = 42 * 6, (6 + 1) * 10 + 10, (7 * 6 + 3) * 10 + 10, 100, 4 * 10, 110
    turn = (4 * 10 + 2 + 4 * 2 + 3 * 6 + 4 * 3) * 32 + 32 + 32 * 16 + 16
    block = 2 * 16 + 3 * 16 * 16 + 16 * 16 + (16 * 64 + 64) + (64 * 16 + 16)
    head = (16 * 20 + 20) + (10 + 2) * 20 + 10 * 20 + 10 * 20 + 3 * 20 + (20 + 1)
    value = (16 * 16 + 16) + (16 + 1)
    expected = words + move + about + moves + places + mon + turn + 2 * block + 16 + head + value
    assert sum(p.numel() for p in net().parameters()) == expected


@pytest.mark.parametrize(("name", "low", "high"), [("nano", 0.9e6, 1.1e6), ("small", 4.5e6, 5.5e6)])
def test_sizes(name, low, high):
    """With as many words as generation 1 has, about 400, and generation 9, about 3,400."""
    for words in (400, 3400):
        with torch.device("meta"):
            made = BattleNet(size(name), _wide(), words)
        assert low < sum(p.numel() for p in made.parameters()) < high


def test_medium_size():
    with torch.device("meta"):
        assert 45e6 < sum(p.numel() for p in BattleNet(size("medium"), _wide(), 3400).parameters()) < 55e6


def _wide():
    """With as many numbers as the observation has, 363."""
    own = iter(range(363))
    rows = [tuple(next(own) for _ in range(n)) for n in (12,) * 12 + (4,) * 12 + (4,) * 4]
    return Layout(363, tuple(own), tuple(rows[:12]), tuple(rows[12:24]), tuple(rows[24:]))


def test_turn_by_turn_equals_whole_battles():
    """Beyond the window of 4 too, and with battles that are not equally far."""
    made = net()
    words, numbers = turns(3, 11)
    with torch.no_grad():
        scores, values = made(words, numbers)
        recalls = [Recall(SMALL) for _ in range(3)]
        at = [0, 0, 0]
        for going in ([0], [0, 1], [0, 2], [1, 2], *[[0, 1, 2]] * 8, [1, 2]):
            now = torch.tensor([at[n] for n in going])
            one, other = made.follow(words[going, now], numbers[going, now], [recalls[n] for n in going])
            assert_values_close(one, scores[going, now])
            assert_values_close(other, values[going, now])
            for n in going:
                at[n] += 1
        assert at == [11, 11, 11]


def test_past_and_future():
    """Two layers of a window of 4 reach 6 turns back; nothing reaches back in time."""
    made = net()
    words, numbers = turns(1, 12)
    with torch.no_grad():
        before, _ = made(words, numbers)
        numbers[0, 3] += 1
        after, _ = made(words, numbers)
    moved = (before != after).any(-1)[0]
    assert moved.tolist() == [n in range(3, 10) for n in range(12)]


def test_rotation_by_hand():
    """Turn 2, D = 4: pair 0 turns by 2, pair 1 by 2 / sqrt(1000) = 0.0632456."""
    made = rotate(torch.tensor([[[[1.0, 1.0, 0.0, 0.0]]]]), torch.tensor([[2]]))
    torch.testing.assert_close(made[0, 0, 0], torch.tensor([-0.4161468, 0.9980007, 0.9092974, 0.0632034]))


@pytest.mark.parametrize(
    ("species", "expected"),
    [
        ([5, 3, 4, 7, 8, 9], [1, 2, 0, 3, 4, 5]),
        ([2, 3, 4, 7, 8, 9], [0, 1, 2, 3, 4, 5]),
        ([9, 3, 4, 7, 1, 1], [1, 2, 3, 0, 4, 5]),  # three others only: `none` stands behind them
        ([1, 3, 4, 7, 8, 9], [1, 2, 3, 4, 5, 0]),  # nobody is out yet
    ],
)
def test_order(species, expected):
    words = torch.zeros(135, dtype=torch.long)
    words[HEADING : HEADING + 66 : CARD] = torch.tensor(species)
    assert order(words).tolist() == expected


def test_slots_follow_what_they_stand_for():
    """Two moves that change places, with what is said of them, change their scores, and no other score changes."""
    made = net()
    words, numbers = turns(2, 1)
    swapped, other = words.clone(), numbers.clone()
    first = HEADING + ABOUT
    swapped[..., [first, first + 2]] = words[..., [first + 2, first]]
    left, hits = PLAN.layout.left[0], PLAN.layout.attacks
    for a, b in [(left[0], left[2]), *zip(hits[0], hits[2], strict=True)]:
        other[..., [a, b]] = numbers[..., [b, a]]
    made.turn[0].weight.data[:, 42 : 42 + 4 * HIT] = 0  # the turn as a whole may tell them apart by their place
    with torch.no_grad():
        before, after = made(words, numbers)[0], made(swapped, other)[0]
    torch.testing.assert_close(after[..., [2, 1, 0, 3]], before[..., :4])
    torch.testing.assert_close(after[..., [6, 5, 4, 7]], before[..., 4:8])
    torch.testing.assert_close(after[..., 8:], before[..., 8:])
    assert (before[..., 0] - before[..., 2]).abs().min() > 1e-4


def test_own_team_is_scored_by_its_own():
    """A number of the third of the bench moves the score of its slot by more than what all slots share."""
    made = net()
    words, numbers = turns(1, 1)
    words[0, 0, HEADING] = 41  # the active one comes last, so the third other one is slot 2 of the team
    with torch.no_grad():
        before = made(words, numbers)[0]
        numbers[..., PLAN.layout.mons[3]] += 3
        moved = (made(words, numbers)[0] - before).abs()[0, 0, 8:]
    assert int(moved.argmax()) == 2


def test_layout_and_sizes_are_checked():
    made = layout()
    with pytest.raises(ConfigError, match="names each of its"):
        Layout(made.count + 1, made.shared, made.mons, made.left, made.attacks)
    with pytest.raises(ConfigError, match="12 Pokémon"):
        Layout(made.count, made.shared + made.mons[0], made.mons[1:], made.left, made.attacks)
    with pytest.raises(ConfigError, match="multiple"):
        NetSize(4, 4, 18, 1, 4)
    with pytest.raises(ConfigError, match="'nano'"):
        size("nanno")
    assert len(made.mons[0]) == MON


def test_vocabulary():
    assert WORDS.ids(["unknown", "none", "w00", "w39", "w40", "\ud800"]) == [0, 1, 2, 41, 0, 0]
    with pytest.raises(ConfigError, match="alphabetical"):
        Vocabulary(("unknown", "none", "b", "a"))
