"""What the tiny model imitates in Hanabi: legal actions, all equally likely, after what the player knows."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from palaver.envs.hanabi import corpus, prompts
from palaver.envs.matrix.rules import action_index


@pytest.fixture(scope="module")
def texts():
    return corpus.demonstrations(4000, 0)


def test_answers_are_read_as_the_action_at_their_end(texts):
    for conversation, answer in texts:
        actions = prompts.read(conversation[0].content).actions
        assert answer.endswith(f": {actions[action_index(answer, actions)]}.")


def test_no_action_is_preferred(texts):
    """Places of the actions in their lists: among five each has 1/5."""
    places = Counter()
    for conversation, answer in texts:
        actions = prompts.read(conversation[0].content).actions
        if len(actions) == 5:
            places[actions.index(answer.rpartition(": ")[2].removesuffix("."))] += 1
    total = places.total()
    assert total > 400
    assert all(abs(count / total - 0.2) < 4 * (0.16 / total) ** 0.5 for count in places.values())


def test_texts_restate_what_the_prompt_shows(texts):
    shown = "Fireworks: red 1, blue 0.", "Your cards: 1 ?/2, 2 red/1.", "p2 holds: 1 blue 1 (?/1), 2 red 1 (red/?)."
    prompt = "\n".join(
        [
            "Hanabi. You are p1. Fireworks of ranks 1 to 2.",
            shown[0],
            "Tokens: 2 of 3.",
            *shown[1:],
            "Actions: play 1, play 2.",
        ]
    )
    answer = corpus._answer(prompt, random.Random(0))
    assert answer.rpartition(":")[0] == (
        "red 1, blue 0; own 1 any 2, 2 red 1; sees 1 blue 1 on 0 any 1, 2 red 1 on 1 red any"
    )
    assert corpus.demonstrations(10, 0) == texts[:10]
    assert corpus.demonstrations(10, 1) != texts[:10]
    assert all(len(conversation) == 1 for conversation, _ in texts)
