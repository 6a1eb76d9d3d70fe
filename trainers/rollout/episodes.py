"""Lockstep rollout: all live episodes advance together, in one batch per policy and turn.

At each turn every live branch is widened: w candidates are sampled for each of its agents, combined into joint actions
(`candidates.py`), and the branch is forked once per joint action. A tree widens G ways at every turn; independent
continuation widens at the first turn only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

from palaver.agents.base.policy import Policy, act_batched
from palaver.core import (
    Completion,
    ConfigError,
    Episode,
    Request,
    Sampling,
    stable_seed,
)
from palaver.envs.base.env import Each, TextEnv
from palaver.registry import make
from palaver.trainers.config.run import Turns
from palaver.trainers.rollout.branches import (
    Branch,
    Joint,
    cut_off,
    foreseen,
    observe,
    start_branch,
    step_all,
    with_turn_rewards,
)
from palaver.trainers.rollout.candidates import Pick, aligned, counterfactual, crossed, frozen, swept
from palaver.trainers.rollout.ends import CUT

Words = Mapping[str, list[Completion]]  # agent -> its candidates


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


def rollout(
    env: TextEnv,
    team: Mapping[str, Policy],
    tasks: Sequence[str],
    plan: SamplingPlan,
    *,
    sampling: Mapping[str, Sampling],
    seed: int,
    workers: int = 1,
    places: Sequence[int] | None = None,
) -> list[Episode]:
    """Play every task with G joint actions per branching point.

    Texts depend on `seed`, the index of the task in `tasks`, the agent and the candidate's index alone, not on the rest
    of the batch.

    Args:
        env: is forked, never stepped itself.
        team: agent -> policy; agents may share one.
        tasks: task ids, one or more; a task may be listed twice.
        plan: the branching.
        sampling: agent -> sampling parameters.
        seed: seed of every draw.
        workers: threads that step environments.
        places: indices of the tasks in a batch that several processes share; 0, 1, ... if None.

    Returns:
        One episode per leaf, in order of task and branch; those that could not be scored are `unscored` and excluded
        from all comparisons and means. Turns and completions that leaves have in common are the same records,
        identified by `Turn.node` and by (`Turn.group`, agent, `Turn.choice`).
    """
    numbers = range(len(tasks)) if places is None else places
    live = [start_branch(env, task, index, seed) for index, task in zip(numbers, tasks, strict=True)]
    done: list[Branch] = []
    cut: list[Branch] = []  # whose next answers are sampled in the batch of those that go on
    with ThreadPoolExecutor(max_workers=workers) as pool:
        while live or cut:
            spoken = _complete([*cut, *live], team, sampling, plan, seed)
            done += [foreseen(branch, words) for branch, words in zip(cut, spoken, strict=False)]
            words = list(zip(live, spoken[len(cut) :], strict=True))
            map_function: Each = pool.map if workers > 1 else map
            stepped = (
                _sweep(words, plan, map_function)
                if plan.turns == "by_agent"
                else _branch_out_all(words, plan, map_function)
            )
            if plan.turns == "independent":
                stepped = [with_turn_rewards(branch) for branch in stepped]
            children = _stop_early(_select_best(stepped) if plan.turns == "best" else stepped, plan.stop_above)
            held = CUT if plan.look_ahead else ()
            cut = [branch for branch in children if branch.stop in held]
            done += [branch for branch in children if branch.stop and branch.stop not in held]
            live = [branch for branch in children if not branch.stop]
    names = {agent: policy.name for agent, policy in team.items()}
    done.sort(key=_sort_key)
    name = env.metadata["name"]
    return [Episode(name, b.task, b.seed, b.turns, b.stop, names) for b in done if b.stop]


def _sort_key(branch: Branch) -> tuple[int, tuple[tuple[int, ...], ...]]:
    index, *path = branch.node.split("/")
    return int(index), tuple(tuple(map(int, label.split("."))) for label in path)


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
    played = list(branches)
    texts: Sequence[Mapping[str, Completion]] = first
    with ThreadPoolExecutor(max_workers=workers) as pool:
        while going := [n for n, branch in enumerate(played) if not branch.stop]:
            spoken = _complete([played[n] for n in going], team, sampling, SamplingPlan(), seed)
            words = [
                (played[n], candidates | {agent: [text] for agent, text in texts[n].items() if agent in candidates})
                for n, candidates in zip(going, spoken, strict=True)
            ]
            stepped = _branch_out_all(words, SamplingPlan(), pool.map if workers > 1 else map)
            for n, branch in zip(going, stepped, strict=True):
                played[n] = branch
            texts = [{}] * len(played)
    return [with_turn_rewards(branch) for branch in played]


def _complete(
    live: Sequence[Branch],
    team: Mapping[str, Policy],
    sampling: Mapping[str, Sampling],
    plan: SamplingPlan,
    seed: int,
) -> list[dict[str, list[Completion]]]:
    """Sample candidates for every agent that may act, in one batch per policy or shared host.

    In a branch that was cut only the policies of the agents in `plan.look_ahead` are queried.
    """
    requests: list[tuple[int, Policy, Request]] = []
    for index, branch in enumerate(live):
        looks = [agent for agent in branch.turns[-1].cut_states if agent in plan.look_ahead] if branch.stop else None
        for agent in branch.env.agents if looks is None else looks:
            if branch.infos[agent].get("can_act", True):
                seeds = tuple(stable_seed(seed, branch.seeds, agent, k) for k in range(_width(branch, plan)))
                request = Request(agent, observe(branch, agent), seeds, sampling[agent])
                requests.append((index, team[agent], request))
    spoken: list[dict[str, list[Completion]]] = [{} for _ in live]
    responses = act_batched([(policy, request) for _, policy, request in requests])
    for (index, _, request), answers in zip(requests, responses, strict=True):
        spoken[index][request.agent] = answers
    return spoken


def _width(branch: Branch, plan: SamplingPlan) -> int:
    """Number of candidates sampled for each agent of a branch."""
    alone = branch.aside or (plan.turns == "independent" and branch.turns)
    return 1 if alone else plan.group_size


def _branch_out_all(words: Sequence[tuple[Branch, Words]], plan: SamplingPlan, map_function: Each) -> list[Branch]:
    """Play the joint actions of all branches."""
    joints = [
        joint
        for branch, candidates in words
        for joint in _branch_out(branch, candidates, _picks(branch, candidates, plan), plan)
    ]
    return step_all(joints, map_function) if joints else []


def _picks(branch: Branch, words: Words, plan: SamplingPlan) -> list[Pick]:
    """Joint actions that a branch is widened to."""
    agents, width = list(words), _width(branch, plan)
    if plan.turns == "counterfactual":
        return frozen(agents) if branch.aside else counterfactual(agents, width)
    return crossed(agents, width) if plan.joint == "cross" else aligned(agents, width)


def _sweep(words: Sequence[tuple[Branch, Words]], plan: SamplingPlan, map_function: Each) -> list[Branch]:
    """Play one turn of all branches, agent by agent; all but the last agent's best end."""
    best: list[tuple[Pick, Branch] | None] = [None] * len(words)
    played: list[Branch] = []
    for position in range(max((len(candidates) for _, candidates in words), default=0) or 1):
        going = [n for n, (_, candidates) in enumerate(words) if position < max(1, len(candidates))]
        picks = {n: swept(list(words[n][1]), position, plan.group_size, _so_far(best[n], words[n][1])) for n in going}
        joints = [joint for n in going for joint in _branch_out(*words[n], picks[n], plan, spend=False)]
        stepped = iter(step_all(joints, map_function)) if joints else iter(())
        for n in going:
            siblings = [(pick, next(stepped)) for pick in picks[n]]
            played += [branch for _, branch in siblings]
            scored = [pair for pair in siblings if pair[1].stop != "unscored"]
            compared = siblings[0][0].compared
            best[n] = max(scored, key=lambda pair: _own_reward(pair[1], compared), default=best[n])
    best_nodes = {pair[1].node for pair in best if pair is not None}
    return [branch if branch.node in best_nodes else _pruned(branch) for branch in played]


def _so_far(best: tuple[Pick, Branch] | None, words: Words) -> Mapping[str, int]:
    """Candidates of the other agents: those of the best branch so far, at first the first."""
    return dict.fromkeys(words, 0) if best is None else best[0].index


def _own_reward(branch: Branch, agents: Sequence[str]) -> float:
    return sum(branch.turns[-1].rewards[agent] for agent in agents)


def _pruned(branch: Branch) -> Branch:
    return replace(branch, stop=branch.stop or "pruned")


def _branch_out(
    branch: Branch, words: Words, picks: Sequence[Pick], plan: SamplingPlan, spend: bool = True
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
        completions = {agent: words[agent][k] for agent, k in pick.index.items()}
        fork = replace(branch, env=env, branch_index=branch_index, seeds=seeds)
        joints.append(Joint(fork, node, group, choice, completions, pick.aside))
    return joints


def _select_best(branches: list[Branch]) -> list[Branch]:
    """End all siblings but the first one with the largest team reward this turn."""
    best: dict[str, Branch] = {}
    for branch in _scored(branches):
        leader = best.setdefault(branch.turns[-1].group, branch)
        if branch.turns[-1].team_reward > leader.turns[-1].team_reward:
            best[branch.turns[-1].group] = branch
    best_nodes = {branch.node for branch in best.values()}
    return [branch if branch.node in best_nodes else _pruned(branch) for branch in branches]


def _scored(branches: Sequence[Branch]) -> list[Branch]:
    return [branch for branch in branches if branch.stop != "unscored"]


def _stop_early(branches: list[Branch], above: float | None) -> list[Branch]:
    """End siblings whose mean team reward this turn is above the threshold."""
    if above is None:
        return branches
    rewards: dict[str, list[float]] = {}
    for branch in _scored(branches):
        rewards.setdefault(branch.turns[-1].group, []).append(branch.turns[-1].team_reward)
    over = {group for group, values in rewards.items() if sum(values) / len(values) > above}
    return [
        cut_off(replace(b, stop="threshold"), b.env.agents) if not b.stop and b.turns[-1].group in over else b
        for b in branches
    ]
