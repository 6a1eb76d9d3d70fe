"""Tasks: what one reset of an environment is about, and how a set of them is read."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import os
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

from palaver.core import ConfigError, PalaverWarning, TaskError, need
from palaver.envs.base.arguments import choice
from palaver.envs.base.spaces import is_text
from palaver.text import one_line

T = TypeVar("T")

_SOURCE = re.compile(r"(?P<name>.*?)(?P<slice>\[[^\[\]]*\])?", re.DOTALL)
_SLICE = re.compile(r"\[\s*(-?\d{1,15})?\s*:\s*(-?\d{1,15})?\s*(?::\s*(-?\d{1,15})?\s*)?\]")
_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
_GENERATED = re.compile(r"generated:(\d{1,9})(?::(\d{1,5}))?")
Row = tuple[str, Any]  # position ("row 3"), and what should be a mapping of its fields
Generate = Callable[[int, int], Sequence[Mapping[str, Any]]]  # (count, seed) -> rows, each of them different
SAMPLES = 64  # rows of a sample that is generated
_NAMED = 10  # rows that are left out and named in the warning


class Shared:
    """Data that never changes and that copies share: a deep copy is the object itself."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Task(Shared):
    """One problem of a data set. Immutable, so copies of an environment share it.

    Attributes:
        id: stable name within its set.
        data: the fields of its row, read only.
    """

    id: str
    data: Mapping[str, Any] = field(default_factory=dict)

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

    def __reduce__(self) -> tuple[type[Task], tuple[str, dict[str, Any]]]:
        return Task, (self.id, dict(self.data))


class ParsedTasks(Shared, dict[str, T]):
    """Task id -> what was read of the task."""


def is_sample(source: str) -> bool:
    """Return whether `load_tasks` would read the built-in sample, whole or a slice of it.

    >>> is_sample("sample"), is_sample("sample[:48]"), is_sample("sample.jsonl"), is_sample("samples[:48]")
    (True, True, False, False)
    """
    return _parts(source)[0] == "sample"


def load_tasks(
    source: str | os.PathLike[str],
    *,
    sample: Path | Generate,
    fields: Mapping[str, type],
    id_field: str = "id",
    split: str = "train",
) -> tuple[Task, ...]:
    """Load the tasks named by `source`; unusable rows are left out, with one warning.

    Args:
        source: `sample`; a path to a `.jsonl`, `.json`, `.csv` or `.parquet` file (the first three also with `.gz`); or
            `hf:NAME[@CONFIG][:SPLIT]`, read through `datasets`. A slice as in Python may follow: `sample[:48]`.
        sample: the file behind `sample`, or the function behind `sample` (seed 0) and `generated:SEED:COUNT`. Such a
            function may give fewer rows than requested, if there are no more.
        fields: the columns that a task needs, with their types; an empty text counts as missing.
        id_field: the column that names a task; a row without it is named by its number, counted from 0 before slicing.
            A row whose name is taken gets its number behind it.
        split: the split of an `hf:` source that names none.

    Raises:
        TaskError: missing or unreadable file, bad slice, empty set, no row that can be used, no `datasets`, no network.
    """
    return read_tasks(source, lambda task: task, sample=sample, fields=fields, id_field=id_field, split=split)[0]


def read_tasks(
    source: str | os.PathLike[str],
    read: Callable[[Task], T],
    *,
    sample: Path | Generate,
    fields: Mapping[str, type],
    id_field: str = "id",
    split: str = "train",
) -> tuple[tuple[Task, ...], ParsedTasks[T]]:
    """The tasks named by `source`, and id -> what `read` makes of each.

    Rows are left out as by `load_tasks`.

    Args:
        source: as for `load_tasks`, and so are the others.
        read: raises a TaskError for a task that cannot be used.
        sample: see there.
        fields: see there.
        id_field: see there.
        split: see there.

    Raises:
        TaskError: as `load_tasks`.
    """
    source = os.fspath(source) if isinstance(source, str | os.PathLike) else source
    if not isinstance(source, str):
        raise TaskError(f"tasks must be a text or a path, got {type(source).__name__}; use 'sample' or a file's path")
    name, wanted = _parts(source)
    if not name.removeprefix("hf:"):
        raise TaskError(f"tasks={source!r} names no data; use 'sample', a path, or 'hf:NAME:SPLIT'")
    rows = _rows(name, sample, split, _slice(wanted, source))
    if not rows:
        raise TaskError(f"tasks={source!r} is empty; give a source or slice with at least one row")
    tasks: dict[str, Task] = {}
    parsed_tasks: ParsedTasks[T] = ParsedTasks()
    left_out: dict[str, TaskError] = {}
    for location, row in rows:
        try:
            _require(row, fields, one_line(f"{name}, {location}"))
            task = Task(_id(row, location, id_field, tasks), row)
            parsed_tasks[task.id] = read(task)
            tasks[task.id] = task
        except TaskError as error:
            left_out[_label(row, location, id_field)] = error
    if left_out:
        _report(one_line(source, 200), left_out, len(rows), any_left=bool(tasks))
    return tuple(tasks.values()), parsed_tasks


def _id(row: Mapping[str, Any], location: str, id_field: str, taken: Mapping[str, Task]) -> str:
    given = row.get(id_field)
    id = location.replace(" ", "-") if given is None or given == "" else str(given)
    while id in taken:
        id = f"{id}#{location}"
    return id


def _label(row: object, location: str, id_field: str) -> str:
    """A row's place, with its name where it has one."""
    given = row.get(id_field) if isinstance(row, Mapping) else None
    return location if given in (None, "") else f"{location} ({one_line(str(given), 40)})"


def _report(source: str, left_out: Mapping[str, TaskError], rows: int, *, any_left: bool) -> None:
    """Warn of the rows that are left out.

    Raises:
        TaskError: no row is left.
    """
    first = next(iter(left_out.values()))
    if not any_left:
        suffix = f"; nor can any of the other {rows - 1} rows be used" if rows > 1 else ""
        raise TaskError(f"{one_line(first, 600)}{suffix}") from first
    named = ", ".join([*left_out][:_NAMED])
    suffix = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    warnings.warn(
        f"{source}: {len(left_out)} of {rows} rows left out, as they cannot be used: {named}{suffix};"
        f" the first because of this: {one_line(first, 400)}",
        PalaverWarning,
        stacklevel=4,
    )


def _parts(source: str) -> tuple[str, str]:
    """The name and the slice of a source, `[:]` where it has none."""
    match = _SOURCE.fullmatch(source)
    return (match["name"].strip(), match["slice"] or "[:]") if match else ("", "[:]")


def _slice(text: str, source: str) -> slice:
    match = _SLICE.fullmatch(text)
    bounds = [int(n) if n else None for n in match.groups()] if match else [0, 0, 0]
    if bounds[2] == 0:
        raise TaskError(f"tasks={source!r} has a bad slice; write it as in Python, for example [:48] or [48:]")
    return slice(*bounds)


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Placeholder of a row that cannot be read."""

    reason: str


def _require(row: object, fields: Mapping[str, type], location: str) -> None:
    if isinstance(row, _Unreadable):
        raise TaskError(f"{location}: cannot read it: {row.reason}")
    if not isinstance(row, Mapping):
        raise TaskError(f"{location}: expected an object with named fields, got {type(row).__name__}")
    for name, kind in fields.items():
        value = row.get(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            has = one_line(", ".join(map(str, row))) or "none"
            raise TaskError(f"{location}: the field {name!r} is missing or empty; it has {has}")
        if not isinstance(value, kind):
            raise TaskError(f"{location}: the field {name!r} is {type(value).__name__}, expected {kind.__name__}")


def check_difficulty(source: str | os.PathLike[str], difficulty: str | None, known: Sequence[str]) -> None:
    """Refuse a difficulty that does not exist, and one for tasks that are not generated.

    None is accepted.

    Raises:
        ConfigError: it is refused.
    """
    if difficulty is not None:
        choice("difficulty", difficulty, known)
        if not is_generated(source):
            raise ConfigError("difficulty is for tasks that are made here: 'sample' or 'generated:SEED:COUNT'")


def is_generated(source: str | os.PathLike[str]) -> bool:
    """Return whether `load_tasks` would generate the rows, where `sample` is a function.

    >>> is_generated("generated:7:96[:64]"), is_generated("sample"), is_generated("houses.json")
    (True, True, False)
    """
    name = _parts(os.fspath(source))[0] if isinstance(source, str | os.PathLike) else ""
    return name == "sample" or name.startswith("generated:")


def _rows(name: str, sample: Path | Generate, split: str, row_slice: slice) -> list[Row]:
    if name.startswith("hf:"):
        return _hub(name, split, row_slice)
    if callable(sample) and is_generated(name):
        generated = _generated_rows(name, sample)
        return [(f"row {n}", generated[n]) for n in range(len(generated))[row_slice]]
    path = _file(name, None if callable(sample) else sample)
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in _SUFFIXES:
        raise TaskError(f"cannot read {str(path)!r}: expected a file that ends with {', '.join(_SUFFIXES)}")
    try:
        if suffix == ".parquet":
            rows = _optional("pyarrow.parquet", "a .parquet file").read_table(path).to_pylist()
        else:
            rows = list(_text_rows(path, suffix))
    except (OSError, EOFError, ValueError, RuntimeError, zlib.error, csv.Error) as error:  # RuntimeError: deep nesting
        raise TaskError(f"cannot read {str(path)!r}: {_line(error)}") from error
    return [(f"row {n}", rows[n]) for n in range(len(rows))[row_slice]]


def _generated_rows(name: str, generate: Generate) -> Sequence[Mapping[str, Any]]:
    match = _GENERATED.fullmatch("generated:0" if name == "sample" else name)
    if not match:
        raise TaskError(f"tasks={name!r} cannot be read; write generated:SEED or generated:SEED:COUNT")
    count = int(match[2] or SAMPLES)
    rows = generate(count, int(match[1]))
    if match[2] and len(rows) < count:
        raise TaskError(f"tasks={name!r} asks for {count:,} different tasks, but there are only {len(rows):,}")
    return rows


def _file(name: str, sample: Path | None) -> Path:
    if name == "sample" and sample is not None:
        return sample
    try:
        path = Path(name).expanduser()
        if path.is_file():
            return path
    except (OSError, RuntimeError) as error:  # too long a name; a home that is unknown
        raise TaskError(f"cannot read {name[:200]!r}: {_line(error)}") from error
    raise TaskError(f"there is no file {str(path)!r}; use 'sample', a path, or 'hf:NAME:SPLIT'")


def _text_rows(path: Path, suffix: str) -> Iterator[Any]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if suffix == ".json":
        rows = json.loads(raw.decode("utf-8-sig"))
        if not isinstance(rows, list):
            raise ValueError("expected a list of objects")
        yield from rows
        return
    text = raw.decode("utf-8-sig", "surrogateescape")  # a byte that is no text spoils its own row alone
    if suffix == ".csv":
        yield from _csv_rows(text)
    else:
        # not splitlines: a text may hold U+2028, which is no end of line in JSON
        for line_number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield _json_line(line, line_number)


def _csv_rows(text: str) -> Iterator[Any]:
    csv.field_size_limit(2**31 - 1)
    rows = csv.DictReader(io.StringIO(text, newline=""), restkey="_", strict=True)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield _Unreadable(f"line {rows.line_num}: {error}")
            continue
        sound = all(is_text(value) for value in row.values() if isinstance(value, str))
        yield row if sound else _Unreadable(f"line {rows.line_num} is not UTF-8")


def _json_line(line: str, line_number: int) -> Any:
    if not is_text(line):
        return _Unreadable(f"line {line_number} is not UTF-8")
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        return _Unreadable(f"line {line_number} is not JSON ({error.msg})")
    except (ValueError, RecursionError) as error:  # a number of too many digits, nesting without end
        return _Unreadable(f"line {line_number} is not usable JSON ({_line(error)})")


def _optional(module: str, what: str) -> Any:
    need(what, "train", module.partition(".")[0], error=TaskError)
    return importlib.import_module(module)


def _hub(name: str, split: str, row_slice: slice) -> list[Row]:
    datasets = _optional("datasets", f"tasks={name!r}")
    repository, _, chosen = name.removeprefix("hf:").partition(":")
    repository, _, config = repository.partition("@")
    try:
        table = datasets.load_dataset(repository, *filter(None, [config]), split=chosen or split)
        numbers = range(len(table))[row_slice]
        return [(f"row {n}", row) for n, row in zip(numbers, table.select(numbers), strict=True)]
    except (OSError, ValueError, LookupError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise TaskError(f"cannot load {name!r} ({_line(error)}); check the name, the split and the network") from error


def _line(error: Exception) -> str:
    return one_line(error) or type(error).__name__
