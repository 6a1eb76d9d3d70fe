"""The grammar of commands against a second, plain reading of the published rules; and how fast it is."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaver.envs.base.transcripts import HOSTILE
from palaver.envs.minecraft import commands
from palaver.envs.minecraft.commands import KILL, Terms, carry_out, lines_of, parse_line, read, shares
from palaver.envs.minecraft.world import box_of, codes, difference, empty

SIZE = (3, 4, 5)
CODES = codes(("stone", "oak_planks"))
FILL = Terms("fill", box_of(SIZE), CODES, 6, {1: 20, 2: 7}, kill=True)
SET = Terms("setblock", box_of(SIZE), {"stone": 1, "air": 0}, 4)
ELSEWHERE = Terms("fill", box_of((2, 2, 2), (-1, 60, 10)), CODES, 6)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("/kill\n\n  fill 1 2 3  \n", ["/kill", "fill 1 2 3"]),
        ("- /kill\n* /kill\n-- /kill\n1. /kill\n12) /kill\n3.fill", ["/kill"] * 5 + ["fill"]),
        ("-", []),
        ("Sure:\n```\n/kill\n```\nand\n```\n/fill\n```", ["/kill"]),  # the first block counts
        ("```mcfunction\n/kill\n```", ["/kill"]),
        ("``` \n/kill a\n/kill\n```", ["/kill a", "/kill"]),
        ("```\n/kill", ["```", "/kill"]),  # no pair of fences
        ("a ``` b", ["a ``` b"]),
    ],
)
def test_lines(text, lines):
    assert lines_of(text) == lines


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("/fill 0 0 0 2 3 4 stone", (0, 0, 0, 2, 3, 4, 1)),
        ("fill 2 3 4 0 0 0 minecraft:stone", (0, 0, 0, 2, 3, 4, 1)),
        ("/ FILL 2 0 +4 0 3 0 air", (0, 0, 0, 2, 3, 4, 0)),
        ("/kill @e[type=spider]", KILL),
        ("/killer", "the command 'killer' is unknown"),
        ("/setblock 0 0 0 stone", "the command 'setblock' is unknown"),
        ("/", None),
        ("/fill 0 0 0 2 3 4", "write /fill x1 y1 z1 x2 y2 z2 block"),
        ("/fill ~0 0 0 2 3 4 stone", "coordinates must be absolute whole numbers"),
        ("/fill 0 0 0 2 3 4.0 stone", "coordinates must be absolute whole numbers"),
        ("/fill 0 0 0 2 3 ٤ stone", "coordinates must be absolute whole numbers"),
        ("/fill 0 0 0 2 3 1234567890 stone", "coordinates must be absolute whole numbers"),
        ("/fill 0 0 0 2 3 4 glass", "the block 'glass' is not yours to place"),
        ("/fill 0 0 0 3 3 4 stone", "outside of the world"),
        ("/fill -1 0 0 2 3 4 stone", "outside of the world"),
        ("/fill 0 0 0 2 3 4 stone hollow", "fill modes are not allowed"),
    ],
)
def test_fill(line, parsed):
    assert parse_line(line, FILL) == parsed


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("/setblock 1 2 3 stone", (1, 2, 3, 1, 2, 3, 1)),
        ("/setblock 1 2 3 stone replace", (1, 2, 3, 1, 2, 3, 1)),
        ("/setblock 1 2 3 oak_planks", "the block 'oak_planks' is not yours to place"),
        ("/setblock 1 2 stone", "write /setblock x y z block"),
        ("/kill", "the command 'kill' is unknown"),
        ("/fill 0 0 0 1 1 1 stone", "the command 'fill' is unknown"),
    ],
)
def test_setblock(line, parsed):
    assert parse_line(line, SET) == parsed


def test_reasons_come_in_the_order_of_the_lines():
    reading = read("/fill 0 0 0 2 3 1 oak_planks\nhello\n/kill\n/fill 0 0 0 2 1 0 oak_planks\n", FILL)
    assert [r.line for r in reading.rejected()] == ["/fill 0 0 0 2 3 1 oak_planks", "hello"]
    assert reading.rejected(1)[0].reason == "it would pass your limit of 7 for oak_planks"
    assert (reading.kills, dict(reading.used), reading.boxes.tolist()) == (1, {1: 0, 2: 6}, [[0, 0, 0, 2, 1, 0]])


def test_rejected_commands_take_no_part_of_the_share():
    text = "\n".join(["nonsense"] * 9 + ["/kill"] * 5 + ["/fill 0 0 0 0 0 0 stone"] * 3)
    reading = read(text, FILL)
    assert (reading.kills, len(reading.codes), len(reading.faults)) == (5, 1, 11)
    assert reading.rejected()[-1].reason == "only 6 commands are allowed"


def test_a_world_may_begin_anywhere():
    reading = read("/fill -1 60 10 0 61 10 stone\n/fill 0 0 0 0 0 0 stone", ELSEWHERE)
    assert reading.boxes.tolist() == [[0, 0, 0, 1, 1, 0]]
    assert len(reading.faults) == 1


def test_shares():
    assert shares(600, 2) == (300, 300)
    assert shares(302, 3) == (102, 100, 100)
    assert shares(1, 3) == (2, 1, 1)  # at least one each, and the remainder to the first, as published


# --- against a second reading -------------------------------------------------------------------------


def plainly(text, terms):
    """What is accepted, read word by word: (box, block) or "kill"."""
    accepted, used = [], {}
    (x1, y1, z1), (x2, y2, z2) = terms.world
    for line in lines_of(text):
        words = line.removeprefix("/").split()
        if len(accepted) >= terms.max_commands or not words:
            continue
        if words[0].lower() == "kill" and terms.kill:
            accepted.append("kill")
            continue
        n = {"fill": 6, "setblock": 3}[terms.verb]
        if words[0].lower() != terms.verb or len(words) < n + 2 or (terms.verb == "fill" and len(words) > 8):
            continue
        try:
            numbers = [int(word) for word in words[1 : n + 1]]
        except ValueError:
            continue
        block = words[n + 1].removeprefix("minecraft:")
        low, high = numbers[:3], numbers[-3:]
        inside = all(a <= v <= b for p in (low, high) for a, v, b in zip((x1, y1, z1), p, (x2, y2, z2), strict=True))
        if block not in terms.codes or not inside:
            continue
        spans = [sorted(pair) for pair in zip(low, high, strict=True)]
        volume = int(np.prod([b - a + 1 for a, b in spans]))
        code = terms.codes[block]
        if used.get(code, 0) + volume > terms.limits.get(code, 10**9):
            continue
        used[code] = used.get(code, 0) + volume
        accepted.append((spans, code))
    return accepted


def world_of(readings, size, terms):
    """The same world cell by cell."""
    cells, owner = {}, {}
    for agent, accepted in enumerate(readings, start=1):
        for each in accepted:
            if each == "kill":
                continue
            ((a, b), (c, d), (e, f)), code = each
            for x in range(a, b + 1):
                for y in range(c, d + 1):
                    for z in range(e, f + 1):
                        at = tuple(v - o for v, o in zip((x, y, z), terms.world.low, strict=True))
                        cells[at], owner[at] = code, agent if code else 0
    arrays = empty(size), empty(size)
    for array, known in zip(arrays, (cells, owner), strict=True):
        for at, value in known.items():
            array[at] = value
    return arrays


def check(texts, terms, size):
    readings = [read(text, terms) for text in texts]
    expected = [plainly(text, terms) for text in texts]
    for reading, accepted in zip(readings, expected, strict=True):
        assert reading.kills == accepted.count("kill")
        assert len(reading.codes) == len(accepted) - reading.kills
        written = [line for line in reading.lines if line.removeprefix("/").split()]
        assert len(reading.faults) == len(written) - len(accepted)
    cells, owner = empty(size), empty(size)
    carry_out(cells, owner, readings)
    wanted, owners = world_of(expected, size, terms)
    assert (cells == wanted).all()
    assert (owner == owners).all()


words = st.one_of(
    st.sampled_from(["/fill", "fill", "/kill", "- /fill", "/FILL", "/setblock", "stone", "oak_planks", "air", "glass"]),
    st.integers(-2, 12).map(str),
    st.sampled_from(["~1", "```", "\n", "minecraft:stone", "1.", "/", "\x01", "é"]),
)
lines = st.tuples(
    st.sampled_from(["/fill", "fill", "1. /fill", "/ fill"]),
    st.lists(st.integers(0, 5).map(str), min_size=6, max_size=6).map(" ".join),
    st.sampled_from(["stone", "oak_planks", "air", "stone hollow", "glass", "minecraft:stone"]),
).map(" ".join)
texts = st.one_of(
    st.text(max_size=300),
    st.lists(words, max_size=60).map(" ".join),
    st.lists(st.one_of(lines, st.sampled_from(["/kill", "", "/"])), max_size=20).map("\n".join),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, min_size=1, max_size=3))
def test_any_text_does_what_the_rules_say(said):
    check(said, FILL, SIZE)
    check(said, ELSEWHERE, (2, 2, 2))


@pytest.mark.parametrize("most", [5, 40, 400])
@pytest.mark.parametrize("limits", [{}, {1: 40, 2: 9}])
def test_many_plain_commands_do_what_the_rules_say(most, limits):
    rng = random.Random(most)
    terms = Terms("fill", box_of(SIZE), CODES, most, limits, kill=True)
    blocks = ("stone", "oak_planks", "air")

    def text(spoilt):
        said = [" ".join(["/fill", *(str(rng.randrange(6)) for _ in range(6)), rng.choice(blocks)]) for _ in range(90)]
        return "\n".join([*said, *rng.sample(spoilt, len(spoilt))])

    for spoilt in (
        [],
        ["/kill", "- /fill 0 0 0 1 1 1 stone", "hello", "/fill 10 0 0 0 0 0 stone", "/fill 0 0 0 1 1 1"],
    ):
        check([text(spoilt), text(spoilt)], terms, SIZE)


def test_large_worlds_are_built_command_by_command_to_the_same_end(monkeypatch):
    said = ["/fill 0 0 0 2 3 4 stone\n/fill 1 1 1 1 2 3 air", "/fill 1 0 0 2 3 0 oak_planks\n/fill 2 2 2 2 2 2 stone"]
    terms = Terms("fill", box_of(SIZE), CODES, 9)
    check(said, terms, SIZE)
    monkeypatch.setattr(commands, "AT_ONCE", 0)
    check(said, terms, SIZE)


@pytest.mark.parametrize("text", [t for t in HOSTILE if isinstance(t, str)])
def test_hostile_text_is_rejected_soon(text):
    start = time.process_time()
    for terms in (FILL, SET):
        reading = read(text, terms)
        assert len(reading.codes) == reading.kills == 0
    assert time.process_time() - start < 1.0


def test_the_largest_fill_costs_the_world_and_not_its_coordinates():
    reading = read("/fill -999999999 0 0 999999999 3 4 stone", FILL)
    assert [r.reason for r in reading.rejected()] == ["outside of the world"]


# --- speed --------------------------------------------------------------------------------------------


def house_reward(limited):
    """What a HouseBuild reward costs: 600 plain commands of two agents in a world of 6 x 7 x 7.

    Any boxes where nothing is limited, else single cells, as many as the limits allow, and then cells of air.
    """
    rng = random.Random(0)
    size = (6, 7, 7)
    palette = ("white_concrete", "obsidian", "stone_stairs", "stone_bricks", "planks")
    limits = dict(zip(range(1, 6), (51, 9, 27, 40, 1), strict=True)) if limited else {}
    terms = Terms("fill", box_of(size), codes(palette), 300, limits, kill=True)

    def corners():
        one, other = ([rng.randrange(n) for n in size] for _ in range(2))
        return " ".join(map(str, one + (one if limited else other)))

    def text():
        blocks = [block for block, n in zip(palette, limits.values(), strict=False) for _ in range(n)]
        blocks += [rng.choice(("air",) if limited else palette) for _ in range(300 - len(blocks))]
        return "\n".join(f"/fill {corners()} {block}" for block in blocks)

    said = [text(), text()]
    target = empty(size)
    target[:, :3] = 1

    def reward():
        cells, owner = empty(size), empty(size)
        readings = [read(each, terms) for each in said]
        carry_out(cells, owner, readings)
        return difference(target, cells).same / target.size, len(readings[0].codes)

    return reward


def fastest(call, times=200):
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.parametrize("limited", [False, True])
def test_a_reward_of_600_commands_is_fast(limited):
    """0.43 ms where a loop of 50,000 passes takes 1.05 ms; a ratio, so that slow machines pass as well."""
    reward = house_reward(limited)
    assert reward()[1] == 300
    measured = min(fastest(reward) / fastest(lambda: [None for _ in range(50_000)], 20) for _ in range(3))
    assert measured < 0.65
