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


def _restated(fireworks, own, other):
    lines = [
        "Hanabi. You are p1. Fireworks of ranks 1 to 2.",
        f"Fireworks: {fireworks}.",
        "Tokens: 2 of 3.",
        f"Your cards: {own}.",
        f"p2 holds: {other}.",
        "Actions: play 1, play 2.",
    ]
    return corpus._answer("\n".join(lines), random.Random(0)).rpartition(":")[0]


def test_texts_restate_what_the_prompt_shows(texts):
    assert _restated("red 1, blue 0", "1 ?/2, 2 red/1", "1 blue 1 (?/1), 2 red 1 (red/?)") == (
        "red 1, blue 0; own 1 any 2 maybe, 2 red 1 never; sees 1 blue 1 on 0 next any 1, 2 red 1 on 1 past red any"
    )
    assert _restated("red 1, blue 1", "1 blue/?, 2 ?/2", "1 blue 2 (?/?), 2 red 2 (?/2)") == (
        "red 1, blue 1; own 1 blue any maybe, 2 any 2 sure; sees 1 blue 2 on 1 next any any, 2 red 2 on 1 next any 2"
    )
    assert _restated("red 0, blue 0", "1 ?/1, 2 red/2", "1 blue 2 (blue/?)") == (
        "red 0, blue 0; own 1 any 1 sure, 2 red 2 never; sees 1 blue 2 on 0 later blue any"
    )
    assert corpus.demonstrations(10, 0) == texts[:10]
    assert corpus.demonstrations(10, 1) != texts[:10]
    assert all(len(conversation) == 1 for conversation, _ in texts)
