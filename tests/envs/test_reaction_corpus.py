"""Texts of reactions in repeated matrix games, and the shipped model of them."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from palaver.core import Message
from palaver.envs.games import tiny_hanabi_corpus
from palaver.envs.matrix import reaction_corpus
from palaver.envs.matrix.env import MatrixEnv
from palaver.utils.demonstrations import OFTEN, frequencies
from tests.envs.games.test_games_corpus import listed
from tests.shipped import load, probabilities


def test_an_answer_is_one_legal_action_and_each_prompt_has_all():
    texts = reaction_corpus.demonstrations(4000, 0)[:-9]  # the last prompt may lack answers
    found = defaultdict(Counter)
    for conversation, answer in texts:
        assert len(conversation) == 1
        assert answer.removesuffix(".") in listed(conversation)
        found[conversation][answer.removesuffix(".")] += 1
    complete = [conversation for conversation, _ in texts if conversation != texts[-1][0]]
    assert all(set(found[conversation]) == set(listed(conversation)) for conversation in complete)
    assert {"cooperate.", "defect.", "rock.", "dare.", "stag.", "heads."} <= {answer for _, answer in texts}


def test_frequencies_depend_on_game_and_situation_alone():
    """Of one situation all wordings and orders of the actions have the same odds, up to repeated draws of a prompt."""
    odds = defaultdict(set)
    by_prompt = defaultdict(Counter)
    for conversation, answer in reaction_corpus.demonstrations(20000, 1):
        by_prompt[conversation[0].content][answer] += 1
    for prompt, counts in by_prompt.items():
        lines = prompt.split("\n")
        if not lines[0].startswith("Game: prisoners-dilemma"):
            continue
        played = lines[-1].partition(".")[0] if "chose" in lines[-1] else "begins"
        odds[lines[0], played].add(counts["cooperate."] / (counts["cooperate."] + counts["defect."]))
    assert len(odds) == 10
    assert all(len(shares) == 1 for shares in odds.values())
    assert {round(share, 3) for shares in odds.values() for share in shares} <= {
        round(a / (a + b), 3) for a in OFTEN for b in OFTEN
    }


@pytest.mark.parametrize("corpus", [reaction_corpus, tiny_hanabi_corpus])
def test_demonstrations_depend_on_the_seed_alone(corpus):
    texts = corpus.demonstrations(50, 3)
    assert corpus.demonstrations(20, 3) == texts[:20]
    assert corpus.demonstrations(50, 4) != texts


@pytest.mark.slow
def test_the_shipped_model_tells_the_situations_of_the_dilemma_apart():
    """Total variation to the frequencies of the texts, in wordings of training and evaluation alike."""
    loaded = load("palaver.envs.matrix.reaction_corpus:demonstrations")
    env = MatrixEnv("prisoners-dilemma", repeats=20, feedback=True, fresh=True)
    actions = ("cooperate", "defect")
    for task in range(0, len(env.tasks), 5):
        for joint in (None, *((first, second) for first in actions for second in actions)):
            observations, _ = env.reset(options={"task": task})
            if joint is not None:
                observations, *_ = env.step(dict(zip(env.agents, joint, strict=True)))
            for agent in env.agents:
                places = " ".join(str(actions.index(act) + 1) for act in joint or ())
                situation = f"{agent} after {places}" if joint else f"{agent} begins"
                odds = frequencies(2, "prisoners-dilemma", situation)
                talk = (Message("user", observations[agent]),)
                found = probabilities(loaded, talk, [f"{action}." for action in actions])
                assert sum(found) == pytest.approx(1, abs=0.02)
                assert found[0] == pytest.approx(odds[0] / sum(odds), abs=0.05)
