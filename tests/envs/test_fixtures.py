"""Every environment by hand: what earns all, what earns nothing, what is malformed, and that a script plays out alike.

A script is a list of joint actions in order of the seats; what each seat earns over the episode was worked out from the
environment's page, not by playing it. `most` is what the best script earns; the sum that the spec promises unless said.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

import palaver
from palaver.benchmarks.reports.summary import most_possible
from palaver.envs.base.transcripts import as_json
from palaver.envs.writing.text import SPLIT

Joint = tuple[Any, ...]
TWELVE = "however therefore moreover namely that is finally indeed overall likewise although unless meanwhile"


@dataclass(frozen=True)
class Case:
    said: list[Joint]
    paid: Joint
    illegal: int = 0


@dataclass(frozen=True)
class Fixture:
    full: Case
    zero: Case
    malformed: list[Case]
    rows: Any = None  # of the task file; a list becomes JSON lines, a mapping files by name
    kwargs: dict[str, Any] = field(default_factory=dict)
    most: float | None = None


def both(*turns, paid, illegal=0):
    """Two seats that are paid alike."""
    return Case(list(turns), (paid, paid), illegal)


# --- writing -----------------------------------------------------------------------------------------
# placeholders that the `write` fixture fills: (tokens, different words, characters, tail)
# arxiv: 150 and 180 tokens lie in 128..256 (0.5); 1260/900 = 1.4 in 1.3..1.6 (1); 100/100 different words (0.5);
# twelve kinds of transition 0.4 (0.4 + 0.05 x 11) = 0.38; of 200 - 87 words 87 are shared, J > 0.23 (0.6): 2.98
BACKGROUND, METHOD = (150, 100, 900, ""), (180, 100, 1260, TWELVE)
# tldr: 20 and 60 tokens of 8..256 (0.5); 400/200 = 2 in 1.6..3.2 (1); 30/10 >= 2 (0.5); the same 0.38; J > 0.03 (0.6)
CONCISE, DETAILED = (20, 10, 200, ""), (60, 30, 400, TWELVE)
ALONE = (BACKGROUND, METHOD)  # one author writes both
ABSTRACT = [{"id": "r", "title": "Rivers", "abstract_text": "Rivers carry sand."}]
POST = [{"id": "r", "prompt": "POST: Rivers carry sand."}]

# --- programs ----------------------------------------------------------------------------------------
AUX = "def aux(x):\n    return x + x\n"
MAIN = "def double(x):\n    y = aux(x)\n    return y if x else 0\n"
ALONE_MAIN = "def double(x):\n    return x + x\n"
CHECK = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n"
PROBLEM = [{"task_id": "t/0", "prompt": 'def double(x):\n    """Twice x."""\n', "entry_point": "double", "test": CHECK}]
BASIC = [
    {"task_id": 1, "text": "Write a function double.", "code": ALONE_MAIN,
     "test_list": ["assert double(2) == 4", "assert double(0) == 0"]}
]  # fmt: skip


def programs(rows):
    # 0.4 aux + 0.6 main + 0.5 syntax + 1 tests + 0.5 calls aux + 1 no wrapper = 4; without aux 0.6 + 0.5 + 1 = 2.1
    return Fixture(
        both((AUX, MAIN), paid=4.0),
        both(("", ""), paid=0.0),
        [
            both(("no code", ALONE_MAIN), paid=2.1),
            both(("def aux(x:", "def double(x:"), paid=0.6),  # a function by that name, which does not parse
            both((b"\xff", 7), paid=0.0, illegal=2),
        ],
        rows,
        {"num_turns": 1},
    )


# --- blocks ------------------------------------------------------------------------------------------
L = [(0, y) for y in range(4, 0, -1)] + [(x, 0) for x in range(5)]  # the letter: nine cells of 25


def blocks(cells, *kinds):
    return "\n".join(f"/setblock {x} {y} 0 {kinds[n % len(kinds)]}" for n, (x, y) in enumerate(cells))


def column(x, block):
    return blocks([(x, y) for y in range(5)], block)


HUT = {  # six stones below, two panes and four cells of air above
    "task_id": "hut",
    "inventory": {"A": "air", "S": "minecraft:stone", "G": "glass"},
    "target_spec": {"layers": [{"y": 0, "rows": ["SSS", "SSS"]}, {"y": 1, "rows": ["GAG", "AAA"]}]},
}
PANES = "/fill 0 1 0 0 1 0 glass\n/fill 2 1 0 2 1 0 glass"
PLANK = [{"task_id": "p", "lines": "fill 0 0 0 3 0 0 stone\nfill 0 1 0 0 1 0 glass"}]
GARDEN = [{"id": "g", "question": "A garden has 5 rows of 12 bulbs. How many bulbs?", "answer": "5 * 12 = 60\n#### 60"}]
TEAMS = {
    "a.gen9customgame_team": "Mewtwo\nAbility: Pressure\nLevel: 100\n- Psychic\n- Recover\n",
    "b.gen9customgame_team": "Magikarp\nAbility: Swift Swim\nLevel: 1\n- Splash\n",
}
LEADS = ("lead mewtwo", "lead magikarp")

KEEP = {coins: f"<coins_to_self> {coins} </coins_to_self>" for coins in (0, 10)}

FIXTURES = {
    "arxiv-v0": Fixture(
        both((BACKGROUND, METHOD), paid=2.98),
        both(("A rain.", "A rain."), paid=0.0),
        [both((None, None), paid=0.0), both((b"bytes", ["a list"]), paid=0.0, illegal=2)],
        ABSTRACT, most=2.98,
    ),
    "tldr-v0": Fixture(
        both((CONCISE, DETAILED), paid=2.98),
        both(("Rain.", "Rain."), paid=0.0),
        [both((None, None), paid=0.0), both(("\ud800", {"a": 1}), paid=0.0, illegal=2)],
        POST, most=2.98,
    ),
    "pioneer-v0": Fixture(
        both((ALONE, None), (None, ALONE), paid=5.96),
        both(("Rain.", None), (None, "Rain."), paid=0.0),
        [both((None, "too early"), (b"too late", None), paid=0.0, illegal=2)],
        ABSTRACT, most=5.96,
    ),
    "workflow-v0": Fixture(  # talk pays nothing, then 2.98 of 3
        both(("I write this.", "And I that."), (BACKGROUND, METHOD), paid=2.98 / 3),
        both((BACKGROUND, METHOD), ("Rain.", "Rain."), paid=0.0),
        [both((3, None), (None, b"x"), paid=0.0, illegal=2)],
        ABSTRACT, most=2.98 / 3,
    ),
    "echo-v0": Fixture(  # each word right and alone: 1 + 0.5, in three turns; the next word is what the other said
        both(("red", "green"), ("green", "red"), ("red", "green"), paid=4.5),
        both(("", ""), ("", ""), ("", ""), paid=0.0),
        # the word among others pays 1 to one of two, twice; what is no text says nothing
        [both((" RED, red!", None), (None, 5), (b"x", {}), paid=0.5, illegal=3)],
        [{"id": "w", "words": "Red green blue"}],
    ),
    "matrix-v1": Fixture(
        both(("red", "red"), paid=5.0),
        both(("red", "blue"), paid=0.0),
        [both(("purple", "red"), paid=-2.0, illegal=1), both((None, b"red blue"), paid=-2.0, illegal=2)],
        kwargs={"game": {"agents": 2, "actions": ["red", "blue"], "payoffs": [[5, 0], [0, -2]]}},
    ),
    "kuhn-v0": Fixture(
        Case([("bet", None), (None, "call")], (2.0, -2.0)),
        Case([("check", None), (None, "bet"), ("fold", None)], (-1.0, 1.0)),
        # bytes count and are read all the same; a text out of turn counts and is not read
        [Case([("bet", "fold"), (None, b"call")], (2.0, -2.0), 2)],
        [{"deal": "K J"}], most=2.0,
    ),
    "leduc-v0": Fixture(  # 1 + 4 + 8 chips
        Case([("bet", None), (None, "raise"), ("call", None)] * 2, (13.0, -13.0)),
        Case([("check", None), (None, "check")] * 2, (1.0, -1.0)),
        [Case([("bet", None), (None, b"fold")], (1.0, -1.0), 1)],
        [{"deal": "K J K"}], most=13.0,
    ),
    "tiny-hanabi-v0": Fixture(
        Case([("blue", None), (None, "red")], (10.0, 10.0)),
        Case([("red", None), (None, "green")], (0.0, 0.0)),
        [Case([("green", "red"), (None, b"green")], (8.0, 8.0), 2)],
        [{"deal": "1 1"}], most=10.0,
    ),
    "tictactoe-v0": Fixture(  # one cell is free: a text that names none takes it, and costs 2
        Case([("9", None)], (1.0, -1.0)),
        Case([("cell 9.", None)], (1.0, -1.0)),
        [Case([("19", None)], (-1.0, -1.0), 1), Case([(7, "9")], (-1.0, -1.0), 3)],
        [{"deal": "1 2 3 4 5 6 8 7"}], most=1.0,
    ),
    "connect4-v0": Fixture(  # two rows of three columns; the first column is full
        Case([("2", None), (None, "2"), ("3", None)], (1.0, -1.0)),
        Case([("2", None), (None, "3"), ("2", None), (None, "3")], (0.0, 0.0)),
        [Case([("2", 5), (None, "2"), (b"3", None)], (1.0, -1.0), 2)],
        [{"deal": "1 1"}], {"rows": 2, "columns": 3, "length": 3}, most=1.0,
    ),
    "hidden-profile-v0": Fixture(  # a first vote, a round of messages, the final vote: majority and own
        Case([("b", "b", "c"), ("hm", None, "well"), ('{"vote": "b"}', "B!", "b, not a")], (2.0, 2.0, 2.0)),
        Case([("b", "b", "b"), ("b", "b", "b"), ("a", "a", "c")], (0.0, 0.0, 0.0)),
        [Case([(None, "ab", 7), (None, b"x", None), ("b", "b", None)], (2.0, 2.0, 1.0), 6)],
        [{"description": "Choose.", "shared_information": ["a is near"], "hidden_information": ["b", "b too", "b also"],
          "possible_answers": ["a", "b", "c"], "correct_answer": "b"}],
        {"rounds": 1},
    ),
    "trust-and-split-v0": Fixture(  # rock has the upper hand: ten coins are worth 100 to it, 10 to the other
        Case([("hi", None), (None, "ho"), (KEEP[10], KEEP[0])], (100.0, 0.0)),
        Case([("hi", None), (None, "ho"), (KEEP[0], KEEP[0])], (0.0, 0.0)),
        [Case([(5, None), (None, b"x"), ("10", KEEP[10])], (0.0, 10.0), 3)],
        [{"hands": "rs"}], {"rounds": 1}, most=100.0,
    ),
    "deal-or-no-deal-v0": Fixture(
        Case([("<take> hats=1 </take>", "<take> books=2 balls=3 </take>")], (5.0, 10.0)),
        Case([("<take> hats=1 </take>", "<take> hats=1 </take>")], (0.0, 0.0)),
        [Case([("the hat", b"<take> books=2 balls=3 </take>")], (0.0, 0.0), 2)],
        [{"counts": [2, 1, 3], "p1": [1, 5, 1], "p2": [2, 0, 2]}], {"messages": 0}, most=10.0,
    ),
    "negotiation-v0": Fixture(
        Case([("<price>70</price>", None), (None, "<price> 70 </price>")], (0.4, 0.1)),
        Case([("<price>70</price>", None), (None, "<price>30</price>")], (0.0, 0.0)),
        [Case([(b"<price>40</price>", "too early"), (None, "<price>40</price>")], (0.1, 0.4), 2)],
        [{"cost": 30, "value": 80}], {"messages": 1}, most=0.4,
    ),
    "hanabi-v0": Fixture(  # red 1, blue 1, red 2, blue 2, each the oldest card of its holder
        Case([("play 1", None), (None, "play 1")] * 2, (4.0, 4.0)),
        Case([("play 2", None)], (0.0, 0.0)),
        [Case([("play 1", "play 1"), (None, b"play 2")], (1.0, 1.0), 2)],
        [{"deck": "r1 r2 b1 b2 r1 b1 r2 b2 r1 b1"}], {"form": "mini"},
    ),
    "gsm8k-v0": Fixture(
        both(("#### 60", "The answer is 60."), ("#### 60.0", "\\boxed{60}"), paid=2.0),
        both(("#### 61", ""), ("#### -60", "sixty"), paid=0.0),
        [both(("<think>#### 60", "#### "), ("60 of 61", 60), paid=0.0, illegal=1)],
        GARDEN,
    ),
    "maths-mini-v0": Fixture(  # of two answers one right pays both one half
        both(("#### 60", "60"), ("60", "#### 120/2"), paid=2.0),
        both(("#### 6", "0"), ("", "#### 61"), paid=0.0),
        [both(("60 #### x", b"60"), (None, None), paid=0.5, illegal=1)],
        GARDEN,
    ),
    "coophumaneval-v0": programs(PROBLEM),
    "humaneval-v0": programs(PROBLEM),
    "mbpp-v0": programs(BASIC),
    "coding-mini-v0": Fixture(  # 0.2 + 0.2 + 0.1 + 0.5 + 1
        both(("def aux(x):\n    return x > 0", "def f(xs):\n    return sum(x * x for x in xs if aux(x))"), paid=2.0),
        both(("", ""), paid=0.0),
        [both(("def aux(x:", "def f(xs):\n    return None"), paid=0.2), both((0, b"\x80"), paid=0.0, illegal=2)],
        [{"filter": "positive", "map": "square", "aggregate": "sum"}],
    ),
    "strbuild-v0": Fixture(
        both((blocks(L[::2], "oak_planks", "stone"), blocks(L[1::2], "white_concrete", "obsidian")), paid=2.0),
        # all 25 cells in stripes: 2 - 1.5 for the 16 beside the letter - 20 of 40 neighbours alike
        both(
            (
                "\n".join(column(x, block) for x, block in ((0, "oak_planks"), (2, "stone"), (4, "oak_planks"))),
                "\n".join(column(x, block) for x, block in ((1, "white_concrete"), (3, "obsidian"))),
            ),
            paid=0.0,
        ),
        # nothing stands, and of both builders' blocks one is unused: -0.25 each
        [both(("/setblock 0 0", "/setblock 0 0 0 dirt"), paid=-0.5, illegal=2), both((None, 1), paid=-0.5, illegal=1)],
        {"words.csv": "string,difficulty\nL,1\n"},
        {"num_turns": 1},
    ),
    "housebuild-v0": Fixture(
        both(("/fill 0 0 0 2 0 1 stone", PANES), paid=1.0),
        both(("/fill 0 0 0 2 0 1 glass", "/fill 0 1 0 2 1 1 stone"), paid=0.0),  # no cell is as planned
        # an empty world is as planned where the plan has air: 4 of 12 cells
        # and a line that is no command is illegal, bytes twice: as bytes and as such a line
        [both(("/fill 0 0 0 2 0 stone", "hello"), paid=1 / 3, illegal=2), both((b"\xff", None), paid=1 / 3, illegal=2)],
        {"houses.json": json.dumps([HUT])},
        {"num_turns": 1, "limited": False, "spiders": 0},
    ),
    "build-mini-v0": Fixture(
        both(("fill 0 0 0 3 0 0 stone", "fill 0 1 0 0 1 0 glass"), paid=1.25),
        both(("", ""), paid=0.0),
        [both(("fill 0 0 0 3 0 0 wood", "hello"), paid=0.0, illegal=2), both((None, b"fill"), paid=0.0, illegal=2)],
        PLANK,
    ),
    "pokemon-v1": Fixture(  # one blow of the strongest against the weakest of all
        Case([LEADS, ("move psychic", "move splash")], (1.0, -1.0)),
        Case([LEADS, ("move recover", "move splash")], (0.0, 0.0)),  # nobody has won at the turn limit of 1
        # the second illegal answer loses, here to both: -1 - 2 x 0.05; bytes are illegal as bytes and as an action
        [Case([("lead nobody", b"\xff"), ("run away", None)], (-1.1, -1.1), 5)],
        TEAMS,
        {"format": "gen9customgame", "forfeit": 2},
        most=1.0,
    ),
}  # fmt: skip
CASES = [
    (id, name, case)
    for id, fixture in FIXTURES.items()
    for name, case in [("full", fixture.full), ("zero", fixture.zero)]
    + [(f"malformed {n}", case) for n, case in enumerate(fixture.malformed)]
]


@pytest.fixture
def make(tmp_path):
    """make(id): an environment of the fixture's task."""

    def made(id, **more):
        fixture = FIXTURES[id]
        keywords = dict(fixture.kwargs) | more
        if isinstance(fixture.rows, dict):
            for name, text in fixture.rows.items():
                (tmp_path / name).write_text(text)
            keywords[palaver.spec(id).teamsets] = str(tmp_path if len(fixture.rows) > 1 else tmp_path / name)
        elif fixture.rows:
            path = tmp_path / "tasks.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in fixture.rows))
            keywords["tasks"] = str(path)
        return palaver.make(id, **keywords)

    return made


def play(env, case, write):
    """What each seat earned, how many illegal moves were counted, and everything that was returned, as text."""

    def text(said):
        if isinstance(said, tuple):
            return (
                f"\n{SPLIT}\n".join(map(text, said)) if isinstance(said[0], tuple) else write(*said[:3], tail=said[3])
            )
        return said

    returned = [env.reset(seed=3, options={"task": 0})]
    earned, illegal = dict.fromkeys(env.possible_agents, 0.0), 0.0
    for joint in case.said:
        step = env.step(dict(zip(env.possible_agents, map(text, joint), strict=True)))
        for agent, reward in step[1].items():
            earned[agent] += reward
        illegal += next(iter(step[4].values()))["metrics"]["illegal"]
        returned.append(step)
    return tuple(earned.values()), illegal, [as_json(each) for each in returned]


def test_every_environment_has_fixtures():
    assert set(FIXTURES) == set(palaver.specs())


@pytest.mark.parametrize(("id", "name", "case"), CASES, ids=[f"{id}-{name}" for id, name, _ in CASES])
def test_what_is_earned_by_hand(make, write, id, name, case):
    limited = {"turn_limit": 1} if id == "pokemon-v1" and name == "zero" else {}
    env = make(id, **limited)
    earned, illegal, _ = play(env, case, write)
    assert env.agents == [], "the script plays the episode to its end"
    assert earned == pytest.approx(case.paid, abs=1e-12)
    assert illegal == case.illegal
    if name == "full":
        most = FIXTURES[id].most
        assert max(earned) == pytest.approx(most_possible(env, palaver.spec(id)) if most is None else most)


@pytest.mark.parametrize("id", FIXTURES)
def test_a_script_plays_out_alike(make, write, id):
    for case in (FIXTURES[id].full, *FIXTURES[id].malformed):
        first, second = make(id), make(id)
        once = play(first, case, write)[2]
        assert once == play(second, case, write)[2] == play(first, case, write)[2]
