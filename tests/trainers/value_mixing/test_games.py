"""Games with known answers: the two-step game of the QMIX paper, and what no monotonic mixing can represent."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trainers.value_mixing.games import fitted, played, table

# gamma 0.99: 2A is worth 7, so the first step is worth 0.99 * 7 = 6.93. VDN fits 2B = [[0, 1], [1, 8]] by least squares
# with a_i + b_j: mean 2.5, row means 0.5 and 4.5, so a_i + b_j = row + column - mean = [[-1.5, 2.5], [2.5, 6.5]];
# its best, 6.5, is worth 0.99 * 6.5 = 6.435 a step before, and 6.435 < 6.93 sends it to the safe 7.
TWO_STEP = {
    "sum": (7.0, [[6.93, 6.93], [6.435, 6.435]], [[-1.5, 2.5], [2.5, 6.5]]),
    "monotonic": (8.0, [[6.93, 6.93], [7.92, 7.92]], [[0.0, 1.0], [1.0, 8.0]]),
}


@pytest.mark.parametrize("kind", TWO_STEP)
def test_two_step(kind):
    found = fitted("two-step", kind, seed=0)
    returned, start, risky = TWO_STEP[kind]
    assert played(found, "two-step") == returned
    assert table(found, "two-step") == pytest.approx(np.array([start, [[7.0, 7.0], [7.0, 7.0]], risky]), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TWO_STEP)
def test_two_step_in_nine_of_ten_seeds(kind):
    returned, start, risky = TWO_STEP[kind]
    expected = np.array([start, [[7.0, 7.0], [7.0, 7.0]], risky])
    right = 0
    for seed in range(10):
        found = fitted("two-step", kind, seed)
        close = np.abs(table(found, "two-step") - expected).max() < 0.05
        right += played(found, "two-step") == returned and bool(close)
    assert right >= 9


# qtran [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]]. VDN: row means -16/3, -4, -4, mean -40/9: row + column - mean =
# -32/3 + 40/9 = -56/9 = -6.222, -28/3 + 40/9 = -44/9 = -4.889, -8 + 40/9 = -32/9 = -3.556.
# QMIX: where the 8 is not to fall when either agent turns from `red`, the five cells of the first row and column get
# one value, their mean (8 - 4 * 12) / 5 = -8; mean squared error (16^2 + 4 * 4^2) / 9 = 320 / 9 = 35.56. Both play 0.
QTRAN = {
    "sum": [[-6.2222, -4.8889, -4.8889], [-4.8889, -3.5556, -3.5556], [-4.8889, -3.5556, -3.5556]],
    "monotonic": [[-8.0, -8.0, -8.0], [-8.0, 0.0, 0.0], [-8.0, 0.0, 0.0]],
}
PAYS = np.array([[8.0, -12, -12], [-12, 0, 0], [-12, 0, 0]])


@pytest.mark.parametrize("kind", QTRAN)
def test_the_best_of_a_game_that_is_not_monotonic_is_out_of_reach(kind):
    found = fitted("qtran", kind, seed=0)
    fit = table(found, "qtran")[0]
    assert fit == pytest.approx(np.array(QTRAN[kind]), abs=0.05)
    assert played(found, "qtran") == 0.0
    if kind == "monotonic":
        assert np.square(fit - PAYS).mean() == pytest.approx(320 / 9, abs=0.05)


@pytest.mark.parametrize("kind", QTRAN)
def test_xor_is_fitted_by_its_mean(kind):
    """[[0, 1], [1, 0]]: whatever one agent prefers turns with the other, so 0.5 everywhere, with error 0.25."""
    fit = table(fitted("xor", kind, seed=0, lr=1e-2), "xor")[0]
    assert fit == pytest.approx(np.full((2, 2), 0.5), abs=0.05)
