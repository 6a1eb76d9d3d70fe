"""The batch of a rollout: a table with one row per completion.

Rows are the distinct completions of a rollout (R). Joint steps (J) are its distinct `env.step` calls, linked to their
parents; memberships (M) link each completion to the joint steps it took part in. No padding over agents or turns: "per
agent", "per group" and "per turn" are comparisons of key columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from palaver.core import Completion
from palaver.episodes import Episode, Turn
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.objectives.advantages import divisor, normalize, row_returns, tree_returns
from palaver.trainers.objectives.lambda_returns import AllSum, lambda_returns, local_sum, whiten
from palaver.trainers.objectives.token_values import TokenValues, laid_out, token_returns


@dataclass(frozen=True, slots=True)
class Batch:
    """Columns by row (R), by joint step (J) and by membership (M).

    Attributes:
        agents: names of the agents, indexed by `agent`.
        completions: (R) completions, with prompt ids, sampled ids and log-probs at sampling.
        agent: (R,) index of the agent.
        group: (R,) equal for the completions that are compared with each other.
        turn: (R,) index of the turn.
        episode: (R,) index of the first episode with the completion.
        reward: (J, N) reward of each agent, 0 where it had left.
        parent: (J,) the joint step before, -1 at a root.
        aside: (J,) bool, true at alternatives that no episode took.
        step_turn: (J,) index of the turn.
        member_row: (M,) row of each membership.
        member_step: (M,) joint step of each membership.
        steps: (J) the joint steps themselves.
        step_weight: (J,) weight of each joint step in the expectation over its task's tree (`tree_weights`).
        returns: (R,) filled by `add_advantages`.
        advantage: (R,) filled by `add_advantages`; the mean over the tokens where they have advantages of their own.
        token_returns: (R, T) filled by `add_advantages` where tokens have values, 0 on padding.
        token_advantage: (R, T) likewise.
        overlong: (J, N) length penalty of an agent's text, subtracted after credit; None is 0.
        action_row: (R,) row of the action that each row led to: itself, but for answers with calls of tools, which have
            no memberships and the return and advantage of that action; None if there are no such answers.
    """

    agents: tuple[str, ...]
    completions: tuple[Completion, ...]
    agent: Tensor
    group: Tensor
    turn: Tensor
    episode: Tensor
    reward: Tensor
    parent: Tensor
    aside: Tensor
    step_turn: Tensor
    member_row: Tensor
    member_step: Tensor
    steps: tuple[Turn, ...]
    step_weight: Tensor
    returns: Tensor
    advantage: Tensor
    token_returns: Tensor | None = None
    token_advantage: Tensor | None = None
    overlong: Tensor | None = None
    action_row: Tensor | None = None

    def __len__(self) -> int:
        return len(self.completions)

    def rows_of(self, agents: Sequence[str]) -> list[int]:
        """Indices of the rows of these agents."""
        wanted = {self.agents.index(agent) for agent in agents}
        return [row for row, agent in enumerate(self.agent.tolist()) if agent in wanted]

    def teaches(self, row: int) -> bool:
        """Return whether an advantage of this row is not 0."""
        return bool((self.advantage if self.token_advantage is None else self.token_advantage)[row].ne(0).any())

    def only(self, rows: Sequence[int]) -> Batch:
        """Batch of these rows, renumbered, without joint steps: plain data for an update."""
        index = torch.tensor(list(rows), dtype=torch.long)
        place = torch.full((len(self),), -1).index_copy_(0, index, torch.arange(len(index)))
        none = torch.zeros(0, dtype=torch.long)
        columns: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[index]
            for name in (
                "agent",
                "group",
                "turn",
                "episode",
                "returns",
                "advantage",
                "token_returns",
                "token_advantage",
            )
        }
        return Batch(
            self.agents,
            tuple(replace(self.completions[row], text="", logprobs=(), calls=(), steps=()) for row in rows),
            reward=torch.zeros(0, len(self.agents), dtype=torch.float64),
            parent=none,
            aside=none.bool(),
            step_turn=none,
            member_row=none,
            member_step=none,
            steps=(),
            step_weight=none.double(),
            action_row=None if self.action_row is None else place[self.action_row[index]],
            **columns,
        )

    @property
    def tasks(self) -> int:
        """Number of tasks; a task that was drawn twice counts twice."""
        return len({_root(turn) for turn in self.steps})

    @property
    def weight(self) -> Tensor:
        """(R,) weight of each row in the expectation over its task's tree: sum over its joint steps."""
        total = torch.zeros(len(self), dtype=torch.float64)
        total.index_add_(0, self.member_row, self.step_weight[self.member_step])
        return total if self.action_row is None else total[self.action_row]

    @property
    def root_return(self) -> Tensor:
        """(actions of the first turn that has any,) their returns as filled by `add_advantages`."""
        return self.returns[(self.turn == self.turn.min()) & self.is_action]

    @property
    def is_action(self) -> Tensor:
        """(R,) bool, true at actions, false at answers with calls of tools."""
        rows = torch.arange(len(self))
        return torch.ones(len(self), dtype=torch.bool) if self.action_row is None else self.action_row == rows

    def by_action(self, values: Tensor) -> Tensor:
        """(R,) sums of values over the rows that led to an action, at that action; 0 elsewhere."""
        if self.action_row is None:
            return values
        return torch.zeros_like(values).index_add_(0, self.action_row, values)


def make_batch(episodes: Sequence[Episode], trained: Collection[str] | None = None) -> Batch:
    """Make the table of episodes.

    Turns that episodes share become one joint step, completions that steps share one row. An answer with calls of tools
    is a row of its own, whose prompt holds the results of earlier calls: no token of a result is trained.

    Args:
        episodes: episodes of a rollout.
        trained: agents whose completions are rows; None takes all. Rewards are kept for every agent.

    Raises:
        ValueError: there is no such completion in any episode.
    """
    acting = {agent for episode in episodes for turn in episode.turns for agent in turn.rewards}
    episodes = [e if e.team.keys() <= acting else e.by_role() for e in episodes]  # others answer questions
    agents = tuple(dict.fromkeys(agent for e in episodes for turn in e.turns for agent in turn.rewards))
    steps: dict[str, int] = {}
    rows: dict[tuple[str, str, int], int] = {}
    groups: dict[tuple[str, str], int] = {}
    turns: list[Turn] = []
    row_keys: list[tuple[int, int, int, int]] = []  # agent, group, turn, episode
    completions: list[Completion] = []
    action_rows: list[int] = []
    members: list[tuple[int, int]] = []
    for episode_index, episode in enumerate(episodes):
        for turn in episode.turns:
            if turn.node in steps:
                continue
            steps[turn.node] = len(turns)
            turns.append(turn)
            for agent, completion in turn.completions.items():
                if agent not in turn.choice or (trained is not None and agent not in trained):
                    continue
                key = (turn.group, agent, turn.choice[agent])
                if key not in rows:
                    rows[key] = len(completions)
                    group = groups.setdefault((turn.group, agent), len(groups))
                    answers = [completion, *(step.completion for step in completion.steps)]
                    row_keys += [(agents.index(agent), group, turn.index, episode_index)] * len(answers)
                    completions += answers
                    action_rows += [rows[key]] * len(answers)
                members.append((rows[key], steps[turn.node]))
    if not completions:
        raise ValueError("no completion of a trained agent in these episodes: there is nothing to make a batch of")
    columns = torch.tensor(row_keys).T
    member = torch.tensor(members).T
    unfilled = torch.full((len(completions),), torch.nan, dtype=torch.float64)
    return Batch(
        agents,
        tuple(completions),
        columns[0],
        columns[1],
        columns[2],
        columns[3],
        reward=torch.tensor([[t.rewards.get(a, 0.0) for a in agents] for t in turns], dtype=torch.float64),
        parent=torch.tensor([steps[t.parent] if t.parent else -1 for t in turns]),
        aside=torch.tensor([t.aside for t in turns]),
        step_turn=torch.tensor([t.index for t in turns]),
        member_row=member[0],
        member_step=member[1],
        steps=tuple(turns),
        step_weight=torch.tensor(
            tree_weights(turns, {e.turns[-1].node for e in episodes if e.stop == "pruned"}), dtype=torch.float64
        ),
        returns=unfilled,
        advantage=unfilled,
        action_row=torch.tensor(action_rows) if len(action_rows) > len(rows) else None,
    )


def tree_weights(turns: Sequence[Turn], pruned: Collection[str] = ()) -> list[float]:
    """(J) weights of joint steps: parent's weight (1 at a root) over the number of siblings.

    A mean over siblings of the means over their children is the mean over the tree, so that every turn that all
    branches reach has the weight 1 a task, however wide the tree. Siblings are those in which an agent's candidates are
    compared. Where one of them was selected (`turns: best`, `by_agent`, `counterfactual`), it continues with the
    weight of all.

    Args:
        turns: joint steps, parents before their children.
        pruned: nodes that were left for a better sibling.
    """
    siblings: dict[str, list[Turn]] = {}
    for turn in turns:
        siblings.setdefault(turn.parent or _root(turn), []).append(turn)
    onward = {_root(turn): 1.0 for turn in turns}  # node -> weight that its children share
    weights = []
    for turn in turns:
        above = turn.parent or _root(turn)
        agent = next(iter(turn.choice), None)
        count = sum(agent is None or agent in sibling.choice for sibling in siblings[above])
        weights.append(onward[above] / count)
        selected = any(sibling.aside or sibling.node in pruned for sibling in siblings[above])
        onward[turn.node] = onward[above] if selected else weights[-1]
    return weights


def _root(turn: Turn) -> str:
    """First part of a node's name, which identifies the task."""
    return turn.node.partition("/")[0]


def add_advantages(
    batch: Batch,
    algorithm: Algorithm,
    config: AlgorithmConfig,
    value: Tensor | None = None,
    cost: Tensor | None = None,
    total: AllSum = local_sum,
    bootstrap_values: Tensor | None = None,
    tokens: TokenValues | None = None,
) -> Batch:
    """Fill in returns and advantages: credit, returns over turns, baseline, normalisation.

    With values of tokens each token has a return and an advantage of its own. `normalize: std` and `batch` divide those
    of a row by the spread of the returns of completions, `whiten` is over the tokens of each agent. The return of a row
    is that of the completion, r less all its costs plus the return that follows, whatever the values within it.

    Args:
        batch: table of a rollout.
        algorithm: the algorithm.
        config: its settings.
        value: (R,) critic values before the first token; needed if the algorithm has a critic.
        cost: (R,) penalty of each completion, subtracted before the returns.
        total: sums over the processes that share the rollout.
        bootstrap_values: (J, N) critic values after cuts, 0 elsewhere; None where nothing was cut.
        tokens: values and costs of every token, whose first values and sums are `value` and `cost`.
    """
    if batch.action_row is not None:
        assert tokens is None  # refused with tools
        return _fill_steps(batch, algorithm, config, value, cost, total, bootstrap_values)
    group = task_groups(batch) if config.group_by == "agent" else batch.group
    start = None if tokens is None else tokens.start(config.gae_lambda)
    joint = joint_returns(batch, algorithm, config, value, cost, bootstrap_values, start)
    returns = row_returns(joint, batch.member_step, batch.member_row, batch.agent)
    if tokens is not None:
        return _fill_tokens(replace(batch, returns=returns, group=group), algorithm, config, tokens, total)
    advantage = algorithm.baseline(returns, group if value is None else value)
    if config.normalize == "whiten":
        scaled = whiten(advantage, batch.agent, len(batch.agents), total)
    else:
        scaled = normalize(advantage, returns, group, config.normalize, config.std, total)
    return replace(batch, returns=returns, advantage=scaled, group=group)


def _fill_steps(
    batch: Batch,
    algorithm: Algorithm,
    config: AlgorithmConfig,
    value: Tensor | None,
    cost: Tensor | None,
    total: AllSum,
    bootstrap_values: Tensor | None,
) -> Batch:
    """Returns and advantages of the actions; answers with calls have those of their action."""
    assert batch.action_row is not None
    rows = batch.is_action.nonzero()[:, 0]
    place = torch.full((len(batch),), -1).index_copy_(0, rows, torch.arange(len(rows)))
    columns = {
        name: getattr(batch, name)[rows] for name in ("agent", "group", "turn", "episode", "returns", "advantage")
    }
    completions = tuple(batch.completions[row] for row in rows.tolist())
    actions = replace(batch, completions=completions, member_row=place[batch.member_row], action_row=None, **columns)
    own_value = None if value is None else value[rows]
    own_cost = None if cost is None else batch.by_action(cost)[rows]
    filled = add_advantages(actions, algorithm, config, own_value, own_cost, total, bootstrap_values)
    back = place[batch.action_row]
    return replace(batch, returns=filled.returns[back], advantage=filled.advantage[back], group=filled.group[back])


def _fill_tokens(
    batch: Batch, algorithm: Algorithm, config: AlgorithmConfig, tokens: TokenValues, total: AllSum
) -> Batch:
    """Returns and advantages of every token, from the returns of the completions."""
    target, mask = token_returns(tokens, batch.returns + tokens.earlier_cost, config.gae_lambda), tokens.mask
    flat = algorithm.baseline(target[mask], tokens.value[mask])
    if config.normalize == "whiten":
        flat = whiten(flat, batch.agent.repeat_interleave(tokens.length), len(batch.agents), total)
    elif config.normalize != "none":
        spread = divisor(batch.returns, batch.group, config.normalize, config.std, total)
        flat = flat / spread.repeat_interleave(tokens.length)
    token_advantage = laid_out(flat, tokens.length)
    mean = token_advantage.sum(dim=1) / tokens.length
    return replace(batch, advantage=mean, token_returns=target, token_advantage=token_advantage)


def joint_returns(
    batch: Batch,
    algorithm: Algorithm,
    config: AlgorithmConfig,
    value: Tensor | None,
    cost: Tensor | None,
    bootstrap_values: Tensor | None = None,
    start: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """(J, N) return of each joint step for each agent; with critic values the lambda-return.

    `start` are a and b (R,) of `TokenValues.start`, if a completion is several decisions.
    """
    due = credited_rewards(batch, algorithm, cost)
    if value is None or algorithm.critic == "agent":
        return tree_returns(due, batch.parent, batch.step_turn, config.discount, batch.aside)
    if bootstrap_values is not None:
        due = due.masked_fill(after_cut(batch), 0.0)
    known = by_step(batch, value)
    inner = None if start is None else (by_step(batch, start[0]), by_step(batch, start[1]))
    return lambda_returns(
        due, known, batch.parent, batch.step_turn, config.discount, config.gae_lambda, bootstrap_values, inner
    )


def credited_rewards(batch: Batch, algorithm: Algorithm, cost: Tensor | None) -> Tensor:
    """(J, N) credited rewards less the length penalty and the costs of completions (R,)."""
    reward = algorithm.credit(batch.reward)
    if batch.overlong is not None:
        reward = reward - batch.overlong
    return reward if cost is None else reward - by_step(batch, cost).nan_to_num()


def after_cut(batch: Batch) -> Tensor:
    """(J, N) bool, true after an agent was cut while others went on: replaced by its value."""
    cut_before = torch.zeros_like(batch.reward, dtype=torch.bool)
    for step in torch.argsort(batch.step_turn).tolist():
        if (above := int(batch.parent[step])) >= 0:
            cut = [agent in batch.steps[above].cut_states for agent in batch.agents]
            cut_before[step] = cut_before[above] | torch.tensor(cut)
    return cut_before


def by_step(batch: Batch, value: Tensor) -> Tensor:
    """(J, N) values of rows (R,) at their joint steps; NaN where an agent has no completion."""
    values = torch.full_like(batch.reward, torch.nan)
    values[batch.member_step, batch.agent[batch.member_row]] = value.to(values)[batch.member_row]
    return values


def sampled(batch: Batch, rows: Sequence[int]) -> dict[int, Tensor]:
    """Row -> (T,) log-probs under the sampling distribution."""
    return {row: torch.tensor(batch.completions[row].sample_logprobs) for row in rows}


def task_groups(batch: Batch) -> Tensor:
    """(R,) group index by agent and task, over all turns. Dr. MAS (arXiv 2602.08847), section 4."""
    roots = [_root(batch.steps[int(step)]) for step in batch.member_step]
    named = {int(row): (root, int(batch.agent[row])) for row, root in zip(batch.member_row, roots, strict=True)}
    numbers: dict[tuple[str, int], int] = {}
    return torch.tensor([numbers.setdefault(named[row], len(numbers)) for row in range(len(batch))])
