"""Texts of trust-and-split: the situation as the prompt has it, and each proposal alike."""

from __future__ import annotations

import re
from collections import defaultdict

from palaver.envs.negotiation import trust_and_split as ts
from palaver.envs.negotiation.trust_corpus import demonstrations

OWN, OTHER = re.compile(r"^Your hand: (\w+)\.$", re.M), re.compile(r"^The other: (?:I have (\w+)\.)?$", re.M)
KEPT = re.compile(r"^When the other last had the lower hand it proposed (\d+)\.$", re.M)
UPPER = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}

WORDS = {"none": "none", "0": "zero", "5": "five", "10": "ten"}


def answers_by_prompt():
    answers = defaultdict(list)
    for (message,), answer in demonstrations(8000, 0):
        answers[message.content].append(answer)
    return answers


def test_an_answer_restates_the_prompt_and_each_proposal_is_as_frequent():
    """2 agents, 3 hands of each, 3 of the other or none named with 6 pairs, memory of none, 0, 5 or 10."""
    proposals = 0
    for prompt, answers in answers_by_prompt().items():
        own = OWN.findall(prompt)[-1]
        if ts.REQUEST not in prompt:
            assert set(answers) == {f"I have {own}."}
            continue
        proposals += 1
        (other,), kept = (hand or "none" for hand in OTHER.findall(prompt)), (KEPT.findall(prompt) or ["none"])[0]
        level = "upper" if other == "none" or (own, other) in UPPER else "lower"
        assert (ts.NO_MEMORY in prompt) == (kept == "none")
        begin = f"{own} {other} {level} {kept} {level}{WORDS[kept]}"
        ends = [f"{choice}: {ts.propose(coins)}" for choice, coins in (("yield", 0), ("share", 5), ("keep", 10))]
        assert {answer.removeprefix(begin) for answer in answers} == set(ends)
        counts = [answers.count(begin + end) for end in ends]
        assert max(counts) - min(counts) <= 1, "the last prompt may be cut"
    assert proposals == 2 * (3 * 2 + 3) * 4


def test_the_same_seed_gives_the_same_texts():
    assert demonstrations(50, 3) == demonstrations(50, 3)
    assert demonstrations(50, 3) != demonstrations(50, 4)
