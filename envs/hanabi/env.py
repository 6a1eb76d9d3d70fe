"""Hanabi: players see all cards but their own, and build fireworks from hints.

The card game of A. Bauza (2010), a benchmark of cooperation with hidden information (N. Bard et al., The Hanabi
challenge, 2020): five colours of cards 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, eight information tokens, three lives.

| `form` | cards | hand | tokens | lives | most points |
|---|---|---|---|---|---|
| `full` | 5 colours, ranks 1 to 5 | 5 of 2 or 3 players, 4 of 4 or 5 | 8 | 3 | 25 |
| `small` | 2 colours, ranks 1 to 5 | 2 | 3 | 1 | 10 |
| `mini` | 2 colours, ranks 1, 1, 1, 2, 2 | 2, 2 players | 3 | 1 | 4 |

## Observation

Player to act only. Each observation stands alone (`"conversation": "fresh"`). Of its own cards a player knows what
hints leave open, colours and ranks, `?` for all; the same is shown behind the others' cards:

    Hanabi. You are p1. Together build a firework of each colour, of ranks 1 to 2 in order. You do not see your ...
    Fireworks: red 1, blue 0.
    Tokens: 2 of 3. Lives: 1. Cards in the deck: 5.
    Discarded: none.
    Your cards: 1 ?/2, 2 ?/?.
    p2 holds: 1 blue 1 (?/?), 2 red 1 (red/?).
    Since your last turn: p2 hint p1 2.
    Actions: play 1, play 2, discard 1, discard 2, hint p2 red, hint p2 blue, hint p2 1.

## Action

Any text; the first legal action that occurs in it as whole words counts. A hint marks all cards of a colour or a rank,
at least one. A discard gives a token back, and is not legal with all tokens. For a text that names no legal action one
is drawn, all equally likely; it costs the agent `penalty` and adds 1 to the metric `illegal`.

## Rewards

By agent:

* `points`: 1 to everyone for each card that is played rightly;
* `lost`: with `strict=True`, minus all points when the last life is lost, so that the return is the score of the strict
  rules; else 0;
* `illegal`: minus `penalty`.

Metrics of the last turn: `score`, the sum of the fireworks (the lenient score); `strict`, 0 if all lives are lost, else
the same; `lives`; `hints`, the number of hints.

## Termination

With all points, without lives, or after one more turn of each player when the deck is empty. `turns` cuts an episode.

## Data

A task has `deck`: the cards in order, as `r1 b2 ...`: the players' hands, one after the other, then the pile.
`tasks="sample"` are 64 drawn decks, `tasks="generated:SEED:COUNT"` others.

Scripted players: `scripted:reference` plays a card that is certain; takes the first card that a hint marks for
playable; gives such hints; else discards its oldest card. `scripted:last_marked` has the other convention: the last
marked card is meant. `scripted:certain` takes hints at their word and plays only what is certain. `scripted:uniform`
draws a legal action, `scripted:lazy` is silent. The tiny model, for `form="mini"`, restates what it knows, which own
cards are playable by that, and which of the other's are, and names any legal action after the words of its cards:
`red 1, blue 0; own 1 any 2 maybe, 2 any any maybe; sees 1 blue 1 on 0 next any 1, 2 red 1 on 1 past any any; so hinted
1 maybe 2, blue 1 ready, red 1 past: hinted 1 play 1.`

## Version history

* v0: first version.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from palaver.core import ConfigError, TaskError
from palaver.envs.base.arguments import choice, truth, whole_number
from palaver.envs.base.env import MAX_LENGTH, StepResult, TextEnv
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.hanabi import prompts, rules
from palaver.envs.hanabi.rules import FORMS, Card, HanabiForm
from palaver.envs.matrix.rules import action_index

TURNS = 120  # no game of five players is as long


class HanabiEnv(TextEnv):
    """Hanabi; see the module's docstring.

    Args:
        tasks: `sample`, `generated:SEED:COUNT`, or a path; a slice may follow.
        form: `full`, `small` or `mini`.
        agents: number of players.
        strict: True takes all points back when the last life is lost.
        penalty: cost of an illegal answer, 0 or more.
        turns: most turns of an episode, which is then truncated.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "hanabi_v0", "conversation": "fresh"}
    shared_prompt_turns = (0,)

    def __init__(
        self,
        tasks: str | Path = "sample",
        form: Literal["full", "small", "mini"] = "full",
        agents: int = 2,
        strict: bool = False,
        penalty: float = 1.0,
        turns: int = TURNS,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        self.form = FORMS[choice("form", form, tuple(FORMS))]
        whole_number("agents", agents, 2, max(self.form.hand))
        self.strict, self.num_turns = truth("strict", strict), whole_number("turns", turns, 1, 10_000)
        if isinstance(penalty, bool) or not isinstance(penalty, int | float) or not 0 <= penalty <= 1e6:
            raise ConfigError(f"penalty must be a number of 0 or more, got {penalty!r:.40}")
        self.penalty, self.max_return = float(penalty), float(self.form.points())
        sample = functools.partial(generate_decks, form=self.form)
        loaded, self.decks = read_tasks(tasks, self._read, sample=sample, fields={"deck": str})
        names = [f"p{n}" for n in range(1, agents + 1)]
        super().__init__(names, loaded, render_mode=render_mode, max_length=max_length, source=tasks)
        self.game = rules.deal(self.form, self.decks[self.tasks[0].id], agents)
        self.moves: tuple[str, ...] = ()

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Deal the hands."""
        self.game, self.moves = rules.deal(self.form, self.decks[task.id], len(self.agents)), ()
        observations = self._prompts()
        self.first_to_act = tuple(observations)
        return observations

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Make the move of the player whose turn it is."""
        agent = self.agents[self.game.mover()]
        legal = rules.legal_actions(self.game)
        chosen = action_index(" ".join(actions[agent].split()), legal)
        action = legal[int(self.rng.integers(len(legal))) if chosen is None else chosen]
        before, self.game = self.game.score(), rules.act(self.game, action)
        self.moves = (*self.moves, f"{agent} {action}")
        over, score = self.game.over(), self.game.score()
        cut = not over and self.turn + 1 >= self.num_turns
        lost = float(self.strict and self.game.lives == 0) * score
        parts = {name: {"points": float(score - before), "lost": 0.0 - lost, "illegal": 0.0} for name in self.agents}
        parts[agent]["illegal"] = -self.penalty if chosen is None else 0.0
        observations = {} if over else self._prompts()
        return StepResult(
            parts,
            observations,
            terminated=over,
            truncated=cut,
            metrics=self._measured() if over or cut else {},
            illegal={agent: int(chosen is None)},
            can_act=tuple(observations),
        )

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:  # noqa: ARG002 - known before
        """The agent's own cards, which each other player sees and the agent does not."""
        kinds = tuple(dict.fromkeys(f"{colour} {rank}" for colour, rank in self.form.cards()))
        hand = [f"{held.card[0]} {held.card[1]}" for held in self.game.hands[self.possible_agents.index(agent)]]
        return [
            InferenceQuestion(other, f"Which card of {agent} does {other} see at place {n}?", "choice", kinds, (card,))
            for other in self.possible_agents
            if other != agent
            for n, card in enumerate(hand, start=1)
        ]

    def _prompts(self) -> dict[str, str]:
        """The prompt of the player to act, whose legal actions `infos` then list."""
        agent, legal = self.agents[self.game.mover()], rules.legal_actions(self.game)
        self.legal_actions = {agent: legal}
        since = self.moves[-(len(self.agents) - 1) :]
        return {agent: f"{prompts.prompt(self.game, since)}\nActions: {', '.join(legal)}."}

    def _measured(self) -> dict[str, float]:
        score = float(self.game.score())
        return {
            "score": score,
            "strict": score if self.game.lives else 0.0,
            "lives": float(self.game.lives),
            "hints": float(sum(" hint " in move for move in self.moves)),
        }

    def _read(self, task: Task) -> list[Card]:
        """The deck of a task.

        Raises:
            TaskError: it is not that of the form.
        """
        names = {colour[0]: colour for colour in self.form.colours}
        words = task["deck"].split()
        cards = [(names[w[0]], int(w[1])) for w in words if len(w) == 2 and w[0] in names and w[1] in "12345"]
        if len(cards) != len(words) or Counter(cards) != Counter(self.form.cards()):
            raise TaskError(f"task {task.id!r}: deck must have each of the {len(self.form.cards())} cards of this form")
        return cards


def generate_decks(count: int, seed: int, *, form: HanabiForm) -> list[dict[str, str]]:
    """Rows of drawn decks."""
    decks = [form.shuffled(seed, index) for index in range(count)]
    return [
        {"id": f"deck-{seed}-{n}", "deck": " ".join(f"{colour[0]}{rank}" for colour, rank in cards)}
        for n, cards in enumerate(decks)
    ]
