"""What the tiny model imitates in Hanabi: legal actions, all equally likely, after what the player knows."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from palaver.envs.hanabi import corpus, prompts
from palaver.envs.matrix.rules import action_index
from tests.shipped import answers, load


@pytest.fixture(scope="module")
def texts():
    return corpus.demonstrations(4000, 0)


def test_answers_are_read_as_the_action_at_their_end(texts):
    for conversation, answer in texts:
        actions = prompts.read(conversation[0].content).actions
        assert answer.endswith(f" {actions[action_index(answer, actions)]}.")


def test_no_action_is_preferred(texts):
    """Places of the actions in their lists: among five each has 1/5."""
    places = Counter()
    for conversation, answer in texts:
        actions = prompts.read(conversation[0].content).actions
        if len(actions) == 5:
            places[action_index(answer, actions)] += 1
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
        "red 1, blue 0; own 1 any 2 maybe, 2 red 1 never; sees 1 blue 1 on 0 next any 1, 2 red 1 on 1 past red any; so "
        "hinted 1 never 2, blue 1 ready, red 1 past"
    )
    assert _restated("red 1, blue 1", "1 blue/?, 2 ?/2", "1 blue 2 (?/?), 2 red 2 (?/2)") == (
        "red 1, blue 1; own 1 blue any maybe, 2 any 2 sure; sees 1 blue 2 on 1 next any any, 2 red 2 on 1 next any 2; "
        "so hinted 1 sure 2, blue 2 next, red 2 ready"
    )
    assert _restated("red 0, blue 0", "1 ?/1, 2 red/2", "1 blue 2 (blue/?)") == (
        "red 0, blue 0; own 1 any 1 sure, 2 red 2 never; sees 1 blue 2 on 0 later blue any; so sure 1 never 2, "
        "blue 2 later"
    )
    assert corpus.demonstrations(10, 0) == texts[:10]
    assert corpus.demonstrations(10, 1) != texts[:10]
    assert all(len(conversation) == 1 for conversation, _ in texts)


def test_the_words_of_an_actions_cards_stand_before_it():
    prompt = (
        "Hanabi. You are p1. Fireworks of ranks 1 to 2.\nFireworks: red 1, blue 0.\nTokens: 2 of 3.\n"
        "Your cards: 1 ?/2, 2 red/1.\np2 holds: 1 red 2 (?/2), 2 blue 2 (?/?).\n"
        "Actions: play 1, discard 2, hint p2 2, hint p2 blue."
    )
    ends = {corpus._answer(prompt, random.Random(seed)).rpartition(": ")[2] for seed in range(40)}
    assert ends == {"hinted 1 play 1.", "never 2 discard 2.", "ready later hint p2 2.", "later hint p2 blue."}


@pytest.mark.slow
def test_the_shipped_model_restates_what_is_known_and_names_actions_of_the_words_before_them():
    """Floors a little below what was measured at temperature 1 when it was made."""
    expected = dict(corpus.demonstrations(800, 99))
    found = answers(load("palaver.envs.hanabi.corpus:demonstrations"), list(expected), max_tokens=80)
    right, kept = Counter(), Counter()
    for (talk, text), [answer] in zip(expected.items(), found, strict=True):
        known, _, end = answer.rpartition(": ")
        view = prompts.read(talk[0].content)
        right[known == text.rpartition(": ")[0]] += 1
        if (index := action_index(end, view.actions)) is not None:
            action = view.actions[index]
            kept[action.split()[0], end == f"{corpus._reason(view, action)} {action}."] += 1
    assert right[True] >= 0.95 * right.total()
    assert kept.total() >= 0.95 * right.total()
    for verb in ("play", "discard", "hint"):
        assert kept[verb, True] >= 0.9 * (kept[verb, True] + kept[verb, False])
