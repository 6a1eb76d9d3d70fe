"""What the tiny model imitates in the exact games: legal answers, nearly uniform, that restate the situation."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

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


def test_the_same_seed_gives_the_same_texts(texts):
    assert corpus.demonstrations(10, 0) == texts[:10]
    assert corpus.demonstrations(10, 1) != texts[:10]
    assert corpus.demonstrations(0, 0) == []
