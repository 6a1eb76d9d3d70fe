"""Texts of Kuhn poker with questions, and the shipped model of them."""

from __future__ import annotations

import pytest

import palaver
from palaver.envs.base.questions import read_guess
from palaver.envs.games import kuhn, kuhn_corpus
from palaver.envs.games.env import card_question
from palaver.envs.games.solve import GameTree
from palaver.utils.demonstrations import frequencies
from tests.envs.games.odds import check_shares, model_gaps

ACTS = {
    prompt: [f"{action}." for action in actions] for prompt, (_, actions) in GameTree.of(kuhn.GAME).infosets.items()
}


def guesses():
    """Prompt of every question, and the probabilities that each answer states."""
    for prompt, (player, _) in GameTree.of(kuhn.GAME).infosets.items():
        (card,) = (card for card in kuhn.CARDS if f"Your card: {card}." in prompt)
        one, other = (each for each in kuhn.CARDS if each != card)
        question = card_question(kuhn.GAME, kuhn.KuhnState("JQ"), player)
        stated = {
            f"{one} {p}%, {other} {100 - p}%.": {card: 0, one: p / 100, other: (100 - p) / 100}
            for p in range(0, 101, 10)
        }
        yield f"{prompt}\n\n{question.full_text}", stated


GUESSES = dict(guesses())
ANSWERS = ACTS | {prompt: [*stated] for prompt, stated in GUESSES.items()}


def test_every_prompt_occurs_with_its_frequencies():
    assert len(ANSWERS) == 24
    check_shares(kuhn_corpus.demonstrations(12000, 0), ANSWERS, within=0.03)
    guessed = [tuple(frequencies(11, prompt)) for prompt in GUESSES]
    assert len(guessed) == len(set(guessed)) == 12, "each situation has its own"


def test_a_guess_is_read_as_the_two_probabilities_that_it_states():
    question = card_question(kuhn.GAME, kuhn.KuhnState("JQ"), 0)
    for stated in GUESSES.values():
        for answer, weights in stated.items():
            read = read_guess(answer, question)
            assert read.readable
            assert read.weights == pytest.approx(weights)


def test_questions_and_actions_are_the_environments_own():
    env, met = palaver.make("kuhn-v0", infer="before"), set()
    for deal in env.tasks:
        for first in ("check", "bet"):
            observations, _ = env.reset(seed=0, options={"task": deal.id})
            while env.agents:
                met |= set(filter(None, observations.values()))
                action = first if env.turn < 2 else "bet"  # turn 0 is a guess, turn 1 the action after it
                observations, *_ = env.step(dict.fromkeys(env.agents, action))
    assert met == set(ANSWERS)


@pytest.mark.slow
def test_the_shipped_model_tells_information_sets_apart_in_its_guesses():
    """Total variation to the frequencies of the texts: of guesses a mean of 0.03 when it was made, 0.05 at most.

    Actions are a tenth of the texts: legal, and at a mean of 0.12 from their frequencies.
    """
    gaps = model_gaps("palaver.envs.games.kuhn_corpus:demonstrations", ANSWERS)
    assert max(gaps[prompt] for prompt in GUESSES) <= 0.08
