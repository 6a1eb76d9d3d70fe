"""Any text is one of the legal actions."""

from __future__ import annotations

import doctest

import pytest

from palaver.envs.base.questions import overlap, read_guess, truth_of
from palaver.envs.base.transcripts import HOSTILE
from palaver.envs.pokemon import rules

LEGAL = (
    "move bodyslam", "move kingsshield", "move surf", "move thunderbolt", "move thunderbolt tera", "switch mrmime",
    "switch starmie",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("move surf", "move surf"),
        ("Move  SURF!", "move surf"),
        ("3", "move surf"),
        (" 4. ", "move thunderbolt"),
        ("Action: 6", "switch mrmime"),
        ("move 2", "move kingsshield"),
        ("/choose move 3", "move surf"),
        ("switch 2", "switch starmie"),
        ("move 4 tera", "move thunderbolt tera"),
        ("move 4 terastallize", "move thunderbolt tera"),
        ("Use King's Shield.", "move kingsshield"),
        ("thunder-bolt", "move thunderbolt"),
        ("tera thunderbolt", "move thunderbolt tera"),
        ("Thunderbolt and terastallize", "move thunderbolt tera"),
        ("Mr. Mime, go!", "switch mrmime"),
        ("Switch to Starmie", "switch starmie"),
        ("I could move surf, but it resists water: move Thunderbolt", "move thunderbolt"),
        ("Starmie would faint, so I use Body Slam", "move bodyslam"),
        ('{"action": "move surf", "why": "Starmie is hurt"}', "move surf"),
        ("reasoning " * 5000 + "switch starmie", "switch starmie"),
    ],
)
def test_understood(text, action):
    assert rules.read(text, LEGAL) == rules.ParsedAction(action, True)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("", ""),
        ("0", ""),
        ("8", ""),
        ("move 9", ""),
        ("switch 3", ""),
        ("move hydropump", ""),
        ("surf tera", "move surf"),
        ("move 3 mega", "move surf"),
        ("switch starmie tera", "switch starmie"),
    ],
)
def test_fallback(text, action):
    assert rules.read(text, LEGAL) == rules.ParsedAction(action, False)


def test_a_gimmick_belongs_to_the_move_beside_it():
    assert rules.read("not move surf tera but move thunderbolt", LEGAL) == rules.ParsedAction("move thunderbolt", True)


def test_what_is_offered_with_a_gimmick_alone():
    assert rules.read("move maxguard", ["move maxguard zmove", "switch starmie"]).action == "move maxguard zmove"


def test_no_text_is_too_much():
    for text in HOSTILE:
        if isinstance(text, str):
            assert rules.read(text, LEGAL).action in ("", *LEGAL)
            assert rules.choose(text, dict(zip(LEGAL, LEGAL, strict=True)), 1).action in LEGAL


def test_what_is_drawn_in_place_of_an_illegal_answer_carries_no_skill():
    """7,000 draws over 7 actions: 1,000 each, give or take five standard deviations of 29.3; the same for a key."""
    words = {action: action.upper() for action in LEGAL}
    drawn = [rules.choose("nonsense", words, "p1", n) for n in range(7000)]
    assert all(abs(sum(each.action == action for each in drawn) - 1000) < 147 for action in LEGAL)
    assert {(each.legal, each.choice == each.action.upper()) for each in drawn} == {(False, True)}
    again = [rules.choose("other words", words, "p1", n) for n in range(7000)]
    assert [each.action for each in again] == [each.action for each in drawn], "whatever the words"


def test_a_guess_of_the_next_action_is_its_name_alone():
    """With the verb in the truth `move` alone would be worth 2 / 3 of any move; F1 of one word against one or two."""
    view = {"me": {"active": 0, "team": [{"moves": [("bodyslam", 1), ("surf", 1)]}]}}
    legal = {"move bodyslam": "move 1", "switch starmie": "switch 2"}
    action, moves = rules.questions("p2", view, legal, {"p2": "Body Slam!"})
    assert action.truth == ("bodyslam",)
    answers = ("bodyslam", "move bodyslam", "move", "switch starmie")
    assert [overlap(read_guess(text, action), truth_of(action)) for text in answers] == [1, 2 / 3, 0, 0]
    assert moves.truth == ("bodyslam", "surf")
    assert rules.questions("p2", view, legal, {"p2": "no idea"})[0].truth is None
    assert [question.kind for question in rules.questions("p2", view, {}, {})] == ["slots"]  # it does not choose now


def test_the_docstring_is_true():
    assert doctest.testmod(rules).failed == 0
