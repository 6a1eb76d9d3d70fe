"""Battles that can be learnt from without a simulator: what to play stands in the words."""

from __future__ import annotations

import numpy as np

from palaver.agents.battle_net.shape import ABOUT, HEADING, Vocabulary
from palaver.trainers.behaviour_cloning.students import layout
from palaver.trainers.trajectories.files import Writer
from palaver.trainers.trajectories.record import MISSING, Decision, Trajectory

GOOD = "surf"
WORDS = Vocabulary.of([GOOD, "tackle", "bide", "rest", "mew", "abra"])
LEGAL = ("move bide", "move rest", "move surf", "move tackle")


def decision(draw, good=True):
    """Four moves in any order; surf is played, or where not `good` anything but it."""
    moves = [str(move) for move in draw.permutation(["tackle", "bide", "rest", GOOD])]
    words = ["none"] * 135
    words[HEADING], words[HEADING + ABOUT : HEADING + ABOUT + 4] = "mew", moves
    slot = moves.index(GOOD) if good else int(draw.choice([n for n in range(4) if moves[n] != GOOD]))
    numbers = draw.normal(size=layout().count).astype(np.float32)
    text = f"You may play {', '.join(moves)}."
    return Decision(1, tuple(words), numbers, np.arange(14) < 4, slot, "", f"move {moves[slot]}", LEGAL, 0.0, text)


def battle(n, rng, missing=0):
    """One side plays surf and wins, the other one plays anything else and loses."""
    sides = []
    for side, good in (("p1", n % 2 == 0), ("p2", n % 2 == 1)):
        rows = [decision(rng, good) for _ in range(int(rng.integers(2, 7)))]
        for row in range(min(missing, len(rows))):
            rows[row] = Decision(**{name: getattr(rows[row], name) for name in Decision.__slots__} | {"slot": MISSING})
        last = rows[-1]
        won = 1.0 if good else -1.0
        rows[-1] = Decision(**{name: getattr(last, name) for name in Decision.__slots__} | {"reward": won})
        sides.append(
            Trajectory(
                f"b{n}", "gen1ou", side, "surfer" if good else "other", "any", "", "t", n, float(good), tuple(rows)
            )
        )
    return sides


def folder(path, battles=40, seed=0, missing=0):
    """Of recorded battles."""
    rng = np.random.default_rng(seed)
    with Writer(path) as writer:
        for n in range(battles):
            writer.add(*battle(n, rng, missing))
    return path
