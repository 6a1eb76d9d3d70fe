from __future__ import annotations

import json

import pytest

from palaver.benchmarks.judge_audit.judges import RecordedComparer
from palaver.core import TaskError
from palaver.scoring import AnswerPair


def row(number, one, two):
    said = {"swap = False": {"winner": one}, "swap = True": {"winner": two}}
    return {"input": f"q{number}", "output_1": "a", "output_2": "b", "label": 1, "results": [said]}


@pytest.fixture
def file(tmp_path):
    def write(*rows):
        path = tmp_path / "judge.json"
        path.write_text(json.dumps(rows))
        return path

    return write


def test_what_is_on_file_is_said_again(file):
    judge = RecordedComparer(
        file(row(0, "1", "1"), row(1, "1", "2"), row(2, "2", "2"), row(3, "tie", "1"), row(4, "?", "1"))
    )
    said = judge.compare([AnswerPair(f"q{number}", "a", "b") for number in range(5)])
    assert [(each.first, each.orders) for each in said] == [
        (1.0, (1.0, 1.0)), (0.5, (1.0, 0.0)), (0.0, (0.0, 0.0)), (0.75, (0.5, 1.0)), (None, (None, 1.0)),
    ]  # fmt: skip
    assert said[4].failure.startswith("unparseable")
    assert judge.name == "recorded:judge.json"


def test_a_pair_may_be_called_the_other_way_round(file):
    """Shown as (b, a), its first order is the recording's second: there output_2 came first."""
    judge = RecordedComparer(file(row(0, "1", "2"), row(1, "1", "1")))
    turned = judge.compare([AnswerPair("q0", "b", "a"), AnswerPair("q1", "b", "a")])
    # q0: the evaluator took output_1 in the first order and output_2 in the second, so always what was shown first
    assert [each.orders for each in turned] == [(1.0, 0.0), (0.0, 0.0)]


def test_what_is_not_on_file_fails(file):
    (said,) = RecordedComparer(file(row(0, "1", "1"))).compare([AnswerPair("q0", "a", "c")])
    assert (said.first, said.failure.partition(":")[0]) == (None, "not recorded")


@pytest.mark.parametrize("results", [[], [{}], [{"swap = False": {"winner": "1"}}], ["1"]])
def test_another_form_is_refused(file, results):
    with pytest.raises(TaskError, match=r"no winner for 'swap = (False|True)', as LLMBar's have"):
        RecordedComparer(file(row(0, "1", "1") | {"results": results}))
