"""metamon's parsed replays, made here in their format: names, views, actions, rewards, broken files."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from palaver.core import ConfigError
from palaver.envs.pokemon import vector
from palaver.envs.pokemon.showdown import dex
from palaver.trainers.trajectories.metamon import Name, convert, played, shaped
from palaver.trainers.trajectories.reader import Reader
from palaver.trainers.trajectories.replayed import ReplayedBattle

pytestmark = pytest.mark.usefixtures("pool")

OWN = ["tauros", "chansey", "exeggutor", "snorlax", "starmie", "alakazam"]
NUMBERS = {name: n for n, name in enumerate(vector.names())}


def move(name, left=8, of=16):
    return {
        "name": name, "move_type": "normal", "category": "physical", "base_power": 85, "accuracy": 1.0, "priority": 0,
        "current_pp": left, "max_pp": of,
    }  # fmt: skip


def mon(name, moves=("bodyslam",), **changed):
    values = {
        "name": name, "hp_pct": 1.0, "types": "normal notype", "item": "noitem", "ability": "noability", "lvl": 100,
        "status": "nostatus", "effect": "noeffect", "moves": [move(each) for each in moves],
        **{f"{stat}_boost": 0 for stat in ("atk", "spa", "def", "spd", "spe", "accuracy", "evasion")},
        **{f"base_{stat}": 100 for stat in ("atk", "spa", "def", "spd", "spe", "hp")},
        "tera_type": "notype", "base_species": name,
    }  # fmt: skip
    return values | changed


def state(active="tauros", bench=OWN[1:], foe=None, **changed):
    moves = ("hyperbeam", "bodyslam", "earthquake", "blizzard")
    values = {
        "format": "gen1ou", "player_active_pokemon": mon(active, moves) if isinstance(active, str) else active,
        "opponent_active_pokemon": foe or mon("snorlax", ()), "available_switches": [mon(name) for name in bench],
        "player_prev_move": move("nomove"), "opponent_prev_move": move("nomove"), "opponents_remaining": 6,
        "player_conditions": "noconditions", "opponent_conditions": "noconditions", "weather": "noweather",
        "battle_field": "nofield", "forced_switch": False, "battle_won": False, "battle_lost": False,
        "can_tera": False, "opponent_teampreview": [],
    }  # fmt: skip
    return values | changed


def a_battle():
    """Body Slam; a hidden action; Hyper Beam, after which the own Tauros is gone; Starmie comes in; it is won."""
    hurt = mon("snorlax", (), hp_pct=0.6, status="par")
    states = [
        state(),
        state(foe=hurt, player_conditions="reflect"),
        state(foe=mon("snorlax", ("rest",), hp_pct=0.6, status="par")),
        state(mon("tauros", hp_pct=0.0, status="fnt"), foe=hurt, forced_switch=True),
        state("starmie", [n for n in OWN if n not in ("starmie", "tauros")], mon("lapras", ()), opponents_remaining=5,
              battle_won=True),
    ]  # fmt: skip
    return {"states": states, "actions": [1, -1, 3, 8, -1]}


def put(folder, name, data, packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data).encode() if not isinstance(data, bytes) else data
    if packed:
        text = pytest.importorskip("lz4.frame").compress(text)
    (folder / f"{name}.json{'.lz4' if packed else ''}").write_bytes(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("gen1ou-123_1500_ann_vs_bob_08-12-2019_WIN", Name("gen1ou-123", 1500, "ann", "bob", 1.0)),
        ("gen1ou-123_Unrated_ann_vs_bob_08-12-2019_LOSS", Name("gen1ou-123", None, "ann", "bob", 0.0)),
        ("[Gen 1] OU-9_1041_a_n_n__vs__b_o_b_01-02-2020_LOSS", Name("[Gen 1] OU-9", 1041, "a_n_n_", "_b_o_b", 0.0)),
        ("gen9ou-1_1200_x_WIN_vs_y_vs_z_08-12-2019-10:11:12_WIN", Name("gen9ou-1", 1200, "x_WIN_vs_y", "z", 1.0)),
    ],
)
def test_names_are_read_from_both_ends(text, wanted):
    assert Name.read(text) == wanted


@pytest.mark.parametrize(
    "text", ["", "gen1ou-1_1500_ann_vs_bob_08-12-2019_TIE", "a_b_c_d_WIN", "gen1ou_WIN", "x" * 300]
)
def test_what_is_no_name_of_theirs_is_refused(text):
    with pytest.raises(ValueError, match="ID_RATING_PLAYER_vs_OPPONENT_DATE_RESULT"):
        Name.read(text)


def test_a_replay_becomes_a_trajectory(tmp_path):
    put(tmp_path / "in" / "gen1ou", "gen1ou-7_1234_the_ann_vs_bob_08-12-2019_WIN", a_battle(), packed=True)
    done = convert(tmp_path / "in", tmp_path / "out")
    assert (done.trajectories, done.known, done.broken) == (1, 0, {})
    [found] = Reader(tmp_path / "out")
    assert (found.player, found.opponent, found.result, found.format) == ("the_ann", "bob", 1.0, "gen1ou")
    assert (found.teamset, found.task, found.side) == ("replays:1200", "gen1ou-7", "p1")
    assert [each.executed for each in found.decisions] == ["move bodyslam", "", "move hyperbeam", "switch starmie"]
    # blizzard, bodyslam, earthquake, hyperbeam; from slot 8 alakazam, chansey, exeggutor, snorlax, starmie, tauros
    assert [each.slot for each in found.decisions] == [1, -1, 3, 12]
    assert [each.turn for each in found.decisions] == [1, 2, 3, 3]
    free = [True] * 4 + [False] * 4 + [True] * 5 + [False]  # Tauros, the last, is on the field
    forced = [False] * 8 + [True] * 5 + [False]
    assert [each.mask.tolist() for each in found.decisions] == [free, free, free, forced]
    # 0.4 damage + 1/2 for a paralysis; nothing; all hit points lost, and fainting counts as a status; one of theirs is
    # gone, one place on the bench less (as published: a Pokémon that comes in leaves it), and victory
    assert [each.reward for each in found.decisions] == pytest.approx([0.9, 0, -1 - 0.5, 1 - 1 + 100])


def test_words_and_numbers_stand_where_ours_do(tmp_path):
    put(tmp_path / "in", "gen1ou-7_1234_ann_vs_bob_08-12-2019_WIN", a_battle())
    convert(tmp_path / "in", tmp_path / "out")
    first, second, third, last = Reader(tmp_path / "out")[0].decisions
    own, theirs = 3, 3 + 6 * 11
    assert first.words[:own] == ("gen1ou", "move", "none")
    assert first.words[own : own + 11] == (
        "tauros", "normal", "none", "none", "none", "none", "none", "blizzard", "bodyslam", "earthquake", "hyperbeam",
    )  # fmt: skip
    assert [first.words[own + 11 * n] for n in range(6)] == ["tauros", *sorted(OWN[1:])]
    assert first.words[theirs : theirs + 11] == (
        "snorlax", "normal", "none", "unknown", "unknown", "none", *["unknown"] * 5,
    )  # fmt: skip
    assert second.words[theirs + 5] == "par"
    assert third.words[theirs + 7] == "rest"
    assert third.numbers[NUMBERS["their active: move 1 left"]] == np.float32(1 - 8 / 16)
    assert (last.words[1], last.words[own + 5]) == ("switch", "fainted")
    assert second.numbers[NUMBERS["their active: hp"]] == np.float32(0.6)
    assert second.numbers[vector.names().index("own side: reflect")] == np.float32(1 / 3)
    assert last.numbers[NUMBERS["own active: hp"]] == 0
    assert last.numbers[NUMBERS["own active: fainted"]] == 1
    assert first.numbers[NUMBERS["opponents left/6"]] == 1
    assert first.numbers[NUMBERS["own active: move 1 left"]] == 0.5
    assert first.numbers[NUMBERS["own active: base spe/255"]] == np.float32(110 / 255)


def test_what_was_seen_of_the_opponent_is_remembered():
    gone = [state(foe=mon("snorlax", ("rest",))), state(foe=mon("lapras", ()), opponents_remaining=5)]
    replayed = ReplayedBattle([*gone, state(foe=mon("gengar", ()), opponents_remaining=5)], dex.load(1))
    views = [replayed.view(n) for n in range(3)]
    seen = [[(each["name"], bool(each["hp"])) for each in view["foe"]["team"]] for view in views]
    assert seen == [
        [("snorlax", True)],
        [("snorlax", False), ("lapras", True)],
        [("snorlax", False), ("lapras", True), ("gengar", True)],
    ]
    assert [view["foe"]["size"] for view in views] == [6, 6, 6]
    assert [view["foe"]["active"] for view in views] == [0, 1, 2]


def test_generation_nine_brings_tera_types_items_and_team_preview():
    active = mon("tauros", ("closecombat", "bodyslam"), item="choiceband", ability="intimidate", tera_type="steel",
                 types="fighting steel", effect="confusion", atk_boost=-2)  # fmt: skip
    told = state(active, foe=mon("snorlax", (), item="unknownitem", ability="unknownability"), format="gen9ou",
                 can_tera=True, opponent_teampreview=["snorlax", "gengar"], weather="raindance",
                 battle_field="trickroom")  # fmt: skip
    replayed = ReplayedBattle([told, copy.deepcopy(told)], dex.load(9))
    view = replayed.view(0)
    words = vector.side_words(dex.load(9), "gen9ou", view)
    assert words[2] == "raindance"
    assert words[3:10] == ["tauros", "fighting", "steel", "choiceband", "intimidate", "none", "steel"]
    theirs = 3 + 6 * 11
    assert words[theirs : theirs + 7] == ["snorlax", "normal", "none", "unknown", "unknown", "none", "unknown"]
    assert words[theirs + 11] == "gengar"
    slots = vector.slots(view)
    assert slots[:8] == (
        "move bodyslam",
        "move closecombat",
        "",
        "",
        "move bodyslam tera",
        "move closecombat tera",
        "",
        "",
    )
    assert played(told, 10) == "move closecombat tera"
    numbers = dict(zip(vector.names(), vector.numbers(dex.load(9), 2, replayed.view(1)), strict=True))
    assert (numbers["own confusion"], numbers["own atk"], numbers["trickroom"]) == (1, -2 / 6, 1)
    assert numbers["weather age/10"] == 0.1
    assert (numbers["their active: seen"], numbers["their bench 1: seen"]) == (1, 0)


def test_revivals_and_what_is_no_action():
    fallen = state("chansey", (), forced_switch=True)
    fallen["available_switches"] = [mon("tauros", hp_pct=0.0, status="fnt"), mon("alakazam", hp_pct=0.0, status="fnt")]
    view = ReplayedBattle([state("chansey", ["tauros", "alakazam"]), fallen], dex.load(9))
    view.view(0)
    found = view.view(1)
    assert found["request"] == "revive"
    assert [label for label, _ in found["legal"]] == ["revive alakazam", "revive tauros"]
    assert played(fallen, 5) == "revive tauros"
    for action in (6, 13, -2, 99):
        with pytest.raises(ValueError, match="is no action"):
            played(fallen, action)


def test_the_published_reward_by_hand():
    # the active one was on the bench with 0.9 and comes in to 0.5, poisoned; the opponent changes: no damage counted
    before = state("tauros", ["chansey"], mon("snorlax", (), hp_pct=0.3))
    before["available_switches"][0]["hp_pct"] = 0.9
    after = state(mon("chansey", hp_pct=0.5, status="psn"), ["tauros"], mon("lapras", ()))
    assert shaped(before, after, 0.0, last=False) == pytest.approx(-0.4 - 0.5)
    assert shaped(before, after, 0.0, last=True) == pytest.approx(-100.9)
    assert shaped(before, after | {"opponents_remaining": 5}, 1.0, last=True) == pytest.approx(100.1)
    assert shaped(before, after | {"available_switches": []}, 1.0, last=False) == pytest.approx(-1.9)


def test_broken_files_are_named_and_the_others_imported(tmp_path):
    good, names = a_battle(), "1500_ann_vs_bob_08-12-2019_WIN"
    seven = state("mew", OWN)
    broken = {
        f"gen1ou-1_{names}": b"{",
        f"gen1ou-2_{names}": {"states": good["states"]},
        f"gen1ou-3_{names}": good | {"actions": [1]},
        f"gen1ou-4_{names}": good | {"actions": [99, 0, 0, 0, -1]},
        f"gen1ou-5_{names}": {"states": [seven, seven], "actions": [0, -1]},
        f"gen1ou-6_{names}": {"states": [state(format="chess"), state()], "actions": [0, -1]},
        f"gen1ou-8_{names}": {"states": [{"format": "gen1ou"}, 3], "actions": [0, -1]},
        f"gen1ou-9_{names}": b"[]",
        "whatever": good,
    }
    for name, data in broken.items():
        put(tmp_path / "in", name, data)
    put(tmp_path / "in", f"gen1ou-7_{names}", good)
    done = convert(tmp_path / "in", tmp_path / "out")
    assert done.trajectories == 1
    assert set(done.broken) == {f"{name}.json" for name in broken}
    assert "7 Pokémon" in done.broken[f"gen1ou-5_{names}.json"]
    again = convert(tmp_path / "in", tmp_path / "out")
    assert (again.trajectories, again.known, len(again.broken)) == (0, 1, len(broken))


def test_a_folder_without_replays_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no parsed replays"):
        convert(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
