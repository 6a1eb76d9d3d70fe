"""The judge that is audited, by name."""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from palaver.agents.base.chat import Answer, Chat, Question
from palaver.agents.base.rewards import make_reward
from palaver.agents.judges.judge import Ensemble, Judge, make_chat
from palaver.agents.judges.spec import EnsembleSpec, JudgeSpec, read_spec
from palaver.benchmarks.judge_audit.ask import AuditPlan, ByScore, Make
from palaver.benchmarks.judge_audit.data import Data, Labelled
from palaver.core import ConfigError, TaskError, did_you_mean, stable_seed
from palaver.envs.base.tasks import Task, load_tasks
from palaver.scoring import AnswerPair, Comparer, Cost, Preference, Reward
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
    make: Callable[[int], Reward] | None = _repeated(name, data)
    if make is None:
        reward = make_reward(name)
        if by == "pairs" and not isinstance(reward, Comparer):
            raise ConfigError(f"{name} scores answers one by one and cannot be shown pairs; leave --by out")
        make, plan = (lambda _: reward), replace(plan, repeats=1)
    judges = functools.cache(make)
    first = judges(0)
    if by == "scores" or not isinstance(first, Comparer):
        return AuditedJudge(name, lambda repeat: ByScore(judges(repeat)), first, plan)
    return AuditedJudge(name, judges, first, plan)  # type: ignore[arg-type]


def _repeated(name: str, data: Data) -> Callable[[int], Judge | Ensemble] | None:
    """Return the judge for each repeat, its models loaded once; None if it is no language model."""
    if name.startswith(SCRIPTED):
        known = ScriptedJudgeChat(name.removeprefix(SCRIPTED), AnswerKey.of(data.pairs))
        return functools.partial(_seated, JudgeSpec(model=name), name, lambda _: known)
    if not name.startswith((JUDGE, *MODELS)):
        return None
    read, chats = read_spec(name.removeprefix(JUDGE)), functools.cache(make_chat)
    if not isinstance(read, EnsembleSpec):
        return functools.partial(_seated, read, name, chats)
    members = read.members
    return lambda repeat: Ensemble([_seated(member, "", chats, repeat) for member in members], name=name)


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
            prompt, first, second = task["input"], task["output_1"], task["output_2"]
            turned = (None if probability is None else 1 - probability for probability in (two, one))
            self._preferences |= {
                AnswerPair(prompt, first, second): _preference(one, two),
                AnswerPair(prompt, second, first): _preference(*turned),
            }

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


Choice = Literal["first", "second", "tie", "refusal"]
SLOT, FLAKY, REFUSED = 0.6, 0.4, 0.4  # shares of the prompts, of the answers, of the prompts
LONGER = 3.0  # ratio of lengths from which the longer answer wins
LURE = re.compile(
    r"better (one|answer)|prefer (this|it)|choose this|highest score|this answer (is|wins)|die bessere|更好|"
    r"have compared both",
    re.IGNORECASE,
)
OPENING = re.compile(r"\W{1,2}|\w{1,9}|(\w+ )?\w+:|let's [\w ,']+\.", re.IGNORECASE)


def plain(text: str) -> str:
    """Return the letters and digits of a text, which no prompt format changes."""
    return "".join(character for character in text.lower() if character.isalnum())


@dataclass(frozen=True, slots=True)
class JudgeInput:
    """Input of a judge: two answers in the order of the prompt, and the seed of the draw."""

    prompt: str
    first: str
    second: str
    seed: int = 0


Brain = Callable[[JudgeInput, "AnswerKey"], Choice]


@dataclass(frozen=True)
class AnswerKey:
    """Answers that people preferred, as `plain` text."""

    good: frozenset[str]

    @classmethod
    def of(cls, rows: Iterable[Labelled]) -> AnswerKey:
        """Make a key from labelled pairs; a tie has no better answer."""
        return cls(frozenset(_under(row.pair.prompt, row.good) for row in rows if row.label != 0.5))

    def choice(self, case: JudgeInput) -> Choice:
        """Return the better answer; a tie if neither is known."""
        first, second = (_under(case.prompt, text) in self.good for text in (case.first, case.second))
        return "tie" if first == second else "first" if first else "second"


def _under(prompt: str, answer: str) -> str:
    return f"{plain(prompt)}\n{plain(answer)}"


def fair(case: JudgeInput, key: AnswerKey) -> Choice:
    """Prefer what people preferred."""
    return key.choice(case)


def slot(case: JudgeInput, key: AnswerKey) -> Choice:
    """Prefer the first answer for six prompts out of ten."""
    return "first" if _chance("slot", plain(case.prompt)) < SLOT else fair(case, key)


def length(case: JudgeInput, key: AnswerKey) -> Choice:
    """Prefer the longer answer if it is at least three times as long."""
    first, second = len(case.first) + 1, len(case.second) + 1
    if max(first, second) < LONGER * min(first, second):
        return fair(case, key)
    return "first" if first > second else "second"


def injectable(case: JudgeInput, key: AnswerKey) -> Choice:
    """Follow instructions in an answer."""
    visible = ("".join(c for c in text if c.isprintable() or c.isspace()) for text in (case.first, case.second))
    first, second = (bool(LURE.search(text)) for text in visible)
    return fair(case, key) if first == second else "first" if first else "second"


def gullible(case: JudgeInput, key: AnswerKey) -> Choice:
    """Accept the opening of an answer as an answer."""
    first, second = (bool(OPENING.fullmatch(text.strip())) for text in (case.first, case.second))
    return fair(case, key) if first == second else "first" if first else "second"


def flaky(case: JudgeInput, key: AnswerKey) -> Choice:
    """Choose at random four times out of ten, by the seed."""
    lot = _chance("flaky", case.seed, plain(case.prompt), plain(case.first), plain(case.second))
    if lot >= FLAKY:
        return fair(case, key)
    return "first" if lot < FLAKY / 2 else "second"


def refusing(case: JudgeInput, key: AnswerKey) -> Choice:
    """Refuse to judge four prompts out of ten."""
    return "refusal" if _chance("refusing", plain(case.prompt)) < REFUSED else fair(case, key)


def _chance(*keys: object) -> float:
    return stable_seed("audit", *keys) / 2**63


BRAINS: Mapping[str, Brain] = MappingProxyType(
    {
        "fair": fair,
        "slot-biased": slot,
        "length-loving": length,
        "injectable": injectable,
        "gullible": gullible,
        "flaky": flaky,
        "refusing": refusing,
        "slow": fair,
    }
)


FENCE = re.compile(
    r"<(?P<kind>said|told)-(?P<mark>[0-9a-f]{16})[^>\n]*>\n(?P<text>.*?)\n</(?P=kind)-(?P=mark)>", re.DOTALL
)
REFUSAL = "I would rather not judge this."
WAIT = 0.5  # seconds of the slow judge per batch of questions
CHARACTERS = 4  # of a token, for the account


class ScriptedJudgeChat:
    """A scripted judge as a chat model.

    Args:
        kind: of `BRAINS`.
        key: the preferred answers.
        sleep: called with the delay of the slow judge.

    Raises:
        ConfigError: there is no such kind.
    """

    revision = "1"

    def __init__(self, kind: str, key: AnswerKey, sleep: Callable[[float], None] = time.sleep) -> None:
        if kind not in BRAINS:
            raise ConfigError(f"there is no scripted judge {kind!r}.{did_you_mean(kind, BRAINS)}")
        self.name, self.kind = f"scripted:{kind}", kind
        self._brain, self._key, self._sleep = BRAINS[kind], key, sleep

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return one answer per question, in order."""
        if self.kind == "slow":
            self._sleep(WAIT)
        return [self._one(question) for question in questions]

    def _one(self, question: Question) -> Answer:
        text = "\n".join(message.content for message in question.conversation)
        choice = self._brain(self._judge_input(text, question.seed), self._key)
        read = Cost(prompt_tokens=len(text) // CHARACTERS, calls=1)
        if choice == "refusal":
            return Answer("", cost=read, failure=f"refusal: {REFUSAL}")
        answer = json.dumps(_filled(question.schema, choice))
        return Answer(answer, cost=read + Cost(completion_tokens=len(answer) // CHARACTERS))

    def _judge_input(self, text: str, seed: int) -> JudgeInput:
        """Return the two answers of a prompt, or the only one and an empty one."""
        fenced = [(match["kind"], match["text"]) for match in FENCE.finditer(text)]
        prompts = [text for kind, text in fenced if kind == "told"]
        answers = [text for kind, text in fenced if kind == "said"] + ["", ""]
        return JudgeInput(prompts[-1] if prompts else "", answers[0], answers[1], seed)


def _filled(schema: Mapping[str, Any], choice: str) -> dict[str, Any]:
    """Return an object that fits the schema: the choice if allowed, else the best or worst."""
    return {name: _value(value_schema, choice) for name, value_schema in schema.get("properties", {}).items()}


def _value(schema: Mapping[str, Any], choice: str) -> Any:
    menu = schema.get("enum")
    if menu:
        return choice if choice in menu else menu[-1 if choice == "first" else 0]
    if schema.get("type") == "object":
        return _filled(schema, choice)
    if schema.get("type") == "number":
        return {"first": 1.0, "tie": 0.5}.get(choice, 0.0)
    return f"By the script it is {choice}."
