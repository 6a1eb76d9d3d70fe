"""The shape of the tiny model and how it is trained. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything but texts and seed that decides the weights; part of the cache key.

    The optimisers follow K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024): Muon on
    the matrices of the layers, AdamW on embeddings and norms. Copying words from the prompt, which this model lives
    from, is learned several times sooner so than with AdamW alone.

    Attributes:
        version: raised when the code changes the weights in another way than through the fields below.
        hidden: width.
        inner: width of the feed-forward layers.
        layers: decoder layers.
        heads: attention heads.
        kv_heads: key and value heads.
        pieces: tokens from BPE merges, for words that no text of the generator holds.
        vocabulary: most tokens: three control tokens, 256 bytes, the pieces, and whole words.
        context: most tokens of prompt and answer together.
        texts: demonstrations trained on, cycled.
        batch: prompts per step, each with all its answers.
        steps: updates.
        muon_lr: rate of the matrices.
        adam_lr: rate of everything else.
        warmup: steps of linear warm-up.
        decay: share of the steps, at the end, in which the rates fall to zero.
        threads: torch threads while training; the sums of other numbers of threads round differently.
    """

    version: int = 2
    hidden: int = 128
    inner: int = 320
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    pieces: int = 256
    vocabulary: int = 1536
    context: int = 4096
    texts: int = 7200
    batch: int = 6
    steps: int = 300
    muon_lr: float = 0.02
    adam_lr: float = 0.01
    warmup: int = 15
    decay: float = 0.4
    threads: int = 1

    def rate(self, step: int) -> float:
        """Factor of the learning rates in step 1..`steps`."""
        rise = step / self.warmup if self.warmup else 1.0
        fall = (self.steps - step + 1) / (self.decay * self.steps) if self.decay else 1.0
        return min(1.0, rise, fall)
