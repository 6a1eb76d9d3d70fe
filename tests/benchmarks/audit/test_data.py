from __future__ import annotations

import json
import re

import pytest

from palaver.benchmarks.judge_audit.data import Graded, Labelled, read
from palaver.core import TaskError
from palaver.scoring import AnswerPair


def rows(tmp_path, *records, name="data.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return str(path)


def test_three_forms_in_one_set(tmp_path):
    bar = tmp_path / "bar.json"
    bar.write_text(json.dumps([{"input": "q", "output_1": "a", "output_2": "b", "label": 2}]))
    plain = rows(tmp_path, {"id": "x", "prompt": "p", "first": "", "second": "b", "label": "tie"},
                 {"prompt": "p", "answer": "a", "grade": 4})  # fmt: skip
    found = read([str(bar), plain])
    assert found.pairs == (
        Labelled("1:row-0", AnswerPair("q", "a", "b"), 0.0),
        Labelled("2:x", AnswerPair("p", "", "b"), 0.5),
    )
    assert found.graded == (Graded("2:row-1", "p", "a", 4),)
    assert (found.pairs[0].good, found.pairs[0].bad) == ("b", "a")


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"prompt": "p", "first": "a", "second": "b", "label": "left"}, "label must be 1 or first"),
        ({"prompt": "p", "first": "a", "second": "b", "label": True}, "label must be"),
        ({"prompt": "p", "first": "a", "second": "b", "label": ["first"]}, "label must be"),
        ({"prompt": "p", "first": 3, "second": "b", "label": 1}, "'first' is int"),
        ({"prompt": "p", "answer": "a", "grade": "good"}, "whole number"),
        ({"prompt": "p"}, "it has prompt"),
    ],
)
def test_a_row_that_does_not_fit_is_one_line(tmp_path, record, says):
    with pytest.raises(TaskError, match=re.escape(says)) as caught:
        read([rows(tmp_path, record)])
    assert "row 0" in str(caught.value) or "row-0" in str(caught.value)


def test_rows_are_drawn_by_the_seed_and_kept_in_order(tmp_path):
    path = rows(tmp_path, *({"id": str(n), "prompt": "p", "first": "a", "second": "b", "label": 1} for n in range(50)))
    one, again, other = (read([path], 10, seed).pairs for seed in (0, 0, 1))
    assert one == again != other
    assert [int(row.id) for row in one] == sorted(int(row.id) for row in one)
    assert len(read([path], 0).pairs) == len(read([path], 99).pairs) == 50


def test_the_same_id_in_two_files_is_two_rows(tmp_path):
    record = {"id": "x", "prompt": "p", "first": "a", "second": "b", "label": 1}
    one, two = rows(tmp_path, record, name="one.jsonl"), rows(tmp_path, record | {"label": 2}, name="two.jsonl")
    found = read([one, two]).pairs
    assert [row.label for row in found] == [1.0, 0.0]
    assert len({row.id for row in found}) == 2


def test_sums_are_right_and_neither_place_nor_length_tells_which():
    found = read(["generated:3:400"]).pairs
    assert found == read(["generated:3:400"]).pairs != read(["generated:4:400"]).pairs
    longer = 0
    for row in found:
        one, two = map(int, re.findall(r"\d+", row.pair.prompt))
        assert str(one + two) in row.good
        assert str(one + two) not in row.bad
        longer += len(row.good) > len(row.bad)
    # a fair coin thrown 400 times lies within four standard deviations, 40, of 200
    assert abs(longer + 0.5 * sum(len(row.good) == len(row.bad) for row in found) - 200) < 40
    assert abs(sum(row.label for row in found) - 200) < 40
