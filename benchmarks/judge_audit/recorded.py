"""Judge with the recorded verdicts of published evaluators on LLMBar's pairs in both orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaver.core import TaskError
from palaver.envs.base.tasks import Task, load_tasks
from palaver.scoring import AnswerPair, Preference
from palaver.text import one_line

ORDERS = ("swap = False", "swap = True")
WINNERS: Mapping[str, float] = {"1": 1.0, "2": 0.0, "tie": 0.5}
ABSENT = Preference(None, failure="not recorded: the file has no verdict on this pair")


class RecordedComparer:
    """Comparer that returns the recorded verdict of each pair, in either order.

    The form is that of LLMBar's evaluators: rows `input output_1 output_2 results`, where `results` holds for each run
    `swap = False` and `swap = True` with a `winner`, 1 or 2: the row's own output, however the two were shown.

    Args:
        file: JSON.
        run: index of the run.

    Raises:
        TaskError: the file cannot be read, or a row has another form.
    """

    def __init__(self, file: Path | str, run: int = 0) -> None:
        self.name = f"recorded:{Path(file).name}"
        self._preferences: dict[AnswerPair, Preference] = {}
        fields = {"input": str, "output_1": str, "output_2": str, "results": list}
        for task in load_tasks(file, sample=Path(file), fields=fields):
            one, two = (_winner(task, run, order, f"{file}, {task.id}") for order in ORDERS)
            pair = AnswerPair(task["input"], task["output_1"], task["output_2"])
            self._preferences[pair] = _preference(one, two)
            turned = _preference(*(None if probability is None else 1 - probability for probability in (two, one)))
            self._preferences[AnswerPair(pair.prompt, pair.second, pair.first)] = turned

    def compare(self, pairs: Sequence[AnswerPair]) -> list[Preference]:
        """Return one preference per pair; unrecorded pairs fail."""
        return [self._preferences.get(pair, ABSENT) for pair in pairs]


def _winner(task: Task, run: int, order: str, where: str) -> float | None:
    """Probability that the first is better; None if the evaluator's verdict cannot be parsed."""
    try:
        winner: Any = task["results"][run][order]["winner"]
    except (LookupError, TypeError) as error:
        raise TaskError(f"{one_line(where)}: results[{run}] has no winner for {order!r}, as LLMBar's have") from error
    return WINNERS.get(str(winner))


def _preference(one: float | None, two: float | None) -> Preference:
    if one is None or two is None:
        return Preference(None, (one, two), failure="unparseable: the recorded winner is neither 1, 2 nor tie")
    return Preference((one + two) / 2, (one, two))
