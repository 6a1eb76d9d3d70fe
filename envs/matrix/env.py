"""Small games with named actions and known optima: the laboratory of the algorithms.

Players choose at the same time by naming an action, and a table holds the payoffs of the joint choice. A game has one
state, or several: then the joint choice also decides which state follows, until the round ends. What a team can reach
at most is known exactly, so it shows whether an algorithm learns what theory says it learns, and fails where it must.

| `game` | agents | payoffs | best team return |
|---|---|---|---|
| `climbing` | 2 | [[11, -30, 0], [-30, 7, 6], [0, 0, 5]] | 11 |
| `penalty` | 2 | [[10, 0, k], [0, 2, 0], [k, 0, 10]] | 10 |
| `xor` | n, even | 1 if the first half of the agents plays one action and the second half the other, else 0 | 1 |
| `two-step` | 2 | `a1` alone leads to A, where every payoff is 7, or to B: [[0, 1], [1, 8]] | 8 |
| `prisoners-dilemma` | 2 | [[(3, 3), (0, 5)], [(5, 0), (1, 1)]] | 3 |
| `chicken` | 2 | [[(3, 3), (1, 4)], [(4, 1), (0, 0)]] | 3 |
| `stag-hunt` | 2 | [[(4, 4), (0, 3)], [(3, 0), (3, 3)]] | 4 |
| `rock-paper-scissors` | 2 | 1 for rock over scissors, paper over rock, scissors over paper, -1 to the other | 0 |
| `matching-pennies` | 2 | 1 to `a1` and -1 to `a2` if both are equal, else the opposite | 0 |
| `coordination` | n | 1 if all play the same of three actions, else 0 | 1 |
| `qtran` | 2 | [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]] | 8 |
| `happo` | 2 | [[0, 1], [1, -2]] | 1 |

* `climbing`: the best joint action is risky, for missing it costs 30; `penalty`: two of them must not be mixed
  (C. Claus and C. Boutilier, 1998).
* `xor`: agents that share one policy and read equal prompts reach 2 / 2ⁿ at most (J. G. Kuba et al., 2022).
* `two-step`: additive value mixing (VDN) learns the safe 7 (T. Rashid et al., 2018, which introduced QMIX).
* `qtran`: monotonic value mixing (QMIX) cannot represent it and plays 0 (K. Son et al., 2019).
* `prisoners-dilemma`: what is best for each alone is worse for all (R. Axelrod, 1984).
* `chicken`: not to yield is best against one who yields; `stag-hunt`: the better equilibrium is the risky one.
* `rock-paper-scissors` and `matching-pennies` are zero-sum: in equilibrium all actions are equally likely.
* `happo`: the sum of independent improvements is not the joint improvement. `coordination`: equal optima.

Rows are the actions of the first agent; three actions are called `red`, `green`, `blue`, two `left`, `right`. Those of
the dilemma are `cooperate`, `defect`, of chicken `yield`, `dare`, of the hunt `stag`, `hare`, of the pennies `heads`,
`tails`.

A repeated game, in which agents remember what was played, is the same with `repeats` and `feedback=True`: the iterated
prisoner's dilemma of 20 rounds is `game="prisoners-dilemma", repeats=20, feedback=True`.

## Observation

At the start the game's name, the agent's name (with `role_prompts=True`), the sentences of the task, the actions, and
where there are several the round and the state:

    Game: two-step. You are a1.
    Choose one action. You cannot see what the others choose. Say only its name.
    Actions: left, right.
    State: start.

After a turn the state (`State: B.`) or the new round (`Round 2 of 3.`), with `feedback=True` also all choices and
rewards; after the last nothing. With `role_prompts=False` all agents read the same, word for word. The payoffs are
shown with `show_payoffs=True` alone. With `fresh=True` each observation stands alone (`"conversation": "fresh"`): all
of the above with the choices and rewards of the last turn, and without the number of the round, so that an agent
remembers one turn and cannot count to the last one. `infos[agent]["legal_actions"]` lists the actions in the order of
the table.

## Action

Any text. It names the first action that occurs in it as a whole word: case is ignored, compatible characters are
made one (Unicode NFKC), punctuation and underscores part words. So `RED`, ` red `, `"Red."` and `__red__` are red, and
so is `not red but green`; `redder` is none.

A text that names no action, silence included, is illegal, and never better than a legal one:

* where all rewards are equal (`shared=True` makes any game so) the round is forfeited: it ends, and each agent gets
  the least that the rest of this round could have given it, whatever the actions, or the number given as
  `illegal`;
* where payoffs differ an action is drawn in its place, all equally likely, and the game continues. The others get
  the rewards of the table, as against an opponent that chooses at random. An agent that named none gets the least that
  the table of this state holds for it, or the number given as `illegal`: no more than for the action that was drawn.
  Of two agents the one with more illegal answers in the episode has lost it, see `outcome`.

Each such text adds 1 to the metric `illegal`; so does, in addition, what is no text and a text cut at `max_length`.

## Rewards

* `payoff`: by the table;
* `illegal`: the reward of an illegal answer, else 0.

With `shared=True` every agent receives the mean of the table's payoffs.

The team's return is the mean over agents. `max_return` of an instance is the most that a team can reach, found by
backward induction over all joint actions (`palaver.envs.matrix.solve.max_return`, also with a discount), times
`repeats`. In the same module `expected_return` is the exact return of independent mixed policies and `joint_values` are
the exact values of joint actions.

Metrics that are no reward: `optimal`, 1 if the joint action was one of the best; `regret`, what the turn gave away of
the team's best return (over an episode the regrets add up to `max_return` less the return); `illegal`.

## Termination

A round ends where the table says so, when it is forfeited, and after `steps` turns in games with that field. The
episode ends after `repeats` rounds.

## Data

A task is a wording: `wording`, the sentences in the prompt, and `order`, by how many places the list of actions is
turned (0 if left out); `id` names a task. `tasks="sample"` are eight wordings in three orders, written for this
project.

`game` may also be the path of a `.json`, `.yaml` or `.yml` file, or a mapping (in a recipe), with the fields

* `agents`: names, or their number;
* `actions`: single words, a list for all or agent -> list;
* `payoffs`: nested lists, one level for each agent; innermost a number for all agents, or a list of one
  number for each agent. A number in place of a list stands for all joint actions below;
* `states`: instead of `payoffs`, state -> `payoffs` and `next`, nested in the same way, with the state that follows or
  null for the end; without `next` the round ends. A round begins in the first state;
* `steps`: the most turns of a round, needed where states go in a circle; `name`: otherwise the file's.

The two-step game as a file:

    agents: 2
    actions: [left, right]
    states:
      start: {payoffs: 0, next: [A, B]}
      A: {payoffs: 7}
      B: {payoffs: [[0, 1], [1, 8]]}

`scripted:reference` knows the built-in games by name and reads others from the prompt (`show_payoffs=True`);
`scripted:uniform` draws an action, `scripted:lazy` is silent. For repeated games, `scripted:always_first` and
`scripted:always_last` play the first and the last action of the table, and `scripted:tit_for_tat` the first and then
what the other has played, as `feedback=True` shows. The tiny model answers `a1 red.`, `at B a2 left.` or,
with no agent named, `me red.`; each legal action is about equally likely, the n-th agent leaning a little to the n-th.
Of repeated games with `feedback=True` the model of the [exact games](../games.md) has imitated more texts: with
`policy.demonstrations=palaver.envs.games.corpus:demonstrations` it answers `a2 after 1 2: defect.`, the places in the
table of what both played last and any legal action; with `palaver.envs.matrix.reaction_corpus:demonstrations` and
`fresh=True` it reads them and answers `defect.`, with odds drawn by chance for each situation.

## Version history

* v0: first version.
* v1: where payoffs differ, an illegal answer forfeited the round for all, and each got the least of it. Games with one
  reward for all, and all episodes without illegal answers, are what they were in v0, but for the metric `outcome`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from palaver.core import ConfigError, TaskError
from palaver.envs.base.arguments import fresh_metadata, truth, whole_number
from palaver.envs.base.env import MAX_LENGTH, StepResult, TextEnv
from palaver.envs.base.exact import ExactGame
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.matrix import games, prompts, rules
from palaver.envs.matrix.games import MOST_PAY
from palaver.envs.matrix.rules import Floats, regret, score
from palaver.envs.matrix.solve import Solution, exact_game, least, max_return, solve
from palaver.text import one_line

MOST_REPEATS = 1_000_000
SAMPLE = Path(__file__).with_name("sample.jsonl")


class MatrixEnv(TextEnv):
    """Name an action; see the module's docstring for the games.

    Args:
        game: a built-in game, a file, or a mapping.
        tasks: `sample`, or a path; a slice may follow.
        agents: how many play `xor` or `coordination`; None is 2.
        repeats: rounds in an episode.
        penalty: k of the game `penalty`, 0 or less; None is -100.
        illegal: the reward where a text names no action: `minimum` is the least that was possible; a number
            may be given that is no larger.
        shared: True gives every agent the mean of the table's payoffs.
        role_prompts: True names the agent in its prompt.
        show_payoffs: True shows the tables in the prompt.
        feedback: True shows all agents all choices and rewards after a turn.
        fresh: True makes each observation stand alone, with a memory of one turn.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "matrix_v1"}

    def __init__(
        self,
        game: str | Path | Mapping[str, Any] = "climbing",
        tasks: str | Path = "sample",
        agents: int | None = None,
        repeats: int = 1,
        penalty: float | None = None,
        illegal: Literal["minimum"] | float = "minimum",
        shared: bool = False,
        role_prompts: bool = True,
        show_payoffs: bool = False,
        feedback: bool = False,
        fresh: bool = False,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        whole_number("repeats", repeats, 1, MOST_REPEATS)
        switches = {"shared": shared, "role_prompts": role_prompts, "show_payoffs": show_payoffs, "feedback": feedback}
        for keyword, value in switches.items():
            truth(keyword, value)
        self.metadata = fresh_metadata(self.metadata, fresh)  # type: ignore[misc]
        table = games.load(game, agents, penalty)
        self.solution = solve(table.shared() if shared else table)
        self.game = self.solution.game
        self.repeats, self.role_prompts, self.feedback = repeats, role_prompts, feedback
        self.fresh = fresh
        self.num_turns = repeats * self.game.horizon
        self.tables = prompts.written(self.game) if show_payoffs else ""
        self.max_return = max_return(self.game, repeats)
        self.competitive = bool(np.ptp(self.game.payoffs, axis=-1).any())
        self.zero_sum = self.competitive and constant_sum(self.game.payoffs)
        self.forfeit = _forfeit(illegal, self.solution, self.competitive)
        self.position = rules.Position(0, self.game.horizon)
        self.tally = self.first_tally = rules.Tally.of(len(self.game.agents))
        super().__init__(self.game.agents, load(tasks), render_mode=render_mode, max_length=max_length, source=tasks)
        self.legal_actions = dict(zip(self.game.agents, self.game.actions, strict=True))
        self._prompts_fit()

    def exact_game(self) -> ExactGame | None:
        """The game of one round and one state; its information sets are the agents' prompts."""
        if self.repeats > 1 or len(self.game.states) > 1:
            return None
        return exact_game(
            self.game, [[self._prompt(agent, task) for agent in self.possible_agents] for task in self.tasks]
        )

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Describe the game and the actions to every agent."""
        self.position, self.tally = rules.Position(0, self.game.horizon), self.first_tally
        return {agent: self._prompt(agent, task) for agent in self.agents}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Read the actions, look up the rewards, and move to the next state."""
        at = self.position
        chosen = [rules.action_index(actions[agent], self.game.actions[n]) for n, agent in enumerate(self.agents)]
        legal = all(n is not None for n in chosen)
        played = rules.completed(chosen, self.game.sizes, self.rng) if legal or self.competitive else None
        parts = score(self.game, self.solution.worst, at, played, self.forfeit, [n is None for n in chosen])
        rewards = [sum(components.values()) for components in parts]
        lost = regret(self.game, self.solution.best, at, played, sum(rewards) / len(rewards))
        then = rules.advance(self.game, at, played, self.repeats)
        if then is not None:
            self.position = then
        self.tally = self.tally.add(chosen, rewards)
        feedback = [prompts.happened(self.game, chosen, rewards)] if self.feedback else []
        position = [] if self.fresh else [prompts.position_text(self.game, self.position, self.repeats)]
        text = "\n".join([*feedback, *position]).strip()
        heads = {agent: f"{self._prompt(agent, self.task)}\n" if self.fresh else "" for agent in self.agents}
        metrics = {"optimal": float(legal and lost == 0.0), "regret": lost}
        if self.competitive and len(self.agents) == 2:
            outcome = self.tally.outcome()
            metrics |= {"outcome": outcome} if then is None else {}
        return StepResult(
            dict(zip(self.agents, parts, strict=True)),
            observations={} if then is None else {agent: f"{head}{text}".strip() for agent, head in heads.items()},
            terminated=then is None,
            metrics=metrics,
            illegal={agent: int(n is None) for agent, n in zip(self.agents, chosen, strict=True)},
        )

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """The action of each other agent in this turn; none for one that has no choice."""
        asked = []
        for other, names in zip(self.possible_agents, self.game.actions, strict=True):
            if other != agent and len(names) > 1:
                chosen = rules.action_index(actions.get(other, ""), names)
                truth = None if chosen is None else (names[chosen],)
                asked.append(InferenceQuestion(other, f"Which action does {other} choose?", "choice", names, truth))
        return asked

    def _prompt(self, agent: str, task: Task) -> str:
        return prompts.opening(
            self.game,
            agent,
            task.data["wording"],
            order=task.data["order"],
            repeats=1 if self.fresh else self.repeats,
            named=self.role_prompts,
            tables=self.tables,
            at=self.position,
        )

    def _prompts_fit(self) -> None:
        if not self.role_prompts and len(set(self.game.actions)) > 1:
            raise ConfigError("role_prompts: it must be true where the agents' actions differ, or the prompts would")
        if self.tables:
            longest = max(len(self._prompt(self.possible_agents[0], task)) for task in self.tasks)
            if longest > self.max_length:
                raise ConfigError(f"show_payoffs: prompts take up to {longest:,} characters, max_length allows fewer")


def constant_sum(payoffs: Floats) -> bool:
    """Return True where payoffs (..., N) have one sum over agents, up to rounding.

    The sum is the same in every state and for every joint action.
    """
    total = payoffs.sum(axis=-1)
    return bool(np.ptp(total) <= 1e-9 * max(1.0, float(np.abs(payoffs).max())))


def _forfeit(illegal: object, solution: Solution, separate: bool) -> float | None:
    """The reward of an illegal answer; None where that is the least possible.

    `separate`: rewards of agents differ.
    """
    if illegal == "minimum":
        return None
    max_forfeit = float(solution.game.payoffs.min()) if separate else least(solution.game, solution.worst)
    if isinstance(illegal, bool) or not isinstance(illegal, int | float) or not -MOST_PAY <= illegal <= max_forfeit:
        raise ConfigError(
            f"illegal must be 'minimum', or a number of at most {max_forfeit:g} in this game, got {illegal!r:.40}"
        )
    return float(illegal)


def load(source: str | Path) -> tuple[Task, ...]:
    """Tasks with `wording`, a text, and `order`.

    `order` is the number of places by which the list of actions is rotated, 0 if left out.

    Raises:
        TaskError: no row can be used; see `palaver.envs.base.tasks.load_tasks` for the others.
    """
    tasks, orders = read_tasks(source, _order, sample=SAMPLE, fields={"wording": str})
    return tuple(Task(task.id, {**task.data, "order": orders[task.id]}) for task in tasks)


def _order(task: Task) -> int:
    given = task.data.get("order")
    if given in (None, ""):
        return 0
    text = str(given) if isinstance(given, int | str) and not isinstance(given, bool) else ""  # csv knows texts alone
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise TaskError(f"task {task.id!r}: the field 'order' must be a whole number, got {one_line(repr(given), 60)}")
    return int(text)
