"""What a side is told, against the simulator's own state, over whole random battles."""

from __future__ import annotations

import json
import math
import random

import pytest

from palaver.envs.pokemon.showdown import Setup
from tests.envs.pokemon.battles import moves, packed, setup

TOLD = {  # volatiles of which both must know, or neither
    "substitute", "confusion", "leechseed", "taunt", "encore", "disable", "curse", "focusenergy", "yawn", "attract",
    "ingrain", "aquaring", "torment", "nightmare", "magnetrise", "healblock", "embargo", "protosynthesis", "quarkdrive",
}  # fmt: skip


def percent(mon):
    """What the protocol shows of hit points."""
    part = math.ceil(100 * mon["hp"] / mon["maxhp"])
    return 99 if part == 100 and mon["hp"] < mon["maxhp"] else part


def compare(battle):
    state = json.loads(battle.save())["state"]
    for n, side in enumerate(("p1", "p2")):
        view, field = battle.views[side], state["field"]
        assert (view["weather"] or [""])[0] == field.get("weather", "")
        assert {id for id in view["field"] if id.endswith("terrain")} == {field["terrain"]} - {""}
        assert {id for id in view["field"] if not id.endswith("terrain")} <= set(field["pseudoWeather"])
        for key, true in (("me", state["sides"][n]), ("foe", state["sides"][1 - n])):
            conditions = {id: held.get("layers", 1) for id, held in true["sideConditions"].items()}
            told = view[key]["conditions"].items()
            assert {id: layers for id, (layers, _) in told if id not in ("wish", "futuresight")} == conditions
            active = true["pokemon"][0]
            if active.get("isActive") and not active["fainted"]:
                assert view[key]["boosts"] == {stat: stage for stat, stage in active["boosts"].items() if stage}
                assert set(view[key]["volatiles"]) & TOLD == set(active["volatiles"]) & TOLD
        seen(view["foe"]["team"], state["sides"][1 - n]["pokemon"])


def seen(team, truly):
    if any(mon.get("illusion") for mon in truly):
        return
    by_name = {mon["set"]["name"]: mon for mon in truly}
    for mon in team:
        true = by_name[mon["name"]]
        if not mon["seen"]:
            continue
        assert true["fainted"] == (mon["hp"] == 0)
        # what Regenerator and Natural Cure mend when they leave shows when they come back
        if not true["fainted"] and true["baseAbility"] not in ("regenerator", "naturalcure"):
            assert (mon["hp"], mon["status"]) == (percent(true), true["status"])
        if mon["item"] is not None:
            assert mon["item"] == true["item"]
        if mon["ability"] is not None and not true.get("transformed"):
            assert mon["ability"] in (true["ability"], true["baseAbility"])
        assert {id for id, _ in mon["moves"]} <= {slot["id"] for slot in true.get("baseMoveSlots", true["moveSlots"])}


@pytest.mark.parametrize(
    ("format", "battles"),
    [
        ("gen1randombattle", 3),
        ("gen9ou", 3),
        *[pytest.param(f"gen{n}randombattle", 10, marks=pytest.mark.slow) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9)],
        *[pytest.param(name, 10, marks=pytest.mark.slow) for name in ("gen1ou", "gen4ou", "gen9ou")],
    ],
)
def test_nothing_is_told_wrongly(pool, format, battles):
    for seed in range(battles):
        battle, rng = pool.start([setup(pool, format, seed)])[0], random.Random(seed)
        teams = [mon["species"] for view in battle.views.values() for mon in view["me"]["team"]]
        illusion = any(name.startswith(("zoroark", "zorua")) for name in teams)
        while not battle.ended and battle.turn < 80 and not illusion:
            battle.choose(moves(battle, rng))
            if not battle.ended:
                compare(battle)


def test_our_own_team_is_the_simulators(pool):
    battle, rng = pool.start([setup(pool, "gen9randombattle", 4)])[0], random.Random(4)
    while not battle.ended:
        truly = {mon["set"]["name"]: mon for mon in json.loads(battle.save())["state"]["sides"][0]["pokemon"]}
        for mon in battle.views["p1"]["me"]["team"]:
            true = next(each for each in truly.values() if mon["species"] == each["speciesState"]["id"])
            assert (mon["hp"], mon["max"], mon["item"]) == (true["hp"], true["maxhp"], true["item"])
            assert mon["moves"] == [[slot["id"], slot["pp"], slot["maxpp"]] for slot in true["moveSlots"]]
        battle.choose(moves(battle, rng))


def start(pool, format, first, second, *turns):
    """A battle of single Pokémon, or teams, after some turns given as labels of both sides."""
    battle = pool.start([Setup(format, 1, (packed(*first), packed(*second)))])[0]
    if battle.views["p1"]["request"] == "team":
        battle.choose({"p1": "team 1", "p2": "team 1"})
    for labels in turns:
        given = zip(("p1", "p2"), labels, strict=True)
        battle.choose({side: dict(battle.views[side]["legal"])[label] for side, label in given if label})
        assert not battle.refused
    return battle


def test_hazards_of_all_kinds_are_kept(pool):
    layer = ("Ferrothorn", "ironbarbs", "", ("spikes", "stealthrock", "toxicspikes", "stickyweb"))
    other = ("Blissey", "naturalcure", "", ("lightscreen", "reflect", "splash", "safeguard"))
    turns = [
        (f"move {a}", f"move {b}")
        for a, b in (
            ("spikes", "lightscreen"), ("spikes", "reflect"), ("stealthrock", "safeguard"), ("toxicspikes", "splash"),
            ("stickyweb", "splash"),
        )
    ]  # fmt: skip
    battle = start(pool, "gen9customgame", [layer], [other], *turns)
    expected = {
        "spikes": [2, 2], "stealthrock": [1, 3], "toxicspikes": [1, 4], "stickyweb": [1, 5], "lightscreen": [1, 1],
        "reflect": [1, 2], "safeguard": [1, 3],
    }  # fmt: skip
    assert battle.views["p1"]["foe"]["conditions"] == battle.views["p2"]["me"]["conditions"]
    kept = battle.views["p1"]["foe"]["conditions"]
    assert {id: kept[id] for id in expected if id in kept} == {id: expected[id] for id in kept}
    assert set(expected) - set(kept) <= {"lightscreen"}  # five turns are over


def test_details_of_volatiles(pool):
    first = ("Alakazam", "synchronize", "", ("encore", "disable", "soak", "substitute"))
    second = ("Blissey", "naturalcure", "", ("splash", "tackle", "futuresight", "perishsong"))
    battle = start(
        pool, "gen9customgame", [first], [second],
        ("move substitute", "move splash"), ("move encore", "move splash"), ("move soak", "move splash"),
    )  # fmt: skip
    told = battle.views["p1"]["foe"]["volatiles"]
    assert told["encore"][0] == 2
    assert told["typechange"] == [3, "water"]
    assert battle.views["p2"]["foe"]["volatiles"]["substitute"] == [1]
    assert battle.views["p2"]["foe"]["team"][0]["moves"] == [["substitute", 1], ["encore", 1], ["soak", 1]]
    battle = start(
        pool, "gen9customgame", [first], [second], ("move soak", "move futuresight"), ("move soak", "move perishsong")
    )
    assert battle.views["p1"]["me"]["conditions"]["futuresight"] == [1, 1]
    assert battle.views["p1"]["me"]["volatiles"]["perish"] == [2, 3]


def test_baton_pass_hands_on(pool):
    first = [("Ninjask", "speedboost", "", ("swordsdance", "batonpass")), ("Snorlax", "thickfat", "", ("splash",))]
    battle = start(
        pool, "gen9customgame", first, [("Blissey", "naturalcure", "", ("splash",))],
        ("move swordsdance", "move splash"), ("move batonpass", "move splash"), ("switch snorlax", None),
    )  # fmt: skip
    assert battle.views["p2"]["foe"]["boosts"] == battle.views["p1"]["me"]["boosts"] == {"atk": 2, "spe": 1}
    assert battle.views["p2"]["foe"]["team"][1]["name"] == "Snorlax"


def test_an_illusion_that_ends(pool):
    first = [("Zoroark", "illusion", "", ("knockoff", "splash")), ("Blissey", "naturalcure", "", ("splash",))]
    second = [("Mew", "synchronize", "leftovers", ("tackle", "splash"))]
    battle = start(pool, "gen9customgame", first, second, ("move knockoff", "move splash"))
    [_, disguise] = battle.views["p2"]["foe"]["team"]
    assert (disguise["name"], disguise["moves"]) == ("Blissey", [["knockoff", 1]])
    battle.choose({"p1": "move 2", "p2": "move 1"})
    team = {mon["name"]: mon for mon in battle.views["p2"]["foe"]["team"]}
    assert dict(team["Zoroark"]["moves"]) == {"knockoff": 1, "splash": 1}
    assert team["Blissey"]["moves"] == []
    assert team["Blissey"]["hp"] == team["Blissey"]["max"]
    assert team["Zoroark"]["hp"] < team["Zoroark"]["max"]


def test_stolen_items_and_traced_abilities(pool):
    first = ("Porygon2", "trace", "", ("thief", "splash"))
    second = ("Snorlax", "thickfat", "leftovers", ("splash",))
    battle = start(pool, "gen9customgame", [first], [second], ("move thief", "move splash"))
    foe = battle.views["p1"]["foe"]["team"][0]
    assert (foe["item"], foe["gone"], foe["ability"]) == ("", "leftovers", "thickfat")
    thief = battle.views["p2"]["foe"]["team"][0]
    assert (thief["item"], thief["ability"]) == ("leftovers", "thickfat")


def test_an_ability_that_was_copied_is_gone_with_who_leaves(pool):
    first = [("Porygon2", "trace", "", ("splash",)), ("Blissey", "naturalcure", "", ("splash",))]
    second = [("Snorlax", "thickfat", "leftovers", ("splash",))]
    battle = start(
        pool, "gen9customgame", first, second, ("move splash", "move splash"), ("switch blissey", "move splash")
    )
    told = {mon["name"]: mon["ability"] for mon in battle.views["p2"]["foe"]["team"]}
    assert told == {"Porygon2": "trace", "Blissey": None}
