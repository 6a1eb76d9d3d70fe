"""Battles in the viewer: recorded trajectories, who stands on the field, what came of a turn."""

from __future__ import annotations

from palaver.benchmarks.viewer.battles import ENV, ActivePokemon, episode, field, story
from palaver.benchmarks.viewer.page import Choices, collect
from palaver.benchmarks.viewer.sources import find
from palaver.trainers.trajectories.files import Writer
from tests.benchmarks.viewer import made
from tests.trainers.battles.made import battle, decision, trajectory

SEEN = """gen1ou. You are p1. Turn 2.
Your team:
- starmie water/psychic; 323/323; blizzard 7/8
- rhydon ground/rock; 118/413; ACTIVE; earthquake 16/16
Their team:
- starmie water/psychic; 100%
- gengar ghost/poison; 74%; ACTIVE
- 4 not seen yet
What happened:
their Gengar came in 100/100
your Starmie used Blizzard on their Gengar; their Gengar down to 74/100
Choose a move or a switch. Answer with one action, as listed or by its number.
1. move earthquake
"""


def test_who_stands_on_the_field():
    assert field(SEEN) == ActivePokemon("rhydon", 118 / 413, "gengar", 0.74)
    assert field("Wait for the other side.") is None
    assert field(SEEN.replace("74%; ACTIVE", "fainted")) is None


def test_the_story_names_the_sides():
    assert story({"p2": SEEN}, ["p1", "p2"]) == (
        "p1 Gengar came in 100 %\np2 Starmie used Blizzard on p1 Gengar; p1 Gengar down to 74 %"
    )
    assert story({"p1": "nothing new", "p2": SEEN}, ["p1", "p2"]) == story({"p2": SEEN}, ["p1", "p2"])
    assert story({"p1": "nothing new"}, ["p1", "p2"]) == ""
    assert story({r"\1": "What happened:\nyour move"}, [r"\1"]) == r"\1 move"


def test_a_turn_tells_what_it_led_to(tmp_path):
    """What came of a turn stands in the observations after it, so the last turn has no story."""
    path = made.save(tmp_path / "e.jsonl", made.episode(env=ENV, turns=2, observations={"a": SEEN, "b": "wait"}))
    data = collect(path, Choices())
    first, last = data["episodes"][0]["turns"]
    assert first["field"] == last["field"] == [[0, "rhydon", 0.285714]]
    assert data["texts"][first["story"]].startswith("b Gengar came in")
    assert "story" not in last


def test_both_sides_of_a_battle_stand_side_by_side():
    """p2 decides twice in turn 2: the second time it is alone, as after a faint."""
    one = trajectory(0, "p1", [decision(0, 0), decision(0, 1), decision(0, 2)], player="x", opponent="y")
    two = trajectory(0, "p2", [decision(1, 0), decision(1, 1), decision(2, 1)], player="y", opponent="x")
    found = episode([two, one])
    assert found.team == {"p1": "x", "p2": "y"}
    assert [sorted(turn.completions) for turn in found.turns] == [["p1", "p2"], ["p1", "p2"], ["p2"], ["p1"]]
    assert [turn.metrics["turn"] for turn in found.turns] == [1, 2, 2, 3]
    assert found.turns[2].rewards == {"p1": 0.0, "p2": 2 + 1 / 3}
    assert found.turns[1].executed == {"p1": "move m1", "p2": "move m1"}
    assert found.turns[1].legal["p2"] == ("move tackle", "move m1", "switch s1")
    assert "tournament.record_text=true" in found.turns[0].observations["p1"]
    assert "w0" in found.turns[0].observations["p1"]


def test_a_folder_of_battles(tmp_path):
    with Writer(tmp_path / "battles") as writer:
        for n in range(3):
            writer.add(*battle(n))
    data = collect(tmp_path / "battles", Choices(max_episodes=2))
    assert [each["task"] for each in data["episodes"]] == ["t0 (b0)", "t1 (b1)"]
    assert [len(each["turns"]) for each in data["episodes"]] == [5, 5]
    assert data["notes"][0] == "1 of 3 episodes do not fit and are left out"
    assert data["notes"][1].startswith("no replay of t0 (b0): ")
    (source,), run = find(tmp_path / "battles")
    assert source.step is run is None
