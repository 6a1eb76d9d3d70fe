"""Labelled data: pairs of answers with the one that people preferred, and graded answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from palaver.core import TaskError, stable_seed
from palaver.envs.base.tasks import Task, load_tasks
from palaver.scoring import AnswerPair
from palaver.text import one_line

T = TypeVar("T")
LABELS: Mapping[object, float] = {1: 1.0, 2: 0.0, "1": 1.0, "2": 0.0, "first": 1.0, "second": 0.0, "tie": 0.5}


@dataclass(frozen=True, slots=True)
class Labelled:
    """Pair with its human label: 1 if the first answer is better, 0 if the second, 1/2 if tied."""

    id: str
    pair: AnswerPair
    label: float

    @property
    def good(self) -> str:
        """The answer that people preferred; the first of a tie."""
        return self.pair.first if self.label else self.pair.second

    @property
    def bad(self) -> str:
        """The other one."""
        return self.pair.second if self.label else self.pair.first


@dataclass(frozen=True, slots=True)
class Graded:
    """An answer and the grade that people gave it."""

    id: str
    prompt: str
    answer: str
    grade: int


@dataclass(frozen=True, slots=True)
class Data:
    """Data of an audit."""

    pairs: tuple[Labelled, ...]
    graded: tuple[Graded, ...] = ()


def read(sources: Sequence[str], n: int = 0, seed: int = 0) -> Data:
    """The rows of all sources together, in one of three forms each.

    LLMBar's: `input output_1 output_2 label`, where the label is 1 or 2. Plain pairs: `prompt first second label`,
    where the label is `first`, `second` or `tie`. Graded answers: `prompt answer grade`, where the grade is a whole
    number.

    Args:
        sources: `sample` (sums made from a seed), `generated:SEED:COUNT` of them, files or `hf:` names: see
            `load_tasks`.
        n: number of rows of each kind, drawn by the seed and kept in their order; 0 for all.
        seed: of that draw.

    Raises:
        TaskError: an unreadable source, a row of unknown form, or an invalid label.
    """
    rows = [
        _row(task, source, f"{index}:{task.id}" if len(sources) > 1 else task.id)
        for index, source in enumerate(sources, start=1)
        for task in load_tasks(source, sample=sums, fields={})
    ]
    pairs = [row for row in rows if isinstance(row, Labelled)]
    graded = [row for row in rows if isinstance(row, Graded)]
    return Data(tuple(_drawn(pairs, n, seed)), tuple(_drawn(graded, n, seed)))


def _row(task: Task, source: str, id: str) -> Labelled | Graded:
    """Parse a row, whose form follows from its fields."""
    where = one_line(f"{source}, {task.id}")
    forms: Mapping[tuple[str, ...], Callable[..., Labelled | Graded]] = {
        ("input", "output_1", "output_2", "label"): _pair,
        ("prompt", "first", "second", "label"): _pair,
        ("prompt", "answer", "grade"): _graded,
    }
    for fields, make in forms.items():
        if all(field in task.data for field in fields):
            for field in fields[:-1]:
                if not isinstance(task[field], str):
                    raise TaskError(f"{where}: the field {field!r} is {type(task[field]).__name__}, expected a text")
            return make(where, id, *(task[field] for field in fields))
    has = one_line(", ".join(map(str, task.data))) or "none"
    raise TaskError(
        f"{where}: expected the fields input, output_1, output_2, label, or prompt, first, second, label, or prompt, "
        f"answer, grade; it has {has}"
    )


def _pair(where: str, id: str, prompt: str, first: str, second: str, label: Any) -> Labelled:
    if isinstance(label, bool) or not isinstance(label, str | int) or label not in LABELS:
        raise TaskError(f"{where}: the label must be 1 or first, 2 or second, or tie; got {one_line(label, 40)!r}")
    return Labelled(id, AnswerPair(prompt, first, second), LABELS[label])


def _graded(where: str, id: str, prompt: str, answer: str, grade: Any) -> Graded:
    text = str(grade).strip()
    if isinstance(grade, bool) or not text.removeprefix("-").isdecimal():
        raise TaskError(f"{where}: the grade must be a whole number, got {one_line(grade, 40)!r}")
    return Graded(id, prompt, answer, int(text))


def _drawn(rows: list[T], n: int, seed: int) -> list[T]:
    if not 0 < n < len(rows):
        return rows
    places = random.Random(stable_seed(seed, "audit", "rows")).sample(range(len(rows)), n)
    return [rows[index] for index in sorted(places)]


OPENINGS = ("", "Let us see. ", "The sum is easy to find. ", "First the tens, then the ones, and then both together. ")
CLOSINGS = (
    "",
    " That is all.",
    " I have added the two numbers and written down what came out of it.",
    " One may check this by taking the second number away again, which leaves the first one, as it should be.",
)


def sums(count: int, seed: int) -> list[Mapping[str, Any]]:
    """`count` sums with a right and a wrong result, as rows `prompt first second label`.

    Length, position and correctness are drawn independently, so that a bias towards one of them is visible. The same
    seed gives the same rows.
    """
    rng = random.Random(stable_seed(seed, "audit", "sums"))
    rows: dict[str, Mapping[str, Any]] = {}
    while len(rows) < count:
        one, two = rng.randint(10, 9_999), rng.randint(10, 9_999)
        right, wrong = one + two, one + two + rng.choice((-100, -10, -1, 1, 10, 100))
        first_is_right = rng.random() < 0.5
        results = (right, wrong) if first_is_right else (wrong, right)
        first, second = (f"{rng.choice(OPENINGS)}It is {result}.{rng.choice(CLOSINGS)}" for result in results)
        prompt = f"What is {one} + {two}?"
        label = "first" if first_is_right else "second"
        rows[prompt] = {"prompt": prompt, "first": first, "second": second, "label": label}
    return list(rows.values())
