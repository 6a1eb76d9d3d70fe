"""The published rewards at every boundary, both sides, worked out by hand.

A case is (n₁, d₁, c₁), (n₂, d₂, c₂, offset): tokens, different words and characters of each text. Text 1 uses the words
0 .. d₁−1 of a list, text 2 the words offset .. offset+d₂−1; so max(0, min(d₁, offset+d₂) − offset) are shared. With
offset 0 the overlap is far above its cap, so `overlap` pays 0.6 where level 4 is open, which shows the gates.
Expected are (length, ratio, unique, transitions, overlap).
"""

from __future__ import annotations

import pytest

NOTHING = (0, 0, 0, 0, 0)
ARXIV = {
    # level 1: 128 <= n <= 256 for both. ρ = 1400/1000 = 1.4 pays 1, u = 100/100 pays 0.5
    "n1=127": ((127, 100, 1000), (180, 100, 1400, 0), NOTHING),
    "n1=128": ((128, 100, 1000), (180, 100, 1400, 0), (0.5, 1, 0.5, 0, 0.6)),
    "n1=256": ((256, 100, 1300), (180, 100, 1820, 0), (0.5, 1, 0.5, 0, 0.6)),
    "n1=257": ((257, 100, 1300), (180, 100, 1820, 0), NOTHING),
    "n2=127": ((200, 100, 1000), (127, 100, 1400, 0), NOTHING),
    "n2=128": ((200, 100, 1000), (128, 100, 1400, 0), (0.5, 1, 0.5, 0, 0.6)),
    "n2=256": ((200, 100, 1000), (256, 100, 1400, 0), (0.5, 1, 0.5, 0, 0.6)),
    "n2=257": ((200, 100, 1000), (257, 100, 1400, 0), NOTHING),
    # level 2: ρ = c₂/1000; rises over 0.8..1.3 (width 0.5), falls over 1.6..2.0 (width 0.4)
    "rho=0.799": ((200, 100, 1000), (150, 100, 799, 0), (0.5, 0, 0, 0, 0)),
    "rho=0.8": ((200, 100, 1000), (150, 100, 800, 0), (0.5, 0, 0.5, 0, 0.6)),
    "rho=0.801": ((200, 100, 1000), (150, 100, 801, 0), (0.5, 1 / 500, 0.5, 0, 0.6)),
    "rho=1.05": ((200, 100, 1000), (150, 100, 1050, 0), (0.5, 1 / 2, 0.5, 0, 0.6)),
    "rho=1.299": ((200, 100, 1000), (150, 100, 1299, 0), (0.5, 499 / 500, 0.5, 0, 0.6)),
    "rho=1.3": ((200, 100, 1000), (150, 100, 1300, 0), (0.5, 1, 0.5, 0, 0.6)),
    "rho=1.6": ((200, 100, 1000), (150, 100, 1600, 0), (0.5, 1, 0.5, 0, 0.6)),
    "rho=1.601": ((200, 100, 1000), (150, 100, 1601, 0), (0.5, 399 / 400, 0.5, 0, 0.6)),
    "rho=1.8": ((200, 100, 1000), (150, 100, 1800, 0), (0.5, 1 / 2, 0.5, 0, 0.6)),
    "rho=2": ((200, 100, 1000), (150, 100, 2000, 0), (0.5, 0, 0.5, 0, 0.6)),
    "rho=2.001": ((200, 100, 1000), (150, 100, 2001, 0), (0.5, 0, 0, 0, 0)),
    # level 3: u = d₂/100; rises over 0.5..0.7 (width 0.2), falls over 1.3..1.7 (width 0.4), times 0.5
    "u=0.49": ((200, 100, 1000), (200, 49, 1400, 0), (0.5, 1, 0, 0, 0)),
    "u=0.5": ((200, 100, 1000), (200, 50, 1400, 0), (0.5, 1, 0, 0, 0.6)),
    "u=0.51": ((200, 100, 1000), (200, 51, 1400, 0), (0.5, 1, 0.5 * 1 / 20, 0, 0.6)),
    "u=0.6": ((200, 100, 1000), (200, 60, 1400, 0), (0.5, 1, 0.25, 0, 0.6)),
    "u=0.69": ((200, 100, 1000), (200, 69, 1400, 0), (0.5, 1, 0.5 * 19 / 20, 0, 0.6)),
    "u=0.7": ((200, 100, 1000), (200, 70, 1400, 0), (0.5, 1, 0.5, 0, 0.6)),
    "u=1.3": ((200, 100, 1000), (200, 130, 1400, 0), (0.5, 1, 0.5, 0, 0.6)),
    "u=1.31": ((200, 100, 1000), (200, 131, 1400, 0), (0.5, 1, 0.5 * 39 / 40, 0, 0.6)),
    "u=1.5": ((200, 100, 1000), (200, 150, 1400, 0), (0.5, 1, 0.25, 0, 0.6)),
    "u=1.7": ((200, 100, 1000), (200, 170, 1400, 0), (0.5, 1, 0, 0, 0.6)),
    "u=1.71": ((200, 100, 1000), (200, 171, 1400, 0), (0.5, 1, 0, 0, 0)),
    # level 4: d₁ = d₂ = 123, shared s = 123 − offset, J = s / (246 − s), cap 0.23 = 46/200
    "J=0": ((200, 123, 1000), (200, 123, 1400, 123), (0.5, 1, 0.5, 0, 0)),
    "J=45/201": ((200, 123, 1000), (200, 123, 1400, 78), (0.5, 1, 0.5, 0, 0.6 * (45 / 201) / 0.23)),
    "J=46/200": ((200, 123, 1000), (200, 123, 1400, 77), (0.5, 1, 0.5, 0, 0.6)),
    "J=47/199": ((200, 123, 1000), (200, 123, 1400, 76), (0.5, 1, 0.5, 0, 0.6)),
}
TLDR = {
    # level 1: 8 <= n <= 256 for both. ρ = 400/200 = 2 pays 1, u >= 2 pays 0.5
    "n1=7": ((7, 7, 200), (60, 20, 400, 0), NOTHING),
    "n1=8": ((8, 8, 200), (60, 20, 400, 0), (0.5, 1, 0.5, 0, 0.6)),
    "n1=256": ((256, 10, 1300), (60, 20, 2600, 0), (0.5, 1, 0.5, 0, 0.6)),
    "n1=257": ((257, 10, 1300), (60, 20, 2600, 0), NOTHING),
    "n2=7": ((8, 3, 200), (7, 7, 400, 0), NOTHING),
    "n2=8": ((8, 3, 200), (8, 8, 400, 0), (0.5, 1, 0.5, 0, 0.6)),
    "n2=256": ((20, 10, 640), (256, 20, 1280, 0), (0.5, 1, 0.5, 0, 0.6)),
    "n2=257": ((20, 10, 650), (257, 20, 1300, 0), NOTHING),
    # level 2: ρ = c₂/200; rises over 1.1..1.6 (100 characters), falls over 3.2..5.0 (360 characters)
    "rho=1.095": ((20, 10, 200), (40, 20, 219, 0), (0.5, 0, 0, 0, 0)),
    "rho=1.1": ((20, 10, 200), (40, 20, 220, 0), (0.5, 0, 0.5, 0, 0.6)),
    "rho=1.105": ((20, 10, 200), (40, 20, 221, 0), (0.5, 1 / 100, 0.5, 0, 0.6)),
    "rho=1.35": ((20, 10, 200), (40, 20, 270, 0), (0.5, 1 / 2, 0.5, 0, 0.6)),
    "rho=1.595": ((20, 10, 200), (40, 20, 319, 0), (0.5, 99 / 100, 0.5, 0, 0.6)),
    "rho=1.6": ((20, 10, 200), (40, 20, 320, 0), (0.5, 1, 0.5, 0, 0.6)),
    "rho=3.2": ((20, 10, 200), (40, 20, 640, 0), (0.5, 1, 0.5, 0, 0.6)),
    "rho=3.205": ((20, 10, 200), (40, 20, 641, 0), (0.5, 359 / 360, 0.5, 0, 0.6)),
    "rho=4.1": ((20, 10, 200), (40, 20, 820, 0), (0.5, 1 / 2, 0.5, 0, 0.6)),
    "rho=5": ((20, 10, 200), (40, 20, 1000, 0), (0.5, 0, 0.5, 0, 0.6)),
    "rho=5.005": ((20, 10, 200), (40, 20, 1001, 0), (0.5, 0, 0, 0, 0)),
    # level 3: u = d₂/10; rises over 1.3..2 (width 0.7), times 0.5; no upper end
    "u=1.2": ((20, 10, 200), (60, 12, 400, 0), (0.5, 1, 0, 0, 0)),
    "u=1.3": ((20, 10, 200), (60, 13, 400, 0), (0.5, 1, 0, 0, 0.6)),
    "u=1.4": ((20, 10, 200), (60, 14, 400, 0), (0.5, 1, 0.5 / 7, 0, 0.6)),
    "u=1.9": ((20, 10, 200), (60, 19, 400, 0), (0.5, 1, 0.5 * 6 / 7, 0, 0.6)),
    "u=2": ((20, 10, 200), (60, 20, 400, 0), (0.5, 1, 0.5, 0, 0.6)),
    "u=5": ((20, 10, 200), (60, 50, 400, 0), (0.5, 1, 0.5, 0, 0.6)),
    # level 4: d₁ = 33, d₂ = 70, shared s = 33 − offset, J = s / (103 − s), cap 0.03 = 3/100
    "J=0": ((40, 33, 200), (70, 70, 400, 33), (0.5, 1, 0.5, 0, 0)),
    "J=2/101": ((40, 33, 200), (70, 70, 400, 31), (0.5, 1, 0.5, 0, 0.6 * (2 / 101) / 0.03)),
    "J=3/100": ((40, 33, 200), (70, 70, 400, 30), (0.5, 1, 0.5, 0, 0.6)),
    "J=4/99": ((40, 33, 200), (70, 70, 400, 29), (0.5, 1, 0.5, 0, 0.6)),
}
CASES = [("arxiv-v0", name, *case) for name, case in ARXIV.items()]
CASES += [("tldr-v0", name, *case) for name, case in TLDR.items()]


@pytest.mark.parametrize(("id", "name", "first", "second", "expected"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_boundaries(write, scored, id, name, first, second, expected):
    info = scored(id, write(*first), write(*second))
    parts = info["reward_components"]
    assert tuple(parts) == ("length", "ratio", "unique", "transitions", "overlap")
    assert tuple(parts.values()) == pytest.approx(expected, abs=1e-12)
    assert info["metrics"]["gated_total"] == pytest.approx(sum(expected), abs=1e-12)


# one expression of each kind, none of which contains one of another kind as a substring except where noted
KINDS = "however therefore moreover namely precisely finally indeed overall likewise although unless meanwhile"
TWELVE = KINDS.replace("precisely", "that is")
TRANSITIONS = [  # (kinds in text 1, kinds in text 2, arXiv's pay, TLDR's pay): 0.4·T, T = 0.4 + 0.05·(k − 1)
    ("", "", 0.0, 0.0),
    ("", "however", 0.4 * 0.4, 0.4 * 0.4),
    ("however", "", 0.4 * 0.4, 0.0),
    ("however", "moreover", 0.4 * 0.45, 0.4 * 0.4),
    ("", "however moreover", 0.4 * 0.45, 0.4 * 0.45),
    ("", "however moreover however", 0.4 * 0.45, 0.4 * 0.45),
    ("", TWELVE, 0.4 * 0.95, 0.4 * 0.95),
]


@pytest.mark.parametrize("match", ["substring", "word"])
@pytest.mark.parametrize(("first", "second", "arxiv", "tldr"), TRANSITIONS)
def test_transitions(write, scored, match, first, second, arxiv, tldr):
    info = scored("arxiv-v0", write(200, 100, 1200, 0, first), write(200, 100, 1600, 0, second), match=match)
    assert info["reward_components"]["transitions"] == pytest.approx(arxiv, abs=1e-12)
    info = scored("tldr-v0", write(40, 20, 300, 0, first), write(80, 60, 600, 0, second), match=match)
    assert info["reward_components"]["transitions"] == pytest.approx(tldr, abs=1e-12)


@pytest.mark.parametrize("id", ["arxiv-v0", "tldr-v0"])
def test_the_highest_reward_is_2_98(write, scored, id):
    # 0.5 + 1 + 0.5 + 0.4·(0.4 + 0.05·11) + 0.6 = 2.98
    if id == "arxiv-v0":
        texts = write(200, 60, 1200), write(200, 78, 1800, 0, TWELVE)
    else:
        texts = write(40, 20, 300), write(80, 60, 600, 0, TWELVE)
    assert scored(id, *texts)["metrics"]["gated_total"] == pytest.approx(2.98, abs=1e-12)


def test_so_in_sofas_counts_as_published_and_not_as_corrected(write, scored):
    texts = (write(40, 20, 300), write(80, 60, 600, 0, "sofas"))
    assert scored("tldr-v0", *texts)["reward_components"]["transitions"] == pytest.approx(0.16)
    assert scored("tldr-v0", *texts, match="word")["reward_components"]["transitions"] == 0.0


def test_so_in_also_is_a_second_kind_as_published(write, scored):
    texts = (write(40, 20, 300), write(80, 60, 600, 0, "also"))
    assert scored("tldr-v0", *texts)["metrics"]["transition_kinds"] == 2.0
    assert scored("tldr-v0", *texts, match="word")["metrics"]["transition_kinds"] == 1.0


def test_arxiv_joins_both_texts_without_a_gap_as_published(write, scored):
    # "...th" + "us..." reads "thus" where the texts meet
    first, second = write(200, 100, 1000)[:-2] + "th", "us " + write(199, 99, 1397)
    assert scored("arxiv-v0", first, second)["metrics"]["transition_kinds"] == 1.0
    assert scored("arxiv-v0", first, second, match="word")["metrics"]["transition_kinds"] == 0.0


def test_gates_hold_back_what_the_ungated_total_shows(write, scored):
    # n₁ = 127 closes everything; by itself ρ pays 1, u = 80/100 pays 0.5, J = 80/100 pays 0.6, no transitions
    texts = (write(127, 100, 1000), write(180, 80, 1400))
    info = scored("arxiv-v0", *texts)
    assert info["metrics"]["gated_total"] == 0.0
    assert info["metrics"]["ungated_total"] == pytest.approx(2.1)
    parts = scored("arxiv-v0", *texts, gated=False)["reward_components"]
    assert parts == pytest.approx({"length": 0, "ratio": 1, "unique": 0.5, "transitions": 0, "overlap": 0.6})


@pytest.mark.parametrize(("end", "paid"), [(".", 2.6), (". \n", 2.6), ("b", 0.0), ("", 0.0)])
def test_ending(write, scored, end, paid):
    first, second = write(200, 100, 999) + ".", write(180, 100, 1400 - len(end)) + end
    info = scored("arxiv-v0", first, second, ending=".")
    assert info["metrics"]["gated_total"] == pytest.approx(paid)
    assert scored("arxiv-v0", first, second)["metrics"]["gated_total"] == pytest.approx(2.6)


def test_stop_words_count_in_unique_but_not_in_overlap(scored):
    # 9 and 19 different words; content words {river, sand} and {river, mud, silt, bank}: J = 1/5
    first = "the river and the sand are in it with us"
    second = "river mud silt bank the and are in it with us my your his her they them those of of of of"
    info = scored("tldr-v0", first, second)
    assert info["metrics"]["unique_ratio"] == pytest.approx(19 / 9)
    assert info["metrics"]["jaccard"] == pytest.approx(1 / 5)


def test_silence_is_worth_nothing(scored):
    for id in ("arxiv-v0", "tldr-v0"):
        info = scored(id, "", "")
        assert sum(info["reward_components"].values()) == 0.0
        assert info["metrics"]["ungated_total"] == pytest.approx(0.6)  # J of two empty sets is 1, as published
        assert info["metrics"]["characters_ratio"] == info["metrics"]["unique_ratio"] == 0.0


def test_every_constant_is_a_keyword(write, scored):
    # n = 4 and 8, ρ = 3, u = 2, J = 1/2, one kind; T = 0.5
    info = scored(
        "arxiv-v0",
        write(4, 4, 40),
        write(8, 8, 120, 0, "zum"),
        length=[4, 8],
        ratio=[4, 5],
        ratio_limits=[2, 6],
        unique=[3, 4],
        unique_limits=[1, 5],
        transition_base=0.5,
        transition_step=0.1,
        jaccard_cap=0.8,
        weights={"length": 1, "ratio": 2, "unique": 4, "transitions": 8, "overlap": 16},
        lexicon={"joy": ["zum"], "woe": ["weh"]},
        transitions_in="second",
    )
    # shared 4 words of 4 + 8 − 4: J = 4/8; ratio 2·(3−2)/2, unique 4·(2−1)/2, transitions 8·0.5, overlap 16·0.5/0.8
    expected = {"length": 1.0, "ratio": 1.0, "unique": 2.0, "transitions": 4.0, "overlap": 10.0}
    assert info["reward_components"] == pytest.approx(expected)
