"""The protocol as sentences."""

from __future__ import annotations

import pytest

from palaver.envs.pokemon.replay import event_texts

pytestmark = pytest.mark.usefixtures("pool")


def sentence(line, me):
    return event_texts([[line]], me)[0]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("|move|p1a: Tauros|Body Slam|p2a: Chansey", "your Tauros used Body Slam on their Chansey"),
        ("|move|p1a: Tauros|Rest|p1a: Tauros", "your Tauros used Rest"),
        ("|switch|p2a: Deoxys|Deoxys-Speed|100/100", "their Deoxys (Deoxys-Speed) came in 100/100"),
        ("|-damage|p2a: Chansey|57/100 par", "their Chansey down to 57/100 par"),
        ("|-heal|p1a: Mew|30/404|[from] item: Leftovers", "your Mew up to 30/404 (from item: Leftovers)"),
        ("|-damage|p1a: A|3/9|[from] Leech Seed|[of] p2a: B", "your A down to 3/9 (from Leech Seed) (of their B)"),
        ("|cant|p1a: Tauros|par", "your Tauros could not move (par)"),
        ("|-sidestart|p1: p1|move: Stealth Rock", "your side gets move: Stealth Rock"),
        ("|-boost|p2a: Slowbro|spa|2", "their Slowbro spa +2"),
        ("|-end|p1a: Mew|Quark Drive|[silent]", "your Mew ends: Quark Drive"),
        ("|win|p1", "you won the battle"),
        ("|-futurething|p1a: Mew|what|ever", "futurething your Mew what ever"),
        ("|-start|p1a: \x1b[2Jx|confusion", "your \u241b[2Jx starts: confusion"),
    ],
)  # fmt: skip
def test_sentence(line, text):
    assert sentence(line, "p1") == text


def test_an_onlooker_reads_sides():
    assert sentence("|faint|p2a: Mew", "") == "p2 Mew fainted"
    assert sentence("|win|p2", "") == "p2 won"


def test_what_follows_from_a_move_stands_behind_it():
    lines = ["|move|p1a: A|Surf|p2a: B", "|-crit|p2a: B", "|-damage|p2a: B|0 fnt", "|faint|p2a: B"]
    assert event_texts([lines], "p2") == [
        "their A used Surf on your B; a critical hit; your B down to 0 fnt\nyour B fainted"
    ]
    assert event_texts([["|-heal|p1a: A|5/9"], []], "p1") == ["your A up to 5/9", ""]
    assert event_texts([], "p1") == []


def test_what_is_long_or_broken_is_cut_and_shown():
    assert (
        sentence("|-message|" + "\u00e9" * 1500, "p1")
        == "message " + "\u00e9" * 292 + " \u2026 [1,208 more characters]"
    )
    assert sentence("|-message|a\r\nb \u202ec\td", "p1") == "message a b \ufffdc d"
    assert event_texts([["|", "", "x", "|move", "|faint", "|switch"]], "p1")
