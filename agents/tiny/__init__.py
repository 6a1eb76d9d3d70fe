"""The built-in tiny model, never downloaded.

It is shipped for our own generators, trained and cached for others.
"""

from __future__ import annotations

from pathlib import Path


def ensure(
    demonstrations: str,
    *,
    cache: Path | None = None,
    progress: bool = True,
    seed: int = 0,
    from_scratch: bool = False,
) -> Path:
    """The folder of the tiny model that has learned these texts.

    See `palaver.agents.tiny.build.ensure`.
    """
    from palaver.agents.tiny import build

    return build.ensure(demonstrations, cache=cache, progress=progress, seed=seed, from_scratch=from_scratch)
