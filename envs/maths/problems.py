"""Small problems made from a seed. Pure.

Some numbers are added, subtracted and multiplied, in a story or bare. `easy` has one step and `medium` two, with
results from 0 to 12; `hard` has three, one of which multiplies, with results from 0 to 40; of `mixed` tasks three in
four are `medium`, the others `hard`. A quarter are bare (`What is 3 + 4 - 2?`). One problem of five, by its words and
numbers, is held out: the sample and what `generated:` makes are held-out problems, and the texts that the tiny model
imitates have none of them.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple, get_args

from palaver.core import stable_seed

Level = Literal["easy", "medium", "hard"]
Difficulty = Literal["easy", "medium", "hard", "mixed"]
LEVELS: tuple[Level, ...] = get_args(Level)
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)
HARD_SHARE = 0.25  # of mixed tasks
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gil", "Hana")
THINGS = ("apples", "books", "cards", "coins", "nuts", "pens", "shells", "stamps")
START = "{name} has {n} {things}."
STEPS = {
    "+": ("{name} finds {n} more.", "{name} buys {n} more.", "A friend brings {n} more."),
    "-": ("{name} loses {n}.", "{name} sells {n}.", "{name} gives {n} away."),
    "*": ("Then {name} gets {n} times as many.",),
}
END = "How many {things} has {name} now?"
BARE = 0.25
HELD_OUT = 5  # one problem of so many
ENOUGH_MISSES = 200  # draws in a row without a new problem: there are hardly any more
_BARE = re.compile(r"What is ([-+*() \d]+)\?")
_HAS = re.compile(r"\w+ has (\d+) (\w+)\. (.*)How many \w+ has \w+ now\?")
_TERM = re.compile(r"([-+*]?) ?(\d+)")
_SENTENCE = {
    operator: [re.compile(re.escape(words).replace(r"\{name\}", r"\w+").replace(r"\{n\}", r"(\d+)")) for words in known]
    for operator, known in STEPS.items()
}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator, a number, and the index of its sentence."""

    operator: str
    number: int
    words: int


@dataclass(frozen=True, slots=True)
class MathProblem:
    """A problem: the number it begins with, its steps, and its wording."""

    start: int
    steps: tuple[Operation, ...]
    name: str = ""
    things: str = ""

    @property
    def question(self) -> str:
        """The question: a story where there is a name, else the bare sum."""
        if not self.name:
            return f"What is {self.expression}?"
        sentences = [START.format(name=self.name, n=self.start, things=self.things)]
        sentences += [STEPS[step.operator][step.words].format(name=self.name, n=step.number) for step in self.steps]
        return " ".join([*sentences, END.format(name=self.name, things=self.things)])

    @property
    def expression(self) -> str:
        """The sum without its story, as `(3 + 4) * 2`."""
        text = str(self.start)
        for index, step in enumerate(self.steps):
            text = f"({text})" if index and step.operator == "*" else text
            text = f"{text} {step.operator} {step.number}"
        return text

    @property
    def results(self) -> list[int]:
        """The number after every step."""
        return self._plain.results

    @property
    def rationale(self) -> str:
        """The way to the answer and the answer, in the public schema of GSM8K."""
        return way(self._plain, self.results)

    @property
    def _plain(self) -> Plain:
        return Plain(self.start, [(step.operator, step.number) for step in self.steps], self.things)


class Plain(NamedTuple):
    """Arithmetic of a problem without its wording: first number, steps, things counted."""

    start: int
    steps: list[tuple[str, int]]
    things: str = ""

    @property
    def results(self) -> list[int]:
        """The number after every step."""
        return [*accumulate(self.steps, lambda total, step: apply(total, *step), initial=self.start)][1:]


def apply(total: int, operator: str, operand: int) -> int:
    """One step.

    >>> apply(3, "+", 4), apply(3, "-", 4), apply(3, "*", 4)
    (7, -1, 12)
    """
    return {"+": total + operand, "-": total - operand, "*": total * operand}[operator]


def way(problem: Plain, results: list[int]) -> str:
    """Solution text with these results, right or wrong.

    >>> way(Plain(3, [("+", 4), ("-", 2)], "nuts"), [7, 5])
    '3 + 4 = 7, 7 - 2 = 5 nuts. #### 5'
    """
    parts, before = [], problem.start
    for (operator, operand), result in zip(problem.steps, results, strict=True):
        parts.append(f"{before} {operator} {operand} = {result}")
        before = result
    return f"{', '.join(parts)}{problem.things and ' '}{problem.things}. #### {before}"


def held_out(problem: MathProblem) -> bool:
    """Return whether it is held out of the imitation texts."""
    return stable_seed("maths held out", problem.question) % HELD_OUT == 0


def draw(rng: random.Random, difficulty: Level, tasks: bool) -> MathProblem:
    """A problem, held out if it is for tasks, else not."""
    while True:
        problem = _any(rng, difficulty)
        if held_out(problem) == tasks and (problem.name or difficulty != "hard" or "*" in problem.question):
            return problem


def rows(count: int, seed: int, difficulty: Difficulty = "medium") -> list[dict[str, str]]:
    """`count` different tasks in the public schema, or as many as could be found.

    Smaller sets begin larger ones.
    """
    rng = random.Random(stable_seed("maths", difficulty, seed))
    answers: dict[str, str] = {}
    misses = 0
    while len(answers) < count and misses < ENOUGH_MISSES:
        problem = draw(rng, _level(rng, difficulty), tasks=True)
        misses = misses + 1 if problem.question in answers else 0
        answers.setdefault(problem.question, problem.rationale)
    return [
        {"id": f"{difficulty}-{seed}-{index:04}", "question": question, "answer": answer}
        for index, (question, answer) in enumerate(answers.items())
    ]


def _level(rng: random.Random, difficulty: Difficulty) -> Level:
    if difficulty != "mixed":
        return difficulty
    return "hard" if rng.random() < HARD_SHARE else "medium"


def solve(question: str) -> Plain | None:
    """A made problem, read from its words; None if it is none.

    >>> solve("What is 3 + 4 - 2?")
    Plain(start=3, steps=[('+', 4), ('-', 2)], things='')
    """
    if bare := _BARE.fullmatch(question.strip()):
        terms = _TERM.findall(bare[1].replace("(", "").replace(")", ""))
        if not terms or terms[0][0]:
            return None
        return Plain(int(terms[0][1]), [(operator or "+", int(operand)) for operator, operand in terms[1:]])
    story = _HAS.fullmatch(question.strip())
    if not story:
        return None
    steps = []
    for sentence in re.findall(r"[^.]+\.", story[3]):
        known = [
            (op, match[1]) for op, kinds in _SENTENCE.items() for k in kinds if (match := k.fullmatch(sentence.strip()))
        ]
        if not known:
            return None
        steps.append((known[0][0], int(known[0][1])))
    return Plain(int(story[1]), steps, story[2])


def _any(rng: random.Random, difficulty: Level) -> MathProblem:
    count, max_start = {"easy": (1, 12), "medium": (2, 12), "hard": (3, 40)}[
        difficulty
    ]  # 9 + 5 + 5 can still be doubled
    times = rng.randrange(count) if difficulty == "hard" else -1
    total = start = rng.randint(1, 9)
    steps = []
    for index in range(count):
        while True:
            operator = "*" if index == times else rng.choice("+-")
            operand = rng.randint(2, 3) if operator == "*" else rng.randint(1, 5)
            if 0 <= apply(total, operator, operand) <= max_start:
                break
        total = apply(total, operator, operand)
        steps.append(Operation(operator, operand, rng.randrange(len(STEPS[operator]))))
    if rng.random() < BARE:
        return MathProblem(start, tuple(Operation(step.operator, step.number, 0) for step in steps))
    return MathProblem(start, tuple(steps), rng.choice(NAMES), rng.choice(THINGS))
