"""Hidden profiles: a group decides well only if its members share what each alone knows.

Everyone has some facts in common, which favour a decoy, and one fact of its own. Only all facts together show the right
answer, so who decides by its own facts is wrong. The task is that of HiddenBench (arXiv 2505.11556), where groups of
large models are right in 30.1 % of the tasks, and one model with all facts in 80.7 %.

## Observation

At first the description, the options, the agent's facts in a drawn order, and the request of a vote:

    You are p1. A team has to choose a site for its new office: the one with most points in its favour.
    Options: Ashford, Brighton, Carlisle, Exeter.
    Fact 1: Exeter is modern.
    Fact 2: Ashford is popular.
    ...
    Vote for one option.

Then `rounds` rounds of messages, in which all speak at the same time; an observation holds the others' messages of the
round before, cut at 400 characters:

    p2: Exeter is famous, I hear.
    p3: I am for Ashford.
    Round 2 of 2. Say in one or two sentences what the others should know.

And at last those of the last round and the request of the final vote. With `form="tiny"` the same in few words, for the
tiny model. With `profile="full"` one agent, `solver`, has all facts and votes once: the upper bound.

In the paper's protocol the first round is spoken in sequence and there are 15 rounds; here all rounds are simultaneous.

## Action

When votes are asked for, any text: a JSON object with `vote`, or the first option that occurs in it as whole words. A
text that names no option is no vote, counts as wrong, and adds 1 to the metric `illegal`. In the rounds any text is a
message.

## Rewards

At the final vote, by agent:

* `majority`: 1 if more than half of the final votes are right, the same for all;
* `own`: 1 if the agent's own final vote is right;

and after each message

* `words`: minus `cost` for each of its words, 0 by default.

Metrics of the last turn: `initial` and `final`, the shares of right votes at the first and at the final vote;
`majority`; `mentioned`, the share of hidden facts that occur word for word in a message; `unanimous`, 1 if all final
votes are equal; `decoy`, the share of final votes for the decoy, where a task names it.

## Termination

After the final vote: `rounds` + 2 turns; one turn with `profile="full"`.

## Data

Rows in the schema of HiddenBench: `name`, `description`, `shared_information` and `hidden_information` (lists of texts;
one hidden fact for each participant), `possible_answers`, `correct_answer`, and optionally `decoy`. With
`profile="hidden"` tasks with another number of hidden facts than `agents` are left out.

`tasks="sample"` are 64 generated tasks, `tasks="generated:SEED:COUNT"` others, whose sets of options are none of the
sample's, so that a team can be trained on them. A generated fact is a point for an option; in the tiny form it is one
word, as `CalmAmber`. The generator proves four rules for every task, by enumeration of all sets of hidden facts: the
shared facts favour a decoy; with any one hidden fact they still do; all facts favour one answer; no hidden fact can be
left out. In each agent's own view the right answer has as many points as the other options but the decoy, so that
without messages a vote is right by chance at best: one in two in the tiny form, which has three options, one in three
else.

`scripted:reference` says all its facts and votes for most points among those that it has read: it is always right.
`scripted:alone` says nothing that helps and votes by its own facts: it is never right. `scripted:lazy` is silent. The
tiny model says its facts, two in a message, and votes by chance after notes of what it has read, which tell the facts
that it had not itself (`read DryAmber own, NearBirch fresh B, CalmAmber own, FastBirch fresh B; fresh B: vote amber.`);
its texts are of no task.

## Version history

* v0: first version.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from palaver.core import ConfigError, TaskError
from palaver.envs.base.arguments import choice, whole_number
from palaver.envs.base.env import MAX_LENGTH, StepResult, TextEnv
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.hidden_profile import prompts
from palaver.envs.hidden_profile.generate import generate
from palaver.envs.hidden_profile.reward import has_majority, mentioned, vote_of, vote_rewards

FIELDS: Mapping[str, type] = {
    "description": str,
    "shared_information": list,
    "hidden_information": list,
    "possible_answers": list,
    "correct_answer": str,
}
FEWEST, LARGEST = 3, 16  # participants


@dataclass(frozen=True, slots=True)
class Discussion:
    """First votes, and all messages so far."""

    initial: Mapping[str, str | None] = field(default_factory=dict)
    messages: tuple[str, ...] = ()


class HiddenProfileEnv(TextEnv):
    """Hidden profiles; see the module's docstring.

    Args:
        tasks: `sample`, `generated:SEED:COUNT`, a path or an `hf:` name; a slice may follow.
        agents: number of participants.
        rounds: of messages, 0 or more.
        form: `text`, or `tiny` for prompts and generated tasks in few words.
        profile: `hidden`, or `full` for one agent that has all facts.
        cost: of a word of a message.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "hidden_profile_v0"}
    max_return = 2.0

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 3,
        rounds: int = 2,
        form: Literal["text", "tiny"] = "text",
        profile: Literal["hidden", "full"] = "hidden",
        cost: float = 0.0,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        whole_number("agents", agents, FEWEST, LARGEST)
        self.rounds = whole_number("rounds", rounds, 0, 1000)
        choice("form", form, ("text", "tiny"))
        choice("profile", profile, ("hidden", "full"))
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= 1:
            raise ConfigError(f"cost must be a number from 0 to 1, got {cost!r:.40}")
        self.form, self.whole_profile, self.cost = form, profile == "full", float(cost)
        read = functools.partial(_check, participants=None if self.whole_profile else agents)
        sample = functools.partial(generate, participants=agents, tiny=form == "tiny")
        loaded, _ = read_tasks(tasks, read, sample=sample, fields=FIELDS, id_field="name")
        names = ["solver"] if self.whole_profile else [f"p{n}" for n in range(1, agents + 1)]
        super().__init__(names, loaded, render_mode=render_mode, max_length=max_length, source=tasks)
        self.discussion = Discussion()

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Give all agents their facts, in an order of their own."""
        self.discussion = Discussion()
        observations = {}
        for n, agent in enumerate(self.agents):
            hidden = task["hidden_information"]
            facts = [*task["shared_information"], *(hidden if self.whole_profile else [hidden[n]])]
            self.rng.shuffle(facts)
            observations[agent] = prompts.opening(agent, task.data, facts, tiny=self.form == "tiny")
        return observations

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:  # noqa: ARG002 - known before
        """At the final vote, the fact that each other agent alone was given, by its words."""
        if self.whole_profile or self.turn != self.rounds + 1:
            return []
        facts = dict(zip(self.possible_agents, self.task["hidden_information"], strict=True))
        return [fact_question(other, fact) for other, fact in facts.items() if other != agent]

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Take votes at the first and the last turn, and messages between them."""
        final = self.whole_profile or self.turn == self.rounds + 1
        if not (final or self.turn == 0):
            return self._messages(actions)
        votes = {agent: vote_of(text, self.task["possible_answers"]) for agent, text in actions.items()}
        parts = {agent: {"majority": 0.0, "own": 0.0} for agent in actions}
        if self.turn == 0:
            self.discussion = Discussion(votes)
        metrics: Mapping[str, float] = {}
        if final:
            parts, metrics = vote_rewards(votes, self.task["correct_answer"]), self._measured(votes)
        return StepResult(
            {agent: {**parts[agent], "words": 0.0} for agent in actions},
            {} if final else dict.fromkeys(actions, self._request()),
            terminated=final,
            metrics=metrics,
            illegal={agent: int(vote is None) for agent, vote in votes.items()},
        )

    def _messages(self, actions: Mapping[str, str]) -> StepResult:
        self.discussion = Discussion(self.discussion.initial, (*self.discussion.messages, *actions.values()))
        observations = {
            agent: f"{prompts.messages({a: text for a, text in actions.items() if a != agent})}\n{self._request()}"
            for agent in actions
        }
        costs = {agent: -self.cost * len(text.split()) + 0.0 for agent, text in actions.items()}
        parts = {agent: {"majority": 0.0, "own": 0.0, "words": words} for agent, words in costs.items()}
        return StepResult(parts, observations, illegal=dict.fromkeys(actions, 0))

    def _request(self) -> str:
        """The request of the next turn."""
        return prompts.request(self.turn + 1, self.rounds, tiny=self.form == "tiny")

    def _measured(self, votes: Mapping[str, str | None]) -> dict[str, float]:
        """Measurements of a finished episode."""
        right, decoy, given = self.task["correct_answer"], self.task.data.get("decoy"), list(votes.values())
        initial = list(self.discussion.initial.values())
        return {
            "initial": initial.count(right) / len(initial),
            "final": given.count(right) / len(given),
            "majority": float(has_majority(given, right)),
            "mentioned": mentioned(self.task["hidden_information"], self.discussion.messages),
            "unanimous": float(len(set(given)) == 1),
            "decoy": given.count(decoy) / len(given) if decoy else 0.0,
        }


def fact_question(agent: str, fact: str) -> InferenceQuestion:
    """The question about the fact that an agent alone was given."""
    return InferenceQuestion(agent, f"Which fact has {agent} alone?", "slots", (), (fact,))


def _check(task: Task, participants: int | None) -> None:
    """Refuse a row that is no hidden profile of so many participants.

    Raises:
        TaskError: its lists hold no texts, its answer is none of the possible ones, or the number is another.
    """
    for name in ("shared_information", "hidden_information", "possible_answers"):
        if not task[name] or not all(isinstance(text, str) and text.strip() for text in task[name]):
            raise TaskError(f"task {task.id!r}: the field {name!r} must be a list of texts")
    if task["correct_answer"] not in task["possible_answers"]:
        raise TaskError(f"task {task.id!r}: the correct answer is none of the possible ones")
    count = len(task["hidden_information"])
    if participants is not None and count != participants:
        raise TaskError(f"task {task.id!r} is for {count} participants; set agents={count}")
