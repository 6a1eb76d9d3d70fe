"""Messages of analysed episodes: readers, facts in them, and what changes without them.

`palaver results analyse RUN --messages` keeps its table and its episodes in the run's folder. Both may come from
elsewhere, so whatever does not fit is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaver.benchmarks.reports.run_folder import numbers
from palaver.benchmarks.viewer.album import NAME, Album, agents_of, figure
from palaver.text import one_line
from palaver.utils.run_folder import object_of

MESSAGES = "messages.json"  # in the run's folder
MOST_FACTS, FACT = 40, 200  # of a message; characters of one
_SILENCED = "silenced/"


def table_of(folder: Path) -> Mapping[str, Any]:
    """The table of a run's analysis; empty if there is none, or it cannot be read."""
    try:
        return object_of((folder / MESSAGES).read_bytes())[0] or {}
    except OSError:
        return {}


def add_messages(album: Album, folder: Path) -> None:
    """Add the messages of the analysis in a run's folder to its episodes."""
    analysed = [pair for pair in zip(album.episodes, album.records, strict=True) if pair[0]["kind"] == "messages"]
    each = _listed(table_of(folder), "each") if analysed else ()
    for entry, episode in analysed:
        if entry["line"] < len(each) and isinstance(each[entry["line"]], dict):
            known = {agent: index for index, agent in enumerate(agents_of(episode))}
            _add(album, entry, each[entry["line"]], known)


def _add(album: Album, entry: dict[str, Any], record: Mapping[str, Any], known: Mapping[str, int]) -> None:
    changed = record.get("changed")
    affected = {name: _places(changed, name, known) for name in known} if isinstance(changed, dict) else {}
    rows: list[list[Any]] = []
    for name, difference in numbers(record.get("returns")).items():
        silent = name.removeprefix(_SILENCED)
        sender = known.get(silent, -1) if name.startswith(_SILENCED) else -1
        rows.append([one_line(name, NAME), sender, figure(difference), affected.get(silent, []) if sender >= 0 else []])
    if rows:
        entry["without"] = rows
    for sent in _listed(record, "messages"):
        turn, agent = (sent.get("turn"), sent.get("agent")) if isinstance(sent, dict) else (None, None)
        if isinstance(turn, int) and 0 <= turn < len(entry["turns"]) and isinstance(agent, str) and agent in known:
            facts = [album.text(one_line(fact, FACT)) for fact in _listed(sent, "facts")[:MOST_FACTS]]
            message = [known[agent], _places(sent, "readers", known), facts]
            entry["turns"][turn].setdefault("messages", []).append(message)


def _places(record: Mapping[str, Any], key: str, known: Mapping[str, int]) -> list[int]:
    """Indices of the known agents in a list of names."""
    return [known[name] for name in _listed(record, key) if isinstance(name, str) and name in known]


def _listed(record: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else ()
