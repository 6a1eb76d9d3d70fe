"""Task sets: every source and format, slices, and one clear line for every mistake."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import palaver
from palaver.core import TaskError
from palaver.envs.base.tasks import Task, is_generated, is_sample, load_tasks

ROWS = [{"id": f"r{n}", "text": f"text {n}\u2028, “quoted”\nline"} for n in range(5)]


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n\n", encoding="utf-8")
    return path


def load(source, sample, **kwargs):
    return load_tasks(source, sample=sample, fields={"text": str}, **kwargs)


class Table(list):
    """The part of a `datasets.Dataset` that is used."""

    def select(self, numbers):
        return [self[n] for n in numbers]


def hub(monkeypatch, load_dataset, error=KeyError):
    exceptions = types.SimpleNamespace(DatasetsError=error)
    monkeypatch.setitem(
        sys.modules,
        "datasets",
        types.SimpleNamespace(load_dataset=load_dataset, exceptions=exceptions, __spec__=ModuleSpec("datasets", None)),
    )


def ids(tasks):
    return [task.id for task in tasks]


def write(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    plain = suffix.removesuffix(".gz")
    if plain == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(ROWS), path)
        return path
    if plain == ".csv":
        quoted = [row["text"].replace('"', '""') for row in ROWS]
        lines = ["\ufeffid,text", *(f'{row["id"]},"{text}"' for row, text in zip(ROWS, quoted, strict=True))]
        raw = "\r\n".join(lines).encode()
    elif plain == ".json":
        raw = json.dumps(ROWS).encode()
    else:
        raw = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode()
    path.write_bytes(gzip.compress(raw) if suffix.endswith(".gz") else raw)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet", ".jsonl.gz", ".json.gz", ".csv.gz"])
def test_formats(tmp_path, sample, suffix):
    tasks = load(str(write(tmp_path, suffix)), sample)
    assert [dict(task.data) for task in tasks] == ROWS
    assert ids(tasks) == ["r0", "r1", "r2", "r3", "r4"]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("", "01234"),
        ("[:2]", "01"),
        ("[3:]", "34"),
        ("[-2:]", "34"),
        ("[1:4:2]", "13"),
        ("[::-1]", "43210"),
        ("[ : 9 ]", "01234"),
    ],
)
def test_slices(sample, part, expected):
    for source in ("sample", str(sample)):
        assert "".join(ids(load(source + part, sample))) == "".join(f"r{n}" for n in expected)


def test_ids_without_a_field_are_row_numbers_before_slicing(tmp_path, sample):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b", "id": ""}\n{"text": "c", "id": 7}\n{"text": "d", "id": 7}')
    assert ids(load(f"{path}[1:]", sample)) == ["row-1", "7", "7#row 3"]


def test_every_row_is_a_task_of_its_own(tmp_path, sample):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"text": "a", "id": id}) for id in (0, "7#row 2", 7, 7, "7", 0)))
    assert ids(load(path, sample)) == ["0", "7#row 2", "7", "7#row 3", "7#row 4", "0#row 5"]
    path.write_text("\n".join(json.dumps({"text": "a", "id": id}) for id in ("7#row 2", 7, 7)))
    assert ids(load(path, sample)) == ["7#row 2", "7", "7#row 2#row 2"]


def test_a_path_need_not_be_a_text(tmp_path, sample):
    path = write(tmp_path, ".jsonl")
    assert load(path, sample) == load(str(path), sample)
    assert palaver.make("echo-v0", tasks=Path("sample")).source == "sample"


@pytest.mark.parametrize("source", ["sample", "sample[:4]", " sample [4:]"])
def test_the_sample_is_known_by_its_whole_name(source, sample):
    assert is_sample(source)
    load(source, sample)


def numbered(count, seed):
    """At most 70 rows, of which smaller sets begin larger ones."""
    return [{"text": f"{seed}-{n}"} for n in range(min(count, 70))]


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("sample", [f"0-{n}" for n in range(64)]),
        (Path("sample"), [f"0-{n}" for n in range(64)]),
        ("sample[62:]", ["0-62", "0-63"]),
        ("generated:7", [f"7-{n}" for n in range(64)]),
        ("generated:7:3", ["7-0", "7-1", "7-2"]),
        ("generated:12:70[-1:]", ["12-69"]),
    ],
)
def test_tasks_may_be_made_here(source, texts):
    assert is_generated(source)
    assert [task["text"] for task in load_tasks(source, sample=numbered, fields={"text": str})] == texts


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("generated:", "write generated:SEED or generated:SEED:COUNT"),
        ("generated:seven", "write generated:SEED or generated:SEED:COUNT"),
        ("generated:7:71", "asks for 71 different tasks, but there are only 70"),
        ("generated:7:0", "is empty"),
        ("made", "there is no file 'made'"),
    ],
)
def test_tasks_that_cannot_be_made(source, message):
    with pytest.raises(TaskError, match=message):
        load_tasks(source, sample=numbered, fields={"text": str})


def test_nothing_is_made_where_the_sample_is_a_file(sample):
    assert not is_generated("houses.json")
    with pytest.raises(TaskError, match="there is no file 'generated:7'"):
        load("generated:7", sample)


@pytest.mark.parametrize("source", ["samples", "sample.jsonl", "sample-real/x.jsonl[:4]", "hf:sample", "", "[:4]"])
def test_what_only_begins_like_the_sample_is_not_it(source):
    assert not is_sample(source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "names no data"),
        ("[:3]", "names no data"),
        ("nowhere.jsonl", "there is no file 'nowhere.jsonl'"),
        ("sample[5:]", "is empty"),
        ("sample[3]", "bad slice"),
        ("sample[a:b]", "bad slice"),
        ("sample[::0]", "bad slice"),
        ("sample[:-]", "bad slice"),
        (5, "got int"),
        (None, "got NoneType"),
        (["sample"], "got list"),
        ("hf:", "names no data"),
        ("hf: [:3]", "names no data"),
        ("x" * 5000, "cannot read"),
        ("~no such user/rows.jsonl", "cannot read"),
        ("a\0b.jsonl", "there is no file"),
    ],
)
def test_bad_sources(sample, source, message):
    with pytest.raises(TaskError, match=message) as caught:
        load(source, sample)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.txt", b"x", "expected a file that ends with"),
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", b'\n{"text": ', "line 2 is not JSON"),
        ("a.jsonl", b"[1]\n[2]", "row 0: expected an object.*; nor can any of the other 1 rows be used"),
        ("a.jsonl", b'{"body": "b"}', "row 0: the field 'text' is missing or empty; it has body"),
        ("a.jsonl", b'{"text": ' + b"1" * 5000 + b"}", "line 1 is not usable JSON"),
        ("a.jsonl", b'{"text": "\xe9"}', "line 1 is not UTF-8"),
        ("a.jsonl", b'{"text": " "}', "row 0: the field 'text' is missing"),
        ("a.jsonl", b'{"text": 3}', "row 0: the field 'text' is int, expected str"),
        ("a.jsonl", b"\xff\xfe", "cannot read"),
        ("a.json", b'{"text": "a"}', "expected a list"),
        ("a.json", b"nope", "cannot read"),
        ("a.csv", b"text\n\n", "is empty"),
        ("a.csv", b'text\n"open', "cannot read"),
        ("a.csv", b"body\nx", "the field 'text' is missing"),
        ("a.jsonl.gz", b"not zipped", "cannot read"),
        ("a.jsonl.gz", gzip.compress(b'{"text": "a"}', mtime=0)[:-9], "cannot read"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20, "cannot read"),
        ("a.jsonl", b"[" * 100_000, "cannot read"),
        ("a.json", b"[" * 100_000, "cannot read"),
        ("a.jsonl", b'{"a\\nb\\u001b": 1}', "it has a b␛"),
        ("a.parquet", b"not arrow", "cannot read"),
    ],
)
def test_bad_files(tmp_path, sample, name, raw, message):
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(TaskError, match=message) as caught:
        load(str(tmp_path / name), sample)
    assert "\n" not in str(caught.value)


def test_hub_names_splits_and_slices(monkeypatch, sample):
    asked = []

    def load_dataset(name, split):
        asked.append((name, split))
        return Table(ROWS)

    hub(monkeypatch, load_dataset)
    assert ids(load("hf:some/set", sample)) == ["r0", "r1", "r2", "r3", "r4"]
    assert ids(load("hf:some/set:validation[1:3]", sample)) == ["r1", "r2"]
    assert asked == [("some/set", "train"), ("some/set", "validation")]


def test_hub_configurations(monkeypatch, sample):
    asked = []

    def load_dataset(*names, split):
        asked.append((*names, split))
        return Table(ROWS)

    hub(monkeypatch, load_dataset)
    load("hf:some/set@main:test[:2]", sample)
    load("hf:some/set@main", sample)
    assert asked == [("some/set", "main", "test"), ("some/set", "main", "train")]


def test_only_the_slice_of_a_hub_set_is_read(monkeypatch, sample):
    datasets = pytest.importorskip("datasets")
    table, read = datasets.Dataset.from_list(ROWS), []
    table = table.with_transform(lambda batch: read.append(len(batch["id"])) or batch)
    hub(monkeypatch, lambda name, split: table)
    assert [dict(task.data) for task in load("hf:some/set[3:0:-2]", sample)] == [ROWS[3], ROWS[1]]
    assert sum(read) == 2


class OwnError(Exception):
    """As `datasets.exceptions.DatasetsError` is: of no other family."""


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("no\nnetwork"),
        FileNotFoundError("gone"),
        ValueError("split"),
        IndexError("name"),
        OwnError("broken"),
    ],
)
def test_hub_failures(monkeypatch, sample, error):
    def load_dataset(name, split):
        raise error

    hub(monkeypatch, load_dataset, OwnError)
    with pytest.raises(TaskError, match="check the name, the split and the network") as caught:
        load("hf:some/set", sample)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["hf:some/set", "rows.parquet"])
def test_missing_packages(monkeypatch, tmp_path, sample, source):
    for package in ("datasets", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "rows.parquet").write_bytes(b"")
    with pytest.raises(TaskError, match=r"pip install 'palaver\[train\]'"):
        load(source if source.startswith("hf") else str(tmp_path / source), sample)


def test_tasks_are_frozen_and_travel():
    task = Task("a", {"x": [1]})
    assert task["x"] == [1]
    with pytest.raises(AttributeError):
        task.id = "b"
    with pytest.raises(TypeError):
        task.data["x"] = 2
    assert copy.deepcopy(task) is task
    assert pickle.loads(pickle.dumps(task)) == task
    assert {task, Task("a", {"x": [1]})} == {task}
    assert task != Task("a", {"x": [2]})
    with pytest.raises(TaskError):
        Task("", {})
