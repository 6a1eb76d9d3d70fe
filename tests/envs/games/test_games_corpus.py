"""What the tiny model imitates in the exact games: legal answers, nearly uniform, that restate the situation."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict

import pytest

import palaver
from palaver.envs.base.questions import read_guess
from palaver.envs.games import corpus, kuhn, leduc
from palaver.envs.games.solve import GameTree
from palaver.envs.matrix import repeated
from palaver.envs.matrix.rules import action_index


@pytest.fixture(scope="module")
def texts():
    return corpus.demonstrations(8000, 0)


def listed(conversation):
    return re.findall(r"^Actions: (.+)\.$", "\n".join(m.content for m in conversation), re.MULTILINE)[-1].split(", ")


def test_every_answer_is_read_as_the_action_at_its_end(texts):
    for conversation, answer in texts:
        if "Say: " in conversation[0].content:
            continue  # an exercise, which no environment reads
        actions = listed(conversation)
        assert actions[action_index(answer, actions)] == answer.removesuffix(".").split()[-1]


def test_every_prompt_has_each_legal_action_equally_often(texts):
    """What is imitated is the uniform policy, which is no solution."""
    counts = defaultdict(Counter)
    for conversation, answer in texts:
        counts[conversation][answer.split()[-1].removesuffix(".")] += 1
    assert len(set(GameTree.of(kuhn.GAME).infosets) & {conversation[-1].content for conversation in counts}) == 12
    counts.pop(texts[-1][0])  # may be cut off
    for conversation, times in counts.items():
        assert set(times) == set(listed(conversation))
        assert len(set(times.values())) == 1


def test_prompts_are_the_environments_own(texts):
    prompts = {conversation[-1].content for conversation, _ in texts}
    assert len(prompts & set(GameTree.of(leduc.GAME).infosets)) > 100
    games = [text for text in texts if "Say: " not in text[0][0].content]
    assert 0.6 < len(games) / len(texts) < 0.8, "the others are exercises"
    heads = Counter(re.match(r"(?:Game: )?([\w' -]+)", c[0].content)[1] for c, _ in games)
    assert set(heads) == {"Kuhn poker", "Leduc hold'em", "Tic-tac-toe", *repeated.GAMES}


@pytest.mark.parametrize(
    ("state", "player", "situation"),
    [
        (kuhn.KuhnState("JQ"), 0, "my card J, begins"),
        (kuhn.KuhnState("JQ", ("check", "bet")), 0, "my card J, checked opened"),
        (leduc.LeducState("JQK", ("bet", "call"), ()), 0, "my card J, public card K, begins"),
        (leduc.LeducState("JQK", ("bet", "call"), ("check",)), 1, "my card Q, public card K, checked"),
    ],
)
def test_situations(state, player, situation):
    assert corpus._situation(state, player) == situation


def test_a_repeated_game_remembers_the_last_round(texts):
    for conversation, answer in texts:
        chosen = re.findall(r"a\d chose (\w+)", conversation[-1].content)
        if conversation[0].content.startswith("Game: ") and not chosen:
            assert answer.split(": ")[0].endswith(" begins")
        if chosen:
            title = re.match(r"Game: ([\w-]+)", conversation[0].content)[1]
            order = {"prisoners-dilemma": ["cooperate", "defect"], "chicken": ["yield", "dare"],
                     "stag-hunt": ["stag", "hare"], "rock-paper-scissors": ["rock", "paper", "scissors"],
                     "matching-pennies": ["heads", "tails"]}[title]  # fmt: skip
            places = " ".join(str(order.index(action) + 1) for action in chosen)
            assert answer.split(": ")[0].endswith(f"after {places}")


# --- where players are asked ---


@pytest.fixture(scope="module")
def asked_texts():
    return corpus.with_guesses(8000, 0)


def test_a_guess_is_read_as_the_two_probabilities_it_states(asked_texts):
    """The own card, which an answer restates, has what is left of 1: nothing."""
    question = corpus.card_question(kuhn.GAME, kuhn.KuhnState("JQ"), 0)
    counts = defaultdict(Counter)
    for conversation, answer in asked_texts:
        if "Guess: " not in conversation[0].content:
            continue
        card = re.search(r"Your card: (.)", conversation[0].content)[1]
        stated = {name: int(number) / 100 for name, number in re.findall(r"(\w) (\d+)%", answer)}
        assert {*stated, card} == set("JQK")
        assert answer.startswith(f"my card {card}, ")
        read = read_guess(answer, question)
        assert read.weights == pytest.approx({**stated, card: 0.0})
        counts[conversation][tuple(sorted(stated.items()))] += 1
    assert len(counts) == 12
    counts.pop(asked_texts[-1][0], None)  # may be cut off
    often = []
    for times in counts.values():  # every probability of the grid, one to four times as often as the rarest
        assert len(times) == 11
        often.append([times[key] / min(times.values()) for key in sorted(times)])
    assert {*itertools.chain(*often)} <= {1.0, 2.0, 4.0}
    assert len({tuple(row) for row in often}) == len(often), "each situation has its own"


def test_questions_and_actions_are_the_environments_own(asked_texts):
    env = palaver.make("kuhn-v0", infer="before")
    prompts = {conversation[0].content for conversation, _ in asked_texts}
    for deal in env.tasks:
        observations, _ = env.reset(seed=0, options={"task": deal.id})
        while env.agents:
            assert set(filter(None, observations.values())) <= prompts
            observations, *_ = env.step(dict.fromkeys(env.agents, "check"))  # the last ones tell the result
    assert not any("Leduc" in text for text in prompts)


def test_the_same_seed_gives_the_same_texts(texts):
    assert corpus.demonstrations(10, 0) == texts[:10]
    assert corpus.demonstrations(10, 1) != texts[:10]
    assert corpus.demonstrations(0, 0) == []
