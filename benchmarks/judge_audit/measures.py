"""Measures of a judge.

Shapes: P pairs, C categories, K repeats. A probability is that of the first answer.

A human label is 1, 0 or 1/2 as in `Labelled.label`. A judge's probability above 1/2 is a verdict for the first, below
1/2 for the second, and 1/2 is a tie. Pairs without a verdict are left out by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Array = NDArray[np.float64]
BINS = 10
SECOND, TIE, FIRST = 0, 1, 2  # categories, in this order


@dataclass(frozen=True, slots=True)
class Bin:
    """Bin of a reliability diagram: number of verdicts, their mean confidence and accuracy."""

    low: float
    high: float
    n: int
    confidence: float
    right: float


def category(probability: Array) -> NDArray[np.int64]:
    """(P,) of 0 for the second, 1 for a tie, 2 for the first."""
    return np.where(probability > 0.5, FIRST, np.where(probability < 0.5, SECOND, TIE))


def rightness(probability: Array, label: Array) -> Array:
    """Agreement of judge and human, (P,): 1 if equal, 1/2 if only the judge has a tie, else 0."""
    judge, human = category(probability), category(label)
    return np.where(judge == human, 1.0, np.where((judge == TIE) & (human != TIE), 0.5, 0.0))


def accuracy(probability: Array, label: Array) -> float:
    """Mean of `rightness` over the pairs without a human tie; nan if there are none."""
    decided = label != 0.5
    return float(rightness(probability, label)[decided].mean()) if decided.any() else float("nan")


def kappa(
    one: Sequence[int] | NDArray[np.int64], two: Sequence[int] | NDArray[np.int64], quadratic: bool = False
) -> float:
    """Agreement of two raters beyond chance: 1 - sum w_ij O_ij / sum w_ij E_ij.

    J. Cohen, A coefficient of agreement for nominal scales (1960), where w_ij is 0 on the diagonal and 1 off it;
    weighted, with w_ij = (i - j)^2 over the grades themselves, as in J. Cohen, Weighted kappa (1968). O are the shares
    of the C x C table, E those of two independent raters with the same margins.

    Args:
        one: (P,) categories, or whole grades.
        two: (P,) likewise.
        quadratic: distances count squared; else every disagreement counts the same.

    Returns:
        At most 1; nan if neither rater varies, so that chance alone would agree, or if there is no pair.
    """
    first, second = np.asarray(one), np.asarray(two)
    if not len(first):
        return float("nan")
    values = np.unique(np.concatenate([first, second]))
    table = np.zeros((len(values), len(values)))
    np.add.at(table, (np.searchsorted(values, first), np.searchsorted(values, second)), 1 / len(first))
    distances = np.subtract.outer(values, values).astype(np.float64)
    weight = distances**2 if quadratic else (distances != 0).astype(np.float64)
    expected = float((weight * np.outer(table.sum(1), table.sum(0))).sum())
    return 1 - float((weight * table).sum()) / expected if expected > 0 else float("nan")


def reliability(probability: Array, label: Array, bins: int = BINS) -> list[Bin]:
    """Bins with at least one verdict, over the pairs without a human tie.

    The confidence of a verdict is max(p, 1 - p), so with bins of equal width over [0, 1] those above 1/2 are filled. A
    bin holds its upper end and not its lower one, as in C. Guo et al., On calibration of modern neural networks (2017),
    section 2.
    """
    decided = label != 0.5
    confidence = np.maximum(probability, 1 - probability)[decided]
    right = rightness(probability, label)[decided]
    bin_of = np.clip(np.ceil(np.round(confidence * bins, 9)).astype(int) - 1, 0, bins - 1)
    buckets = []
    for index in np.unique(bin_of):
        inside = bin_of == index
        buckets.append(
            Bin(
                float(index / bins),
                float((index + 1) / bins),
                int(inside.sum()),
                float(confidence[inside].mean()),
                float(right[inside].mean()),
            )
        )
    return buckets


def calibration_error(bins: Sequence[Bin]) -> float:
    """Expected calibration error, sum_b n_b / n |right_b - confidence_b|.

    Guo et al. 2017, equation 3.
    """
    n = sum(bucket.n for bucket in bins)
    return sum(bucket.n * abs(bucket.right - bucket.confidence) for bucket in bins) / n if n else float("nan")


def swap_consistency(orders: Array) -> float:
    """Share of pairs with the same verdict in both orders.

    `orders` is (P, 2), as in `Preference.orders`.
    """
    return float((category(orders[:, 0]) == category(orders[:, 1])).mean()) if len(orders) else float("nan")


def first_slot_rate(orders: Array) -> float:
    """Mean probability of the answer shown first; 1/2 without position bias. `orders` is (P, 2)."""
    return float((orders[:, 0] + 1 - orders[:, 1]).mean() / 2) if len(orders) else float("nan")


def flips(repeats: Array) -> float:
    """Probability that two repeats of a question differ in their verdicts.

    `repeats` is (P, K), a row per question.
    """
    if not len(repeats):
        return float("nan")
    verdicts = category(repeats)
    one, two = np.triu_indices(verdicts.shape[1], k=1)
    return float((verdicts[:, one] != verdicts[:, two]).mean())


def spread(repeats: Array) -> float:
    """Standard deviation (ddof 1) of the probability over repeats, averaged over questions.

    `repeats` is (P, K).
    """
    return float(repeats.std(axis=1, ddof=1).mean()) if len(repeats) else float("nan")


def longer_rate(probability: Array, longer: Array) -> float:
    """Mean probability of the longer answer over pairs that differ in length; nan without any.

    Args:
        probability: (P,) of the first.
        longer: (P,) above 0 where the first is longer, below 0 where the second is.
    """
    differ = longer != 0
    given = np.where(longer > 0, probability, 1 - probability)[differ]
    return float(given.mean()) if len(given) else float("nan")


def as_grades(scores: Array, low: int, high: int) -> NDArray[np.int64]:
    """Scores of [0, 1] as grades on the human scale.

    A grade is the nearest whole number to low + score (high - low), halves upwards.
    """
    return np.floor(low + np.clip(scores, 0, 1) * (high - low) + 0.5).astype(np.int64)


PRIOR, WIDE = 2.5, 10.0  # standard deviations of the priors: of label and length, and of the intercept


@dataclass(frozen=True, slots=True)
class Slope:
    """Log-odds of preferring an answer per doubling of its length, interval ends, and pairs."""

    value: float
    low: float
    high: float
    n: int


def length_slope(probability: Array, label: Array, lengths: Array, level: float = 0.95) -> Slope:
    """Logistic regression of the preference on the difference in length and the human label.

    P(first) = 1 / (1 + exp(-(a + b l + c d))), l = 2 label - 1, d = log2((n1 + 1) / (n2 + 1)) with lengths n in
    characters; c is the slope. An outcome may be a probability. Normal priors of scale 2.5 on b and c and 10 on a keep
    the estimate finite if the label alone determines the verdict (after A. Gelman et al., A weakly informative default
    prior distribution for logistic and other regression models, 2008); the interval is that of Laplace's approximation
    at the maximum.

    Args:
        probability: (P,) of the first.
        label: (P,) of people.
        lengths: (P, 2) characters of both answers.
        level: of the interval.
    """
    doublings = np.log2((lengths[:, 0] + 1) / (lengths[:, 1] + 1))
    design = np.column_stack([np.ones(len(label)), 2 * label - 1, doublings])
    precision = np.diag([WIDE**-2, PRIOR**-2, PRIOR**-2])

    def loss(weights: Array) -> float:
        logits = design @ weights
        return float(np.logaddexp(0, logits).sum() - probability @ logits + 0.5 * weights @ precision @ weights)

    def gradient(weights: Array) -> Array:
        return np.asarray(design.T @ (special.expit(design @ weights) - probability) + precision @ weights)

    def hessian(weights: Array) -> Array:
        chance = special.expit(design @ weights)
        return np.asarray(design.T @ (design * (chance * (1 - chance))[:, None]) + precision)

    best = optimize.minimize(loss, np.zeros(3), jac=gradient, hess=hessian, method="trust-exact", tol=1e-8).x
    deviation = float(np.sqrt(np.linalg.inv(hessian(best))[2, 2]))
    half = NormalDist().inv_cdf((1 + level) / 2) * deviation
    return Slope(float(best[2]), float(best[2]) - half, float(best[2]) + half, len(label))
