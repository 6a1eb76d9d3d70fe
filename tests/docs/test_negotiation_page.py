"""Known answers on the page about negotiation, from two rows worked out by hand."""

from __future__ import annotations

import pytest

from docs.build import negotiation


def test_divisions_by_hand(monkeypatch):
    """One item of each kind; the best divisions have 5 + 4 + 3 and 2 + 6 + 6."""
    rows = [
        {"counts": [1, 1, 1], "p1": [1, 2, 3], "p2": [5, 4, 0]},
        {"counts": [1, 1, 1], "p1": [0, 6, 2], "p2": [2, 0, 6]},
    ]
    monkeypatch.setattr(negotiation.deal, "generate_deals", lambda count, seed: rows)
    best, fixed, chance = negotiation._divisions()
    assert best[1:] == ("1.000", "1.000", "6.50")
    # of the eight that are the same in both, books and balls to p2 and hats to p1: 5 + 2 + 0 and 2 + 6 + 6
    assert fixed[1:] == ("1.000", f"{(7 / 12 + 14 / 14) / 2:.3f}", f"{21 / 4:.2f}")
    # each item goes to either with 1/2, if both agree: (6 + 9) / 2 and (8 + 8) / 2, and that in one of eight games
    assert chance[1:] == ("0.125", f"{(7.5 / 12 + 8 / 14) / 2 / 8:.3f}", f"{15.5 / 2 / 2 / 8:.2f}")


def test_a_last_offer_by_hand(monkeypatch):
    """Surpluses 20, 35, -9 and 10: an offer that gains 20 is accepted twice, and leaves 0 and 15."""
    rows = [{"cost": 30, "value": 30 + surplus} for surplus in (20, 35, -9, 10)]
    monkeypatch.setattr(negotiation.price, "generate_prices", lambda count, seed: rows)
    margin, agreed, efficiency, *gains = negotiation._posted(20)
    assert (margin, agreed, efficiency) == ("20", "0.500", "0.500")
    assert [float(gain) for gain in gains] == pytest.approx([0.4 / 4, 0.15 / 4, 0.55 / 8], abs=6e-4)
