"""Differences between groups: of their returns, task by task, and of their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from palaver.benchmarks.comparison.finished_runs import scene
from palaver.benchmarks.comparison.groups import NOT_A_SETTING, SHORT, Comparison, RunGroup
from palaver.text import one_line
from palaver.utils.stats.improvement import Improvement, paired_difference

ABSENT = "–"


@dataclass(frozen=True)
class PairedDifference:
    """Last evaluation of a group less that of another, on their common tasks.

    Attributes:
        first: name of the group.
        second: name of the one that is subtracted.
        change: mean difference and its 95 % interval.
    """

    first: str
    second: str
    change: Improvement

    @property
    def verdict(self) -> str:
        """`higher` or `lower` where the interval excludes 0, else `open`."""
        return {"yes": "higher", "worse": "lower"}.get(self.change.verdict, "open")


def paired_tests(comparison: Comparison) -> list[PairedDifference]:
    """Differences of every group to the best one of its environment.

    Groups without returns by task are left out.
    """
    best: dict[str, RunGroup] = {}  # the groups are in order, the best first
    found = []
    for group in comparison.groups:
        reference = best.setdefault(scene(group.trials[0].config), group)
        returns = [[trial.after_by_task for trial in one.trials] for one in (group, reference)]
        change = paired_difference(*returns) if group is not reference else None
        if change is not None:
            found.append(PairedDifference(group.name, reference.name, change))
    return found


def settings_that_differ(comparison: Comparison) -> dict[str, dict[str, str]]:
    """Keys of the config in which the groups differ -> group -> its values.

    The keys that define the groups and those that are no settings, as the seed, are left out.
    """
    known = {group.name: [dict(_settings(trial.config.model_dump(mode="json"))) for trial in group.trials]
             for group in comparison.groups}  # fmt: skip
    by = {SHORT.get(key, key) for key in comparison.by.split(",")}
    keys = dict.fromkeys(key for settings in known.values() for each in settings for key in each if key not in by)
    found = {}
    for key in keys:
        values = {name: _values([each.get(key, ABSENT) for each in settings]) for name, settings in known.items()}
        if len(set(values.values())) > 1:
            found[key] = values
    return found


def by_value(values: Mapping[str, str]) -> str:
    """Values with the groups that have them.

    >>> by_value({"ippo": "0.1", "magrpo": "0.2", "mappo": "0.1"})
    '0.1: ippo, mappo; 0.2: magrpo'
    """
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return "; ".join(f"{value}: {', '.join(names)}" for value, names in groups.items())


def _settings(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in section.items():
        if not prefix and name in NOT_A_SETTING:
            continue
        if isinstance(value, Mapping) and value:
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", one_line(value, 40) if value not in ("", None, {}) else "none"


def _values(values: list[str]) -> str:
    return " or ".join(dict.fromkeys(values))
