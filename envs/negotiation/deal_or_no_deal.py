"""Deal or no deal: two agents divide items that each values in its own way, and must agree.

The items are books, hats and balls. Each agent sees its own values only. They talk, and then both say what they take;
if the two shares do not fit together neither gets anything. The task is that of M. Lewis et al. (Deal or no deal?
End-to-end learning of negotiation dialogues, 2017), in the form of AdAlignLLM (arXiv 2511.19405).

## Observation

    You are p1. There are 2 books, 1 hat and 3 balls. To you a book is worth 1, a hat 5, a ball 1.
    Agree with the other on who takes what. Send a message of at most 500 characters.

Then the other's messages, one by one, and at last the request of a proposal. `p1` speaks first; each sends `messages`
messages.

With `fresh=True` each observation stands alone (`"conversation": "fresh"`): the items and the own values, the other's
messages so far, and the request.

## Action

A message is any text, cut at 500 characters. A proposal is what the agent itself takes: `<take> books=1 hats=0 balls=3
</take>`; an item that is left out is not taken. A text without these tags, or one that takes more than there is, is no
proposal: no deal is made, and it adds 1 to the metric `illegal`.

## Rewards

At the end, by agent:

* `deal`: the worth of what it takes, if both proposals together take every item exactly once, else 0.

All items together are worth 10 to each agent. Metrics of the last turn: `agreed`; `efficiency`, the sum of both rewards
over `best_total`, the largest sum of any division, found by enumeration; `outcome`, 1 if `p1` has more, -1 if `p2` has.

## Termination

After the proposals: 2 times `messages` + 1 turns.

## Data

A task has `counts`, and `p1` and `p2`, the values of a book, a hat and a ball: lists of three whole numbers. Generated
tasks have 5 to 7 items; every kind is of worth to someone, one to both, and all items are worth 10 to each.
`tasks="sample"` are 64 of them, `tasks="generated:SEED:COUNT"` others. A file's values need not follow these rules.

`scripted:reference` says its values and takes its part of the division with the largest sum, which both work out: its
`efficiency` is 1. `scripted:greedy` takes everything, `scripted:lazy` is silent.

## Version history

* v0: first version.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import Conversation, TaskError, stable_seed
from palaver.envs.base.arguments import fresh_metadata, whole_number
from palaver.envs.base.env import MAX_LENGTH, StepResult, TextEnv
from palaver.envs.base.questions import MOST_OPTIONS, InferenceQuestion
from palaver.envs.base.scripted import first_prompt, observed
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.negotiation.trust_and_split import AGENTS, MESSAGE
from palaver.text import one_line

KINDS = ("book", "hat", "ball")
TOTAL = 10  # worth of all items to each agent
LARGEST = 1000
REQUEST = "Propose what you take: <take> books=0 hats=0 balls=0 </take>, with your numbers."
_TAKE = re.compile(r"<take>([^<]{0,200})</take>")
_ITEM = re.compile(r"(book|hat|ball)s?\s{0,5}[=:]\s{0,5}(\d{1,4})(?!\d)")
_COUNTS = re.compile(r"There are (\d+) books?, (\d+) hats? and (\d+) balls?")
_WORTH = re.compile(r"a book is worth (\d+), a hat (\d+), a ball (\d+)")
_MESSAGE = re.compile(r"^The other: (.*)$", re.MULTILINE)
_AGENT = re.compile(r"You are (p[12])\.")

Items = tuple[int, ...]


def taken(text: str, counts: Sequence[int]) -> Items | None:
    """Items that a text takes; None if it has no proposal, or takes more than there is.

    >>> taken("<take> books=1 balls: 2 </take>", (1, 2, 2)), taken("<take>hats=3</take>", (1, 2, 2))
    ((1, 0, 2), None)
    """
    match = _TAKE.search(text)
    if match is None:
        return None
    numbers = {kind: int(number) for kind, number in _ITEM.findall(match[1])}
    items = tuple(numbers.get(kind, 0) for kind in KINDS)
    return items if all(item <= count for item, count in zip(items, counts, strict=True)) else None


def value(items: Sequence[int], values: Sequence[int]) -> float:
    """Worth of items."""
    return float(sum(item * worth for item, worth in zip(items, values, strict=True)))


def best_division(counts: Sequence[int], values: Mapping[str, Sequence[int]]) -> Items:
    """Items of `p1` in the division with the largest sum of values, by enumeration.

    Of several the one whose smaller value is largest, and then the first.
    """

    def worth(items: Items) -> tuple[float, float]:
        others = [count - item for count, item in zip(counts, items, strict=True)]
        both = value(items, values["p1"]), value(others, values["p2"])
        return sum(both), min(both)

    return max(itertools.product(*(range(count + 1) for count in counts)), key=worth)


def best_total(counts: Sequence[int], values: Mapping[str, Sequence[int]]) -> float:
    """Largest sum of both values."""
    items = best_division(counts, values)
    others = [count - item for count, item in zip(counts, items, strict=True)]
    return value(items, values["p1"]) + value(others, values["p2"])


class DealOrNoDealEnv(TextEnv):
    """Deal or no deal; see the module's docstring.

    Args:
        tasks: `sample`, `generated:SEED:COUNT`, or a path; a slice may follow.
        messages: of each agent, before the proposals.
        fresh: True makes each observation stand alone, with the messages of the other agent.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "deal_or_no_deal_v0"}
    competitive = True

    def __init__(
        self,
        tasks: str | Path = "sample",
        messages: int = 2,
        fresh: bool = False,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        self.messages = whole_number("messages", messages, 0, 100)
        self.fresh = fresh
        self.metadata = fresh_metadata(self.metadata, fresh)  # type: ignore[misc]
        fields: Mapping[str, type] = {"counts": list, "p1": list, "p2": list}
        loaded, _ = read_tasks(tasks, _check, sample=generate_deals, fields=fields)
        highest = max(TOTAL, *(worth for task in loaded for agent in AGENTS for worth in task[agent]))
        self._worths = tuple(map(str, range(highest + 1))) if highest < MOST_OPTIONS else ()
        self.max_return = max(best_total(task["counts"], task.data) for task in loaded) / len(AGENTS)
        super().__init__(AGENTS, loaded, render_mode=render_mode, max_length=max_length, source=tasks)
        self.received: dict[str, list[str]] = {agent: [] for agent in AGENTS}

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Describe the items and their worth to both."""
        self.received = {agent: [] for agent in AGENTS}
        speaking = self.messages > 0
        self.first_to_act = AGENTS[:1] if speaking else AGENTS
        return {agent: f"{_opening(agent, task)}{_asked() if speaking else REQUEST}" for agent in AGENTS}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Pass on a message, or make the deal."""
        if self.turn == 2 * self.messages:
            return self._deal(actions)
        speaker, listener = AGENTS if self.turn % 2 == 0 else AGENTS[::-1]
        last = self.turn + 1 == 2 * self.messages
        self.received[listener].append(f"The other: {one_line(actions[speaker][:MESSAGE], MESSAGE)}")
        acting, request = AGENTS if last else (listener,), REQUEST if last else _asked()
        if self.fresh:
            shown = {agent: [_opening(agent, self.task).strip(), *self.received[agent]] for agent in acting}
        else:
            shown = {agent: self.received[agent][-1:] if agent == listener else [] for agent in acting}
        observations = {agent: "\n".join([*lines, request]) for agent, lines in shown.items()}
        parts = {agent: {"deal": 0.0} for agent in AGENTS}
        return StepResult(parts, observations, can_act=acting)

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:  # noqa: ARG002 - known before
        """The worth of each kind of item to the other agent.

        None, if a task of this source has a value over 63.
        """
        other = AGENTS[1 - AGENTS.index(agent)]
        return [
            InferenceQuestion(other, f"How much is a {kind} worth to {other}?", "choice", self._worths, (str(worth),))
            for kind, worth in zip(KINDS, self.task[other], strict=True)
            if self._worths
        ]

    def _deal(self, actions: Mapping[str, str]) -> StepResult:
        counts = self.task["counts"]
        takes = {agent: taken(actions[agent], counts) for agent in AGENTS}
        first, second = takes.values()
        agreed = first is not None and second is not None
        agreed = agreed and [a + b for a, b in zip(first or (), second or (), strict=True)] == list(counts)
        rewards = {agent: value(items or (0, 0, 0), self.task[agent]) * agreed for agent, items in takes.items()}
        gap = rewards["p1"] - rewards["p2"]
        metrics = {
            "agreed": float(agreed),
            "efficiency": sum(rewards.values()) / (best_total(counts, self.task.data) or 1.0),
            "outcome": float((gap > 0) - (gap < 0)),
        }
        return StepResult(
            {agent: {"deal": reward} for agent, reward in rewards.items()},
            {agent: f"{'A deal' if agreed else 'No deal'}: you have {reward:g}." for agent, reward in rewards.items()},
            terminated=True,
            metrics=metrics,
            illegal={agent: int(items is None) for agent, items in takes.items()},
        )


def _opening(agent: str, task: Task) -> str:
    amounts = [f"{count} {kind}{'' if count == 1 else 's'}" for count, kind in zip(task["counts"], KINDS, strict=True)]
    book, hat, ball = task[agent]
    return (
        f"You are {agent}. There are {amounts[0]}, {amounts[1]} and {amounts[2]}. "
        f"To you a book is worth {book}, a hat {hat}, a ball {ball}.\nAgree with the other on who takes what. "
    )


def _asked() -> str:
    return f"Send a message of at most {MESSAGE} characters."


def _check(task: Task) -> None:
    for name in ("counts", "p1", "p2"):
        numbers = task[name]
        if len(numbers) != len(KINDS) or not all(type(n) is int and 0 <= n <= LARGEST for n in numbers):
            raise TaskError(f"task {task.id!r}: {name} must be three whole numbers from 0 to {LARGEST}")
    if not 1 <= sum(task["counts"]) <= 30:
        raise TaskError(f"task {task.id!r}: counts must add up to 1 to 30")


def generate_deals(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows of drawn items and values."""
    rows = []
    for index in range(count):
        draw = random.Random(stable_seed("deal or no deal", seed, index))
        rows.append({"id": f"deal-{seed}-{index}", **_draw_deal(draw)})
    return rows


def _draw_deal(draw: random.Random) -> dict[str, Any]:
    """Draw counts and values until they follow the rules."""
    while True:
        counts = [draw.randint(1, 4) for _ in KINDS]
        if not 5 <= sum(counts) <= 7:
            continue
        valuations = [v for v in itertools.product(range(TOTAL + 1), repeat=len(KINDS)) if value(counts, v) == TOTAL]
        first, second = draw.choice(valuations), draw.choice(valuations)
        if all(map(max, first, second)) and any(map(min, first, second)):
            return {"counts": counts, "p1": list(first), "p2": list(second)}


def deal_reference(conversation: Conversation, _seed: int) -> str:
    """Says its values, and takes its part of the division with the largest sum.

    Without the other's values it takes half of each kind.
    """
    texts = observed(conversation)
    prompt = first_prompt(conversation)
    agent, counts, own = _AGENT.search(prompt), _COUNTS.search(prompt), _WORTH.search(prompt)
    if not texts or not texts[-1] or agent is None or counts is None or own is None:
        return ""
    if REQUEST not in texts[-1]:
        return f"To me a book is worth {own[1]}, a hat {own[2]}, a ball {own[3]}."
    amounts, values = [int(n) for n in counts.groups()], [int(n) for n in own.groups()]
    worth = _WORTH.findall("\n".join(_MESSAGE.findall("\n".join(texts))))
    if not worth or sum(amounts) > 30:
        return propose([amount // 2 for amount in amounts])
    both = dict(zip(AGENTS if agent[1] == "p1" else AGENTS[::-1], (values, [int(n) for n in worth[-1]]), strict=True))
    items = best_division(amounts, both)
    return propose(items if agent[1] == "p1" else [n - item for n, item in zip(amounts, items, strict=True)])


def take_all(conversation: Conversation, _seed: int) -> str:
    """Says nothing, and takes everything."""
    counts = _COUNTS.search(first_prompt(conversation))
    asked = REQUEST in next(reversed(observed(conversation)), "")
    return propose([int(n) for n in counts.groups()]) if counts and asked else ""


def propose(items: Sequence[int]) -> str:
    """The proposal to take these items."""
    return f"<take> {' '.join(f'{kind}s={item}' for kind, item in zip(KINDS, items, strict=True))} </take>"
