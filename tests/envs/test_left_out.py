"""A row that cannot be used is left out by name with a count, in every environment; it never makes a file unusable."""

from __future__ import annotations

import json
import random
import warnings

import pytest

import palaver
from palaver.core import PalaverWarning, TaskError
from palaver.envs.base.tasks import load_tasks

FILES = [
    "arxiv-v0", "build-mini-v0", "coding-mini-v0", "coophumaneval-v0", "echo-v0", "gsm8k-v0", "housebuild-v0",
    "humaneval-v0", "mbpp-v0", "strbuild-v0", "tldr-v0",
]  # fmt: skip
NUMBERS = (0, -1, 10**30, 1.5, float("nan"), True)
JUNK = (None, "", " ", *NUMBERS, [], {}, [[]], {"a": None}, "\0", "\ud800", "def", [1, "x"])
LONGEST = 1600  # characters of the warning: one line that a terminal can show


def _good(id):
    return dict(palaver.make(id).tasks[0].data)


def _write(tmp_path, rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("id", FILES)
def test_bad_rows_are_left_out_by_name_with_a_count(id, tmp_path):
    """Each field of a good row replaced by values of every type, and rows that are none; drawn by a fixed seed."""
    good, draw = _good(id), random.Random(0)
    rows = [good, *JUNK]
    for _ in range(60):
        field = draw.choice(list(good))
        rows.append({**good, field: draw.choice(JUNK)})
        rows.append({name: value for name, value in good.items() if name != field})
    with pytest.warns(PalaverWarning, match=rf"rows\.jsonl: \d+ of {len(rows)} rows left out") as warned:
        env = palaver.make(id, tasks=_write(tmp_path, rows))
    left_out = int(str(warned[0].message).partition("rows.jsonl: ")[2].split()[0])
    assert len(env.tasks) + left_out == len(rows)
    assert len(env.tasks) >= 1
    assert left_out >= len(JUNK)
    assert [len(warned), "\n" in str(warned[0].message)] == [1, False]
    assert "row 1" in str(warned[0].message)
    assert len(str(warned[0].message)) < LONGEST
    for task in env.tasks:  # and the rows that are kept can be played
        observations, _ = env.reset(seed=0, options={"task": task.id})
        assert all(isinstance(text, str) for text in observations.values())


@pytest.mark.parametrize("id", FILES)
def test_only_a_file_without_any_usable_row_is_refused(id, tmp_path):
    with pytest.raises(TaskError, match=r"row.0.*nor can any of the other 2 rows be used") as caught:
        palaver.make(id, tasks=_write(tmp_path, [{}, {"x": 1}, 3]))
    assert "\n" not in str(caught.value)


def test_a_good_file_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        palaver.make("tldr-v0", tasks=_write(tmp_path, [{"prompt": "a"}, {"prompt": "b"}]))


def test_rows_outside_of_the_slice_are_not_looked_at(tmp_path):
    path = _write(tmp_path, [{"prompt": "a"}, {}, {"prompt": "c"}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [task["prompt"] for task in palaver.make("tldr-v0", tasks=f"{path}[::2]").tasks] == ["a", "c"]


def _load(path):
    with pytest.warns(PalaverWarning) as warned:
        tasks = load_tasks(path, sample=path, fields={"text": str})
    return [task["text"] for task in tasks], str(warned[0].message)


def test_a_line_that_is_not_json_or_not_text_spoils_its_own_row_alone(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "a"}\n{"text": \n{"text": "\xe9"}\n' + b"[" * 100_000 + b'\n{"text": "\xc3\xa9"}')
    texts, message = _load(path)
    assert texts == ["a", "é"]
    assert "3 of 5 rows left out, as they cannot be used: row 1, row 2, row 3; " in message
    assert "line 2 is not JSON" in message


def test_a_row_of_a_table_that_is_not_text_spoils_itself_alone(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b'text,n\na,1\n\xe9,2\n"b"x,3\n\xc3\xa9,4\n')
    texts, message = _load(path)
    assert texts == ["a", "é"]
    assert "2 of 4 rows left out, as they cannot be used: row 1, row 2; " in message
    assert "line 3 is not UTF-8" in message


def test_the_warning_names_ten_rows_at_most(tmp_path):
    path = _write(tmp_path, [{"text": "a"}, *({"id": f"{n}-" + "x" * 90, "text": ""} for n in range(500))])
    _, message = _load(path)
    assert "500 of 501 rows left out" in message
    assert "and 490 more; the first because of this: " in message
    assert len(message) < LONGEST
