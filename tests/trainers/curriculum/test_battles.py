"""Battles are shared out as the weights and floors say, in pairs of games, mixed from the first to the last."""

from __future__ import annotations

from collections import Counter

import pytest

from palaver.trainers.curriculum.battles import (
    MIRROR,
    StagePlayer,
    imitated_labels,
    order,
    portions,
    shares,
    teachers,
)
from palaver.trainers.curriculum.config import parse
from palaver.trainers.matches.recording import Advice
from tests.trainers.curriculum.fakes import values


@pytest.mark.parametrize(
    ("weights", "floors", "found"),
    [
        ([3, 1], [0, 0], [0.75, 0.25]),
        ([9, 1], [0, 0.2], [0.8, 0.2]),
        # 0.7 / 0.2 / 0.1: the last stands on 0.25, which leaves 0.75 * 2/9 = 0.167 to the second, below its 0.18
        ([7, 2, 1], [0, 0.18, 0.25], [0.57, 0.18, 0.25]),
        ([1, 0], [0, 0.5], [0.5, 0.5]),
        ([1, 1], [0.5, 0.5], [0.5, 0.5]),
    ],
)
def test_no_share_is_below_its_floor(weights, floors, found):
    assert shares(weights, floors) == pytest.approx(found)


def test_portions_add_up():
    assert portions(3, [0.5, 0.5]) == [2, 1]
    assert portions(7, [0.6, 0.3, 0.1]) == [4, 2, 1]  # 4.2, 2.1, 0.7: the last has the largest remainder
    assert portions(0, [0.4, 0.6]) == [0, 0]


def seats():
    named = {name: StagePlayer(name, name, name) for name in ("typed@1", "random@1", "veteran@1", "first")}
    return named | {
        "coach": StagePlayer("veteran@1", "veteran@1", "veteran@1"),
        "student": StagePlayer("first", "net:here", "abc"),
    }


def test_an_order_follows_the_weights():
    stage = parse(values()).stages[1]
    found = order(stage, seats(), 5)
    assert len(found.games) == 12
    # 6 matches: pairs 2/3, 1/3; sets, by name, 1/4 by the floor and 3/4: 1, 3, 0.5, 1.5; the first .5 is rounded up
    cells = Counter((game.first, game.second, game.teamset) for game in found.games)
    assert cells == {
        ("veteran@1", "first", "sample:train"): 6,
        ("veteran@1", "first", "generated:4:train"): 2,
        ("veteran@1", "typed@1", "generated:4:train"): 2,
        ("veteran@1", "typed@1", "sample:train"): 2,
    }
    assert {game.match for game in found.games} == set(range(6))
    assert all(a[:4] == b[:4] and (a.swapped, b.swapped) == (False, True)
               for a, b in zip(found.games[::2], found.games[1::2], strict=True))  # fmt: skip
    assert found.players["first"] == "net:here"


def test_an_order_does_not_depend_on_that_of_the_file():
    stage = parse(values()).stages[1]
    turned = stage.model_copy(
        update={name: dict(reversed(getattr(stage, name).items())) for name in ("pairs", "teams")}
    )
    assert order(turned, seats(), 5).games == order(stage, seats(), 5).games


def test_every_part_of_an_order_is_mixed_like_the_whole():
    stage = parse(values()).stages[1].model_copy(update={"battles": 240})
    found = order(stage, seats(), 5)
    half = Counter(game.second for game in found.games[:120])
    assert abs(half["first"] - 80) <= 4
    assert abs(half["typed@1"] - 40) <= 4


def test_the_key_tells_players_apart_and_not_folders():
    stage = parse(values()).stages[1]
    moved = seats() | {"student": StagePlayer("first", "net:elsewhere", "abc")}
    other = seats() | {"student": StagePlayer("first", "net:here", "abd")}
    key = order(stage, seats(), 5).key
    assert order(stage, moved, 5).key == key
    assert order(stage, other, 5).key != key
    assert order(stage, seats(), 6).key != key


def test_a_coach_is_asked_at_the_students_decisions():
    stage = parse(values()).stages[1]
    found = order(stage.model_copy(update={"advice": 0.25}), seats(), 5)
    assert found.advice == Advice("veteran@1", ("first", "first" + MIRROR), 0.25)
    assert order(stage, seats(), 5).advice is None
    keys = {order(stage.model_copy(update={"advice": share}), seats(), 5).key for share in (0.0, 0.25, 0.5)}
    assert len(keys) == 3
    third = stage.model_copy(update={"advice": 0.5, "learn": "all"})
    assert set(teachers(third, seats())) == {"typed@1", "veteran@1"}


def test_who_meets_itself_has_a_second_label():
    stage = parse(values()).stages[2]
    named = seats() | {
        "coach": StagePlayer("second", "net:two", "two"),
        "second": StagePlayer("second", "net:two", "two"),
    }
    found = order(stage, named, 1)
    assert Counter((game.first, game.second) for game in found.games) == {
        ("second", "first"): 4, ("second", "second" + MIRROR): 4,
    }  # fmt: skip
    assert found.players["second" + MIRROR] == "net:two"


def test_who_is_learnt_from():
    first, second, third = parse(values()).stages
    assert imitated_labels(first, seats()) == ()
    assert imitated_labels(second, seats()) == ("veteran@1", "veteran@1" + MIRROR)
    assert teachers(first, seats()) == ("typed@1", "random@1")
    assert teachers(second, seats()) == ("veteran@1",)
    assert teachers(third, seats()) == ("veteran@1", "first")
