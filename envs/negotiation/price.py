"""Negotiation of a price in free text, whose agreement is decided by numbers alone.

The seller has a cost and the buyer a value, and neither knows the other's. What they say is free; whether they agree is
decided by the numbers in their messages alone.

## Observation

    You are the buyer. The item is worth 74 to you; the seller has a cost that you do not know.
    Offer a price as <price> 50 </price>. You agree by naming the price that the other has named last. You may ...

Then the other's message, when it is the agent's turn. The seller speaks first, and the agents alternate.

With `fresh=True` each observation stands alone (`"conversation": "fresh"`): the text above, and in place of the other's
messages their offers alone, so that a text may hold what the other is not to know:

    This is your message 2 of 6. Your last offer: 40. The last offer of the seller: 64.

## Action

Any text, cut at 500 characters. Its offer is the last number from 0 to 1000 in `<price>` tags; a message without one
keeps the agent's former offer. The agents agree as soon as a message offers the price of the other's last offer.

## Rewards

At the end, by agent, if they agree:

* `gain`: price less cost for the seller, value less price for the buyer, in hundredths; negative, if the price is a bad
  one. Else 0.

Metrics of the last turn: `agreed`; `price`; `efficiency`, the sum of both gains over the value less the cost, where
that is positive; `outcome`, 1 if the seller has gained more, -1 if the buyer has. Nothing is illegal but what is no
text.

## Termination

With an agreement, or after `messages` messages of each.

## Data

A task has `cost` and `value`, whole numbers from 0 to 1000. `tasks="sample"` are 64 drawn tasks with a cost from 10 to
60 and a value that is 10 to 40 more; `tasks="generated:SEED:COUNT"` are others. In one of eight the value is below the
cost, so that no agreement is best.

`scripted:reference` begins 30 from its limit, concedes in equal steps, and accepts what is within its next offer;
`scripted:stubborn` begins there and never moves, `scripted:lazy` is silent.

## Version history

* v0: first version.
"""

from __future__ import annotations

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
from palaver.envs.negotiation.trust_and_split import MESSAGE
from palaver.text import one_line

ROLES = ("seller", "buyer")
HIGHEST = 1000
SCALE = 100.0
SIGNS = {"seller": 1, "buyer": -1}  # of a price in the gain of a role
MARGIN = 30  # between the first offer of a scripted agent and its limit
_PRICE = re.compile(r"<price>\s{0,20}(\d{1,4}(?:\.\d{1,2})?)\s{0,20}</price>")
_OFFERS = re.compile(
    r"^This is your message (\d{1,3}) of \d+\. Your last offer: \S+\. "
    r"The last offer of the \w+: (none|\d{1,4}(?:\.\d{1,2})?)\.$",
    re.MULTILINE,
)
_LIMIT = re.compile(r"You are the (seller|buyer)\. .*?(\d+) to you; .*? You may send (\d+) messages", re.DOTALL)


def offer(text: str) -> float | None:
    """The price that a text offers; None if it offers none.

    >>> offer("not <price>30</price> but <price> 41.5 </price>"), offer("41"), offer("<price>1001</price>")
    (41.5, None, None)
    """
    prices = [float(price) for price in _PRICE.findall(text) if float(price) <= HIGHEST]
    return prices[-1] if prices else None


def propose(price: int | str) -> str:
    """The offer of a price."""
    return f"<price> {price} </price>"


def ask(role: str, limit: int, gain: int) -> int:
    """The price at which a role gains so much, within the range of offers.

    >>> ask("seller", 30, 10), ask("buyer", 30, 10), ask("buyer", 5, 10)
    (40, 20, 0)
    """
    return min(max(limit + SIGNS[role] * gain, 0), HIGHEST)


def gains(price: float, cost: float, worth: float) -> dict[str, float]:
    """Rewards of both for a price.

    >>> gains(50, 30, 80)
    {'seller': 0.2, 'buyer': 0.3}
    """
    return {"seller": (price - cost) / SCALE, "buyer": (worth - price) / SCALE}


class NegotiationEnv(TextEnv):
    """Negotiation of a price; see the module's docstring.

    Args:
        tasks: `sample`, `generated:SEED:COUNT`, or a path; a slice may follow.
        messages: most messages of each agent.
        fresh: True makes each observation stand alone, with the last offers and no other text.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "negotiation_v0"}
    competitive = True

    def __init__(
        self,
        tasks: str | Path = "sample",
        messages: int = 6,
        fresh: bool = False,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        self.messages = whole_number("messages", messages, 1, 100)
        self.fresh = fresh
        self.metadata = fresh_metadata(self.metadata, fresh)  # type: ignore[misc]
        loaded, _ = read_tasks(tasks, _check, sample=generate_prices, fields={"cost": int, "value": int})
        highest = max(task[name] for task in loaded for name in ("cost", "value"))
        self._width = 10 if highest < 10 * MOST_OPTIONS else 20
        starts = range(0, max(highest, self._width) + 1, self._width)
        self._ranges = tuple(f"{low}-{low + self._width - 1}" for low in starts)
        self.max_return = max(max(task["value"] - task["cost"], 0) for task in loaded) / SCALE / len(ROLES)
        super().__init__(ROLES, loaded, render_mode=render_mode, max_length=max_length, source=tasks)
        self.offers: dict[str, float | None] = dict.fromkeys(ROLES)

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Give both their limits."""
        self.offers = dict.fromkeys(ROLES)
        self.first_to_act = ROLES[:1]
        begun = {role: _opening(role, task, self.messages) for role in ROLES}
        return {role: f"{text}\n{self._offers(role, 1)}" if self.fresh else text for role, text in begun.items()}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Pass on a message; end with an agreement or the last message."""
        speaker, listener = ROLES if self.turn % 2 == 0 else ROLES[::-1]
        text = actions[speaker][:MESSAGE]
        named = offer(text)
        agreed = named is not None and named == self.offers[listener]
        if named is not None:
            self.offers = {**self.offers, speaker: named}
        over = agreed or self.turn + 1 == 2 * self.messages
        rewards = gains(named, self.task["cost"], self.task["value"]) if agreed and named is not None else {}
        surplus, gap = self.task["value"] - self.task["cost"], rewards.get("seller", 0.0) - rewards.get("buyer", 0.0)
        metrics = {
            "agreed": float(agreed),
            "price": float(named or 0.0) if agreed else 0.0,
            "efficiency": sum(rewards.values()) * SCALE / surplus if surplus > 0 else 0.0,
            "outcome": float((gap > 1e-9) - (gap < -1e-9)),
        }
        shown = f"The {speaker}: {one_line(text, MESSAGE)}"
        if self.fresh:
            opening, number = _opening(listener, self.task, self.messages), (self.turn + 1) // 2 + 1
            shown = self._offers(listener) if over else f"{opening}\n{self._offers(listener, number)}"
        return StepResult(
            {role: {"gain": rewards.get(role, 0.0)} for role in ROLES},
            {listener: shown},
            terminated=over,
            metrics=metrics if over else {},
            can_act=(listener,),
        )

    def _offers(self, role: str, number: int | None = None) -> str:
        """Number of the agent's message if it is to send one, and the last offers."""
        other = ROLES[1 - ROLES.index(role)]
        shown = {name: "none" if price is None else f"{price:g}" for name, price in self.offers.items()}
        begun = f"This is your message {number} of {self.messages}. " if number else ""
        return f"{begun}Your last offer: {shown[role]}. The last offer of the {other}: {shown[other]}."

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:  # noqa: ARG002 - known before
        """The range of the other's cost or value.

        It is ten wide, or twenty where a task of this source has a number of 640 or more.
        """
        other = ROLES[1 - ROLES.index(agent)]
        name = {"seller": "cost", "buyer": "value"}[other]
        held = self._ranges[self.task[name] // self._width]
        return [InferenceQuestion(other, f"Which is the {name} of the {other}?", "choice", self._ranges, (held,))]


def _opening(role: str, task: Task, messages: int) -> str:
    limits = {
        "seller": f"The item costs {task['cost']} to you; the buyer has a value that you do not know.",
        "buyer": f"The item is worth {task['value']} to you; the seller has a cost that you do not know.",
    }
    return (
        f"You are the {role}. {limits[role]}\nOffer a price as <price> 50 </price>. You agree by naming the price that "
        f"the other has named last. You may send {messages} messages."
    )


def _check(task: Task) -> None:
    for name in ("cost", "value"):
        if isinstance(task[name], bool) or not 0 <= task[name] <= HIGHEST:
            raise TaskError(f"task {task.id!r}: {name} must be a whole number from 0 to {HIGHEST}")


def generate_prices(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows of drawn costs and values."""
    rows = []
    for index in range(count):
        draw = random.Random(stable_seed("negotiation", seed, index))
        cost, surplus = draw.randint(10, 60), draw.randint(10, 40)
        rows.append(
            {"id": f"price-{seed}-{index}", "cost": cost, "value": cost + (surplus if draw.randrange(8) else -9)}
        )
    return rows


def concede(conversation: Conversation, _seed: int) -> str:
    """Begins `MARGIN` from its limit, concedes in equal steps, and accepts its next offer."""
    role, limit, messages, index, latest = _position(conversation)
    if not role:
        return ""
    price = ask(role, limit, MARGIN - MARGIN * index // max(1, messages - 1))
    if latest is not None and SIGNS[role] * (latest - price) >= 0:
        return f"I accept {propose(f'{latest:g}')}."
    return f"I offer {propose(price)}."


def stubborn_price(conversation: Conversation, _seed: int) -> str:
    """Always the first offer of `concede`, which also accepts nothing worse."""
    role, limit, _, _, latest = _position(conversation)
    if not role:
        return ""
    price = ask(role, limit, MARGIN)
    named = latest if latest is not None and SIGNS[role] * (latest - price) >= 0 else price
    return f"I offer {propose(f'{named:g}')}."


def _position(conversation: Conversation) -> tuple[str, int, int, int, float | None]:
    """Role, limit, messages, the own messages so far, and the other's last offer."""
    match = _LIMIT.search(first_prompt(conversation))
    if match is None:
        return "", 0, 0, 0, None
    alone = _OFFERS.search(next(reversed(observed(conversation)), ""))
    if alone:
        latest = None if alone[2] == "none" else float(alone[2])
        return match[1], min(int(match[2]), HIGHEST), int(match[3]), int(alone[1]) - 1, latest
    sent = sum(message.role == "assistant" and bool(message.content) for message in conversation)
    prices = [price for text in observed(conversation)[1:] if (price := offer(text)) is not None]
    return match[1], min(int(match[2]), HIGHEST), int(match[3]), sent, prices[-1] if prices else None
