"""The family of small problems: keep some numbers of a list, change each, put them together.

Pure. Eight filters, eight maps and six aggregates make 384 problems. Each is solved in one line, and by a helper and a
caller in three ways: the helper may change one number (`map`), say whether a number is kept (`test`), or keep the
numbers of a list (`list`). Both halves are easy; they fit only if both authors have the same way in mind.

A description may also leave open which of two filters and which of two maps is meant. Examples of a half under `map`
decide: the helper's by what it returns, those of `f` with a helper that changes nothing.

Imitation texts answer the prompts word for word: a change of them bumps the version. Of the scripted programmers
`reference` always takes the helper for a test, `strangers` take any.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from palaver.core import Conversation, stable_seed
from palaver.envs.base.scripted import first_prompt

HELD_OUT = 60
TESTS = 4
CONVENTIONS = ("map", "test", "list")
_SEATS = {
    "aux": "Two strangers write one program and see nothing of each other. You write a helper aux, for f to call.",
    "main": "Two strangers write one program and see nothing of each other. You write f, which calls a helper aux.",
    "coder": "Write a program of two functions: a helper aux, and f, which calls it.",
}
PASSES = "\naux changes one number. Your part passes:\n"


class Piece(NamedTuple):
    """A part of a problem: its words in the prompt, its code, and the same as a function."""

    words: str
    code: str
    run: Callable[[Any], Any]


FILTERS: Mapping[str, Piece] = {
    "even": Piece("keeps the even numbers", "x % 2 == 0", lambda x: x % 2 == 0),
    "odd": Piece("keeps the odd numbers", "x % 2 == 1", lambda x: x % 2 == 1),
    "positive": Piece("keeps the positive numbers", "x > 0", lambda x: x > 0),
    "negative": Piece("keeps the negative numbers", "x < 0", lambda x: x < 0),
    "large": Piece("keeps the numbers above five", "x > 5", lambda x: x > 5),
    "small": Piece("keeps the numbers below five", "x < 5", lambda x: x < 5),
    "threes": Piece("keeps the multiples of three", "x % 3 == 0", lambda x: x % 3 == 0),
    "others": Piece("drops the multiples of three", "x % 3 != 0", lambda x: x % 3 != 0),
}
MAPS: Mapping[str, Piece] = {
    "square": Piece("squares each", "x * x", lambda x: x * x),
    "double": Piece("doubles each", "x * 2", lambda x: x * 2),
    "halve": Piece("halves each", "x // 2", lambda x: x // 2),
    "negate": Piece("negates each", "-x", lambda x: -x),
    "up": Piece("adds one to each", "x + 1", lambda x: x + 1),
    "down": Piece("takes one from each", "x - 1", lambda x: x - 1),
    "tenfold": Piece("takes each times ten", "x * 10", lambda x: x * 10),
    "cube": Piece("cubes each", "x * x * x", lambda x: x * x * x),
}
AGGREGATES: Mapping[str, Piece] = {
    "all": Piece("returns them all", "ys", lambda ys: ys),
    "sorted": Piece("returns them sorted", "sorted(ys)", sorted),
    "reversed": Piece("returns them backwards", "ys[::-1]", lambda ys: ys[::-1]),
    "sum": Piece("returns their sum", "sum(ys)", sum),
    "first": Piece("returns the first", "ys[0]", lambda ys: ys[0]),
    "last": Piece("returns the last", "ys[-1]", lambda ys: ys[-1]),
}
NUMBERS = (3, 5, -2, 4)  # of examples: on each of them, and on each list, two readings differ
LISTS = ([-8, 9], [6, -7], [9, -2], [-5, 12])
# what an open description leaves to the examples
READINGS = (
    ("even", "odd"), ("positive", "negative"), ("large", "small"), ("threes", "others"),
    ("square", "cube"), ("double", "halve"), ("up", "down"), ("negate", "tenfold"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Combination:
    """A problem by the names of its parts."""

    filter: str
    map: str
    aggregate: str

    @property
    def text(self) -> str:
        """Description of the function in words."""
        keep, change, put = FILTERS[self.filter], MAPS[self.map], AGGREGATES[self.aggregate]
        return f"f(xs) {keep.words} of xs, {change.words} and {put.words}."

    @property
    def readings(self) -> tuple[Combination, Combination]:
        """The problem of the filter and map that the open description names first, and second."""
        (filter_1, filter_2), (map_1, map_2) = (
            next(pair for pair in READINGS if name in pair) for name in (self.filter, self.map)
        )
        return Combination(filter_1, map_1, self.aggregate), Combination(filter_2, map_2, self.aggregate)

    @property
    def open_text(self) -> str:
        """Description that leaves open which of two filters and which of two maps is meant."""
        keep = " or ".join(FILTERS[reading.filter].words for reading in self.readings)
        change = " or ".join(MAPS[reading.map].words for reading in self.readings)
        return f"f(xs) {keep} of xs, {change} and {AGGREGATES[self.aggregate].words}."

    def aux(self, convention: str) -> str:
        """The helper of a convention."""
        if convention == "map":
            return f"def aux(x):\n    return {MAPS[self.map].code}"
        if convention == "test":
            return f"def aux(x):\n    return {FILTERS[self.filter].code}"
        return f"def aux(xs):\n    return [x for x in xs if {FILTERS[self.filter].code}]"

    def main(self, convention: str) -> str:
        """The caller of a convention."""
        change, keep = MAPS[self.map].code, FILTERS[self.filter].code
        bodies = {
            "map": f"[aux(x) for x in xs if {keep}]",
            "test": f"[{change} for x in xs if aux(x)]",
            "list": f"[{change} for x in aux(xs)]",
        }[convention]
        return f"def f(xs):\n    ys = {bodies}\n    return {AGGREGATES[self.aggregate].code}"

    def solve(self, xs: Sequence[int]) -> Any:
        """The value of f(xs)."""
        return AGGREGATES[self.aggregate].run([MAPS[self.map].run(x) for x in filter(FILTERS[self.filter].run, xs)])

    def tests(self) -> str:
        """`TESTS` assertions in which the filter and the map matter.

        Without either of them the result would differ.
        """
        rng = random.Random(stable_seed("coding-mini tests", self.filter, self.map, self.aggregate))
        put, change, cases = AGGREGATES[self.aggregate].run, MAPS[self.map].run, list[str]()
        while len(cases) < TESTS:
            xs = [rng.randint(-12, 12) for _ in range(rng.randint(5, 8))]
            filtered = list(filter(FILTERS[self.filter].run, xs))
            if filtered and self.solve(xs) not in (put([change(x) for x in xs]), put(filtered)):
                cases.append(f"    assert candidate({xs}) == {self.solve(xs)!r}")
        return "\n".join(["def check(candidate):", *cases]) + "\n"

    def examples(self, agent: str, count: int) -> str:
        """Statements with `count` assertions on each function of an agent, by the convention `map`.

        The other reading of an open description fails every one of them.
        """
        helpers = [f"assert aux({x}) == {MAPS[self.map].run(x)}" for x in NUMBERS[:count]]
        callers = ["aux = int"]
        for xs in LISTS[:count]:
            kept = list(filter(FILTERS[self.filter].run, xs))
            callers.append(f"assert f({xs}) == {AGGREGATES[self.aggregate].run(kept)}")
        return "\n".join({"aux": helpers, "main": callers, "coder": helpers + callers}[agent])


def combinations() -> list[Combination]:
    """All problems in a fixed shuffled order.

    The last `HELD_OUT` are kept from imitation and from training.
    """
    every = [Combination(*names) for names in product(FILTERS, MAPS, AGGREGATES)]
    random.Random(stable_seed("coding-mini order")).shuffle(every)
    return every


_BY_TEXT = {combination.text: combination for combination in combinations()}


def opening(agent: str, text: str, examples: str = "") -> str:
    """The first observation of `aux`, `main`, or the single programmer `coder`.

    `text` describes f, `examples` are of the agent's own part.
    """
    return f"{_SEATS[agent]}\n{text}{PASSES}{examples}" if examples else f"{_SEATS[agent]}\n{text}"


def seat_of(prompt: str) -> str:
    """The agent whose first observation this is; "" if it is none."""
    return next((agent for agent, words in _SEATS.items() if prompt.startswith(words)), "")


def reference(conversation: Conversation, _seed: int) -> str:
    """Write the requested half by the convention `test`; by `map` where examples are shown.

    It is "" if the prompt is none of the family.
    """
    convention = "map" if _by_examples(first_prompt(conversation)) else "test"
    return _answer(conversation, convention, convention)


def strangers(conversation: Conversation, seed: int) -> str:
    """Write the requested half by any convention."""
    rng = random.Random(stable_seed("coding-mini strangers", seed, conversation[-1].content if conversation else ""))
    return _answer(conversation, rng.choice(CONVENTIONS), rng.choice(CONVENTIONS))


def _by_examples(prompt: str) -> Combination | None:
    """Problem of an open description; None if no examples decide."""
    opened, _, examples = prompt.partition(PASSES)
    agent, text = seat_of(opened), opened.rpartition("\n")[2]
    count = examples.count("assert ") // (2 if agent == "coder" else 1)
    candidates = [each for each in _BY_TEXT.values() if count and each.open_text == text]
    return next((each for each in candidates if each.examples(agent, count) == examples), None)


def _answer(conversation: Conversation, helper: str, caller: str) -> str:
    prompt = first_prompt(conversation)
    combination = _BY_TEXT.get(prompt.rpartition("\n")[2]) or _by_examples(prompt)
    if combination is None:
        return ""
    aux, main = combination.aux(helper), combination.main(caller)
    return {"aux": aux, "main": main, "coder": f"{aux}\n\n\n{main}"}.get(seat_of(prompt), "")
