"""Credit diagnostics of a run: how well advantages predict the effect of single messages.

Three measures of C3 (arXiv 2603.06859), for any algorithm. In contexts h of its own rollouts, an agent's messages are
played again with fresh texts of the others and fresh continuations:

    Q(h, a) = mean return of the replays with message a        V(h) = mean of Q(h, a) over these and fresh messages

* credit fidelity: Spearman's correlation of the advantages A(h, a) with Q(h, a) - V(h), over all rows;
* within-group variance: the mean over groups of the variance of their advantages;
* inter-agent influence: the mutual information, in nats, of an agent's message and the others' next messages, given h.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from palaver.agents.base.policy import Policy, act_batched
from palaver.core import Completion, Request, Sampling, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode, inference_role, only_scored
from palaver.trainers.algorithms.base import Algorithm, chosen
from palaver.trainers.rollout.batch import Batch, make_batch
from palaver.trainers.rollout.branches import Branch
from palaver.trainers.rollout.episodes import SamplingPlan, play_out, rollout
from palaver.trainers.rollout.replays import rebuilt
from palaver.trainers.rollout.tasks import batch_of_tasks
from palaver.trainers.train import restore

SHUFFLES = 100


@dataclass(frozen=True)
class Effort:
    """Number of rollouts and replays of the diagnostics.

    Attributes:
        tasks: rolled out as in a training step.
        contexts: of these rollouts, drawn at random.
        alternatives: fresh messages in each context, which V and the influence are estimated from.
        replays: of each message.
        seed: of every draw.
        workers: threads that step environments.
    """

    tasks: int = 4
    contexts: int = 16
    alternatives: int = 8
    replays: int = 4
    seed: int = 0
    workers: int = 1


@dataclass(frozen=True)
class Credit:
    """The diagnostics.

    Attributes:
        fidelity: rank correlation of advantage and effect, None where either is the same for all rows.
        variance: mean variance of the advantages of a group.
        influence: mutual information of a message and the others' next messages, in nats; 0 where no agent acts later.
        chance: the influence with replays shuffled over the messages: the bias of few replays.
        rows: messages compared.
        contexts: in which they were sent.
        replays: played.
    """

    fidelity: float | None
    variance: float
    influence: float
    chance: float
    rows: int
    contexts: int
    replays: int


@dataclass(frozen=True)
class SampledTeam:
    """Policies of an environment's agents and how they sample.

    Attributes:
        env: forked before use.
        policies: agent -> its policy.
        sampling: agent -> how it samples.
        credit: the algorithm, whose credit assignment gives each agent its return.
        discount: discount factor per turn.
    """

    env: TextEnv
    policies: Mapping[str, Policy]
    sampling: Mapping[str, Sampling]
    credit: Algorithm
    discount: float


def of_run(folder: Path, effort: Effort) -> Credit:
    """Credit diagnostics of a run, at its latest valid checkpoint, on its training tasks.

    Raises:
        CheckpointError, ConfigError, TaskError, PolicyError: as `palaver.trainers.train.restore`.
        ScoringError: nothing could be scored.
    """
    run = restore(folder)
    env, study, a, key = run.env, run.updater, run.config.algorithm, stable_seed(effort.seed, "credit")
    tasks = batch_of_tasks([task.id for task in env.tasks], effort.tasks, key, 1)
    plan = SamplingPlan(a.group_size, a.joint, a.turns, a.stop_above, study.estimator.look_ahead)
    episodes = rollout(env, run.team, tasks, plan, sampling=run.sampling, seed=key, workers=effort.workers)
    episodes = only_scored(episodes, "in the rollout")
    table = study.estimate_advantages(make_batch(episodes, study.agents)).batch
    return measure(table, episodes, SampledTeam(env, run.team, run.sampling, chosen(a), a.discount), effort)


def measure(table: Batch, episodes: Sequence[Episode], team: SampledTeam, effort: Effort) -> Credit:
    """Credit diagnostics of a batch with advantages.

    Args:
        table: of the episodes.
        episodes: of a rollout.
        team: that played them.
        effort: how much is replayed.
    """
    contexts = _contexts(table, effort)
    advantage: list[float] = []
    effect: list[float] = []
    shared: list[float] = []
    chance: list[float] = []
    played = 0
    random = np.random.default_rng(stable_seed(effort.seed, "shuffles"))
    for index, rows in enumerate(contexts):
        name, turn = table.agents[int(table.agent[rows[0]])], int(table.turn[rows[0]])
        agent = name if name in team.env.possible_agents else name.removesuffix(inference_role(""))
        before = rebuilt(team.env, episodes[int(table.episode[rows[0]])], turn)
        fresh = _alternatives(before, agent, team, effort, index)
        texts = [*(table.completions[row] for row in rows), *fresh]
        ends = _replayed(before, agent, texts, team, effort, index)
        played += sum(map(len, ends))
        q = [float(np.mean([_return(branch, agent, turn, team) for branch in some])) for some in ends]
        value = float(np.mean(q))
        advantage += table.advantage[rows].tolist()
        effect += [updated - value for updated in q[: len(rows)]]
        pairs = [
            (_symbol(text), _next(branch, agent, turn))
            for text, some in zip(fresh, ends[len(rows) :], strict=True)
            for branch in some
        ]
        shared.append(mutual_information(pairs))
        chance.append(float(np.mean([mutual_information(_dealt(pairs, random)) for _ in range(SHUFFLES)])))
    return Credit(
        rank_correlation(advantage, effect),
        variance_within(table),
        float(np.mean(shared)),
        float(np.mean(chance)),
        len(advantage),
        len(contexts),
        played,
    )


def rank_correlation(one: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's correlation; None where it is not defined.

    >>> rank_correlation([1, 2, 3], [10, 20, 90]), rank_correlation([1, 1], [1, 2])
    (1.0, None)
    """
    if len(set(one)) < 2 or len(set(second)) < 2:
        return None
    return float(spearmanr(one, second).statistic)


def variance_within(table: Batch) -> float:
    """Mean over groups of the population variance of their advantages."""
    groups = (table.advantage[table.group == group] for group in sorted(set(table.group.tolist())))
    return float(torch.stack([values.var(unbiased=False) for values in groups]).mean())


def mutual_information(pairs: Sequence[tuple[Hashable, Hashable]]) -> float:
    """Plug-in estimate of the mutual information of two discrete variables in nats, at least 0.

    >>> round(mutual_information([(0, 0), (1, 1)]), 4), mutual_information([(0, 0), (0, 1), (1, 0), (1, 1)])
    (0.6931, 0.0)
    """
    both, n = Counter(pairs), len(pairs)
    left, right = Counter(one for one, _ in pairs), Counter(second for _, second in pairs)
    return sum(k / n * log(k * n / (left[one] * right[second])) for (one, second), k in both.items())


def _contexts(table: Batch, effort: Effort) -> list[list[int]]:
    """Rows of randomly drawn contexts; a context has the rows of one agent after one joint step."""
    first = dict(reversed(list(zip(table.member_row.tolist(), table.member_step.tolist(), strict=True))))
    rows_by_context: dict[tuple[str, int], list[int]] = {}
    for row in range(len(table)):
        above = table.steps[first[row]].node.rpartition("/")[0]
        rows_by_context.setdefault((above, int(table.agent[row])), []).append(row)
    keys = list(rows_by_context)
    random = np.random.default_rng(stable_seed(effort.seed, "contexts"))
    return [rows_by_context[keys[index]] for index in sorted(random.permutation(len(keys))[: effort.contexts].tolist())]


def _alternatives(before: Branch, agent: str, team: SampledTeam, effort: Effort, index: int) -> list[Completion]:
    """Fresh messages of the agent in a context."""
    seeds = tuple(stable_seed(effort.seed, "alternative", index, k) for k in range(effort.alternatives))
    conversation, answered = before.conversations[agent], before.answered(agent)
    request = Request(agent, conversation, seeds, team.sampling[agent], answered=answered)
    return act_batched([(team.policies[before.role(agent, team.policies)], request)])[0]


def _replayed(
    before: Branch, agent: str, texts: Sequence[Completion], team: SampledTeam, effort: Effort, index: int
) -> list[list[Branch]]:
    """Final branches of the replays of each message; the seeds of replay r are equal for all."""
    branches = [
        replace(before, env=before.env.fork(), seeds=f"replay {index}.{r}")
        for _ in texts
        for r in range(effort.replays)
    ]
    first = [{agent: text} for text in texts for _ in range(effort.replays)]
    ends = play_out(branches, first, team.policies, sampling=team.sampling, seed=effort.seed, workers=effort.workers)
    return [ends[n : n + effort.replays] for n in range(0, len(ends), effort.replays)]


def _return(branch: Branch, agent: str, turn: int, team: SampledTeam) -> float:
    """Discounted return of an agent from a turn on, by the algorithm's credit."""
    turns = branch.turns[turn:]
    names = list(turns[0].rewards)
    reward = torch.tensor([[played_turn.rewards[name] for name in names] for played_turn in turns], dtype=torch.float64)
    due = team.credit.credit(reward)[:, names.index(agent)]
    return float((due * team.discount ** torch.arange(len(turns), dtype=torch.float64)).sum())


def _symbol(text: Completion) -> str:
    """Return the message with case and white space normalised."""
    return " ".join(text.text.casefold().split())


def _next(branch: Branch, agent: str, turn: int) -> tuple[tuple[str, str], ...]:
    """Messages of the other agents in the first later turn in which one of them acts.

    Empty if none does.
    """
    for later_turn in branch.turns[turn + 1 :]:
        if texts := tuple((name, _symbol(text)) for name, text in later_turn.completions.items() if name != agent):
            return texts
    return ()


def _dealt(pairs: Sequence[tuple[Hashable, Hashable]], random: np.random.Generator) -> list[tuple[Hashable, Hashable]]:
    """Return the pairs with their second parts shuffled."""
    order = random.permutation(len(pairs)).tolist()
    return [(one, pairs[index][1]) for (one, _), index in zip(pairs, order, strict=True)]
