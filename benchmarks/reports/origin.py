"""Where runs came from, in words: commits, versions and the models that they began with, from their `launch.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN = "not noted"


def complete(launch: Mapping[str, Any]) -> bool:
    """Whether a run names its commit, its version and, where it began with a tiny model, that model's hash."""
    return bool(launch.get("commit") and launch.get("palaver") and "warm_starts" in launch)


def origin(launches: Iterable[Mapping[str, Any]]) -> str:
    """Commits, versions and warm starts of some runs, each once.

    >>> origin([{"commit": "c0ffee", "palaver": "0.1.0", "warm_starts": {"a": {"model": "m", "hash": "abc"}}}])
    'Palaver 0.1.0, commit c0ffee, warm start m (abc)'
    """
    known = list(launches)
    starts = [start for each in known for start in each.get("warm_starts", {}).values()]
    named = [f"{start['model']} ({start['hash']})" for start in starts] or [UNKNOWN]
    return ", ".join(
        f"{what} {' and '.join(dict.fromkeys(values))}"
        for what, values in (
            ("Palaver", [str(each.get("palaver") or UNKNOWN) for each in known]),
            ("commit", [str(each.get("commit") or UNKNOWN) for each in known]),
            ("warm start", named),
        )
    )
