"""Lockstep runner: all live episodes advance together, in one batch per policy and turn.

In a rollout every live branch is widened at each turn: w candidates are sampled for each of its agents, combined into
joint actions (`branches.py`), and the branch is forked once per joint action. A tree widens G ways at every turn;
independent continuation widens at the first turn only. Replays, matches (`palaver.trainers.matches.play`) and the play
over legal actions (`palaver.trainers.value_decomposition.play`) advance by the same runner without widening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from palaver.agents.base.policy import Policy
from palaver.core import Completion, ConfigError, Request, Sampling, stable_seed
from palaver.envs.base.env import Each, TextEnv
from palaver.envs.base.tools import schema_of
from palaver.envs.base.wrappers import rewarded
from palaver.episodes import Episode
from palaver.registry import make
from palaver.trainers.config.run import Turns
from palaver.trainers.rollout.branches import (
    Branch,
    Joint,
    OnStep,
    Pick,
    aligned,
    counterfactual,
    crossed,
    first_joint,
    foreseen,
    frozen,
    looking,
    pruned,
    select_best,
    start,
    step_all,
    stop_early,
    swept,
    with_turn_rewards,
)
from palaver.trainers.rollout.tools import act_with_tools

Candidates = Mapping[str, Sequence[Completion]]  # agent -> its candidates
StepAll = Callable[[Sequence[Joint]], list[Branch]]
PlayTurn = Callable[[list[Branch], StepAll], list[Branch]]  # plays one turn of the live branches
Queries = Iterable[tuple[Policy, Request]]


class EpisodeRunner:
    """Lockstep runner of any number of episodes.

    Args:
        play_turn: queries the agents of all live branches and plays the joint actions with the function it is given.
        on_step: records every joint action that was played.
        workers: threads that step environments.
        compare: if the joint actions of a group are scored with each other.
    """

    def __init__(
        self, play_turn: PlayTurn, on_step: OnStep | None = None, *, workers: int = 1, compare: bool = True
    ) -> None:
        self._play_turn, self._on_step = play_turn, on_step
        self._workers, self._compare = workers, compare

    def run(self, starts: Iterable[Branch], parallel: int | None = None) -> Iterator[Branch]:
        """Play episodes to their end, and yield each as it ends.

        Args:
            starts: in order; each is taken when there is room for it.
            parallel: episodes that advance together; None: all.
        """
        waiting, live = iter(starts), list[Branch]()
        with ThreadPoolExecutor(max_workers=self._workers) as pool:
            each: Each = pool.map if self._workers > 1 else map
            step_together = partial(step_all, on_step=self._on_step, each=each, compare=self._compare)
            while True:
                while (parallel is None or len(live) < parallel) and (begun := next(waiting, None)):
                    if begun.stop:
                        yield begun
                    else:
                        live.append(begun)
                if not live:
                    return
                played = self._play_turn(live, step_together)
                live = [branch for branch in played if not branch.stop or branch.looks]
                yield from (branch for branch in played if branch.stop and not branch.looks)

    def run_all(self, starts: Iterable[Branch]) -> list[Branch]:
        """Play episodes to their end, in order of their roots."""
        return sorted(self.run(starts), key=lambda branch: int(branch.root))


def complete(live: Sequence[Branch], queries: Callable[[Branch], Queries]) -> list[dict[str, list[Completion]]]:
    """Query the agents of all branches in one batch per policy or shared engine.

    Args:
        live: the branches.
        queries: branch -> policies with requests, of agents that may act.

    Returns:
        For each branch, agent -> its completions.
    """
    batch = [(index, *query) for index, branch in enumerate(live) for query in queries(branch)]
    completions: list[dict[str, list[Completion]]] = [{} for _ in live]
    answers = act_with_tools([(live[index].env, policy, request) for index, policy, request in batch])
    for (index, _, request), candidates in zip(batch, answers, strict=True):
        completions[index][request.agent] = candidates
    return completions


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Number of sampled joint actions, and where a rollout branches.

    Attributes:
        group_size: G, joint actions per branching point (candidates per agent where crossed).
        joint: `aligned` pairs the agents' candidates by index (G joint actions), `cross` takes all G^N.
        turns: `tree` branches at every turn, `independent` at the first only, `best` at every turn from the sibling
            with the largest team reward, where the others end. `by_agent` compares at every turn G candidates of one
            agent after the other, combined with the best candidates (by the agent's own reward) of those before it and
            the first ones of those after it, and continues from the last agent's best (AT-GRPO, arXiv 2510.11062).
            `counterfactual` continues from the first candidates, and also plays every joint action in which one agent
            has another of its candidates, whose later turns are sampled with the same seeds and not compared (C3, arXiv
            2603.06859).
        stop_above: siblings whose mean team reward exceeds this end there; None never stops early.
        look_ahead: agents for which answers are sampled, and not played, where their episode was cut.
    """

    group_size: int = 1
    joint: Literal["aligned", "cross"] = "aligned"
    turns: Turns = "tree"
    stop_above: float | None = None
    look_ahead: tuple[str, ...] = ()


def text_env(id: str, keywords: Mapping[str, Any]) -> TextEnv:
    """Make the environment `id`, which must be a `TextEnv`.

    Raises:
        ConfigError: no such environment or keyword, or one that cannot be forked.
        TaskError: its tasks cannot be read.
    """
    env = make(id, **keywords)
    if not isinstance(env, TextEnv):
        raise ConfigError(f"{id} is not a palaver.envs.base.env.TextEnv, whose fork() a rollout needs")
    return env


def ready_env(id: str, keywords: Mapping[str, Any]) -> TextEnv:
    """Make an environment, with its judge or reward model loaded; see `text_env`."""
    env = text_env(id, keywords)
    if (judged := rewarded(env)) is not None:
        judged.ready()
    return env


def starts(env: TextEnv, tasks: Sequence[str], seed: int, places: Sequence[int] | None = None) -> Iterator[Branch]:
    """Yield a branch of every task; its seed is keyed by the task and its index.

    Args:
        seed: seed of the rollout.
        places: indices of the tasks; 0, 1, ... if None.
    """
    for index, task in zip(range(len(tasks)) if places is None else places, tasks, strict=True):
        yield start(env.fork(), task, stable_seed(seed, "task", index, task), str(index))


def rollout(
    env: TextEnv,
    team: Mapping[str, Policy] | Sequence[Mapping[str, Policy]],
    tasks: Sequence[str],
    plan: SamplingPlan,
    *,
    sampling: Mapping[str, Sampling],
    seed: int,
    workers: int = 1,
    places: Sequence[int] | None = None,
    watch: Callable[[Branch], object] = lambda _: None,
) -> list[Episode]:
    """Play every task with G joint actions per branching point.

    Texts depend on `seed`, the index of the task in `tasks`, the agent and the candidate's index alone, not on the rest
    of the batch.

    Args:
        env: is forked, never stepped itself.
        team: agent -> policy, of all tasks or of each; agents may share one.
        tasks: task ids, one or more; a task may be listed twice.
        plan: the branching.
        sampling: agent -> sampling parameters.
        seed: seed of every draw.
        workers: threads that step environments.
        places: indices of the tasks in a batch that several processes share; 0, 1, ... if None.
        watch: called with each branch before its turns and at its end.

    Returns:
        One episode per leaf, in order of task and branch; those that could not be scored are `unscored` and excluded
        from all comparisons and means. Turns and completions that leaves have in common are the same records,
        identified by `Turn.node` and by (`Turn.group`, agent, `Turn.choice`).
    """
    numbers = range(len(tasks)) if places is None else places
    teams = [team] * len(tasks) if isinstance(team, Mapping) else team
    team_of = dict(zip(map(str, numbers), teams, strict=True))

    def queries(branch: Branch) -> Queries:
        return _queries(branch, team_of[branch.root], plan, sampling, seed)

    def play_turn(live: list[Branch], step_together: StepAll) -> list[Branch]:
        for branch in live:
            watch(branch)
        answered = list(zip(live, complete(live, queries), strict=True))
        pairs = [(branch, candidates) for branch, candidates in answered if not branch.stop]
        if plan.turns == "by_agent":
            stepped = _sweep(pairs, plan, step_together)
        else:
            picked = [(*pair, _picks(*pair, plan)) for pair in pairs]
            stepped = step_together([joint for parts in picked for joint in _branch_out(*parts, plan)])
        if plan.turns == "independent":
            stepped = [with_turn_rewards(branch) for branch in stepped]
        children = stop_early(select_best(stepped) if plan.turns == "best" else stepped, plan.stop_above)
        children = [looking(branch, plan.look_ahead) for branch in children]
        ended, going_on = [b for b in children if b.stop], [b for b in children if not b.stop]
        seen = [foreseen(branch, candidates) for branch, candidates in answered if branch.stop]
        return [*seen, *ended, *going_on]  # those that were cut are asked first

    ends = list(EpisodeRunner(play_turn, workers=workers).run(starts(env, tasks, seed, places)))
    for branch in ends:
        watch(branch)
    names = {root: {agent: policy.name for agent, policy in team.items()} for root, team in team_of.items()}
    return [record(branch, names[branch.root]) for branch in sorted(ends, key=_leaf_order)]


def _leaf_order(branch: Branch) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Number of the task, then the labels of the joint steps."""
    index, *path = branch.node.split("/")
    return int(index), tuple(tuple(map(int, label.split("."))) for label in path)


def record(branch: Branch, team: Mapping[str, str]) -> Episode:
    """Record of an episode that has ended, with the names of its policies."""
    assert branch.stop is not None
    return Episode(branch.env.metadata["name"], branch.task, branch.seed, branch.turns, branch.stop, team)


def play_out(
    branches: Sequence[Branch],
    first: Sequence[Mapping[str, Completion]],
    team: Mapping[str, Policy],
    *,
    sampling: Mapping[str, Sampling],
    seed: int,
    workers: int = 1,
) -> list[Branch]:
    """Play branches in lockstep to their end with one candidate of each agent.

    Args:
        branches: their environments are consumed; draws are keyed by `seed` and `Branch.seeds`.
        first: for each branch, given completions of some agents in its next turn.
        team: agent -> policy.
        sampling: agent -> sampling parameters.
        seed: seed of every draw.
        workers: threads that step environments.
    """
    queries = partial(_queries, team=team, plan=SamplingPlan(), sampling=sampling, seed=seed)
    given = dict(enumerate(first))  # until it is played

    def play_turn(live: list[Branch], step_together: StepAll) -> list[Branch]:
        joints = []
        for branch, candidates in zip(live, complete(live, queries), strict=True):
            texts = given.pop(int(branch.root), {})
            replaced = {agent: [text] for agent, text in texts.items() if agent in candidates}
            joints.append(first_joint(branch, {**candidates, **replaced}))
        return step_together(joints)

    begun = [replace(branch, root=str(n)) for n, branch in enumerate(branches)]
    return [with_turn_rewards(branch) for branch in EpisodeRunner(play_turn, workers=workers).run_all(begun)]


def _queries(
    branch: Branch, team: Mapping[str, Policy], plan: SamplingPlan, sampling: Mapping[str, Sampling], seed: int
) -> Queries:
    """Requests for candidates of every agent of a branch that is to be queried."""
    for agent in branch.looks if branch.stop else branch.env.agents:
        if branch.can_act(agent):
            seeds = tuple(stable_seed(seed, branch.seeds, agent, k) for k in range(_width(branch, plan)))
            tools = tuple(map(schema_of, branch.env.tools(agent)))
            legal = branch.legal_actions(agent)
            policy = team[branch.role(agent, team)]
            conversation, answered = branch.conversations[agent], branch.answered(agent)
            yield policy, Request(agent, conversation, seeds, sampling[agent], tools, legal, answered)


def _width(branch: Branch, plan: SamplingPlan) -> int:
    """Number of candidates sampled for each agent of a branch."""
    alone = branch.aside or (plan.turns == "independent" and branch.turns)
    return 1 if alone else plan.group_size


def _picks(branch: Branch, candidates: Candidates, plan: SamplingPlan) -> list[Pick]:
    """Joint actions that a branch is widened to."""
    agents, width = list(candidates), _width(branch, plan)
    if plan.turns == "counterfactual":
        return frozen(agents) if branch.aside else counterfactual(agents, width)
    return crossed(agents, width) if plan.joint == "cross" else aligned(agents, width)


def _sweep(pairs: Sequence[tuple[Branch, Candidates]], plan: SamplingPlan, step_together: StepAll) -> list[Branch]:
    """Play one turn of all branches, agent by agent; all but the last agent's best end."""
    best: list[tuple[Pick, Branch] | None] = [None] * len(pairs)
    played: list[Branch] = []
    for position in range(max((len(candidates) for _, candidates in pairs), default=0) or 1):
        going = [n for n, (_, candidates) in enumerate(pairs) if position < max(1, len(candidates))]
        picks = {n: swept(list(pairs[n][1]), position, plan.group_size, _so_far(best[n], pairs[n][1])) for n in going}
        stepped = iter(
            step_together([joint for n in going for joint in _branch_out(*pairs[n], picks[n], plan, spend=False)])
        )
        for n in going:
            siblings = [(pick, next(stepped)) for pick in picks[n]]
            played += [branch for _, branch in siblings]
            scored = [pair for pair in siblings if pair[1].stop != "unscored"]
            best[n] = max(scored, key=_own_reward, default=best[n])
    best_nodes = {pair[1].node for pair in best if pair is not None}
    return [branch if branch.node in best_nodes else pruned(branch) for branch in played]


def _so_far(best: tuple[Pick, Branch] | None, candidates: Candidates) -> Mapping[str, int]:
    """Candidates of the other agents: those of the best branch so far, at first the first."""
    return dict.fromkeys(candidates, 0) if best is None else best[0].index


def _own_reward(sibling: tuple[Pick, Branch]) -> float:
    """Reward of the agents whose candidates are compared."""
    pick, branch = sibling
    return sum(branch.turns[-1].rewards[agent] for agent in pick.compared)


def _branch_out(
    branch: Branch, candidates: Candidates, picks: Sequence[Pick], plan: SamplingPlan, spend: bool = True
) -> list[Joint]:
    """Joint actions of one branch, each with a fork; with `spend` the last has the branch's own."""
    first, joints = not branch.turns, []
    for index, pick in enumerate(picks):
        env = branch.env if spend and index == len(picks) - 1 else branch.env.fork()
        branch_index = index if first else branch.branch_index
        node = f"{branch.node}/{pick.label}"
        group, choice = branch.node, {agent: pick.index[agent] for agent in pick.compared}
        if plan.turns == "independent":  # after the first turn candidates differ by their lanes
            group = f"{branch.root}@{len(branch.turns)}"
            choice = choice if first else dict.fromkeys(choice, branch.branch_index)
        seeds = f"{branch.seeds}/{0 if plan.turns == 'counterfactual' else pick.label}"
        completions = {agent: candidates[agent][k] for agent, k in pick.index.items()}
        fork = replace(branch, env=env, branch_index=branch_index, seeds=seeds)
        joints.append(Joint(fork, node, group, choice, completions, pick.aside))
    return joints
