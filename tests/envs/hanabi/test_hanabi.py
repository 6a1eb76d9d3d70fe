"""Hanabi: the rules by hand, what a player can see, both scores, and the values of the scripted conventions."""

from __future__ import annotations

import json
import statistics
from collections import Counter

import pytest

import palaver
from palaver.core import ConfigError, Message, TaskError
from palaver.envs.hanabi import prompts, reference, rules
from palaver.envs.hanabi.rules import FORMS

MINI = FORMS["mini"]
DECK = "r1 r2 b1 b2 r1 b1 r2 b2 r1 b1"  # p1: red 1, red 2; p2: blue 1, blue 2


@pytest.fixture
def make(tmp_path):
    def made(deck=DECK, **kwargs):
        path = tmp_path / "decks.jsonl"
        path.write_text(json.dumps({"deck": deck}) + "\n")
        env = palaver.make("hanabi-v0", **{"form": "mini", "tasks": str(path), **kwargs})
        env.reset(seed=0)
        return env

    return made


def step(env, text):
    agent = env.agents[env.game.mover()]
    return env.step({agent: text})


def play(env, players, task):
    """Score of a game, and its metrics."""
    observations, infos = env.reset(seed=task, options={"task": task})
    rule, total = dict(zip(env.agents, players, strict=True)), 0.0
    while env.agents:
        [agent] = [name for name in env.agents if infos[name]["can_act"]]
        action = rule[agent]((Message("user", observations[agent]),), task)
        assert action in infos[agent]["legal_actions"]
        observations, rewards, *_, infos = env.step({agent: action})
        total += rewards[agent]
    return total, infos[agent]["metrics"]


def mean_score(form, players, tasks=64, **kwargs):
    env = palaver.make("hanabi-v0", form=form, agents=len(players), **kwargs)
    return statistics.fmean(play(env, players, task)[1]["score"] for task in range(tasks))


@pytest.mark.parametrize(("form", "cards", "points"), [("full", 50, 25), ("small", 20, 10), ("mini", 10, 4)])
def test_decks(form, cards, points):
    deck = FORMS[form].cards()
    assert (len(deck), FORMS[form].points()) == (cards, points)
    if form == "full":
        assert Counter(rank for _, rank in deck) == {1: 15, 2: 10, 3: 10, 4: 10, 5: 5}
    assert FORMS[form].shuffled(0, 1) == FORMS[form].shuffled(0, 1) != FORMS[form].shuffled(0, 2)


def test_the_first_prompt(make):
    env = make()
    observations, infos = env.reset(seed=0)
    assert observations["p1"] == (
        "Hanabi. You are p1. Together build a firework of each colour, of ranks 1 to 2 in order. You do not see your "
        "own cards.\nFireworks: red 0, blue 0.\nTokens: 3 of 3. Lives: 1. Cards in the deck: 6.\nDiscarded: none.\n"
        "Your cards: 1 ?/?, 2 ?/?.\np2 holds: 1 blue 1 (?/?), 2 blue 2 (?/?).\nSince your last turn: nothing.\n"
        "Actions: play 1, play 2, hint p2 blue, hint p2 1, hint p2 2."
    )
    assert observations["p2"] == ""
    assert infos["p1"]["legal_actions"] == ["play 1", "play 2", "hint p2 blue", "hint p2 1", "hint p2 2"]


def test_a_hint_marks_all_its_cards_and_rules_out_the_others(make):
    env = make()
    observations, *_ = step(env, "hint p2 1")
    assert "Your cards: 1 ?/1, 2 ?/2." in observations["p2"]
    assert "p1 holds: 1 red 1 (?/?), 2 red 2 (?/?)." in observations["p2"]
    assert "Tokens: 2 of 3." in observations["p2"]
    assert "Since your last turn: p1 hint p2 1." in observations["p2"]
    observations, *_ = step(env, "hint p1 red")
    assert "Your cards: 1 red/?, 2 red/?." in observations["p1"]
    assert "p2 holds: 1 blue 1 (?/1), 2 blue 2 (?/2)." in observations["p1"]


def test_no_player_reads_its_own_cards():
    """A prompt is the same whatever the own hand holds."""
    env = palaver.make("hanabi-v0", form="full", agents=3)
    env.reset(seed=0, options={"task": 0})
    hand = env.game.hands[0]
    swapped = [rules.HeldCard(("red", 1), held.colours, held.ranks) for held in hand]
    other = rules.HanabiState(
        env.game.form, (tuple(swapped), *env.game.hands[1:]), env.game.deck, env.game.fireworks, 8, 3
    )
    assert prompts.prompt(other, ()) == prompts.prompt(env.game, ())


def test_a_perfect_game_by_hand(make):
    env = make()
    totals = []
    # the pile gives p1 r1 b1 r2, p2 the others; play red 1, blue 1, red 2, blue 2
    for text in ("play 1", "play 1", "play 1", "play 1"):
        _, rewards, terminated, _, infos = step(env, text)
        totals.append(tuple(rewards.values()))
    assert totals == [(1, 1)] * 4
    assert all(terminated.values())
    assert infos["p1"]["metrics"] == {"score": 4, "strict": 4, "lives": 1, "hints": 0, "illegal": 0}


@pytest.mark.parametrize(("strict", "rewards"), [(False, [1, 0]), (True, [1, -1])])
def test_a_lost_life_ends_the_mini_form(make, strict, rewards):
    env = make(strict=strict)
    assert step(env, "play 1")[1]["p2"] == rewards[0]
    _, earned, terminated, _, infos = step(env, "play 2")  # blue 2 before blue 1
    assert earned["p1"] == earned["p2"] == rewards[1]
    assert all(terminated.values())
    assert infos["p1"]["metrics"] == {"score": 1, "strict": 0, "lives": 0, "hints": 0, "illegal": 0}


def test_tokens(make):
    env = make()
    for text in ("hint p2 1", "hint p1 1", "hint p2 blue"):
        step(env, text)
    assert not any("hint" in action for action in rules.legal_actions(env.game))
    step(env, "discard 2")  # p2: blue 2
    assert env.game.tokens == 1
    assert env.game.discards == (("blue", 2),)
    assert [held.card for held in env.game.hands[1]] == [("blue", 1), ("red", 1)]  # drawn last
    step(env, "play 1")
    step(env, "play 1")
    before = env.game.tokens
    step(env, "play 1")  # red 2, the last of red, gives a token back
    assert env.game.fireworks == {"red": 2, "blue": 1}
    assert env.game.tokens == before + 1


def test_after_the_last_card_everyone_has_one_more_turn():
    form = FORMS["full"]
    state = rules.deal(form, form.shuffled(0, 0), 3)
    rounds = 0
    while not state.over():
        actions = rules.legal_actions(state)
        drawn_last = not state.deck
        state = rules.act(state, next((a for a in actions if a.startswith("discard")), actions[-1]))
        rounds += drawn_last
    assert rounds == 3
    assert len(state.deck) == 0
    assert state.lives == 3


@pytest.mark.parametrize("text", ["", None, "play 3", "play", "hint p1 red", "hint p2 red", "discard 1"])
def test_illegal_answers_are_drawn_and_charged(make, text):
    """With all tokens no card is discarded, and p2 holds no red one."""
    env = make()
    *_, infos = env.step({"p1": text})
    assert infos["p1"]["illegal"] == 1
    assert infos["p1"]["reward_components"]["illegal"] == -1
    assert infos["p2"]["reward_components"]["illegal"] == 0
    assert env.game.turn == 1


@pytest.mark.parametrize("text", ["Play  2!", "I will PLAY 2 now", "play\n2, not play 1"])
def test_actions_in_sentences(make, text):
    env = make()
    step(env, "hint p2 1")
    step(env, text)
    assert env.moves[-1] == "p2 play 2"


def test_a_cut_episode_is_truncated(make):
    env = make(turns=2)
    step(env, "hint p2 1")
    _, _, terminated, truncated, infos = step(env, "hint p1 1")
    assert all(truncated.values())
    assert not any(terminated.values())
    assert infos["p1"]["legal_actions"]
    assert infos["p1"]["metrics"]["hints"] == 2


def test_prompts_are_read_back():
    env = palaver.make("hanabi-v0", agents=4)
    observations, infos = env.reset(seed=0)
    for turn in range(12):
        [agent] = [name for name in env.agents if infos[name]["can_act"]]
        view = prompts.read(observations[agent])
        assert view.agent == agent
        assert list(view.actions) == infos[agent]["legal_actions"]
        assert view.fireworks == env.game.fireworks
        assert (view.tokens, view.ranks) == (env.game.tokens, 5)
        for n, name in enumerate(env.agents):
            held = view.own if name == agent else view.others[name]
            knowledge = [(each.colours, each.ranks) for each in env.game.hands[n]]
            assert [(each.colours, each.ranks) for each in held] == knowledge
            assert name == agent or [each.card for each in held] == [each.card for each in env.game.hands[n]]
        hints = [action for action in view.actions if action.startswith("hint")]
        observations, *_, infos = env.step({agent: hints[turn % len(hints)] if hints else "discard 1"})


def test_faulty_decks_and_keywords(make):
    for deck in ("r1 r2", DECK.replace("r2", "r1"), DECK.replace("r1", "x1"), "r1 " * 10):
        with pytest.raises(TaskError, match="each of the 10 cards"):
            make(deck)
    for kwargs in ({"form": "huge"}, {"agents": 3}, {"strict": 1}, {"penalty": -1}, {"turns": 0}):
        with pytest.raises(ConfigError, match=next(iter(kwargs))):
            palaver.make("hanabi-v0", **{"form": "mini", **kwargs})
    assert len(palaver.make("hanabi-v0", agents=5).possible_agents) == 5


def test_meant_cards():
    hand = [rules.HeldCard(("", 0), ("red", "blue"), ranks) for ranks in ((1, 2), (2,), (1, 2), (2,))]
    assert reference.meant(hand, "2", "first") == 2
    assert reference.meant(hand, "2", "last") == 4
    assert reference.meant(hand, "red", "first") == 0


def test_values_of_the_conventions_in_the_mini_form():
    """Means over 64 decks: the bound is 4. A convention alone is near it, with another's it is not."""
    first, last = mean_score("mini", [reference.reference] * 2), mean_score("mini", [reference.last_marked] * 2)
    assert first == pytest.approx(3.875)
    assert last == pytest.approx(3.875)
    mixed = mean_score("mini", [reference.reference, reference.last_marked])
    literal = mean_score("mini", [reference.certain] * 2)
    chance = mean_score("mini", [reference.uniform_move] * 2)
    assert chance < 1.6 < 2.2 < literal < 3
    assert mixed < 3 < first <= FORMS["mini"].points()


def test_values_of_the_conventions_in_the_other_forms():
    assert mean_score("small", [reference.reference] * 2) > 5
    assert mean_score("full", [reference.reference] * 2, 8) > 15
    assert mean_score("full", [reference.certain] * 3, 4) > 5


@pytest.mark.parametrize("text", ["", "hello", "Hanabi. You are p1.", "Actions: ."])
def test_scripted_players_answer_anything(text):
    for rule in (reference.reference, reference.last_marked, reference.certain, reference.uniform_move):
        assert rule((Message("user", text),), 0) == ""
        assert rule((), 0) == ""


def test_the_strict_return_is_the_strict_score():
    env = palaver.make("hanabi-v0", form="small", strict=True)
    for task in range(20):
        total, metrics = play(env, [reference.reference] * 2, task)
        assert total == metrics["strict"]
