"""Tasks: what one reset of an environment is about, and how a set of them is read."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from palaver.core import TaskError

_SOURCE = re.compile(r"(?P<name>.*?)(?P<slice>\[[^\[\]]*\])?", re.DOTALL)
_SLICE = re.compile(r"\[\s*(-?\d{1,15})?\s*:\s*(-?\d{1,15})?\s*(?::\s*(-?\d{1,15})?\s*)?\]")
_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
Row = tuple[str, Mapping[str, Any]]  # where it stands ("row 3"), and its fields


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One problem of a data set. Immutable, so copies of an environment share it.

    Attributes:
        id: stable name within its set.
        data: the fields of its row, read only.
    """

    id: str
    data: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not self.id:
            raise TaskError("a task needs an id that is not empty")
        object.__setattr__(self, "data", MappingProxyType(dict(self.data)))

    def __getitem__(self, field: str) -> Any:
        return self.data[field]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and (self.id, dict(self.data)) == (other.id, dict(other.data))

    def __hash__(self) -> int:
        return hash(self.id)

    def __deepcopy__(self, memo: dict[int, Any]) -> Task:
        return self

    def __reduce__(self) -> tuple[type[Task], tuple[str, dict[str, Any]]]:
        return Task, (self.id, dict(self.data))


def load_tasks(
    source: str, *, sample: Path, fields: Mapping[str, type], id_field: str = "id", split: str = "train"
) -> tuple[Task, ...]:
    """The tasks named by `source`.

    Args:
        source: `sample`; a path to a `.jsonl`, `.json`, `.csv` or `.parquet` file (the first three also with `.gz`); or
            `hf:NAME[:SPLIT]`, read through `datasets`. A slice as in Python may follow: `sample[:48]`.
        sample: the file behind `sample`.
        fields: the columns every row must have, with their types; an empty text counts as missing.
        id_field: the column that names a task; a row without it is named by its number, counted from 0 before slicing.
        split: the split of an `hf:` source that names none.

    Raises:
        TaskError: missing or unreadable file, row without a field, bad slice, empty set, no `datasets`, no network.
    """
    match = _SOURCE.fullmatch(source)
    name = match["name"].strip() if match else ""
    if not name:
        raise TaskError(f"tasks={source!r} names no data; use 'sample', a path, or 'hf:NAME:SPLIT'")
    part = _slice(match["slice"] or "[:]", source) if match else slice(None)
    rows = _rows(name, sample, split)[part]
    if not rows:
        raise TaskError(f"tasks={source!r} is empty; give a source or slice with at least one row")
    tasks: dict[str, Task] = {}
    for place, row in rows:
        _require(row, fields, f"{name}, {place}")
        given = str(row.get(id_field) or place.replace(" ", "-"))
        id = f"{given}#{place}" if given in tasks else given
        tasks[id] = Task(id, row)
    return tuple(tasks.values())


def _slice(text: str, source: str) -> slice:
    match = _SLICE.fullmatch(text)
    bounds = [int(n) if n else None for n in match.groups()] if match else [0, 0, 0]
    if bounds[2] == 0:
        raise TaskError(f"tasks={source!r} has a bad slice; write it as in Python, for example [:48] or [48:]")
    return slice(*bounds)


def _require(row: Mapping[str, Any], fields: Mapping[str, type], place: str) -> None:
    for field, kind in fields.items():
        value = row.get(field)
        if value is None or (isinstance(value, str) and not value.strip()):
            raise TaskError(
                f"{place}: the field {field!r} is missing or empty; it has {', '.join(map(str, row)) or 'none'}"
            )
        if not isinstance(value, kind):
            raise TaskError(f"{place}: the field {field!r} is {type(value).__name__}, expected {kind.__name__}")


def _rows(name: str, sample: Path, split: str) -> list[Row]:
    if name.startswith("hf:"):
        return [(f"row {n}", row) for n, row in enumerate(_hub(name, split))]
    path = sample if name == "sample" else Path(name).expanduser()
    if not path.is_file():
        raise TaskError(f"there is no file {str(path)!r}; use 'sample', a path, or 'hf:NAME:SPLIT'")
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in _SUFFIXES:
        raise TaskError(f"cannot read {str(path)!r}: expected a file that ends with {', '.join(_SUFFIXES)}")
    try:
        rows = list(_parquet(path) if suffix == ".parquet" else _text_rows(path, suffix))
    except (OSError, ValueError, csv.Error) as error:
        raise TaskError(f"cannot read {str(path)!r}: {_line(error)}") from error
    for n, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TaskError(f"{path}, row {n}: expected an object with named fields, got {type(row).__name__}")
    return [(f"row {n}", row) for n, row in enumerate(rows)]


def _text_rows(path: Path, suffix: str) -> Iterator[Any]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = raw.decode("utf-8-sig")
    if suffix == ".csv":
        csv.field_size_limit(2**31 - 1)
        yield from csv.DictReader(io.StringIO(text, newline=""), restkey="_", strict=True)
    elif suffix == ".json":
        rows = json.loads(text)
        if not isinstance(rows, list):
            raise ValueError("expected a list of objects")
        yield from rows
    else:
        # not splitlines: a text may hold U+2028, which is no end of line in JSON
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield _json_line(line, number)


def _json_line(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number} is not JSON ({error.msg})") from error


def _optional(module: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TaskError(
            f"{what} needs {module.partition('.')[0]!r}; install it with: pip install 'palaver[train]'"
        ) from error


def _parquet(path: Path) -> Sequence[Mapping[str, Any]]:
    table = _optional("pyarrow.parquet", "a .parquet file").read_table(path)
    return table.to_pylist()  # type: ignore[no-any-return]


def _hub(name: str, split: str) -> Sequence[Mapping[str, Any]]:
    datasets = _optional("datasets", f"tasks={name!r}")
    repository, _, chosen = name.removeprefix("hf:").partition(":")
    try:
        return list(datasets.load_dataset(repository, split=chosen or split))
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise TaskError(f"cannot load {name!r} ({_line(error)}); check the name, the split and the network") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
