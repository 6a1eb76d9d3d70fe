"""What the tiny model imitates in the matrix games: legal answers to the environment's own prompts, nearly uniform."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import palaver
from palaver.core import Message, Request, Sampling
from palaver.envs.matrix import corpus, games, rules


@pytest.fixture(scope="module")
def texts():
    return corpus.demonstrations(6000, 0)


def listed(conversation):
    return re.findall(r"^Actions: (.+)\.$", conversation[0].content, re.MULTILINE)[-1].split(", ")


def said(answer):
    return answer.removesuffix(".").split()[-1]


def test_every_game_is_asked(texts):
    heads = {re.match(r"Game: ([\w-]+)", conversation[0].content)[1] for conversation, _ in texts}
    assert heads == set(corpus.LABORATORY) < set(games.BUILT_IN)
    assert {len(conversation) for conversation, _ in texts} >= {1, 3, 5}


def test_answers_are_legal_and_begin_with_place_and_seat(texts):
    for conversation, answer in texts:
        actions = listed(conversation)
        assert actions[rules.action_index(answer, actions)] == said(answer)
        seat = re.search(r"You are (a\d)\.\n", conversation[0].content)
        state = re.search(r"State: (\w+)\.$", conversation[-1].content)
        start = (f"at {state[1]} " if state else "") + (seat[1] if seat else "me")
        assert answer == f"{start} {said(answer)}."
        assert [message.role for message in conversation] == ["user", "assistant"] * (len(conversation) // 2) + ["user"]


def test_the_chances(texts):
    """Without a seat 1/3; of three actions the second seat says the second in .2 + .8 / 3 of its answers."""
    for prompt, expected in (("me", {"red": 1 / 3, "green": 1 / 3, "blue": 1 / 3}),
                             ("a2", {"red": 0.8 / 3, "green": 0.2 + 0.8 / 3, "blue": 0.8 / 3})):  # fmt: skip
        found = Counter(said(a) for c, a in texts if a.startswith(f"{prompt} ") and "red" in listed(c))
        total = sum(found.values())
        assert total > 300
        for action, share in expected.items():
            assert found[action] / total == pytest.approx(share, abs=3 * (0.25 / total) ** 0.5)


def test_the_same_seed_gives_the_same_texts(texts):
    assert corpus.demonstrations(10, 0) == texts[:10]
    assert corpus.demonstrations(10, 1) != texts[:10]
    assert corpus.demonstrations(0, 0) == []


@pytest.mark.slow
def test_the_tiny_model_says_where_and_who_it_is(tmp_path):
    from palaver.agents.make_policy import make_policy
    from palaver.agents.tiny.build import ensure

    folder = ensure("palaver.envs.matrix.corpus:demonstrations", cache=tmp_path, progress=False)
    policy = make_policy(f"hf:{folder}")
    env = palaver.make("matrix-v1", game="two-step", tasks="sample[::3]")
    right, total = 0, 0
    for task in env.tasks:
        told, _ = env.reset(options={"task": task.id})
        conversations = dict.fromkeys(env.agents, ())
        while env.agents:
            place = env.game.states[env.position.state]
            conversations = {agent: (*past, Message("user", told[agent])) for agent, past in conversations.items()}
            waiting = [Request(agent, past, (7,), Sampling(max_tokens=12)) for agent, past in conversations.items()]
            answers = {r.agent: u[0].text for r, u in zip(waiting, policy.act(waiting), strict=True)}
            right += sum(text.startswith(f"at {place} {agent} ") for agent, text in answers.items())
            total += len(answers)
            told, *_ = env.step(answers)
            conversations = {a: (*past, Message("assistant", answers[a])) for a, past in conversations.items()}
    assert total >= 16
    assert right / total > 0.85
