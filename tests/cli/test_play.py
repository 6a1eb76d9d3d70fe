from __future__ import annotations

import io

import pytest


def test_an_episode_is_shown_turn_by_turn(palaver):
    ran = palaver("play", "echo-v0", "--team", "scripted:reference", "--task", "0")
    assert ran.code == 0
    assert [f"turn {k}" in ran.out for k in (1, 2, 3, 4)] == [True, True, True, False]
    assert "a1 (scripted:reference), 1 word " in ran.out
    assert "reward 4.500 of 4.5 (terminated after 3 turns)" in ran.out


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (["echo-v0", "num_turns=2"], "of 3 "),
        (["arxiv-v0", "weights.length=5"], "of 7.5 "),
    ],
)
def test_the_most_possible_follows_the_keywords(palaver, arguments, most):
    assert most in palaver("play", *arguments, "--team", "scripted:lazy").out


def test_the_same_seed_gives_the_same_episode(palaver):
    first, again, other = (palaver("play", "echo-v0", "--team", "random", "--seed", s).out for s in (5, 5, 6))
    assert first == again != other


def test_a_person_plays_and_may_stop_answering(palaver, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("first answer\n"))
    ran = palaver("play", "arxiv-v0", "--team", "background=human,method=scripted:reference", "length=[4,8]")
    assert ran.code == 0
    assert "first answer" in ran.out
    assert "background (human), 2 words" in ran.out


def test_opponents_are_told_apart_at_the_end(palaver, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("cooperate\ndefect\n" * 2))
    ran = palaver("play", "matrix-v1", "--team", "human", "game=prisoners-dilemma", "repeats=2")
    assert "reward a1 0.000 a2 10.000" in ran.out.strip().splitlines()[-1]


def test_keywords_reach_the_environment(palaver):
    ran = palaver("play", "arxiv-v0", "--team", "random", "length=[17,19]")
    assert "17 to 19 words" in ran.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["arxive-v0"], "Did you mean 'arxiv-v0'?"),
        (["echo-v0", "--task", "999"], "there is no task '999'"),
        (["echo-v0", "--team", "a1=random"], "has no policy for the agent 'a2'"),
        (["echo-v0", "lenght=3"], "has no keyword 'lenght'"),
        (["echo-v0", "three"], "write key=value"),
        (["echo-v0", "--team", "scripted:refrence"], "Did you mean 'reference'?"),
        (["echo-v0", "--team", "random", "model.dtype=fp16"], "model.dtype: input should be 'fp32' or 'bf16'"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, says):
    ran = palaver("play", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err


def test_a_person_is_asked_until_an_action_is_legal_and_sees_the_last_turn_alone(palaver, monkeypatch):
    lines = iter(["", "zzz", "help", "1", "1"])
    monkeypatch.setattr("builtins.input", lambda *_: next(lines))
    ran = palaver("play", "matrix-v1", "game=prisoners-dilemma", "repeats=2", "--team", "a1=human,a2=scripted:uniform")
    assert ran.code == 0
    assert ran.out.count("names no legal action") == 2
    assert "turn 2" in ran.out
    assert "turn 1 " not in ran.out


def test_the_end_of_the_input_ends_the_game(palaver, monkeypatch):
    def ended(*_):
        raise EOFError

    monkeypatch.setattr("builtins.input", ended)
    ran = palaver("play", "arxiv-v0")
    assert (ran.code, ran.err) == (0, "the input has ended, and with it the game\n")
