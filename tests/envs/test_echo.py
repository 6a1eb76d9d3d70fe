"""The echo game, played by hand."""

from __future__ import annotations

import json

import pytest

import palaver
from palaver.core import Message
from palaver.envs.base.scripted import lazy
from palaver.envs.echo import env as echo


def play(env, *turns, task=0):
    env.reset(options={"task": task})
    return [env.step(dict(zip(env.possible_agents, said, strict=True))) for said in turns]


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.jsonl"
    path.write_text(json.dumps({"id": "w", "words": "Red green blue"}))
    return str(path)


def test_targets_follow_what_was_said(words):
    env = palaver.make("echo-v0", tasks=words, shared=False)
    first, second, third = play(env, ("red", "Pear! Tree"), ("pear", "green"), ("", "a pear"))
    # turn 1: a1 repeats its word, a2 does not; turn 2: a1 must say a2's "pear", a2 must say a1's "red"
    assert first[1] == {"a1": 1.5, "a2": 0.0}
    assert first[0] == {"a1": "The word is: pear", "a2": "The word is: red"}
    assert second[1] == {"a1": 1.5, "a2": 0.0}
    assert second[0] == {"a1": "The word is: green", "a2": "The word is: pear"}
    assert second[2] == {"a1": False, "a2": False}
    # turn 3: a1 is silent, a2 says its word among others; then it is over and nothing is told
    assert third[1] == {"a1": 0.0, "a2": 1.0}
    assert third[4]["a2"]["reward_components"] == {"echo": 1.0, "brevity": 0.0}
    assert third[4]["a1"]["metrics"] == {"words": 1.0, "illegal": 0.0}
    assert third[0] == {"a1": "", "a2": ""}
    assert third[2] == {"a1": True, "a2": True}


def test_a_word_is_the_same_wherever_it_is_counted(words):
    env = palaver.make("echo-v0", tasks=words)
    (step,) = play(env, ("red-green, blue", "..."))
    assert step[4]["a1"]["metrics"]["words"] == 3 / 2  # as in the pay: red, green, blue; and none
    assert echo.first_word("--Red-green") == "red"


def test_a_word_whose_small_letters_are_no_word_can_be_said_again():
    # the lower case of the dotted I is an i and a mark that is no letter
    assert echo.first_word("İstanbul") == "i"
    assert echo.judge(echo.first_word("İstanbul"), "İstanbul")["echo"] == 1.0


def test_shared_pays_the_mean(words):
    env = palaver.make("echo-v0", tasks=words)
    (step,) = play(env, ("red", "so green"))
    # earned 1 + 0.5 and 1 + 0
    assert step[1] == {"a1": 1.25, "a2": 1.25}
    assert step[4]["a1"]["reward_components"] == {"echo": 1.0, "brevity": 0.25}


def test_silence_gives_the_own_word_again(words):
    env = palaver.make("echo-v0", tasks=words, agents=3)
    (step,) = play(env, ("", "...", "violet"))
    assert step[0] == {"a1": "The word is: red", "a2": "The word is: violet", "a3": "The word is: blue"}


def test_siblings_of_one_turn_go_different_ways(words):
    env = palaver.make("echo-v0", tasks=words)
    env.reset(seed=0)
    left, right = env.fork(), env.fork()
    told = [fork.step({"a1": word, "a2": "green"})[0]["a2"] for fork, word in ((left, "red"), (right, "rose"))]
    assert told == ["The word is: red", "The word is: rose"]


def test_long_words_are_cut_everywhere():
    word = "x" * 40
    assert echo.first_word(word) == "x" * 24
    assert echo.judge("x" * 24, word.upper()) == {"echo": 1.0, "brevity": 0.5}


@pytest.mark.parametrize(("agents", "turns", "shared"), [(2, 3, True), (3, 5, False), (1, 1, True)])
def test_the_reference_earns_everything(agents, turns, shared):
    env = palaver.make("echo-v0", agents=agents, num_turns=turns, shared=shared)
    for index in range(len(env.tasks)):
        observations, _ = env.reset(options={"task": index})
        conversations = dict.fromkeys(env.agents, ())
        for turn in range(turns):
            for agent, seen in observations.items():
                conversations[agent] += (Message("user", seen),)
            said = {agent: echo.reference(conversations[agent], turn) for agent in env.agents}
            for agent, text in said.items():
                conversations[agent] += (Message("assistant", text),)
            observations, rewards, *_ = env.step(said)
            assert set(rewards.values()) == {1.5}
        assert env.agents == []
    assert echo.reference((), 0) == lazy((), 0) == ""


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"agents": 0}, "agents must be"),
        ({"agents": 2.0}, "agents must be"),
        ({"num_turns": 0}, "num_turns must be"),
        ({"num_turns": True}, "num_turns must be"),
        ({"num_turns": 10**400}, "num_turns must be"),
        ({"shared": "maybe"}, "shared must be true or false"),
        ({"shared": 1}, "shared must be"),
        ({"agents": 4}, "each of 4 players"),
    ],
)
def test_bad_keywords(words, kwargs, message):
    with pytest.raises(palaver.PalaverError, match=message):
        palaver.make("echo-v0", tasks=words, **kwargs)
