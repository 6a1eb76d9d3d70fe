"""Statistics of one policy update, and the sums over micro-batches that they are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """Statistics of one policy update.

    Attributes:
        loss: the weighted sum of token losses of the last optimiser step, KL and entropy included.
        grad_norm: of the last optimiser step, before clipping.
        kl: mean over trained tokens of the estimate of `kl.estimator`, 0 without a reference.
        drift: largest |log-prob now - log-prob at sampling| over this process's tokens before any step; rounding only
            on fresh data.
        moved: approximate KL between the policy that the ratio is measured from and the one after the last pass but
            one; 0 with one pass over fresh samples.
        passes: over the rows.
        rows: completions with a gradient.
        lr: learning rate of this step.
        entropy: mean over trained tokens of the entropy of the next token in nats, 0 if `algorithm.entropy` is 0.
        correction: mean over trained tokens of the importance weight before the update, truncated; None if there is
            none.
        masked: share of tokens outside of `algorithm.mask`; None without a mask.
    """

    loss: float
    grad_norm: float
    kl: float
    drift: float
    moved: float
    passes: int
    rows: int
    lr: float
    entropy: float = 0.0
    correction: float | None = None
    masked: float | None = None


@dataclass(slots=True)
class UpdateSums:
    """Sums over micro-batches; `PolicyUpdater` sums all but the drift over processes too."""

    loss: float = 0.0
    kl: float = 0.0
    moved: float = 0.0
    tokens: float = 0.0
    drift: float = 0.0
    entropy: float = 0.0

    def add(self, other: UpdateSums) -> None:
        """Add another micro-batch in place; the drift is the maximum of both."""
        self.loss, self.kl, self.moved = self.loss + other.loss, self.kl + other.kl, self.moved + other.moved
        self.tokens, self.entropy = self.tokens + other.tokens, self.entropy + other.entropy
        self.drift = max(self.drift, other.drift)
