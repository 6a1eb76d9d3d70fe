"""The judge that is audited, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palaver.agents.base.chat import Chat
from palaver.agents.base.rewards import make_reward
from palaver.agents.judges.judge import Ensemble, Judge, make_chat
from palaver.agents.judges.spec import EnsembleSpec, JudgeSpec, read_spec
from palaver.benchmarks.judge_audit.ask import AuditPlan, ByScore, Make
from palaver.benchmarks.judge_audit.data import Data
from palaver.benchmarks.judge_audit.faulty_judges import AnswerKey, ScriptedJudgeChat
from palaver.core import ConfigError, TaskError, did_you_mean
from palaver.envs.base.tasks import Task, load_tasks
from palaver.scoring import AnswerPair, Comparer, Preference, Reward
from palaver.text import one_line

RECORDED, SCRIPTED, JUDGE = "recorded:", "scripted:", "judge:"
MODELS = ("openai:", "hf:")
WAYS = ("auto", "pairs", "scores")


@dataclass(frozen=True)
class AuditedJudge:
    """A judge in the roles that an audit needs.

    Attributes:
        name: of the judge.
        make: repeat -> comparer of pairs.
        reward: scorer of single answers; None if it cannot score.
        plan: adapted to the judge: recorded verdicts have no repeats.
    """

    name: str
    make: Make
    reward: Reward | None
    plan: AuditPlan


def audited(name: str, data: Data, plan: AuditPlan, by: str = "auto") -> AuditedJudge:
    """Make the judge called `name`.

    A language model has another seed in each repeat, and no cache, so that times and costs are true. A reward model
    and recorded verdicts are deterministic and have no repeats.

    Args:
        name: `recorded:FILE`; `scripted:KIND`; `judge:SPEC`, or `openai:...` or `hf:...` for short; `rm:PATH`.
        data: labels of a scripted judge.
        plan: number of queries.
        by: `pairs` shows it both answers, `scores` one at a time; `auto` pairs if it can.

    Raises:
        ConfigError, PolicyError, TaskError: unknown name, or it cannot judge that way.
    """
    if by not in WAYS:
        raise ConfigError(f"--by takes {', '.join(WAYS)}, not {by!r}.{did_you_mean(by, WAYS)}")
    if name.startswith(RECORDED):
        recorded = RecordedComparer(name.removeprefix(RECORDED))
        if by == "scores":
            raise ConfigError("what is recorded are verdicts on pairs, so --by scores cannot be had of it")
        return AuditedJudge(recorded.name, lambda _: recorded, None, replace(plan, repeats=1, probed=0, timed=0))
    repeated = _repeated(name, data)
    if repeated is None:
        reward = make_reward(name)
        if by == "pairs" and not isinstance(reward, Comparer):
            raise ConfigError(f"{name} scores answers one by one and cannot be shown pairs; leave --by out")
        return _ways(name, lambda _: reward, replace(plan, repeats=1), by)
    return _ways(name, functools.cache(repeated), plan, by)


def _ways(name: str, make: Callable[[int], Reward], plan: AuditPlan, by: str) -> AuditedJudge:
    first = make(0)
    if by == "scores" or not isinstance(first, Comparer):
        return AuditedJudge(name, lambda repeat: ByScore(make(repeat)), first, plan)
    return AuditedJudge(name, make, first, plan)  # type: ignore[arg-type]


def _repeated(name: str, data: Data) -> Callable[[int], Judge | Ensemble] | None:
    """Return the judge for each repeat, its models loaded once; None if it is no language model."""
    if name.startswith(SCRIPTED):
        known = ScriptedJudgeChat(name.removeprefix(SCRIPTED), AnswerKey.of(data.pairs))
        spec = JudgeSpec(model=name)
        return lambda repeat: _seated(spec, name, lambda _: known, repeat)
    if not name.startswith((JUDGE, *MODELS)):
        return None
    read, chats = read_spec(name.removeprefix(JUDGE)), functools.cache(make_chat)
    if not isinstance(read, EnsembleSpec):
        single = read
        return lambda repeat: _seated(single, name, chats, repeat)
    several = read
    return lambda repeat: Ensemble([_seated(member, "", chats, repeat) for member in several.members], name=name)


def _seated(spec: JudgeSpec, name: str, chats: Callable[[str], Chat], repeat: int) -> Judge:
    again = spec.model_copy(update={"sample": spec.sample + repeat, "cache": False})
    return Judge(again, name, chats(spec.model))


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
