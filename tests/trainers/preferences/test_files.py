"""Pairs on disk and the split by task: round trips, foreign files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palaver.core import TaskError
from palaver.trainers.preferences.record import PreferenceRecord, by_task, read, write


def put(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_what_is_written_is_read(tmp_path):
    pairs = [
        PreferenceRecord(
            "t0", {"a": "to a", "b": "to b\n"}, {"a": "é", "b": ""}, {"a": "[b says]", "b": "x"}, 0.5, "env:toy"
        ),
        PreferenceRecord("t0", {"a": "alone"}, {"a": "yes"}, {"a": "no"}, None, "judge:x"),
    ]
    write(tmp_path / "pairs.jsonl", pairs)
    assert read(str(tmp_path / "pairs.jsonl")) == pairs
    row = json.loads((tmp_path / "pairs.jsonl").read_text().splitlines()[0])
    assert row["prompt"] == "[a reads]\nto a\n\n[b reads]\nto b\n"
    assert (row["chosen"], row["rejected"]) == ("[a says]\né\n\n[b says]\n", "[a says]\n(b says)\n\n[b says]\nx")


def test_plain_files_and_conversations(tmp_path):
    user, yes, no = (
        {"role": r, "content": c} for r, c in (("user", "Why?"), ("assistant", "So."), ("assistant", "No."))
    )
    source = put(
        tmp_path / "p.jsonl",
        {"prompt": "Why?", "chosen": "So.", "rejected": "No."},
        {"chosen": [user, yes], "rejected": [user, no]},
        {"prompt": [user], "chosen": [yes], "rejected": [no], "margin": 2},
        {"chosen": "So.", "rejected": "No.", "task": 7},
        {"chosen": "same", "rejected": "same"},
    )
    found = read(source)
    assert [(*pair.observations.values(), *pair.chosen.values(), *pair.rejected.values()) for pair in found] == [
        ("Why?", "So.", "No."), ("Why?", "So.", "No."), ("Why?", "So.", "No."), ("", "So.", "No."),
    ]  # fmt: skip
    assert found[0].task == found[1].task == found[2].task != found[3].task == "7"
    assert found[2].margin == 2.0
    assert len(read(f"{source}[:2]")) == 2


BAD = [
    ({"prompt": "x"}, "row-0: chosen is NoneType"),
    ({"chosen": "a", "rejected": 3}, "rejected is int"),
    ({"chosen": [{"role": "user"}], "rejected": "b"}, "chosen is list"),
    ({"chosen": [{"content": "x"}, {"content": "a"}], "rejected": [{"content": "y"}, {"content": "b"}]}, "begin with"),
    ({"chosen": "a", "rejected": "b", "margin": "much"}, "margin is 'much'"),
    ({"chosen": "a", "rejected": "b", "margin": float("nan")}, "margin is nan"),
    ({"agents": {"a": {"prompt": "x", "chosen": "y"}}}, "`agents` must map"),
    ({"agents": ["a"]}, "`agents` must map"),
    ({"chosen": "a", "rejected": "a"}, "no pair of answers that differ"),
]


@pytest.mark.parametrize(("row", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_row_is_named(tmp_path, row, message):
    with pytest.raises(TaskError, match=message):
        read(put(tmp_path / "p.jsonl", row))


@pytest.mark.parametrize("source", ["sample", "none.jsonl"])
def test_no_pairs(source):
    with pytest.raises(TaskError):
        read(source)


def test_no_task_is_on_both_sides():
    pairs = [PreferenceRecord(f"t{n % 10}", {"a": ""}, {"a": str(n)}, {"a": ""}) for n in range(40)]
    train, test = by_task(pairs, 0.2, 0)
    assert (len(train), len(test)) == (32, 8)
    assert not {pair.task for pair in train} & {pair.task for pair in test}
    assert by_task(pairs, 0.2, 0) == (train, test) != by_task(pairs, 0.2, 1)
    assert {len(part) for part in by_task(pairs[:2], 0.01, 0)} == {1}
    assert {len(part) for part in by_task(pairs[:2], 0.99, 0)} == {1}
    with pytest.raises(TaskError, match="two or more"):
        by_task(pairs[:1], 0.5, 0)
