"""The heuristics: what they choose where the answer is plain, and that they always say something legal."""

from __future__ import annotations

import random

import pytest

from palaver.core import PolicyError
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players import damage, expert, simple
from palaver.envs.pokemon.players.registry import HEURISTICS, player
from palaver.envs.pokemon.players.search import best_action, oracle_1
from palaver.envs.pokemon.showdown import dex
from palaver.registry import spec

pytestmark = pytest.mark.usefixtures("pool")
DRAW = random.Random(0)


def own(name, *moves, hp=300, **more):
    stats = [200, 200, 200, 200, 200]
    made = {"name": name, "species": name, "level": 100, "gender": "", "hp": hp, "max": 300, "status": "", "slot": 1}
    return {**made, "stats": stats, "moves": [(move, 10, 10) for move in moves], **more}


def seen(name, hp=100, **more):
    made = {
        "name": name, "species": name, "level": 100, "gender": "", "hp": hp, "max": 100, "status": "", "moves": [],
        "item": None, "gone": "", "ability": None, "tera": None, "terastallized": False, "seen": True,
    }  # fmt: skip
    return {**made, **more}


def view(team, foe, **more):
    seat = {"active": 0, "entered": 1, "boosts": {}, "volatiles": {}, "conditions": {}}
    legal = [f"move {move}" for move, *_ in team[0]["moves"]] + [
        f"switch {mon['name']}" for mon in team[1:] if mon["hp"]
    ]
    made = {
        "request": "move", "legal": [(label, label) for label in sorted(legal)], "trapped": "", "weather": None,
        "field": {}, "lines": [], "me": {**seat, "team": team}, "foe": {**seat, "team": [foe], "size": 6},
    }  # fmt: skip
    return {**made, **more}


def test_max_power_reads_the_table():
    state = view([own("starmie", "surf", "hydropump", "thunderwave")], seen("zapdos"))
    assert simple.max_power_1(state, dex.load(9), DRAW) == "move hydropump"


@pytest.mark.parametrize(
    ("foe", "action"), [("rhydon", "move surf"), ("gyarados", "move thunderbolt"), ("zapdos", "move icebeam")]
)
@pytest.mark.parametrize("rule", ["typed@1", "simple@1", "damage@1", "gym_leader@1"])
def test_types_decide(rule, foe, action):
    state = view([own("starmie", "icebeam", "surf", "thunderbolt")], seen(foe))
    assert HEURISTICS[rule](state, dex.load(4), DRAW) == action


@pytest.mark.parametrize("rule", ["typed@1", "damage@1", "gym_leader@1", "veteran@1"])
def test_immunity_calls_for_a_switch(rule):
    state = view([own("rhydon", "earthquake"), own("snorlax", "icebeam", stats=[400] * 5)], seen("zapdos"))
    assert HEURISTICS[rule](state, dex.load(1), DRAW) == "switch snorlax"


def test_a_retreat_from_lowered_defence():
    team = [own("starmie", "surf"), own("zapdos", "thunderbolt")]
    state = view(team, seen("gyarados"))
    assert simple.simple_1(state, dex.load(4), DRAW) == "move surf"
    state["me"]["boosts"] = {"def": -3}
    assert simple.simple_1(state, dex.load(4), DRAW) == "switch zapdos"


def test_hazards_and_boosts():
    state = view([own("rhydon", "stealthrock", "earthquake")], seen("jynx", hp=60))
    assert simple.simple_1(state, dex.load(4), DRAW) == "move stealthrock"
    state["foe"]["conditions"] = {"stealthrock": [1, 1]}
    assert simple.simple_1(state, dex.load(4), DRAW) == "move earthquake"
    state = view([own("scizor", "swordsdance", "bulletpunch")], seen("jynx"))
    assert simple.simple_1(state, dex.load(4), DRAW) == "move swordsdance"


def test_the_leader_sleeps_heals_and_finishes():
    team = [own("jynx", "blizzard", "lovelykiss")]
    assert expert.gym_leader_1(view(team, seen("chansey")), dex.load(1), DRAW) == "move lovelykiss"
    assert expert.gym_leader_1(view(team, seen("chansey", status="par")), dex.load(1), DRAW) == "move blizzard"
    assert expert.gym_leader_1(view(team, seen("zapdos", hp=20)), dex.load(1), DRAW) == "move blizzard"
    team = [own("chansey", "icebeam", "softboiled", hp=70)]
    chosen = [expert.gym_leader_1(view(team, seen("slowbro")), dex.load(1), random.Random(n)) for n in range(200)]
    assert 0.6 < chosen.count("move softboiled") / 200 < 0.9


@pytest.mark.parametrize("rule", ["gym_leader@1", "veteran@1"])
def test_no_status_that_cannot_work(rule):
    state = view([own("starmie", "surf", "thunderwave")], seen("rhydon"))
    assert HEURISTICS[rule](state, dex.load(1), DRAW) == "move surf"


def test_damage_by_hand():
    table = dex.load(4)
    # Gyarados, estimated: hit points 2 * 95 + 52 + 110 = 352, special defence 2 * 100 + 52 + 5; x4 on water/flying
    state = view([own("starmie", "thunderbolt")], seen("gyarados"))
    target = seen("gyarados")
    defence = (2 * 100 + 52) + 5
    points = ((42 * 95 * 200 / defence) / 50 + 2) * 4 * 0.925 * 1.04
    expected = points / (2 * 95 + 52 + 110)
    assert table.moves["thunderbolt"]["power"] == 95
    assert damage.damage(table, "thunderbolt", state["me"]["team"][0], target) == pytest.approx(expected)
    assert damage.damage(table, "seismictoss", own("starmie"), target) == pytest.approx(100 / 352)
    assert damage.damage(table, "earthquake", own("rhydon"), target) == 0
    assert damage.damage(table, "superfang", own("starmie"), seen("gyarados", hp=50)) == 0.25
    assert damage.damage(table, "recover", own("starmie"), target) == 0


def test_boosts_burns_and_screens_count():
    table, user, target = dex.load(4), own("snorlax", "bodyslam"), seen("mew")
    seat = {"active": 0, "entered": 1, "boosts": {"atk": 2}, "volatiles": {}, "conditions": {}}
    plain = damage.damage(table, "bodyslam", user, target)
    assert damage.damage(table, "bodyslam", user, target, seat) / plain == pytest.approx(2, rel=0.03)
    assert damage.damage(table, "bodyslam", {**user, "status": "brn"}, target) / plain == pytest.approx(0.5, rel=0.05)
    wall = {**seat, "boosts": {}, "conditions": {"reflect": [1, 1]}}
    assert damage.damage(table, "bodyslam", user, target, None, wall) / plain == pytest.approx(0.5)
    assert [damage.stage(n) for n in (-6, -1, 0, 1, 6)] == [0.25, 2 / 3, 1, 1.5, 4]


def test_hidden_abilities_are_not_guessed():
    table, user = dex.load(4), own("rhydon", "earthquake")
    assert damage.damage(table, "earthquake", user, seen("gengar")) == 0  # it can only have Levitate
    assert damage.damage(table, "earthquake", user, seen("bronzong")) > 0
    assert damage.damage(table, "earthquake", user, seen("bronzong", ability="levitate")) == 0


@pytest.mark.parametrize("format", ["gen1ou", "gen2randombattle", "gen7randombattle", "gen9ou"])
def test_all_they_say_is_legal(format):
    names = sorted(HEURISTICS)
    env = PokemonEnv(format)
    for n, name in enumerate(names):
        _, infos = env.reset(seed=n)
        seats = {"p1": player(name, env, "p1", n), "p2": player(names[(n + 1) % len(names)], env, "p2", n)}
        while env.agents:
            moves = {side: seats[side]("", infos[side]) for side in env.agents if infos[side]["can_act"]}
            *_, infos = env.step(moves)
            assert infos["p1"]["metrics"]["illegal"] == 0


def test_players_are_seeded():
    def battle():
        env = PokemonEnv("gen1ou")
        _, infos = env.reset(seed=2)
        seats = {side: player("gym_leader@1", env, side, 7) for side in env.agents}
        while env.agents:
            *_, infos = env.step({s: seats[s]("", infos[s]) for s in env.agents if infos[s]["can_act"]})
        return env.log()

    assert battle() == battle()


def test_the_oracle_sees_what_is_hidden():
    env = PokemonEnv("gen1ou")
    env.reset(seed=3)
    before = env.log()
    action = best_action(env.battle, env.dex, "p1", random.Random(1))
    assert action in env.legal_actions["p1"]
    assert action == best_action(env.battle, env.dex, "p1", random.Random(1))
    assert oracle_1(env, "p1", 1)("", {}) == action
    assert env.log() == before


def test_the_catalogue_names_them_all():
    own = {name for name in spec("pokemon-v1").players if not name.startswith("poke-env:")}
    assert own == {*HEURISTICS, "oracle@1", "search@1"}


def test_players_of_nothing():
    with pytest.raises(PolicyError, match="Did you mean 'typed@1'"):
        player("typed", PokemonEnv("gen1ou"), "p1", 0)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["gen1ou", "gen9ou"])
def test_types_beat_chance(format):
    base, won = PokemonEnv(format), 0.0
    live = []
    for n in range(40):
        env = base.fork()
        env.reset(seed=n // 2, options={"task": n // 2 * 11})
        names = ("typed@1", "random@1")[:: -1 if n % 2 else 1]
        live.append((env, [player(name, env, side, n) for name, side in zip(names, ("p1", "p2"), strict=True)], n % 2))
    while live:
        said = [
            {s: seat("", {}) for s, seat in zip(("p1", "p2"), seats, strict=True) if env.legal_actions[s]}
            for env, seats, _ in live
        ]
        steps = PokemonEnv.step_together([env for env, *_ in live], said)
        for (env, _, swapped), (*_, infos) in zip(live, steps, strict=True):
            if not env.agents:
                outcome = infos["p1"]["metrics"]["outcome"]
                won += (1 + (-outcome if swapped else outcome)) / 2
        live = [each for each in live if each[0].agents]
    assert won >= 38
