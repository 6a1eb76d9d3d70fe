"""Texts that have each answer as often as chance has it in a situation, and shipped models of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import pytest

from palaver.core import Message
from palaver.utils.demonstrations import Pair, frequencies
from tests.shipped import load, probabilities

Answers = Mapping[str, Sequence[str]]  # prompt -> possible answers


def check_shares(texts: Sequence[Pair], answers: Answers, within: float) -> None:
    """Assert that every prompt occurs, with each of its answers as often as its frequencies say."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for conversation, answer in texts:
        found[conversation[0].content][answer] += 1
    assert set(found) == set(answers)
    for prompt, possible in answers.items():
        assert set(found[prompt]) == set(possible)
        for answer, share in zip(possible, shares(possible, prompt), strict=True):
            assert found[prompt][answer] / found[prompt].total() == pytest.approx(share, abs=within)


def model_gaps(demonstrations: str, answers: Answers) -> dict[str, float]:
    """Total variation of the shipped model's answers to each prompt from their frequencies."""
    loaded, gaps = load(demonstrations), {}
    for prompt, possible in answers.items():
        found = probabilities(loaded, (Message("user", prompt),), possible)
        assert sum(found) > 0.99
        gaps[prompt] = sum(abs(p - share) for p, share in zip(found, shares(possible, prompt), strict=True)) / 2
    return gaps


def shares(possible: Sequence[str], prompt: str) -> list[float]:
    """Share of each answer to a prompt."""
    often = frequencies(len(possible), prompt)
    return [times / sum(often) for times in often]
