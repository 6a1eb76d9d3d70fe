"""Worlds that a side holds for possible, and the search in them."""

from __future__ import annotations

import json
import math
import random

import pytest

from palaver.core import PolicyError
from palaver.envs.matrix.env import MatrixEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players.registry import HEURISTICS, adviser
from palaver.envs.pokemon.players.search import RACE, UNSURE, advised, foresee, prospects, search_1, searched, worlds
from palaver.envs.pokemon.showdown import Setup, dex
from tests.envs.pokemon.battles import moves, packed, setup

MINE = packed(
    ("Snorlax", "", "", ["bodyslam", "rest", "selfdestruct", "earthquake"]),
    ("Starmie", "", "", ["surf", "thunderbolt", "recover", "icebeam"]),
)
# the same to p1 as long as Tauros, or Gyarados after it, uses its first move alone
HIDDEN = (
    packed(
        ("Tauros", "", "Liechi Berry", ["bodyslam", "fireblast", "earthquake", "blizzard"]),
        ("Gyarados", "", "", ["surf", "bodyslam", "icebeam", "thunderbolt"]),
        ("Alakazam", "", "", ["psychic", "recover", "thunderwave", "reflect"]),
    ),
    packed(
        ("Tauros", "", "Salac Berry", ["bodyslam", "toxic", "rest", "hyperbeam"]),
        ("Gyarados", "", "Salac Berry", ["surf", "hydropump", "rest", "sleeptalk"]),
        ("Gengar", "", "", ["explosion", "hypnosis", "psychic", "thunderbolt"]),
    ),
)


def alike(pool, turns, format="gen1ou"):
    """Two battles that differ in nothing that p1 has seen, after some turns."""
    found = pool.start([Setup(format, 5, (MINE, team)) for team in HIDDEN])
    for battle in found:
        for _ in range(turns):
            battle.choose({"p1": "move 1", "p2": "switch 2" if battle.turn == 2 else "move 1"})
    return found


@pytest.mark.parametrize(("format", "turns"), [("gen1ou", 0), ("gen1ou", 3), ("gen4ou", 3), ("gen4ou", 1)])
def test_nothing_hidden_comes_through(pool, format, turns):
    one, other = alike(pool, turns, format)
    assert one.views["p1"] == other.views["p1"]
    assert one.log("p1") == other.log("p1")
    assert one.save() != other.save()
    for seed in range(4):
        [first], [second] = worlds(one, "p1", [seed]), worlds(other, "p1", [seed])
        assert json.loads(first.save())["state"] == json.loads(second.save())["state"]
        assert first.views == second.views
    tables = dex.load(int(format[3]))
    chosen = [searched(battle, tables, "p1", random.Random(9)) for battle in (one, other)]
    assert chosen[0] == chosen[1]


def test_a_choice_already_made_is_forgotten(pool):
    one, other = alike(pool, 1)
    one.choose({"p2": "move 3"})
    other.choose({"p2": "switch 3"})
    [first], [second] = worlds(one, "p1", [3]), worlds(other, "p1", [3])
    assert first.views["p2"]["request"] == second.views["p2"]["request"] == "move"
    assert json.loads(first.save())["state"] == json.loads(second.save())["state"]


def test_a_world_keeps_what_was_seen(pool):
    battle, _ = alike(pool, 3)
    battle.choose({"p1": "move 1", "p2": "move 1"})
    seen = battle.views["p1"]["foe"]
    for world in worlds(battle, "p1", range(6)):
        assert world.views["p1"]["legal"] == battle.views["p1"]["legal"]
        assert world.views["p1"]["me"]["team"] == battle.views["p1"]["me"]["team"]
        theirs = world.views["p2"]["me"]
        assert len(theirs["team"]) == seen["size"] == 3
        standing = theirs["team"][theirs["active"]]
        shown = seen["team"][seen["active"]]
        assert standing["species"] == shown["species"] == "gyarados"
        assert standing["hp"] / standing["max"] == pytest.approx(shown["hp"] / shown["max"], abs=0.005)
        assert "surf" in [id for id, *_ in standing["moves"]]
        tauros = next(mon for mon in theirs["team"] if mon["species"] == "tauros")
        assert {id: most - pp for id, pp, most in tauros["moves"]}["bodyslam"] == 1


def test_worlds_differ_where_nothing_is_known(pool):
    battle, _ = alike(pool, 0)
    teams = [tuple(mon["species"] for mon in w.views["p2"]["me"]["team"]) for w in worlds(battle, "p1", range(8))]
    assert {team[0] for team in teams} == {"tauros"}
    assert len(set(teams)) > 4


def test_copies_throw_their_own_dice_and_leave_the_world_alone(pool):
    battle, _ = alike(pool, 1)
    [world] = worlds(battle, "p1", [1])
    before = world.save(), battle.save()
    tried = [("move 1", "move 1", seed) for seed in (1, 2, 1)]
    one, two, again = foresee(world, "p1", 2, tried)
    assert one == again != two
    assert (world.save(), battle.save()) == before


@pytest.mark.parametrize("format", ["gen1ou", "gen2randombattle", "gen4ou", "gen8randombattle", "gen9randombattle"])
def test_a_copy_goes_on_as_the_battle_would(pool, format):
    rng = random.Random(2)
    [battle] = pool.start([setup(pool, format, 4)])
    for n in range(25):
        if battle.ended:
            break
        chosen = moves(battle, rng)
        copies = [battle.pool.derive([(battle, "branch", (f"7,8,9,{n}", chosen.get("p1"), chosen.get("p2")))])[0]]
        copies.append(battle.fork())
        pool.request_battle(copies[1], "reseed", f"7,8,9,{n}")
        copies[1].choose(chosen)
        assert copies[0].views == copies[1].views
        battle.choose(chosen)


@pytest.mark.parametrize("format", ["gen1ou", "gen9ou", "gen3randombattle"])
def test_the_search_says_what_is_legal(format):
    env, rng = PokemonEnv(format), random.Random(1)
    env.reset(seed=6)
    search = search_1(env, "p2", 3)
    for _ in range(9):
        legal = env.legal_actions
        chosen = search("", {}) if legal.get("p2") else ""
        assert chosen in legal["p2"] or not legal["p2"]
        env.step({"p1": rng.choice(legal["p1"]) if legal["p1"] else None, "p2": chosen or None})
        if not env.agents:
            break


def test_a_knock_out_that_wins_is_found(pool):
    last = packed(("Chansey", "", "", ["softboiled", "icebeam", "reflect", "thunderwave"]))
    strong = packed(("Tauros", "", "", ["bodyslam", "hyperbeam", "blizzard", "earthquake"]))
    [battle] = pool.start([Setup("gen1ou", 3, (strong, last))])
    while battle.views["p1"]["foe"]["team"][0]["hp"] > 12 and not battle.ended:
        battle.choose({side: "move 1" if side == "p1" else "move 3" for side, v in battle.views.items() if v["legal"]})
    assert not battle.ended
    assert searched(battle, dex.load(1), "p1", random.Random(0)).startswith("move ")


def test_advice_adds_up_and_what_promises_most_has_most_of_it(pool):
    battle, _ = alike(pool, 3)
    tables = dex.load(1)
    found = [advised(battle, tables, "p1", random.Random(9)) for _ in range(2)]
    assert found[0] == found[1]
    assert sum(found[0].values()) == pytest.approx(1)
    assert set(found[0]) <= {label for label, _ in battle.views["p1"]["legal"]}
    promised = prospects(battle, tables, "p1", random.Random(9), RACE)
    assert max(found[0], key=found[0].get) == max(promised, key=promised.get)
    one, two = sorted(promised.values())[-2:]
    shares = sorted(found[0].values())
    if len(shares) > 1:  # two that differ by d have shares that differ by exp(d / UNSURE)
        assert shares[-1] / shares[-2] == pytest.approx(math.exp((two - one) / UNSURE))


def test_a_race_drops_what_promises_least(pool):
    battle, _ = alike(pool, 3)
    whole = prospects(battle, dex.load(1), "p1", random.Random(2), ((2, 5),))
    race = prospects(battle, dex.load(1), "p1", random.Random(2), ((2, 5), (2, 1)))
    assert list(race) == list(whole)
    assert len(whole) > 1
    changed = [label for label in whole if race[label] != whole[label]]
    assert changed == [max(whole, key=whole.get)]


def test_a_heuristic_advises_what_it_would_play():
    env = PokemonEnv()
    env.reset(seed=6)
    ask = adviser("damage@1", env, "p2", 3)
    for _ in range(6):
        legal = env.legal_actions
        assert ask() == {HEURISTICS["damage@1"](env.view("p2"), env.dex, random.Random(3)): 1.0} or not legal["p2"]
        env.step({side: labels[0] if labels else None for side, labels in legal.items()})
    with pytest.raises(PolicyError, match=r"'oracle@1' gives no advice; a heuristic or search@1 does"):
        adviser("oracle@1", env, "p2", 3)


def test_another_environment_is_refused():
    with pytest.raises(PolicyError, match=r"search@1 plays pokemon-v1 only"):
        search_1(MatrixEnv(), "p1", 0)
