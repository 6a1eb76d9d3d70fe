"""The embedded simulator: seeds, forks, what each side is told and asked."""

from __future__ import annotations

import copy
import random

import pytest

from palaver.envs.pokemon.showdown import BattlePool, Setup, ShowdownError, dice
from tests.envs.pokemon.battles import follow, moves, packed, play, setup

FORMATS = ("gen1randombattle", "gen1ou", "gen4ou", "gen9ou", "gen9randombattle")


def test_seeds():
    assert dice(0) == dice("0") != dice(1)
    assert [0 <= int(part) < 1 << 16 for part in dice("any", 3).split(",")] == [True] * 4


@pytest.mark.parametrize("format", FORMATS)
def test_same_seeds_and_choices_give_the_same_log(pool, format):
    alone, rng = pool.start([setup(pool, format, 3)])[0], random.Random(3)
    made = play(alone, rng)
    crowd = pool.start([setup(pool, format, seed) for seed in (4, 3, 5)])
    follow_all = [(crowd[0], random.Random(0)), (crowd[2], random.Random(1))]
    for choices in made:  # among other battles in the same process, in one line with them
        others = [(battle, moves(battle, rng)) for battle, rng in follow_all if not battle.ended]
        pool.choose([*others, (crowd[1], choices)])
    again = crowd[1]
    assert again.log("all") == alone.log("all")
    assert again.log("input") == alone.log("input")
    assert again.views == alone.views
    assert (again.turn, again.winner, again.ended) == (alone.turn, alone.winner, alone.ended)
    assert crowd[0].log("p1") != alone.log("p1")


def test_another_process_gives_the_same_log(pool):
    here = pool.start([setup(pool, "gen9randombattle", 8)])[0]
    made = play(here, random.Random(8))
    with BattlePool(1, plain=True) as other:
        there = other.start([here.setup])[0]
        follow(there, made)
        assert there.log("all") == here.log("all")


@pytest.mark.slow
@pytest.mark.parametrize("format", [*(f"gen{n}randombattle" for n in range(1, 10)), "gen1ou", "gen4ou", "gen9ou"])
def test_the_short_cut_for_events_changes_nothing(pool, format):
    with BattlePool(1, plain=True) as plain:
        for seed in range(8):
            fast = pool.start([setup(pool, format, seed)])[0]
            made = play(fast, random.Random(seed))
            slow = plain.start([fast.setup])[0]
            follow(slow, made)
            assert slow.log("all") == fast.log("all")
            assert slow.views == fast.views


def test_a_side_sees_no_secret(pool):
    battle = pool.start([setup(pool, "gen9ou", 1)])[0]
    play(battle, random.Random(1))
    for me, foe in (("p1", "p2"), ("p2", "p1")):
        lines = [line.split("|") for line in battle.log(me) if line.startswith(("|-damage", "|-heal"))]
        points = {owner: {p[3].split(" ")[0] for p in lines if p[2].startswith(owner)} for owner in (me, foe)}
        assert all(value.endswith("/100") or value == "0" for value in points[foe])
        assert any(not value.endswith("/100") for value in points[me])
        shown = {mon["name"]: mon for mon in battle.views[me]["foe"]["team"]}
        revealed = {
            p[3] for p in (line.split("|") for line in battle.log(me)) if p[1] == "move" and p[2].startswith(foe)
        }
        told = {move for mon in shown.values() for move, _ in mon["moves"]}
        assert told <= {"".join(filter(str.isalnum, name.lower())) for name in revealed}


def test_team_preview(pool):
    battle = pool.start([setup(pool, "gen9ou", 2)])[0]
    view = battle.views["p1"]
    assert view["request"] == "team"
    assert [label.split()[0] for label, _ in view["legal"]] == ["lead"] * 6
    assert view["legal"] == sorted(view["legal"])
    assert [mon["seen"] for mon in view["foe"]["team"]] == [False] * 6
    assert view["foe"]["active"] == -1
    battle.choose({"p1": view["legal"][3][1], "p2": "default"})
    after = battle.views["p1"]
    assert after["me"]["team"][after["me"]["active"]]["name"] == view["legal"][3][0].removeprefix("lead ")
    assert [mon["name"] for mon in after["me"]["team"]] == [mon["name"] for mon in view["me"]["team"]]
    assert sum(mon["seen"] for mon in after["foe"]["team"]) == 1


def test_a_fork_plays_on_like_the_original(pool):
    for format in ("gen1ou", "gen9randombattle"):
        battle = pool.start([setup(pool, format, 6)])[0]
        rng = random.Random(6)
        play(battle, rng, turns=8)
        before = battle.log("all")
        twin, third = battle.fork(), copy.deepcopy(battle)
        assert twin.views == battle.views
        made = play(twin, rng)
        assert battle.log("all") == before
        follow(third, made)
        follow(battle, made)
        assert battle.log("all") == twin.log("all") == third.log("all") != before
        assert battle.views == twin.views == third.views


def test_a_fork_with_a_seed_throws_other_dice(pool):
    battle = pool.start([setup(pool, "gen1ou", 9)])[0]
    play(battle, random.Random(9), turns=3)
    choices = {
        side: next(choice for label, choice in view["legal"] if "move" in label) for side, view in battle.views.items()
    }
    logs = []
    for seed in range(8):
        fork = battle.fork(seed)
        fork.choose(choices)
        logs.append(tuple(fork.log("all")))
    assert len(set(logs)) > 2
    again = battle.fork(0)
    again.choose(choices)
    assert tuple(again.log("all")) == logs[0]
    battle.reseed(0)
    battle.choose(choices)
    assert tuple(battle.log("all")) == logs[0]


def test_a_saved_battle_goes_on_in_another_process(pool):
    battle = pool.start([setup(pool, "gen4ou", 2)])[0]
    rng = random.Random(2)
    play(battle, rng, turns=10)
    text = battle.save()
    with BattlePool(1) as other:
        loaded = other.load(text, battle.setup)
        assert {side: {**view, "lines": []} for side, view in battle.views.items()} == loaded.views
        follow(loaded, play(battle, rng))
        assert loaded.log("all") == battle.log("all")


def test_views_of_a_battle_with_texts_come_when_they_are_asked_for(pool):
    """They are what a battle without texts is sent, in forks and in saved battles too, and change no text."""
    given = setup(pool, "gen9ou", 5)
    [plain], [told, quiet] = pool.start([given]), pool.start([given, given], texts=True)
    assert plain.texts == {}
    assert plain.legal == told.legal == {side: dict(view["legal"]) for side, view in plain.views.items()}
    made = play(plain, random.Random(5), turns=7)
    follow(told, made)
    follow(quiet, made)
    twin = told.fork()
    assert twin.views == told.views == plain.views
    assert told.views["p1"]["lines"]
    told.choose({side: "default" for side, legal in told.legal.items() if legal})
    plain.choose({side: "default" for side, legal in plain.legal.items() if legal})
    loaded = pool.load(told.save(), given)
    for n in range(6):
        assert told.views == plain.views, n
        assert quiet.texts != told.texts
        quiet.choose({side: "default" for side, legal in quiet.legal.items() if legal})
        assert quiet.texts == told.texts
        assert loaded.texts == (told.texts if n else {})
        for battle in (plain, told, loaded):
            battle.choose({side: "default" for side, legal in battle.legal.items() if legal})


TRAPPERS = (
    packed(("Snorlax", "thickfat", "", ("bodyslam", "rest")), ("Tauros", "intimidate", "", ("bodyslam",))),
    packed(("Dugtrio", "arenatrap", "", ("sandattack",)), ("Chansey", "naturalcure", "", ("softboiled",))),
)


def test_a_hidden_trap_is_learned_by_being_refused(pool):
    battle = pool.start([Setup("gen4customgame", 1, TRAPPERS)])[0]
    play(battle, random.Random(0), turns=1)  # leads, where the format asks
    while battle.views["p1"]["request"] == "team":
        battle.choose({"p1": "team 1", "p2": "team 1"})
    assert battle.views["p1"]["trapped"] == "maybe"
    switch = dict(battle.views["p1"]["legal"])["switch tauros"]
    turn = battle.turn
    battle.choose({"p1": switch, "p2": "move 1"})
    assert battle.turn == turn
    assert "trapped" in battle.refused["p1"]
    assert battle.views["p1"]["trapped"] == "yes"
    assert [label for label, _ in battle.views["p1"]["legal"]] == ["move bodyslam", "move rest"]
    assert battle.views["p2"]["request"] == "wait"
    assert battle.views["p2"]["legal"] == []
    fork = battle.fork()  # what was learned is learned in the copy
    for each in (battle, fork):
        each.choose({"p1": "move 1"})
        assert each.turn == turn + 1
        assert each.refused == {}
    assert fork.log("all") == battle.log("all")


def test_revival_blessing(pool):
    teams = (
        packed(
            ("Magikarp", "swiftswim", "", ("splash",)), ("Pawmot", "naturalcure", "", ("revivalblessing", "tackle"))
        ),
        packed(("Gengar", "cursedbody", "", ("thunderbolt", "splash"))),
    )
    battle = pool.start([Setup("gen9customgame", 1, teams)])[0]
    battle.choose({"p1": "team 1", "p2": "team 1"})
    battle.choose({"p1": "move 1", "p2": "move 1"})
    assert (battle.views["p1"]["request"], battle.views["p2"]["request"]) == ("switch", "wait")
    assert [label for label, _ in battle.views["p1"]["legal"]] == ["switch pawmot"]
    battle.choose({"p1": battle.views["p1"]["legal"][0][1]})
    battle.choose({"p1": "move 1", "p2": "move 2"})
    assert battle.views["p1"]["request"] == "revive"
    [(label, choice)] = battle.views["p1"]["legal"]
    assert label == "revive magikarp"
    battle.choose({"p1": choice})
    assert [mon["hp"] > 0 for mon in battle.views["p1"]["me"]["team"]] == [True, True]


def test_struggle_and_a_tie(pool):
    teams = (packed(("Wobbuffet", "shadowtag", "", ("splash",))),) * 2
    battle = pool.start([Setup("gen9customgame", 1, teams)])[0]
    battle.choose({"p1": "team 1", "p2": "team 1"})
    for turn in range(64):
        assert [label for label, _ in battle.views["p1"]["legal"]] == ["move splash", "move splash tera"], turn
        assert battle.views["p1"]["me"]["team"][0]["moves"] == [["splash", 64 - turn, 64]]
        battle.choose({"p1": "move 1", "p2": "move 1"})
    assert [label for label, _ in battle.views["p1"]["legal"]] == ["move struggle"]
    battle.finish(None)
    assert (battle.ended, battle.winner) == (True, "")
    assert battle.views["p1"]["request"] == "end"


@pytest.mark.parametrize(
    "choice", ["", "move 9", "switch 1", "rm -rf", "move 1, move 1", "\x00\ud7ff" * 1000, "team 1"]
)
def test_a_choice_that_makes_no_sense_is_refused(pool, choice):
    battle = pool.start([setup(pool, "gen1ou", 0)])[0]
    before = battle.turn
    battle.choose({"p1": choice, "p2": "default"})
    assert battle.refused["p1"]
    assert (battle.turn, battle.ended) == (before, False)
    battle.choose({"p1": "default"})
    assert battle.turn == before + 1


@pytest.mark.parametrize("format", ["gen1oo", "gen9doublesou", "", "__proto__"])
def test_a_format_that_does_not_exist(pool, format):
    with pytest.raises(ShowdownError, match="format"):
        pool.start([Setup(format)])


def test_a_team_that_cannot_be_read(pool):
    with pytest.raises(ShowdownError, match="team"):
        pool.start([Setup("gen1ou", 0, ("", "]]]"))])


def test_battles_are_forgotten(pool):
    def alive():
        pool.request([["drop"]])  # what is dropped goes with the next question
        return pool.request([["drop"]])[0]

    before = alive()
    made = pool.start([setup(pool, "gen1randombattle", seed) for seed in range(5)])
    assert alive() == before + 5
    made[0].close()
    made[0].close()
    assert alive() == before + 4
    del made
    assert alive() == before
