"""Provenance of runs as text: commits, versions and warm starts, from their `launch.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN = "not noted"


def complete(launch: Mapping[str, Any]) -> bool:
    """Return whether a run records its commit, version, and the hash of its initial tiny model.

    A run that did not start from a tiny model records that there is none.
    """
    return bool(launch.get("commit") and launch.get("palaver") and "warm_starts" in launch)


def origin(launches: Iterable[Mapping[str, Any]]) -> str:
    """Commits, versions and warm starts of some runs, each once.

    >>> origin([{"commit": "c0ffee", "palaver": "0.1.0", "warm_starts": {"a": {"model": "m", "hash": "abc"}}}])
    'Palaver 0.1.0, commit c0ffee, warm start m (abc)'
    """
    known = list(launches)
    starts = [start for launch in known for start in launch.get("warm_starts", {}).values()]
    named = [f"{start['model']} ({start['hash']})" for start in starts] or [UNKNOWN]
    return ", ".join(
        f"{what} {' and '.join(dict.fromkeys(values))}"
        for what, values in (
            ("Palaver", [str(launch.get("palaver") or UNKNOWN) for launch in known]),
            ("commit", [str(launch.get("commit") or UNKNOWN) for launch in known]),
            ("warm start", named),
        )
    )
