"""Words and numbers for small networks."""

from __future__ import annotations

import random

import numpy as np
import pytest

from palaver.core import ConfigError
from palaver.envs.pokemon import vector
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import dex

pytestmark = pytest.mark.usefixtures("pool")


@pytest.mark.parametrize("format", ["gen1ou", "gen6randombattle", "gen9ou"])
def test_every_observation_has_the_same_shape(format):
    env, rng = PokemonEnv(format, observation="vector"), random.Random(1)
    observations, _ = env.reset(seed=1)
    while env.agents:
        for side, text in observations.items():
            words, numbers, mask = vector.parse(text)
            assert len(words) == vector.WORDS
            assert numbers.shape == (len(vector.names()),)
            assert np.isfinite(numbers).all()
            assert mask.shape == (vector.ACTIONS,)
            slots = vector.slots(env.view(side))
            legal = env.legal_actions[side]
            assert [bool(action) for action in slots] == mask.tolist()
            assert set(filter(None, slots)) <= set(legal)
            assert bool(legal) == mask.any()
            if not any(action.count(" ") > 1 for action in legal):
                assert sorted(filter(None, slots)) == legal
        moves = {s: rng.choice([a for a in vector.slots(env.view(s)) if a]) for s in env.agents if env.legal_actions[s]}
        observations, *_, infos = env.step(moves)
        assert infos["p1"]["metrics"]["illegal"] == 0
    assert not vector.parse(observations["p1"])[2].any()


def view(**changes):
    own = {
        "name": "mew", "species": "mew", "level": 100, "gender": "", "hp": 101, "max": 404, "status": "par",
        "moves": [("softboiled", 4, 16), ("psychic", 16, 16)], "stats": [298] * 5, "slot": 1, "item": "",
        "ability": "synchronize",
    }  # fmt: skip
    seat = {"active": 0, "entered": 1, "boosts": {}, "volatiles": {}, "conditions": {}}
    me = {**seat, "team": [own], "boosts": {"spe": -3}, "conditions": {"spikes": [3, 1], "stealthrock": [1, 2]}}
    foe = {**seat, "active": -1, "team": [], "size": 6, "volatiles": {"confusion": [1], "newthing": [1]}}
    made = {
        "request": "move", "legal": [("move psychic", "move 2"), ("switch mew", "switch 1")], "trapped": "", "me": me,
        "foe": foe, "weather": ("hail", 4), "field": {"gravity": 3}, "lines": [],
    }  # fmt: skip
    return {**made, **changes}


def test_what_stands_where():
    numbers = dict(zip(vector.names(), vector.numbers(dex.load(4), 6, view()), strict=True))
    assert numbers["turn/100"] == 0.06
    assert numbers["weather age/10"] == 0.2
    assert [name for name in vector.FIELDS if numbers[name]] == ["gravity"]
    assert numbers["opponents left/6"] == 1
    assert (numbers["own side: spikes"], numbers["own side: stealthrock"], numbers["own side: reflect"]) == (
        1,
        1 / 3,
        0,
    )
    assert (numbers["their confusion"], numbers["their other volatiles/5"]) == (1, 0.2)
    assert numbers["own spe"] == -0.5
    assert numbers["own active: hp"] == 0.25
    assert numbers["own active: base spe/255"] == 100 / 255
    assert (numbers["own active: move 1 left"], numbers["own active: move 2 left"]) == (1, 0.25)
    assert numbers["move 1: power/200"] == 0.45
    assert numbers["move 1: accuracy"] == 1
    words = vector.side_words(dex.load(4), "gen4ou", view())
    assert words[:14] == [
        "gen4ou", "move", "hail", "mew", "psychic", "none", "none", "synchronize", "par", "none", "psychic",
        "softboiled", "none", "none",
    ]  # fmt: skip
    assert vector.slots(view()) == ("move psychic", *[""] * 7, "switch mew", *[""] * 5)


def test_all_six_are_there_before_one_came_in():
    env = PokemonEnv("gen9ou", observation="vector")
    words = vector.parse(env.reset(seed=1)[0]["p1"])[0]
    own = words[3 : 3 + 11 * vector.TEAM : 11]
    assert sorted(own) == sorted(mon["species"] for mon in env.view("p1")["me"]["team"])


def test_every_number_has_a_name_of_its_own():
    assert len(set(vector.names())) == len(vector.names())


def test_other_texts_are_refused():
    with pytest.raises(ConfigError, match="no observation of words and numbers"):
        vector.parse("gen1ou. You are p1.")


@pytest.mark.parametrize("format", ["gen1ou", "gen9ou"])
def test_a_memory_says_the_same_as_looking_anew(format):
    env, rng = PokemonEnv(format), random.Random(2)
    for seed in (1, 2):
        env.reset(seed=seed)
        memory = {side: vector.FeatureHistory(env.dex, env.format) for side in env.possible_agents}
        while env.agents:
            for side in env.agents:
                view, turn = env.view(side), env.battle.turn
                words, numbers = memory[side].look(turn, view)
                assert list(words) == vector.side_words(env.dex, env.format, view)
                assert numbers.tolist() == np.array(vector.numbers(env.dex, turn, view), np.float32).tolist()
            env.step({side: rng.choice(legal) for side, legal in env.legal_actions.items() if legal})
