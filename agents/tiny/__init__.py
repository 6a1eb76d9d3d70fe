"""The built-in tiny model: trained from scratch on a generator's texts in 1.5 minutes, cached, never downloaded."""

from __future__ import annotations

from pathlib import Path


def ensure(demonstrations: str, *, cache: Path | None = None, progress: bool = True, seed: int = 0) -> Path:
    """The folder of the tiny model that has learned these texts; see `palaver.agents.tiny.build.ensure`."""
    from palaver.agents.tiny import build

    return build.ensure(demonstrations, cache=cache, progress=progress, seed=seed)
