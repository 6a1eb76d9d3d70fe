"""The text of a side holds everything that its view holds."""

from __future__ import annotations

import random

import pytest

from palaver.envs.pokemon import replay
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import SIDES
from palaver.envs.pokemon.showdown.pool import shared_pool

pytestmark = pytest.mark.usefixtures("pool")

OWN = [
    {
        "name": "ditto", "species": "gengar", "level": 82, "gender": "", "hp": 150, "max": 300, "status": "slp",
        "slept": 2, "moves": [("shadowball", 3, 5), ("thunderwave", 5, 5)], "stats": [151, 152, 153, 154, 155],
        "slot": 1, "item": "choicescarf", "ability": "imposter", "tera": "water", "terastallized": False,
    },
    {
        "name": "eelektross", "species": "eelektross", "level": 100, "gender": "F", "hp": 0, "max": 300, "status": "",
        "moves": [("uturn", 32, 32)], "stats": [1, 2, 3, 4, 5], "slot": 2, "item": "", "ability": "levitate",
        "tera": "ice", "terastallized": False,
    },
    {
        "name": "pawmot", "species": "pawmot", "level": 100, "gender": "", "hp": 281, "max": 281, "status": "",
        "moves": [("revivalblessing", 1, 1)], "stats": [1, 2, 3, 4, 5], "slot": 3, "item": "", "ability": "ironfist",
        "tera": "ice", "terastallized": True,
    },
]  # fmt: skip


def seen(name, **more):
    made = {
        "name": name, "species": name, "level": 100, "gender": "", "hp": 100, "max": 100, "status": "", "moves": [],
        "item": None, "gone": "", "ability": None, "tera": None, "terastallized": False, "seen": True,
    }  # fmt: skip
    return {**made, **more}


def view():
    mine = {
        "active": 0, "entered": 3, "team": OWN, "boosts": {"spe": -1, "atk": 2},
        "volatiles": {"transform": [3, "gengar"], "substitute": [4]},
        "conditions": {"spikes": [2, 5], "reflect": [1, 6]},
    }  # fmt: skip
    team = [
        seen("starmie", hp=31, status="par", moves=[("surf", 2), ("icebeam", 1)], item="leftovers", ability="analytic"),
        seen("zapdos", hp=0),
        seen("rotomwash", seen=False),
        seen("mew", item="", gone="focussash", tera="ghost", terastallized=True, level=90, gender="M"),
    ]
    foe = {
        "active": 0, "entered": 1, "team": team, "boosts": {}, "volatiles": {"encore": [5, "surf"]},
        "conditions": {"stealthrock": [1, 2]}, "size": 6,
    }  # fmt: skip
    return {
        "request": "move", "trapped": "maybe", "me": mine, "foe": foe, "weather": ("raindance", 7), "lines": [],
        "legal": [("move shadowball", "move 1"), ("move thunderwave", "move 2"), ("switch pawmot", "switch 3")],
        "field": {"trickroom": 6, "psychicterrain": 5},
    }  # fmt: skip


TEXT = """\
gen9ou. You are p2. Turn 8.
Weather: raindance since turn 7. Field: psychicterrain since turn 5, trickroom since turn 6.
Your side: reflect (turn 6), spikes x2 (turn 5). Their side: stealthrock (turn 2).
Your team:
- ditto [gengar] ghost/poison L82; 150/300 slp (2 turns); ACTIVE; boosts atk +2 spe -1; substitute, transform gengar; \
shadowball 3/5, thunderwave 5/5; atk 151 def 152 spa 153 spd 154 spe 155; item choicescarf; ability imposter; tera water
- eelektross electric F; fainted
- pawmot ice; 281/281; revivalblessing 1/1; atk 1 def 2 spa 3 spd 4 spe 5; item none; ability ironfist; tera ice (now)
Their team:
- starmie water/psychic; 31% par; ACTIVE; encore surf; used icebeam x1, surf x2; item leftovers; ability analytic
- zapdos electric/flying; fainted
- rotomwash electric/water; 100%; not seen yet
- mew ghost L90 M; 100%; no item, focussash is gone; tera ghost (now)
- 2 not seen yet
What happened:
their Zapdos fainted
Your last choice was refused: [Unavailable choice] no
You may be trapped: a switch may be refused, and you choose again.
Choose a move or a switch. Answer with one action, as listed or by its number.
1. move shadowball (ghost, special, power 80, x2 on them, accuracy 100, PP 3/5)
2. move thunderwave (electric, status, accuracy 90, PP 5/5)
3. switch pawmot"""


def observation(gen, format, me, turn, view, lines, refused=""):
    """The whole text for a side that may act, from its view as plain data; `showdown/prompts.js` writes it."""
    about = {"format": format, "turn": turn, "lines": list(lines), "refused": refused}
    return shared_pool().request([["text", gen, me, view, about]])[0]


def shown(**changes):
    lines = ["|faint|p1a: Zapdos"]
    refused = "[Unavailable choice] no"
    return observation(9, "gen9ou", "p2", 8, {**view(), **changes}, lines, refused)


def test_everything_is_told():
    assert shown() == TEXT


def test_what_changes_is_told():
    foe = view()["foe"]
    foe["team"][3]["hp"] = 55
    assert shown(foe=foe) == TEXT.replace("L90 M; 100%", "L90 M; 55%")
    foe["active"] = 1
    assert "- starmie water/psychic; 31% par; used" in shown(foe=foe)


@pytest.mark.parametrize("format", ["gen1ou", "gen9randombattle"])
def test_a_battle_s_texts_say_what_its_views_say(format):
    """What was missed while a side waited is in its next text; both say who won."""
    env, rng, unread, waited = PokemonEnv(format), random.Random(4), {side: [] for side in SIDES}, 0
    texts, _ = env.reset(seed=4)
    while True:
        views, turn = env.battle.views, env.battle.turn
        for side, view in views.items():
            head = f"You are {side}. "
            unread[side] += view["lines"]
            if view["legal"]:
                assert texts[side] == observation(env.dex.gen, format, side, turn, view, unread[side])
                unread[side] = []
            else:
                waits, lines = view["request"] == "wait", unread[side]
                how = "You won." if env.battle.winner == side else "You lost."
                head += (
                    f"Turn {turn}. Your opponent chooses, you wait."
                    if waits
                    else f"The battle is over after turn {turn}. {how}"
                )
                [happened] = replay.event_texts([view["lines"] if waits else lines], side)
                assert texts[side] == (f"{head}\n{happened}" if happened else head)
                waited += waits
        if not env.agents:
            break
        texts, *_ = env.step({s: rng.choice(list(env.battle.legal[s])) for s in SIDES if env.battle.legal[s]})
    assert waited > 3


def test_the_first_generation_has_no_items():
    own = [{k: v for k, v in OWN[2].items() if k not in ("item", "ability", "tera", "terastallized")}]
    own[0] |= {"species": "mew", "name": "mew", "moves": [("psychic", 16, 16)]}
    state = {**view(), "me": {**view()["me"], "team": own, "volatiles": {}, "boosts": {}}, "weather": None, "field": {}}
    text = observation(1, "gen1ou", "p1", 1, state, [])
    assert "- mew psychic; 281/281; ACTIVE; psychic 16/16; atk 1 def 2 spa 3 spd 4 spe 5\n" in text
    assert "Weather: none. Field: none." in text
