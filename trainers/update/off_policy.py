"""Correction of one update, by row, for samples of another policy than it starts from.

Decoupled PPO (Hilton et al., arXiv 2110.00641; AReaL, arXiv 2505.24298) knows three policies: mu that sampled, pi_0
before the update, which bounds how far it goes, and pi now. The loss is that of pi / pi_0, times pi_0 / mu.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.objectives.losses import log_ratio, truncated
from palaver.trainers.objectives.off_policy import within


@dataclass(frozen=True, slots=True)
class Correction:
    """Correction of an update; each mapping is empty where it corrects nothing.

    Attributes:
        old: row -> (T,) log-probs that the ratio is measured from, in place of those at sampling.
        weight: row -> (T,) weight of the policy loss.
        kept: row -> (T,) false at tokens that are not trained on.
        sums: over the tokens that are left, their weights (also where the loss has none) and their number; and the
            number of all tokens.
        drift: largest |log-prob before the update - log-prob at sampling|, of masked tokens too.
    """

    old: Mapping[int, Tensor] = field(default_factory=dict)
    weight: Mapping[int, Tensor] = field(default_factory=dict)
    kept: Mapping[int, Tensor] = field(default_factory=dict)
    sums: tuple[float, float, float] = (0.0, 0.0, 0.0)
    drift: float = 0.0

    def masks(self, row: int) -> bool:
        """Return whether no token of a row is left."""
        return row in self.kept and not bool(self.kept[row].any())

    def length(self, row: int, tokens: int) -> int:
        """Number of a row's tokens that are left, of as many."""
        return int(self.kept[row].sum()) if row in self.kept else tokens


NO_CORRECTION = Correction()


def correction(before: Mapping[int, Tensor], sampled: Mapping[int, Tensor], config: AlgorithmConfig) -> Correction:
    """Correct by `algorithm.old`, `truncate`, `mask` and `correction`.

    Args:
        before: row -> (T,) log-probs before the update.
        sampled: row -> (T,) log-probs at sampling.
        config: of the algorithm.
    """
    level, drift = config.correction or config.ratio, 0.0
    old = {row: logp.cpu() for row, logp in before.items()}
    rho: dict[int, Tensor] = {}
    kept: dict[int, Tensor] = {}
    for row, logp in old.items():
        every, behaviour = torch.ones_like(logp, dtype=torch.bool), sampled[row].to(logp)
        log_rho = log_ratio(logp[None], behaviour[None], every[None], level)[0]
        rho[row] = log_rho.exp() if config.truncate is None else truncated(log_rho, config.truncate)
        kept[row] = every if config.mask is None else within(log_rho, config.mask)
        drift = max([drift, *(logp - behaviour).abs().tolist()])
    weights, left = (sum(float(values[kept[row]].sum()) for row, values in each.items()) for each in (rho, kept))
    return Correction(
        old if config.old == "learner" else {},
        rho if config.old == "learner" and config.truncate is not None else {},
        kept if config.mask is not None else {},
        (weights, left, float(sum(map(len, old.values())))),
        drift,
    )
