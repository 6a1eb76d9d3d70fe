"""Verdicts read from answers: the last object, nothing off the menu, numbers worked out by hand."""

from __future__ import annotations

import math
import time

import pytest

from palaver.agents.judges.parsing import UnreadError, better, choices, last_object, listed, weighted
from palaver.agents.judges.spec import JudgeRubric
from tests.agents.judges.scripted import TWO

RUBRIC = JudgeRubric.model_validate(TWO)
GOOD = '{"clear": {"reason": "it is", "choice": "partly"}, "short": {"reason": "no", "choice": "YES"}}'


def test_the_last_object_counts():
    text = f'<think>{{"clear": 1}} maybe {{"a": {{"b": 2}}}}</think>```json\n{GOOD}\n``` done'
    assert last_object(text)["short"] == {"reason": "no", "choice": "YES"}
    assert last_object('{"a": {"b": 1}}') == {"a": {"b": 1}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "{",
        "[1]",
        '{"a": 1',
        '{"a": NaN}',
        '{"a": 1, "a": 2}',
        "{'a': 1}",
        '{"a":' * 9000,
        "{" * 50_000,
        '{"a": 1e99999x}',
    ],
)
def test_what_is_no_object_is_unparseable_and_quick(text):
    began = time.process_time()
    with pytest.raises(UnreadError, match="unparseable"):
        last_object(text)
    assert time.process_time() - began < 5.0  # 0.15 s on a laptop; CPU seconds vary with the machine and its load


def test_choices_are_read():
    values, reason = choices(GOOD, RUBRIC)
    assert values == {"clear": 0.5, "short": 1.0}
    assert RUBRIC.mean(values) == pytest.approx((3 * 0.5 + 1 * 1.0) / 4)
    assert reason == "clear: it is; short: no"


@pytest.mark.parametrize(
    "text",
    [
        '{"clear": {"reason": "", "choice": "partly"}}',
        '{"clear": {"choice": "partly"}, "short": {"choice": "yes"}, "more": {"choice": "yes"}}',
        '{"clear": {"choice": "very"}, "short": {"choice": "yes"}}',
        '{"clear": {"choice": 1}, "short": {"choice": "yes"}}',
        '{"clear": {"choice": ["yes"]}, "short": null}',
    ],
)
def test_what_is_off_the_menu_is_refused(text):
    with pytest.raises(UnreadError, match="out of menu"):
        choices(text, RUBRIC)


def test_lists_are_matched_by_id():
    text = '{"answers": [{"id": "B", "reason": "x", "score": 0.25}, {"id": "A", "reason": "y", "score": 1}]}'
    assert listed(text, ["A", "B"]) == {"A": (1.0, "y"), "B": (0.25, "x")}


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ('[{"id": "A", "score": 1}]', "out of menu"),
        ('[{"id": "A", "score": 1}, {"id": "A", "score": 1}]', "out of menu"),
        ('[{"id": "A", "score": 1}, {"id": "C", "score": 1}]', "out of menu"),
        ('[{"id": "A", "score": 1}, {"id": "B", "score": 1.01}]', "out of menu"),
        ('[{"id": "A", "score": 1}, {"id": "B", "score": -0.1}]', "out of menu"),
        ('[{"id": "A", "score": 1}, {"id": "B", "score": "1"}]', "out of menu"),
        ('[{"id": "A", "score": 1}, {"id": "B", "score": true}]', "out of menu"),
        ('[{"id": "A", "score": 1}, {"id": "B", "score": 1e999}]', "out of menu"),
        ('[{"id": "A", "score": 1}, {"id": [], "score": 1}]', "out of menu"),
        ('[{"id": "A", "score": 1}, 3]', "unparseable"),
        ('{"A": 1}', "unparseable"),
    ],
)
def test_lists_that_do_not_match_are_refused(answers, kind):
    with pytest.raises(UnreadError, match=kind):
        listed(f'{{"answers": {answers}}}', ["A", "B"])


def test_preferences():
    assert better('{"reason": "r", "better": "first"}') == (1.0, "r")
    assert better('{"better": "Second."}') == (0.0, "")
    assert better('{"better": "tie"}')[0] == 0.5
    for text in ('{"better": "both"}', '{"better": 1}', "{}"):
        with pytest.raises(UnreadError, match="out of menu"):
            better(text)


def logs(**p):
    return {token: math.log(value) for token, value in p.items()}


def test_numbers_are_weighted_by_their_probability():
    top = [{**logs(**{"1": 0.1, "2": 0.15, " 2": 0.05, "3": 0.3, "the": 0.2, "4": 0.2})}]
    # over 1..3: (1 x 0.1 + 2 x 0.2 + 3 x 0.3) / 0.6 = 1.4 / 0.6
    assert weighted(top, 3) == pytest.approx(1.4 / 0.6)
    # over 1..4: (1.4 + 0.8) / 0.8
    assert weighted(top, 4) == pytest.approx(2.2 / 0.8)


def test_too_little_probability_on_the_scores_is_refused():
    with pytest.raises(UnreadError, match=r"out of menu: the scores have 0\.45"):
        weighted([logs(**{"1": 0.2, "2": 0.25, "no": 0.5})], 3)
    assert weighted([logs(**{"1": 0.25, "2": 0.25000001, "no": 0.4})], 3) == pytest.approx(1.5)
    with pytest.raises(UnreadError, match="no log-probabilities"):
        weighted([], 3)


def test_a_mark_may_stand_before_the_number_and_no_more():
    assert weighted([logs(**{"**": 0.9}), logs(**{"3": 1.0})], 3) == 3.0
    with pytest.raises(UnreadError):
        weighted([logs(a=1.0)] * 4 + [logs(**{"3": 1.0})], 3)
