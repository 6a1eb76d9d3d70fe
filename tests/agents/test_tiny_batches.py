"""Batches that the tiny model is trained on."""

from __future__ import annotations

import random

from palaver.agents.tiny.training import _batches


def test_answers_of_one_prompt_come_in_groups_of_at_most_so_many():
    """Five answers of one prompt and one of another: two groups with all of them, or 2 + 2 + 1 and 1 with two each."""
    pairs = [([1], [n]) for n in range(5)] + [([2], [9])]
    whole = next(_batches(pairs, 2, None, random.Random(0)))
    assert sorted(answer[0] for _, answer in whole) in ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [0, 1, 2, 3, 4, 9], [9, 9])
    batches = _batches(pairs, 2, 2, random.Random(0))
    answers = [answer[0] for _ in range(64) for _, answer in next(batches)]  # 128 groups, 32 passes
    assert [answers.count(n) for n in (0, 1, 2, 3, 4, 9)] == [32] * 6
    assert len(answers) == 6 * 32
