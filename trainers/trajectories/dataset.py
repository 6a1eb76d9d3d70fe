"""Battles as `datasets`: to look at, to filter, and to train language models on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaver.core import ConfigError
from palaver.trainers.trajectories.reader import Reader
from palaver.trainers.trajectories.record import ABOUT

if TYPE_CHECKING:
    import datasets

_KINDS = dict.fromkeys(ABOUT, "string") | {"seed": "int64", "result": "float64"}


def dataset(folder: Path, cache: Path | None = None) -> datasets.Dataset:
    """A row for every trajectory; decisions as lists in its columns, words as text.

    Columns: what `Trajectory` names, `turn`, `words` (S x W), `numbers` (S x K), `mask` (S x 14), `slot`, `requested`,
    `executed`, `legal`, `reward`. For training a network `palaver.trainers.trajectories.loader` needs a tenth of the
    room.

    Args:
        folder: of battles.
        cache: where `datasets` keeps its tables; None: where it always does.

    Raises:
        CheckpointError: no battles, or damaged ones.
    """
    return _as_dataset(_trajectories, _columns(), Path(folder), cache)


def texts(folder: Path, cache: Path | None = None) -> datasets.Dataset:
    """A row for every decision of which the observation was kept.

    Its columns are `text`, `legal`, `executed`, `slot`, `requested`, `reward`, `turn`, and the fields of `Trajectory`.

    Args:
        folder: of battles that were recorded with their texts.
        cache: where `datasets` keeps its tables; None: where it always does.

    Raises:
        CheckpointError: no battles, or damaged ones.
        ConfigError: none of them has texts.
    """
    if next(_decisions(str(folder), ""), None) is None:
        raise ConfigError(f"no battle in {str(folder)!r} has texts; record them with tournament.record_text=true")
    return _as_dataset(_decisions, _text_columns(), Path(folder), cache)


def _as_dataset(rows: Any, columns: dict[str, Any], folder: Path, cache: Path | None) -> datasets.Dataset:
    import datasets

    reader = Reader(folder)
    entries = f"{len(reader)} of {sum(entry.size for entry in reader.entries)} bytes"
    known = {"folder": str(folder.resolve()), "_entries": entries}
    return datasets.Dataset.from_generator(
        rows, features=datasets.Features(columns), gen_kwargs=known, cache_dir=None if cache is None else str(cache)
    )


def _trajectories(folder: str, _entries: str) -> Iterator[dict[str, Any]]:
    """Rows; `_entries` is there for the cache of `datasets` alone: other battles, other tables."""
    for trajectory in Reader(Path(folder)):
        steps = [asdict(decision) for decision in trajectory.decisions]
        names = ("turn", "words", "slot", "executed", "legal", "reward")
        yield {
            **trajectory.about(),
            **{name: [step[name] for step in steps] for name in names},
            "requested": [_sound(decision.requested) for decision in trajectory.decisions],
            "numbers": [step["numbers"].tolist() for step in steps],
            "mask": [step["mask"].tolist() for step in steps],
        }


def _decisions(folder: str, _entries: str) -> Iterator[dict[str, Any]]:
    for trajectory in Reader(Path(folder)):
        for decision in trajectory.decisions:
            if decision.text:
                values = {name: getattr(decision, name) for name in ("turn", "legal", "executed", "slot", "reward")}
                texts = {"text": _sound(decision.text), "requested": _sound(decision.requested)}
                yield {**trajectory.about(), **values, **texts}


def _sound(text: str) -> str:
    """Half a surrogate pair, which a model may say, is no text to Arrow."""
    return text.encode("utf-8", "replace").decode()


def _columns() -> dict[str, Any]:
    from datasets import List, Value

    text, integer, real = Value("string"), Value("int32"), Value("float64")
    return {
        **{name: Value(kind) for name, kind in _KINDS.items()},
        "turn": List(integer),
        "words": List(List(text)),
        "slot": List(integer),
        "requested": List(text),
        "executed": List(text),
        "legal": List(List(text)),
        "reward": List(real),
        "numbers": List(List(Value("float32"))),
        "mask": List(List(Value("bool"))),
    }


def _text_columns() -> dict[str, Any]:
    from datasets import List, Value

    text = Value("string")
    return {
        **{name: Value(kind) for name, kind in _KINDS.items()},
        "turn": Value("int32"),
        "text": text,
        "legal": List(text),
        "executed": text,
        "slot": Value("int32"),
        "requested": text,
        "reward": Value("float64"),
    }
