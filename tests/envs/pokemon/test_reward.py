"""What a step pays, by hand."""

from __future__ import annotations

import pytest

from palaver.envs.pokemon.reward import WEIGHTS, score, standing


def team(*mons):
    return standing([{"hp": hp, "max": 200, "status": status} for hp, status in mons])


BEFORE = {"p1": team((200, ""), (100, "")), "p2": team((50, ""), (200, "slp"))}
# p1: heals the second by 50, the first is poisoned and loses 20; p2: loses its first, the second wakes
AFTER = {"p1": team((180, "psn"), (150, "")), "p2": team((0, ""), (200, ""))}


def test_shaped():
    paid = score(WEIGHTS["shaped"], BEFORE, AFTER, "")
    assert paid["p1"] == pytest.approx({"damage": 0.25, "health": 0.15, "status": -0.5, "knockouts": 1, "victory": 0})
    assert paid["p2"] == pytest.approx({"damage": -0.15, "health": -0.25, "status": 0.5, "knockouts": -1, "victory": 0})


def test_aggressive():
    paid = score(WEIGHTS["aggressive"], BEFORE, AFTER, "p2")
    assert paid["p1"] == pytest.approx({"damage": 0.25, "health": 0.15, "status": 0, "knockouts": 2, "victory": 0})
    assert paid["p2"] == pytest.approx({"damage": -0.15, "health": -0.25, "status": 0, "knockouts": -2, "victory": 200})


def test_revived_ones_count_back():
    paid = score(
        WEIGHTS["shaped"], {"p1": team((0, "")), "p2": team((9, ""))}, {"p1": team((100, "")), "p2": team((9, ""))}, ""
    )
    assert paid["p1"] == pytest.approx({"damage": 0, "health": 0.5, "status": 0, "knockouts": 1, "victory": 0})


@pytest.mark.parametrize(("winner", "one", "two"), [("p1", 1, -1), ("p2", -1, 1), ("", 0, 0)])
def test_binary(winner, one, two):
    assert score(WEIGHTS["binary"], {}, {}, winner) == {"p1": {"victory": one}, "p2": {"victory": two}}


def test_nothing_pays_minus_zero():
    for weights in WEIGHTS.values():
        paid = score(weights, BEFORE, BEFORE, "p1")
        assert "-0.0" not in str(paid)
