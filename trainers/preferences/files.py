"""Preferences in files.

A file has one JSON object a line, or is any file or data set with `chosen` and `rejected`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaver.core import TaskError, stable_seed
from palaver.envs.base.tasks import is_sample, load_tasks
from palaver.trainers.preferences.record import ALONE, PreferenceRecord
from palaver.utils.run_folder import replace_text


def write(path: Path, pairs: Sequence[PreferenceRecord]) -> None:
    """Write one JSON object a line, atomically."""
    replace_text(path, "".join(json.dumps(pair.to_dict(), ensure_ascii=False) + "\n" for pair in pairs))


def read(source: str) -> list[PreferenceRecord]:
    """Read preferences from a `.jsonl`, `.json`, `.csv` or `.parquet` file, or `hf:NAME:SPLIT`.

    A slice may follow. A row has `agents` (agent -> `prompt`, `chosen`, `rejected`), as `write` makes them, or else
    `chosen` and `rejected` as texts or as lists of messages, with or without a `prompt`. `task`, `margin` and `source`
    are optional; without a task, pairs with one prompt are of one task. Rows with two equal answers are left out.

    Raises:
        TaskError: the file cannot be read, or a row is no pair; the message names the row.
    """
    if is_sample(source):
        raise TaskError("there are no sample pairs; name a file with `chosen` and `rejected`, or sample a team's")
    rows = load_tasks(source, sample=Path(), fields={}, id_field="")
    pairs = [_pair(f"{source}, {row.id}", row.data) for row in rows]
    distinct = [pair for pair in pairs if pair.chosen != pair.rejected]
    if not distinct:
        raise TaskError(f"{source!r} holds no pair of answers that differ")
    return distinct


def _pair(location: str, row: Mapping[str, Any]) -> PreferenceRecord:
    margin = row.get("margin")
    if margin is not None and not (isinstance(margin, int | float) and math.isfinite(margin)):
        raise TaskError(f"{location}: the margin is {margin!r}; give a finite number, or leave it out")
    prompts, chosen, rejected = _joint(location, row) if row.get("agents") else _plain(location, row)
    task = row.get("task")
    name = str(task) if task not in (None, "") else f"prompt-{stable_seed(*prompts.values()):x}"
    margin_value = None if margin is None else float(margin)
    return PreferenceRecord(name, prompts, chosen, rejected, margin_value, str(row.get("source") or "file"))


def _joint(location: str, row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Prompts, chosen and rejected answers, by agent."""
    agents = row["agents"]
    parts = ("prompt", "chosen", "rejected")
    if not isinstance(agents, Mapping) or not all(
        isinstance(texts, Mapping) and all(isinstance(texts.get(key), str) for key in parts)
        for texts in agents.values()
    ):
        raise TaskError(f"{location}: `agents` must map each agent to the texts prompt, chosen and rejected")
    return [{str(agent): texts[key] for agent, texts in agents.items()} for key in parts]


def _plain(location: str, row: Mapping[str, Any]) -> list[dict[str, str]]:
    answers, openings = [], []
    for name in ("chosen", "rejected"):
        before, answer = _ended(location, name, row.get(name))
        answers.append(answer)
        openings.append(before)
    given = row.get("prompt")
    if given is None and openings[0] != openings[1]:
        raise TaskError(f"{location}: chosen and rejected must begin with the same messages")
    prompt = openings[0] if given is None else _text_of(location, "prompt", given)
    return [{ALONE: text} for text in (prompt, *answers)]


def _ended(location: str, name: str, value: Any) -> tuple[str, str]:
    """Return the text before the last message, and the last message.

    A text is its own last message.
    """
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value):
        return _text_of(location, name, list(value)[:-1]), _text_of(location, name, list(value)[-1:])
    return "", _text_of(location, name, value)


def _text_of(location: str, name: str, value: Any) -> str:
    """Return a text, or the joined contents of messages."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(m, Mapping) and isinstance(m.get("content"), str) for m in value):
        return "\n\n".join(message["content"] for message in value)
    raise TaskError(f"{location}: {name} is {type(value).__name__}; give a text, or messages with `role` and `content`")
