"""Effect of an answer's length on a judge, controlled for the human preference."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Array = NDArray[np.float64]
PRIOR, WIDE = 2.5, 10.0  # standard deviations of the priors: of label and length, and of the intercept


@dataclass(frozen=True, slots=True)
class Slope:
    """Log-odds of preferring an answer for each doubling of its length, the ends of the interval, and the pairs."""

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
