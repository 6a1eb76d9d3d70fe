"""Rubrics: what counts, what is refused, and the weighted mean."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from palaver.agents.judges.spec import DEFAULT_RUBRIC, Criterion, JudgeRubric, read_rubric
from palaver.core import ConfigError


def test_the_mean_is_weighted():
    rubric = JudgeRubric(
        criteria=(
            Criterion(name="a", text="x", weight=2, choices=("bad", "fair", "good")),
            Criterion(name="b", text="x", weight=1),
            Criterion(name="seen", text="x", weight=0),
        )
    )
    # (2 x 0.5 + 1 x 1 + 0 x 0) / 3 = 2/3
    assert rubric.mean({"a": 0.5, "b": 1.0, "seen": 0.0}) == pytest.approx(2 / 3)


def test_choices_are_evenly_spread_from_worst_to_best():
    criterion = Criterion(name="a", text="x", choices=("1", "2", "3", "4", "5"))
    assert [criterion.value(choice) for choice in "12345"] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert criterion.value("6") is None
    assert Criterion(name="a", text="x").value(' "Yes". ') == 1.0


def test_yaml_reads_no_as_false_and_a_rubric_reads_it_as_no(tmp_path):
    path = tmp_path / "rubric.yaml"
    path.write_text(
        "criteria:\n- {name: clear, text: It is clear., choices: [no, yes]}\n- {name: n, text: t, choices: [1, 2]}\n"
    )
    found = read_rubric(path)
    assert [c.choices for c in found.criteria] == [("no", "yes"), ("1", "2")]


def test_the_default_counts():
    assert DEFAULT_RUBRIC.mean({"done": 1.0, "correct": 0.5, "together": 0.0}) == pytest.approx(2.5 / 4)


@pytest.mark.parametrize(
    "criteria",
    [
        [],
        [{"name": "a", "text": "x", "weight": -1}],
        [{"name": "a", "text": "x", "weight": 0}],
        [{"name": "a", "text": "x"}, {"name": "a", "text": "y"}],
        [{"name": "a b", "text": "x"}],
        [{"name": "a", "text": ""}],
        [{"name": "a", "text": "x", "choices": ["yes"]}],
        [{"name": "a", "text": "x", "choices": ["Yes", "yes."]}],
        [{"name": "a", "text": "x", "choices": list("1234567890")}],
        [{"name": "a", "text": "x", "weight": float("nan")}],
        [{"name": "a", "text": "x", "wieght": 1}],
    ],
)
def test_what_makes_no_sense_is_refused(criteria):
    with pytest.raises(ValidationError):
        JudgeRubric.model_validate({"criteria": criteria})


@pytest.mark.parametrize("text", ["criteria: [", "[1, 2]", "", "criteria: 3", "criteria: [{name: a}]"])
def test_a_file_that_does_not_fit_is_named(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"mine\.yaml"):
        read_rubric(path)
    with pytest.raises(ConfigError, match="cannot read the rubric"):
        read_rubric(tmp_path / "none.yaml")


def test_json_is_read_too(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"criteria": [{"name": "a", "text": "x"}]}))
    assert read_rubric(path).criteria[0].choices == ("no", "yes")
