"""Sixty messy answers with what they answer written by hand, and what no text may do to the reader."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest

from palaver.envs.base.transcripts import HOSTILE
from palaver.envs.maths import answers
from palaver.envs.maths.numbers import numbers, plain

MESSY = [
    ("#### 72", "72"),
    ("She has 3 left, so\n#### 1,234 apples", "1234"),
    ("####$1,200 in 3 years", "1200"),
    ("#### -5", "-5"),
    ("#### −5 degrees", "-5"),
    ("#### 12.50", "25/2"),
    ("#### .5", "1/2"),
    ("#### 3/4 of a cake", "3/4"),
    ("#### 1 1/2 hours", "3/2"),
    ("#### 50%", "50"),
    ("#### x = 7 and y = 9", "9"),
    ("#### 5\nNo, wait.\n#### 6", "6"),
    ("#### Paris.", "paris"),
    ("####   The  Red House!", "the red house"),
    ("####", ""),
    (r"So it is \boxed{42}.", "42"),
    (r"\boxed{41} is wrong, it is \boxed{42}", "42"),
    (r"\boxed{\frac{3}{4}}", "3/4"),
    (r"\boxed{-\frac{1}{2}}", "-1/2"),
    (r"$\boxed{\dfrac{22}{7}}$", "22/7"),
    (r"\boxed{2\frac{1}{3}}", "7/3"),
    (r"\boxed{1{,}024}", "1024"),
    (r"\boxed{12\,500}", "12500"),
    (r"\boxed{x = 12 \text{ m}^2}", "12"),
    (r"\boxed{\text{12 apples}}", "12"),
    (r"\boxed{\$45.00}", "45"),
    (r"\boxed{35\%}", "35"),
    (r"\fbox{3} or rather \boxed{3 \times 10^{4}}", "30000"),
    (r"\boxed{2x + 2", "2"),
    (r"#### 4, that is \boxed{5}", "5"),
    (r"\boxed{5}, marked again: #### 4", "4"),
    ("The answer is 18 dollars for 2 people.", "18"),
    ("**Answer:** 1,500 g in 2 bags", "1500"),
    ("The final answer is: $7.25 each", "29/4"),
    ("answer = -3, after 2 tries", "-3"),
    ("The answer is 4. No: the answer is 6 of 10.", "6"),
    ("The answer is not known. We have 5 eggs.", "5"),
    ("The answer is below.\n8", "8"),
    ("3 + 4 = 7", "7"),
    ("10 - 3 = 7, so 7 are left", "7"),
    ("Take 10-3", "3"),
    ("x = - 5", "-5"),
    ("It falls to -8°C", "-8"),
    ("(-12)", "-12"),
    ("You owe -$5.50", "-11/2"),
    ("You owe $-5", "-5"),
    ("€1,000,000", "1000000"),
    ("US$ 30", "30"),
    ("12km", "12"),
    ("100 m^2", "100"),
    ("a_1 + a_2 is 9 H2O", "9"),
    ("He came 3rd of 20, then 4th", "20"),
    ("2½ cups", "5/2"),
    ("about 1.5e3 of them", "1500"),
    ("3 × 10^5 stars", "300000"),
    ("1\u202f500\u202f000 people", "1500000"),
    ("**42**", "42"),
    ("it costs 7.", "7"),
    ("I ate 1/0 cakes", ""),
    ("I do not know", ""),
    ("", ""),
    ("<think>maybe 9</think>It is 8", "8"),
    ("it was 9 </think> 8", "8"),
    ("8 or <think> 9", "8"),
    ("<think>9", ""),
]


def test_there_are_sixty():
    assert len({text for text, _ in MESSY}) >= 60


@pytest.mark.parametrize(("text", "key"), MESSY)
def test_messy_answers(text, key):
    assert answers.read(text).key == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("She sold 48/2 = <<48/2=24>>24 clips.\n#### 72", "72"),
        ("72", "72"),
        ("$1,200", "1200"),
        ("3 apples", "3"),
        ("-3.0", "-3"),
        ("#### 9,800", "9800"),
        ("Paris", "paris"),
        ("x^2 + 1", "x^2 + 1"),
        ("2x + 2", "2x + 2"),
        ("2(x + 1)", "2(x + 1"),  # outer brackets are punctuation
        ("12km", "12"),
        ("12 m", "12"),
        ("50%", "50"),
        ("$7.50 per day.", "15/2"),
        ("(1, 2)", "1, 2"),
        (r"\boxed{18 \text{ red apples}}", "18"),
        (r"Thus \boxed{\frac{1}{3}}", "1/3"),
        ("####", ""),
    ],
)
def test_right_answers_as_data_sets_give_them(text, key):
    assert answers.gold(text).key == key


@pytest.mark.parametrize(
    ("said", "truth", "right"),
    [
        ("#### 72.00", "#### 72", True),
        ("0.75 it is", "3/4", True),
        ("#### 75%", "75", True),
        ("#### 0.75", "75%", False),  # a percentage is a unit
        ("1/3", "0.333", False),  # exactly, not nearly
        ("#### paris", "Paris.", True),
        ("Paris", "Paris", False),  # words count where they are marked
        ("#### 7 of Paris", "Paris", False),
        ("", "72", False),
    ],
)
def test_right(said, truth, right):
    assert answers.right(answers.read(said), answers.gold(truth)) == right


def test_hidden():
    assert answers.hidden("3 + 4 = 7, so 7.0 of 17. #### 7") == "3 + 4 = (hidden), so (hidden) of 17. #### (hidden)"
    assert answers.hidden("It is\n#### Paris") == "It is\n#### (hidden)"
    assert answers.hidden("no idea") == "no idea"


def test_numbers_stand_where_they_are_told():
    text = plain(r"from \frac{1}{2} to -3 or $1,000.25")
    found = list(numbers(text))
    assert [each.value for each in found] == [Fraction(1, 2), -3, Fraction("1000.25")]
    assert [text[each.start : each.end].strip() for each in found] == ["1/2", "-3", "$1,000.25"]
    assert answers.ParsedAnswer(Fraction("72.50")).key == "145/2"


LONG = [
    "<think>" * 3000, r"\boxed{" * 3000, "1," * 10_000, "1 " * 10_000, "1/" * 10_000, "-" * 20_000, "9" * 20_000,
    r"\frac{1}{" * 2000, "####" * 5000, "answer is " * 2000, "answer" + " " * 20_000, "1" + " " * 20_000,
    "</think>" * 2000, "=" * 20_000, "1e9999", "1e-9999", "1 1/" + "0" * 18, "\\frac{1}{0}", "½" * 20_000,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LONG) + len(HOSTILE)))
def test_no_text_raises_or_takes_long(number):
    text = [*LONG, *HOSTILE][number]
    if isinstance(text, str):
        start = time.process_time()
        assert isinstance(answers.read(text).key, str)
        assert isinstance(answers.hidden(text), str)
        answers.gold(text)
        assert time.process_time() - start < 5.0
