"""Texts of Kuhn poker with questions, and the shipped model of them."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

import palaver
from palaver.core import Message
from palaver.envs.base.questions import read_guess
from palaver.envs.games import kuhn, kuhn_corpus
from palaver.envs.games.env import card_question
from palaver.envs.games.solve import GameTree
from palaver.utils.demonstrations import frequencies
from tests.shipped import load, probabilities


def prompts():
    """Prompt, possible answers and the probability of the first of two cards; None for an action."""
    for prompt, (player, actions) in GameTree.of(kuhn.GAME).infosets.items():
        yield prompt, {f"{action}.": None for action in actions}
        (card,) = (card for card in kuhn.CARDS if f"Your card: {card}." in prompt)
        one, other = (each for each in kuhn.CARDS if each != card)
        question = card_question(kuhn.GAME, kuhn.KuhnState("JQ"), player)
        guesses = {f"{one} {p}%, {other} {100 - p}%.": (one, p, other, 100 - p) for p in range(0, 101, 10)}
        yield f"{prompt}\n\n{question.full_text}", guesses


def test_every_prompt_occurs_with_its_frequencies():
    found = defaultdict(Counter)
    for conversation, answer in kuhn_corpus.demonstrations(12000, 0):
        found[conversation[0].content][answer] += 1
    answers = dict(prompts())
    assert len(answers) == 24
    assert set(found) == set(answers)
    for prompt, possible in answers.items():
        odds, counts = frequencies(len(possible), prompt), found[prompt]
        assert set(counts) == set(possible)
        for answer, weight in zip(possible, odds, strict=True):
            assert counts[answer] / counts.total() == pytest.approx(weight / sum(odds), abs=0.03)
    guessed = [tuple(frequencies(11, prompt)) for prompt, possible in answers.items() if len(possible) == 11]
    assert len(guessed) == len(set(guessed)) == 12, "each situation has its own"


def test_a_guess_is_read_as_the_two_probabilities_that_it_states():
    question = card_question(kuhn.GAME, kuhn.KuhnState("JQ"), 0)
    for _, possible in prompts():
        for answer, stated in possible.items():
            if stated is not None:
                one, p, other, q = stated
                read = read_guess(answer, question)
                assert read.readable
                assert read.weights == pytest.approx({"J": 0, "Q": 0, "K": 0, one: p / 100, other: q / 100})


def test_questions_and_actions_are_the_environments_own():
    env, known, met = palaver.make("kuhn-v0", infer="before"), dict(prompts()), set()
    for deal in env.tasks:
        for first in ("check", "bet"):
            observations, _ = env.reset(seed=0, options={"task": deal.id})
            while env.agents:
                met |= set(filter(None, observations.values()))
                action = first if env.turn < 2 else "bet"  # turn 0 is a guess, turn 1 the action after it
                observations, *_ = env.step(dict.fromkeys(env.agents, action))
    assert met == set(known)


@pytest.mark.slow
def test_the_shipped_model_tells_information_sets_apart_in_its_guesses():
    """Total variation to the frequencies of the texts: of guesses a mean of 0.03 when it was made, 0.05 at most.

    Actions are a tenth of the texts: legal, and at a mean of 0.12 from their frequencies.
    """
    loaded, gaps = load("palaver.envs.games.kuhn_corpus:demonstrations"), []
    for prompt, possible in prompts():
        found = probabilities(loaded, (Message("user", prompt),), list(possible))
        odds = frequencies(len(possible), prompt)
        assert sum(found) > 0.99
        if len(possible) == 11:
            gaps.append(sum(abs(p - weight / sum(odds)) for p, weight in zip(found, odds, strict=True)) / 2)
    assert len(gaps) == 12
    assert max(gaps) <= 0.08
