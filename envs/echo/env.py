"""Players repeat words that depend on others' words: a toy for turns, trees and discounts.

The players `a1`, `a2`, ... form a ring, and each is given a word of the task. In every turn each writes a text. Then it
is given the first word that its neighbour (the next player; after the last one the first) has just written, or its own
word of the task again if the neighbour wrote none. So the words of a turn depend on the texts of the turn before.

## Observation

At the start the rules and a word; after each turn but the last `The word is: WORD`.

## Action

Any text. Words are runs of letters, digits and underscores, compared in lower case by their first 24 characters.
Silence is an empty text. Bytes are decoded, lone surrogates become `?`, anything that is no text counts as empty; each
of these, and a text that was cut at `max_length`, adds to the metric `illegal`.

## Rewards

In each turn a player earns

* `echo`: 1 if the word it was given is among its words;
* `brevity`: 0.5 if it is its only word.

With `shared=True` every player receives the mean reward, component by component; with `shared=False` each its own. The
maximum is 1.5 a turn.

Metrics that are no reward: `words`, the mean number of words in a text, and `illegal`.

## Termination

After `num_turns` turns.

## Data

`tasks="sample"` are lists of words written for this project. A file needs `words`, a text of at least as many words as
there are players, parted by spaces; `id` names a task.

## Version history

* v0: first version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import Conversation, TaskError
from palaver.envs.base.arguments import truth, whole_number
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.writing.text import words

LARGEST = 1_000_000  # value of `agents` and of `num_turns`
LONGEST = 24  # characters of a word that is passed on
SAMPLE = Path(__file__).with_name("sample.jsonl")
_GIVEN = re.compile(r"The word is: (\w+)$")


class EchoEnv(TextEnv):
    """Environment in which players repeat given words; see the module's docstring for the rules.

    Args:
        tasks: `sample`, or a path; a slice may follow.
        agents: number of players.
        num_turns: number of turns.
        shared: True gives all players the mean reward, False each its own.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
        TaskError: tasks that cannot be read, or with fewer words than players.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "echo_v0"}

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 2,
        num_turns: int = 3,
        shared: bool = True,
        render_mode: str | None = None,
        max_length: int = 1024,
    ) -> None:
        super().__init__(
            [f"a{n}" for n in range(1, whole_number("agents", agents, 1, LARGEST) + 1)],
            load(tasks, agents),
            render_mode=render_mode,
            max_length=max_length,
            source=tasks,
        )
        self.num_turns = whole_number("num_turns", num_turns, 1, LARGEST)
        self.max_return = 1.5 * num_turns
        self.shared = truth("shared", shared)
        self.targets: dict[str, str] = {}

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Give every player its own word."""
        self.targets = self._own_words(task)
        return {agent: opening(word, self.num_turns) for agent, word in self.targets.items()}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Reward the texts and give each player its next word."""
        rewards = {agent: judge(self.targets[agent], text) for agent, text in actions.items()}
        if self.shared:
            rewards = dict.fromkeys(rewards, _mean_components(list(rewards.values())))
        own_words = self._own_words(self.task)
        neighbours = zip(self.agents, [*self.agents[1:], self.agents[0]], strict=True)
        self.targets = {agent: next_target(actions[neighbour], own_words[agent]) for agent, neighbour in neighbours}
        terminated = self.turn + 1 >= self.num_turns
        return StepResult(
            rewards,
            observations={} if terminated else {agent: feedback(word) for agent, word in self.targets.items()},
            terminated=terminated,
            metrics={"words": sum(len(words(text)) for text in actions.values()) / len(actions)},
        )

    def _own_words(self, task: Task) -> dict[str, str]:
        """Agent -> its word of the task."""
        return dict(zip(self.possible_agents, map(first_word, task["words"].split()), strict=False))


def _mean_components(rewards: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(components[name] for components in rewards) / len(rewards) for name in rewards[0]}


def first_word(text: str) -> str:
    """The first word of a text, lower case and cut at 24 characters; "" if it has none.

    >>> first_word("- Amber, please"), first_word("...")
    ('amber', '')
    """
    return next(iter(words(text)), "")[:LONGEST]


def judge(target: str, text: str) -> dict[str, float]:
    """Reward components of one text: `echo` and `brevity`.

    `echo` is 1 if the target is one of its words, `brevity` 0.5 if it is the only one.

    >>> judge("amber", "Amber!"), judge("amber", "the amber one"), judge("amber", "ambers")
    ({'echo': 1.0, 'brevity': 0.5}, {'echo': 1.0, 'brevity': 0.0}, {'echo': 0.0, 'brevity': 0.0})
    """
    spoken_words = [word[:LONGEST] for word in words(text)]
    return {"echo": float(target in spoken_words), "brevity": 0.5 * float(spoken_words == [target])}


def next_target(text: str, own_word: str) -> str:
    """Next target of an agent: the first word of its neighbour's text.

    After silence it is the agent's own word.
    """
    return first_word(text) or own_word


def opening(word: str, turns: int) -> str:
    """The rules and the first word."""
    return (
        f"For {turns} turns, answer with the word you are given and with nothing else. "
        f"Later words are the first ones that your neighbour says.\nThe word is: {word}"
    )


def feedback(word: str) -> str:
    """The next word."""
    return f"The word is: {word}"


def load(source: str | Path, agents: int) -> tuple[Task, ...]:
    """Tasks with `words`, a text of words parted by spaces, one for each agent in order.

    `id` names a task.

    Raises:
        TaskError: see `palaver.envs.base.tasks.load_tasks`.
    """

    def check(task: Task) -> None:
        words = task["words"].split()
        if len(words) < agents or not all(map(first_word, words)):
            raise TaskError(f"task {task.id!r}: the field 'words' needs a word for each of {agents} players")

    return read_tasks(source, check, sample=SAMPLE, fields={"words": str})[0]


def reference(conversation: Conversation, _seed: int) -> str:
    """The word of the last message that gives one; "" if none does."""
    for message in reversed(conversation):
        if message.role != "assistant" and (match := _GIVEN.search(message.content)):
            return match[1]
    return ""
