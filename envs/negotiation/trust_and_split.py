"""Trust-and-split: rounds of sharing coins that are worth ten times more to one of two.

In each round the agents get different hands of rock, paper and scissors, and see their own only. To the upper hand a
coin is worth 10, to the lower 1. They exchange one message each, and then both say how many of ten coins they keep.
Honest agents who leave all coins to the upper hand earn 50 a round on average; greed earns both 27.5. The task is that
of AdAlignLLM (arXiv 2511.19405).

## Observation

Three turns a round: the starter speaks, then the other, then both propose. The starter alternates, `p1` begins. An
agent observes its hand at its first turn of a round, the other's message, and after the round what was proposed:

    Round 2 of 10. Last round: you had the upper hand; you proposed 10, the other 0; you earned 100.
    Your hand: scissors.
    The other: I have paper.
    Send a message of at most 500 characters.

and `Propose: <coins_to_self> x </coins_to_self>, with x from 0 to 10.`

With `fresh=True` each observation stands alone (`"conversation": "fresh"`): the rules, the own hand, the other's
message of this round, and in place of the number of the round and its report the one thing that an agent remembers:

    When the other last had the lower hand it proposed 10.

## Action

A message is any text, cut at 500 characters. A proposal is the first number from 0 to 10 in `<coins_to_self>` tags; a
text without one proposes 0 and adds 1 to the metric `illegal`.

## Rewards

After the proposals of a round, by agent:

* `coins`: its coins times their worth. If the proposals x and y add up to more than 10, the coins are divided in
  proportion, 10 x / (x + y); else each gets what it proposed.

Both keep to 10: 27.5 on average. Half each: 27.5. All to the upper hand: 50, the maximum: `max_return` is 50 times the
rounds. The metric `efficiency` of the turn is the sum of both rewards over 100; `outcome` of the last turn is 1 if `p1`
has earned more, -1 if `p2` has.

## Termination

After the last round: 3 times `rounds` turns.

## Data

A task has `hands`: for each round two different letters of r, p and s, those of `p1` and `p2`, parted by spaces.
`tasks="sample"` are 64 drawn tasks, `tasks="generated:SEED:COUNT"` others. A file's tasks need `rounds` rounds.

`scripted:reference` says its hand, believes the other, and keeps 10 or 0; `scripted:tit_for_tat` does so too, but keeps
as the lower hand what the other kept when that last had the lower hand. `scripted:honest_greedy` says its hand and
keeps 10, `scripted:greedy` keeps 10 and `scripted:equal` 5 without a message, `scripted:lazy` is silent.

## Version history

* v0: first version.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import Conversation, TaskError, stable_seed
from palaver.envs.base.arguments import fresh_metadata, whole_number
from palaver.envs.base.env import MAX_LENGTH, StepResult, TextEnv
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.scripted import observed
from palaver.envs.base.tasks import Task, read_tasks
from palaver.text import one_line

AGENTS = ("p1", "p2")
COINS, UPPER, LOWER = 10.0, 10.0, 1.0
MESSAGE = 500  # characters
HANDS = {"r": "rock", "p": "paper", "s": "scissors"}
KEPT = tuple(map(str, range(int(COINS) + 1)))  # answers about a proposal; one between them has no question
BEATS = {"r": "s", "p": "r", "s": "p"}
_PROPOSAL = re.compile(r"<coins_to_self>\s{0,20}(\d{1,2}(?:\.\d{1,6})?)\s{0,20}</coins_to_self>")
_HAND = re.compile(r"\b(rock|paper|scissors)\b", re.IGNORECASE)
_OWN, _OTHER = re.compile(r"^Your hand: (\w+)\.$", re.MULTILINE), re.compile(r"^The other: (.*)$", re.MULTILINE)
_LOWER = re.compile(  # the other's proposal as the lower hand: in a report, or where observations stand alone
    r"^(?:Round \d+ of \d+\. Last round: you had the upper hand; you proposed \S+, the other"
    r"|When the other last had the lower hand it proposed) (\d{1,2}(?:\.\d{1,6})?)[;.]",
    re.MULTILINE,
)
REQUEST = "Propose: <coins_to_self> x </coins_to_self>, with x from 0 to 10."


def proposal(text: str) -> float | None:
    """The number of coins that a text keeps; None if it names none from 0 to 10.

    >>> proposal("<coins_to_self> 7 </coins_to_self>"), proposal("<coins_to_self>11</coins_to_self>"), proposal("7")
    (7.0, None, None)
    """
    match = _PROPOSAL.search(text)
    return float(match[1]) if match and float(match[1]) <= COINS else None


def split(first: float, second: float) -> tuple[float, float]:
    """Coins of both: in proportion where more than ten are claimed.

    >>> split(10, 10), split(4, 5), split(10, 0)
    ((5.0, 5.0), (4, 5), (10, 0))
    """
    total = first + second
    return (first, second) if total <= COINS else (COINS * first / total, COINS * second / total)


def worth(pair: str) -> tuple[float, float]:
    """Worth of a coin to both, given their hands.

    >>> worth("rs"), worth("pr"), worth("rp")
    ((10.0, 1.0), (10.0, 1.0), (1.0, 10.0))
    """
    return (UPPER, LOWER) if BEATS[pair[0]] == pair[1] else (LOWER, UPPER)


class TrustAndSplitEnv(TextEnv):
    """Trust-and-split; see the module's docstring.

    Args:
        tasks: `sample`, `generated:SEED:COUNT`, or a path; a slice may follow.
        rounds: in an episode.
        fresh: True makes each observation stand alone, with a memory of the other's last proposal as the lower hand.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "trust_and_split_v0"}
    competitive = True

    def __init__(
        self,
        tasks: str | Path = "sample",
        rounds: int = 10,
        fresh: bool = False,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        self.rounds = whole_number("rounds", rounds, 1, 1000)
        self.fresh = fresh
        self.metadata = fresh_metadata(self.metadata, fresh)  # type: ignore[misc]
        self.max_return = COINS * UPPER / 2 * rounds
        sample = functools.partial(generate_hands, rounds=rounds)
        loaded, _ = read_tasks(tasks, self._check, sample=sample, fields={"hands": str})
        super().__init__(AGENTS, loaded, render_mode=render_mode, max_length=max_length, source=tasks)
        self.hands: list[str] = []
        self.reports, self.received = dict.fromkeys(AGENTS, ""), dict.fromkeys(AGENTS, "")
        self.memories = dict.fromkeys(AGENTS, NO_MEMORY)
        self.totals = dict.fromkeys(AGENTS, 0.0)

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Begin the first round."""
        self.hands = task["hands"].split()
        self.reports, self.totals = dict.fromkeys(AGENTS, ""), dict.fromkeys(AGENTS, 0.0)
        self.memories = dict.fromkeys(AGENTS, NO_MEMORY)
        observations = self._begin(0)
        self.first_to_act = tuple(observations)
        return observations

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Pass on a message, or divide the coins and begin the next round."""
        number, phase = divmod(self.turn, 3)
        if phase == 2:
            return self._divide(number, actions)
        speaker, listener = self._order(number) if phase == 0 else self._order(number)[::-1]
        self.received[listener] = f"The other: {one_line(actions[speaker][:MESSAGE], MESSAGE)}"
        if phase == 0:
            observations = {listener: "\n".join([self._head(number, listener), self.received[listener], _asked()])}
        elif self.fresh:
            observations = {a: "\n".join([self._head(number, a), self.received[a], REQUEST]) for a in AGENTS}
        else:
            observations = {listener: f"{self.received[listener]}\n{REQUEST}", speaker: REQUEST}
        parts = {agent: {"coins": 0.0} for agent in AGENTS}
        return StepResult(parts, observations, can_act=tuple(observations))

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """The other's hand in this round, and with the proposals the coins that it keeps."""
        place = 1 - AGENTS.index(agent)
        other, (number, phase) = AGENTS[place], divmod(self.turn, 3)
        hand = HANDS[self.hands[number][place]]
        asked = [InferenceQuestion(other, f"Which hand has {other}?", "choice", tuple(HANDS.values()), (hand,))]
        if phase == 2:
            kept = f"{claim:g}" if (claim := proposal(actions.get(other, ""))) is not None else ""
            truth = (kept,) if kept in KEPT else None
            asked.append(InferenceQuestion(other, f"How many coins does {other} keep?", "choice", KEPT, truth))
        return asked

    def _divide(self, number: int, actions: Mapping[str, str]) -> StepResult:
        claims = {agent: proposal(actions[agent]) for agent in AGENTS}
        given = [claim or 0.0 for claim in claims.values()]
        rewards = [coins * value for coins, value in zip(split(*given), worth(self.hands[number]), strict=True)]
        for n, agent in enumerate(AGENTS):
            self.totals[agent] += rewards[n]
            level = "upper" if worth(self.hands[number])[n] == UPPER else "lower"
            if level == "upper":
                self.memories[agent] = f"When the other last had the lower hand it proposed {given[1 - n]:g}."
            self.reports[agent] = (
                f"Last round: you had the {level} hand; you proposed {given[n]:g}, the other {given[1 - n]:g}; "
                f"you earned {rewards[n]:g}."
            )
        over = number + 1 == self.rounds
        gap = self.totals["p1"] - self.totals["p2"]
        outcome = {"outcome": float((gap > 1e-9) - (gap < -1e-9))} if over else {}
        observations = self.reports if over else self._begin(number + 1)
        return StepResult(
            {agent: {"coins": reward} for agent, reward in zip(AGENTS, rewards, strict=True)},
            dict(observations),
            terminated=over,
            metrics={"efficiency": sum(rewards) / (COINS * UPPER), **outcome},
            illegal={agent: int(claim is None) for agent, claim in claims.items()},
            can_act=tuple(observations),
        )

    def _begin(self, number: int) -> dict[str, str]:
        """Observation of the agent that speaks first in a round."""
        starter = self._order(number)[0]
        return {starter: f"{self._head(number, starter)}\n{_asked()}"}

    def _order(self, number: int) -> tuple[str, ...]:
        return AGENTS if number % 2 == 0 else AGENTS[::-1]

    def _head(self, number: int, agent: str) -> str:
        """Round, report of the last one, and the agent's hand; before the first round the rules.

        If observations stand alone, always the rules, and the memory in place of round and report.
        """
        rules = [f"You are {agent}. {RULES}"] if number == 0 or self.fresh else []
        begun = f"Round {number + 1} of {self.rounds}. {self.reports[agent]}".strip()
        if self.fresh:
            begun = self.memories[agent]
        return "\n".join([*rules, begun, f"Your hand: {HANDS[self.hands[number][AGENTS.index(agent)]]}."])

    def _check(self, task: Task) -> None:
        pairs = task["hands"].split()
        if len(pairs) != self.rounds or any(len(p) != 2 or len(set(p)) < 2 or set(p) - HANDS.keys() for p in pairs):
            raise TaskError(f"task {task.id!r}: hands must be {self.rounds} pairs of different letters of r, p and s")


RULES = (
    "Ten coins are divided in each round. Rock beats scissors, scissors beat paper, paper beats rock; to the upper "
    "hand a coin is worth 10, to the lower 1. If both keep more than ten together, the coins are divided in proportion."
)
NO_MEMORY = "The other has not had the lower hand yet."


def _asked() -> str:
    return f"Send a message of at most {MESSAGE} characters."


def generate_hands(count: int, seed: int, *, rounds: int) -> list[dict[str, str]]:
    """Rows of drawn hands, without replacement in each round."""
    rows = []
    for index in range(count):
        draw = random.Random(stable_seed("trust and split", seed, rounds, index))
        hands = " ".join("".join(draw.sample("rps", 2)) for _ in range(rounds))
        rows.append({"id": f"hands-{seed}-{index}", "hands": hands})
    return rows


def split_reference(conversation: Conversation, _seed: int) -> str:
    """Says its hand, believes the other, and keeps all coins as the upper hand, else none.

    Five, if the other named no hand.
    """
    return _honest(observed(conversation), lower=0)


def tit_for_tat(conversation: Conversation, _seed: int) -> str:
    """Says its hand, believes the other, and keeps all coins as the upper hand.

    As the lower hand it keeps what the other kept when that last had the lower hand, at first none. If the other named
    no hand, so much too, but at least five.
    """
    texts = observed(conversation)
    kept = _LOWER.findall("\n".join(texts))
    return _honest(texts, lower=float(kept[-1]) if kept else 0)


def honest_greedy(conversation: Conversation, _seed: int) -> str:
    """Says its hand, and keeps ten coins."""
    texts = observed(conversation)
    return propose(10) if REQUEST in next(reversed(texts), "") else _honest(texts, lower=10)


def greedy(conversation: Conversation, _seed: int) -> str:
    """Says nothing, and keeps ten coins."""
    return propose(10) if REQUEST in next(reversed(observed(conversation)), "") else ""


def equal(conversation: Conversation, _seed: int) -> str:
    """Says nothing, and keeps five coins."""
    return propose(5) if REQUEST in next(reversed(observed(conversation)), "") else ""


def _honest(texts: Sequence[str], lower: float) -> str:
    """The own hand, or the proposal of one who keeps so many coins as the lower hand."""
    hands = _OWN.findall("\n".join(texts))
    if not hands or not texts[-1]:
        return ""
    if REQUEST not in texts[-1]:
        return tell(hands[-1])
    hint = _HAND.search((_OTHER.findall("\n".join(texts)) or [""])[-1])
    if hint is None or hint[1].lower() == hands[-1]:
        return propose(max(5, lower))
    return propose(10 if BEATS[hands[-1][0]] == hint[1][0].lower() else lower)


def tell(hand: str) -> str:
    """The message that states a hand."""
    return f"I have {hand}."


def propose(coins: float) -> str:
    """The proposal to keep so many coins.

    >>> propose(10), propose(2.5)
    ('<coins_to_self> 10 </coins_to_self>', '<coins_to_self> 2.5 </coins_to_self>')
    """
    return f"<coins_to_self> {coins:g} </coins_to_self>"
