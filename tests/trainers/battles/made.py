"""Trajectories for tests: small, and each unlike the others."""

from __future__ import annotations

import numpy as np

from palaver.trainers.trajectories.record import Decision, Trajectory


def decision(n, step, W=5, K=3, slot=None, text=""):
    legal = ("move tackle", f"move m{step}", f"switch s{n}")
    mask = np.arange(14) % 3 == step % 3
    numbers = np.array([n, step / 7, -0.1 * n], np.float32)[:K]
    words = tuple(f"w{(n * 3 + step * place) % 11}" for place in range(W))
    chosen = step % 14 if slot is None else slot
    return Decision(
        step + 1, words, numbers, mask, chosen, legal[1] if step % 2 else f"I say {n}\ud800", legal[1], legal,
        n + step / 3, text,
    )  # fmt: skip


def trajectory(n, side="p1", decisions=4, **changed):
    rows = [decision(n, step) for step in range(decisions)] if isinstance(decisions, int) else decisions
    values = {
        "battle": f"b{n}", "format": "gen1ou", "side": side, "player": f"{side}-player", "opponent": "other",
        "teamset": "sample", "task": f"t{n % 3}", "seed": 2**40 + n, "result": (0.0, 0.5, 1.0)[n % 3],
        "decisions": tuple(rows),
    }  # fmt: skip
    return Trajectory(**values | changed)


def battle(n, decisions=4):
    return trajectory(n, "p1", decisions), trajectory(n, "p2", decisions + 1, result=1 - (n % 3) / 2)


def same(one, other):
    """Whether two trajectories are equal in all; arrays have no truth of their own."""
    for name in Trajectory.__slots__:
        if name != "decisions" and getattr(one, name) != getattr(other, name):
            return False
    return len(one.decisions) == len(other.decisions) and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in zip(one.decisions, other.decisions, strict=True)
        for name in Decision.__slots__
    )
