"""Learning rate of each training step."""

from __future__ import annotations

import math

from palaver.trainers.config.run import OptimConfig


def learning_rate_schedule(config: OptimConfig, step: int, steps: int) -> float:
    """Learning rate of `step`: linear warm-up, then constant, linear or cosine decay to 0."""
    if step <= config.warmup:
        return config.lr * step / (config.warmup + 1)
    progress = (step - 1 - config.warmup) / max(1, steps - config.warmup)
    if config.schedule == "linear":
        return config.lr * (1 - progress)
    if config.schedule == "cosine":
        return config.lr * 0.5 * (1 + math.cos(math.pi * progress))
    return config.lr
