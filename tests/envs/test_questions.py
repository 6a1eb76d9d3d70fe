"""Answers to questions about another agent: what is read in a text, and what it is worth."""

from __future__ import annotations

import math

import pytest

from palaver.core import ConfigError
from palaver.envs.base.infer_spec import InferSpec, grade, parse_infer
from palaver.envs.base.questions import (
    Guess,
    InferenceQuestion,
    accuracy,
    brier_score,
    calibration_error,
    chance_score,
    log_score,
    overlap,
    read_guess,
    truth_of,
)
from palaver.envs.base.transcripts import HOSTILE

CARD = InferenceQuestion("p2", "Which card?", "choice", ("J", "Q", "K"), ("Q",))
LINES = InferenceQuestion("b2", "Which lines?", "slots", ("1", "2", "3", "10"), ("2", "10"))
FACT = InferenceQuestion("p2", "Which fact?", "slots", (), ("cedar is warm.",))
TEXT = InferenceQuestion("p2", "What?", "text", (), ("red red blue",))


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("Q", {"J": 0, "Q": 1, "K": 0}),
        ("my card is q.", {"J": 0, "Q": 1, "K": 0}),
        ("Queen or Jack, K", {"J": 0, "Q": 0, "K": 1}),
        ("J 0.5, Q 0.25, K 0.25", {"J": 0.5, "Q": 0.25, "K": 0.25}),
        ("J: 50%, K = 30 %", {"J": 0.5, "Q": 0.2, "K": 0.3}),
        ("J 1, Q 1", {"J": 0.5, "Q": 0.5, "K": 0}),
        ("J .2 and nothing else", {"J": 0.2, "Q": 0.4, "K": 0.4}),
        ("not J <guess>K 0.6</guess>", {"J": 0.2, "Q": 0.2, "K": 0.6}),
        ("<guess>K", {"J": 0, "Q": 0, "K": 1}),
        ("J 0, Q 0.7", {"J": 0, "Q": 0.7, "K": 0.3}),
    ],
)
def test_a_choice_is_an_option_or_probabilities(text, weights):
    guess = read_guess(text, CARD)
    assert guess.readable
    assert guess.weights == pytest.approx(weights)
    assert sum(guess.weights.values()) == pytest.approx(1)


def test_a_proper_score_by_hand():
    guess, truth = read_guess("J 0.5, Q 0.3, K 0.2", CARD), truth_of(CARD)
    assert brier_score(guess, truth) == pytest.approx(1 - (0.25 + 0.49 + 0.04))  # 1 less the Brier score
    assert log_score(guess, truth) == pytest.approx(math.log(0.3))
    assert accuracy(guess, truth, "choice") == 0
    assert accuracy(read_guess("J 0.5, Q 0.5", CARD), truth, "choice") == 0.5
    assert [chance_score(CARD, rule) for rule in ("brier", "log")] == pytest.approx([1 / 3, -math.log(3)])
    belief = Guess({"J": 0.6, "Q": 0.4})  # second order: the truth is a distribution
    assert brier_score(belief, belief) == pytest.approx(0.52)
    assert brier_score(Guess({"J": 1.0, "Q": 0.0}), belief) == pytest.approx(0.2)
    assert log_score(Guess({"J": 0.5, "Q": 0.5}), belief) == pytest.approx(math.log(0.5))


@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_the_truth_is_the_best_statement_in_the_mean(p):
    truths = [(p, Guess({"J": 1.0, "Q": 0.0})), (1 - p, Guess({"J": 0.0, "Q": 1.0}))]
    grid = [n / 20 for n in range(21)]
    for score in (brier_score, log_score):
        means = [sum(weight * score(Guess({"J": q, "Q": 1 - q}), truth) for weight, truth in truths) for q in grid]
        assert grid[means.index(max(means))] == p


def test_sets_and_texts_have_their_overlap():
    assert read_guess("2, 3 and 10; 7", LINES).weights == {"2": 1.0, "3": 1.0, "10": 1.0}
    assert overlap(read_guess("2, 3 and 10", LINES), truth_of(LINES)) == pytest.approx(2 * 2 / 5)
    assert overlap(read_guess("Cedar warm", FACT), truth_of(FACT)) == pytest.approx(2 * 2 / 5)
    assert overlap(read_guess("red", TEXT), truth_of(TEXT)) == pytest.approx(2 * 1 / 4)
    assert overlap(read_guess("red red", TEXT), truth_of(TEXT)) == pytest.approx(2 * 2 / 5)
    assert overlap(Guess({}), Guess({})) == overlap(Guess({}), truth_of(TEXT)) == 0.0


@pytest.mark.parametrize("text", [text for text in HOSTILE if isinstance(text, str)])
@pytest.mark.parametrize("question", [CARD, LINES, FACT, TEXT])
def test_any_string_has_a_score_and_garbage_no_good_one(question, text):
    guess, truth = read_guess(text, question), truth_of(question)
    rewards, metrics = grade({"p1": (question, guess, truth)}, InferSpec(alpha=1.0), "inference")
    assert rewards["p1"] <= 0.5
    assert all(math.isfinite(value) for value in (*rewards.values(), *metrics.values()))
    if question is CARD and not guess.readable:
        assert rewards["p1"] == pytest.approx(-1 - 1 / 3)
        assert metrics["inference/accuracy"] == 0


def test_a_reward_is_the_weighted_score_above_the_baseline():
    given = {"p1": (CARD, read_guess("Q 0.8", CARD), truth_of(CARD)), "p2": (LINES, Guess({"2": 1.0}), truth_of(LINES))}
    rewards, metrics = grade(given, InferSpec(alpha=0.5), "inference")
    score = 1 - (0.2**2 + 2 * 0.1**2)
    assert rewards == pytest.approx({"p1": 0.5 * (score - 1 / 3), "p2": 0.5 * 2 / 3})
    assert metrics["inference/accuracy"] == pytest.approx((1 + 2 / 3) / 2)
    assert metrics["inference/confidence/p1"] == pytest.approx(0.8)
    assert grade(given, InferSpec(alpha=1, baseline=0.25), "i")[0]["p2"] == pytest.approx(2 / 3 - 0.25)
    assert grade(given, InferSpec(alpha=1, score="log"), "i")[0]["p1"] == pytest.approx(math.log(0.8) + math.log(3))
    assert grade(given, InferSpec(), "i")[0] == {"p1": 0, "p2": 0}


def test_calibration_is_the_gap_between_confidence_and_accuracy():
    assert calibration_error([(0.8, 1.0), (0.8, 1.0), (0.8, 0.0), (0.3, 0.0)]) == pytest.approx(
        (3 * abs(2 / 3 - 0.8) + 0.3) / 4
    )
    assert calibration_error([]) == 0.0
    assert calibration_error([(1.0, 1.0)]) == 0.0


def test_a_question_that_cannot_be_scored_is_refused():
    with pytest.raises(ConfigError, match="needs 2 to 64 options"):
        InferenceQuestion("p2", "?", "choice", ("J",))
    with pytest.raises(ConfigError, match="not among its options"):
        InferenceQuestion("p2", "?", "choice", ("J", "Q"), ("K",))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "true, before, after or a mapping"),
        ("later", "when"),
        ({"alhpa": 1}, "Did you mean 'alpha'"),
        ({"order": 3}, "order"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_one_line(value, message):
    with pytest.raises(ConfigError, match=message):
        parse_infer(value)
