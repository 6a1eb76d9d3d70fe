"""Lockstep rollout: all live episodes advance together, and every policy gets one batch a turn.

At each turn every live branch is widened: its agents are asked for w candidates each, the candidates are combined into
joint actions (aligned by index, or all combinations), and the branch is forked once per joint action. A tree widens G
ways at every turn; independent continuation widens at the first turn only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

from palaver.agents.policy import Policy, speak
from palaver.core import (
    Ahead,
    ConfigError,
    Conversation,
    Episode,
    Message,
    Request,
    Sampling,
    Stop,
    Turn,
    Utterance,
    stable_seed,
)
from palaver.envs.base import Each, Step, TextEnv
from palaver.registry import make
from palaver.trainers.ends import CUT, ended


@dataclass(frozen=True, slots=True)
class Plan:
    """How many joint actions are sampled, and where.

    Attributes:
        group_size: G, joint actions per branching point (candidates per agent where crossed).
        joint: `aligned` pairs the agents' candidates by index (G joint actions), `cross` takes all G^N.
        turns: `tree` branches at every turn, `independent` at the first only, `best` at every turn from the sibling
            with the largest team reward, where the others end (AT-GRPO, arXiv 2510.11062).
        stop_above: siblings whose mean team reward exceeds this end there; None never stops early.
        look_ahead: agents for which answers are sampled, and not played, where their episode was cut.
    """

    group_size: int = 1
    joint: Literal["aligned", "cross"] = "aligned"
    turns: Literal["tree", "independent", "best"] = "tree"
    stop_above: float | None = None
    look_ahead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Branch:
    env: TextEnv
    task: str
    seed: int
    root: str
    node: str
    lane: int  # which of the root's joint actions this branch descends from
    heard: Mapping[str, Conversation]  # what each agent has seen and said
    observations: Mapping[str, str]
    unread: Mapping[str, str]  # what an agent that waits was told before the newest observation
    infos: Mapping[str, Mapping[str, Any]]
    turns: tuple[Turn, ...] = ()
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class _Joint:
    """One joint action about to be played."""

    branch: _Branch
    node: str
    group: str
    choice: dict[str, int]
    said: dict[str, Utterance]


def text_env(id: str, keywords: Mapping[str, Any]) -> TextEnv:
    """The environment `id` with these keywords, if a rollout can drive it.

    Raises:
        ConfigError: no such environment or keyword, or one that cannot be forked.
        TaskError: its tasks cannot be read.
    """
    env = make(id, **keywords)
    if not isinstance(env, TextEnv):
        raise ConfigError(f"{id} is not a palaver.envs.base.TextEnv, whose fork() a rollout needs")
    return env


def rollout(
    env: TextEnv,
    team: Mapping[str, Policy],
    tasks: Sequence[str],
    plan: Plan,
    *,
    sampling: Mapping[str, Sampling],
    seed: int,
    workers: int = 1,
    places: Sequence[int] | None = None,
) -> list[Episode]:
    """Play every task with G joint actions per branching point.

    Texts depend on `seed`, the place of the task in `tasks`, the agent and the candidate's index alone, never on what
    shares a batch.

    Args:
        env: is forked, never stepped itself.
        team: agent -> policy; agents may share one.
        tasks: task ids, one or more; a task may be listed twice.
        plan: the branching.
        sampling: agent -> how it samples.
        seed: of every draw.
        workers: threads that step environments.
        places: the tasks' places in a batch that several processes share; 0, 1, ... if none.

    Returns:
        One episode per leaf, in order of task and branch; those that could not be scored are `unscored`, and whoever
        compares or averages leaves them out. Turns and utterances that leaves have in common are the same
        records, told by `Turn.node` and by (`Turn.group`, agent, `Turn.choice`).
    """
    numbers = range(len(tasks)) if places is None else places
    live = [_open(env, task, place, seed) for place, task in zip(numbers, tasks, strict=True)]
    done: list[_Branch] = []
    cut: list[_Branch] = []  # whose next answers are sampled in the batch of those that go on
    with ThreadPoolExecutor(max_workers=workers) as pool:
        while live or cut:
            width = 1 if plan.turns == "independent" and (live or cut)[0].turns else plan.group_size
            spoken = _speak([*cut, *live], team, sampling, width, seed, plan.look_ahead)
            done += [_foreseen(branch, words) for branch, words in zip(cut, spoken, strict=False)]
            words = zip(live, spoken[len(cut) :], strict=True)
            joints = [joint for branch, said in words for joint in _widen(branch, said, plan, width)]
            stepped = _step(joints, pool.map if workers > 1 else map) if joints else []
            if plan.turns == "independent":
                stepped = [_booked(branch) for branch in stepped]
            children = _stop_early(_outdo(stepped) if plan.turns == "best" else stepped, plan.stop_above)
            held = CUT if plan.look_ahead else ()
            cut = [branch for branch in children if branch.stop in held]
            done += [branch for branch in children if branch.stop and branch.stop not in held]
            live = [branch for branch in children if not branch.stop]
    names = {agent: policy.name for agent, policy in team.items()}
    done.sort(key=_place)
    name = env.metadata["name"]
    return [Episode(name, b.task, b.seed, b.turns, b.stop, names) for b in done if b.stop]


def start(env: TextEnv, task: str, seed: int) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Reset `env` as the rollout resets it for the episode with this task and `Episode.seed`; what `reset` returns.

    Raises:
        TaskError: there is no such task.
    """
    return env.reset(seed=seed % 2**31, options={"task": task})


def again(env: TextEnv, episodes: Sequence[Episode], workers: int = 1) -> list[Episode]:
    """Play recorded episodes once more: the environment hears the recorded texts, and pays as it pays now.

    Turns hold what the environment now tells, so that they show where the record no longer matches. Whoever may not
    act any more is not heard, and turns after the end are left out. An episode that the environment does not end is
    `truncated` where its record was ended by the environment, else it stops as recorded.

    Args:
        env: is forked, never stepped itself.
        episodes: as saved; token ids are not needed. All advance together.
        workers: threads that step environments.

    Raises:
        TaskError: the environment has no such task.
    """
    branches = [_reopened(env, episode) for episode in episodes]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        for number in range(max((len(episode.turns) for episode in episodes), default=0)):
            going = [n for n, each in enumerate(branches) if not each.stop and number < len(episodes[n].turns)]
            joints = [_repeated(branches[n], episodes[n].turns[number]) for n in going]
            stepped = _step(joints, pool.map if workers > 1 else map) if joints else []
            for n, branch in zip(going, stepped, strict=True):
                branches[n] = branch
    return [_closed(_booked(branch), episode) for branch, episode in zip(branches, episodes, strict=True)]


def _reopened(env: TextEnv, episode: Episode) -> _Branch:
    own = env.fork()
    observations, infos = start(own, episode.task, episode.seed)
    root = episode.turns[0].node.partition("/")[0] if episode.turns else "0"
    heard: dict[str, Conversation] = dict.fromkeys(own.possible_agents, ())
    return _Branch(own, episode.task, episode.seed, root, root, 0, heard, observations, {}, infos)


def _repeated(branch: _Branch, turn: Turn) -> _Joint:
    said = {agent: text for agent, text in turn.utterances.items() if agent in branch.env.agents}
    return _Joint(branch, turn.node, turn.group, dict(turn.choice), said)


def _closed(branch: _Branch, episode: Episode) -> Episode:
    stop = branch.stop or ("truncated" if episode.stop in ("terminated", "unscored") else episode.stop)
    return Episode(episode.env, episode.task, episode.seed, branch.turns, stop, episode.team)


def _place(branch: _Branch) -> tuple[int, tuple[tuple[int, ...], ...]]:
    number, *path = branch.node.split("/")
    return int(number), tuple(tuple(map(int, part.split("."))) for part in path)


def _open(env: TextEnv, task: str, place: int, seed: int) -> _Branch:
    own = env.fork()
    task_seed = stable_seed(seed, "task", place, task)
    observations, infos = start(own, task, task_seed)
    return _Branch(
        own, task, task_seed, str(place), str(place), 0, dict.fromkeys(env.possible_agents, ()), observations, {}, infos
    )


def _speak(
    live: Sequence[_Branch],
    team: Mapping[str, Policy],
    sampling: Mapping[str, Sampling],
    width: int,
    seed: int,
    look_ahead: Collection[str],
) -> list[dict[str, list[Utterance]]]:
    """`width` candidates of every agent that may act, one batch per policy, or for policies of one host.

    Of a branch that was cut only the agents in `look_ahead` are asked.
    """
    asked: list[tuple[int, Policy, Request]] = []
    for index, branch in enumerate(live):
        for agent in [a for a in branch.turns[-1].ahead if a in look_ahead] if branch.stop else branch.env.agents:
            if branch.infos[agent].get("can_act", True):
                seeds = tuple(stable_seed(seed, branch.node, agent, k) for k in range(width))
                request = Request(agent, _hear(branch, agent), seeds, sampling[agent])
                asked.append((index, team[agent], request))
    spoken: list[dict[str, list[Utterance]]] = [{} for _ in live]
    said = speak([(policy, request) for _, policy, request in asked])
    for (index, _, request), answers in zip(asked, said, strict=True):
        spoken[index][request.agent] = answers
    return spoken


def _hear(branch: _Branch, agent: str) -> Conversation:
    """The conversation with all that the agent has not yet answered as its last message.

    What it was told while it waited stands before the newest observation: many chat templates refuse two messages of
    the user in a row.
    """
    if branch.env.metadata.get("conversation") == "fresh":
        return (Message("user", branch.observations[agent]),)
    return (*branch.heard[agent], Message("user", _told(branch, agent)))


def _told(branch: _Branch, agent: str) -> str:
    parts = (branch.unread.get(agent, ""), branch.observations[agent])
    return "\n\n".join(part for part in parts if part)


def _widen(branch: _Branch, words: Mapping[str, list[Utterance]], plan: Plan, width: int) -> list[_Joint]:
    """The joint actions of one branch, each with a fork of its own."""
    agents = list(words)
    combinations: list[tuple[int, ...]]
    if plan.joint == "cross":
        combinations = list(itertools.product(range(width), repeat=len(agents)))
    else:
        combinations = [(k,) * len(agents) for k in range(width if agents else 1)]
    first = not branch.turns
    joints = []
    for number, picked in enumerate(combinations):
        env = branch.env if number == len(combinations) - 1 else branch.env.fork()
        label = ".".join(map(str, picked if plan.joint == "cross" else picked[:1])) or "0"
        lane = number if first else branch.lane
        if plan.turns != "independent":
            group, choice = branch.node, picked
        else:  # after the first turn a branch has one candidate, told from its siblings' by its lane
            group, choice = f"{branch.root}@{len(branch.turns)}", picked if first else (branch.lane,) * len(agents)
        said = {agent: words[agent][k] for agent, k in zip(agents, picked, strict=True)}
        chosen = dict(zip(agents, choice, strict=True))
        joints.append(_Joint(replace(branch, env=env, lane=lane), f"{branch.node}/{label}", group, chosen, said))
    return joints


def _step(joints: Sequence[_Joint], each: Each) -> list[_Branch]:
    """Play each joint action in its branch's own environment, all of a turn together."""
    envs = [joint.branch.env for joint in joints]
    actions = [
        {agent: joint.said[agent].text if agent in joint.said else None for agent in joint.branch.env.agents}
        for joint in joints
    ]
    steps = type(envs[0]).step_together(envs, actions, [joint.group for joint in joints], each)
    return [_follow(*parts) for parts in zip(joints, map(list, actions), steps, strict=True)]


def _follow(joint: _Joint, acting: Sequence[str], step: Step) -> _Branch:
    """The branch after its joint action was played."""
    branch, said, everyone = joint.branch, joint.said, joint.branch.env.possible_agents
    observations, rewards, _, _, infos = step
    turn = Turn(
        index=len(branch.turns),
        node=joint.node,
        parent=branch.node if branch.turns else "",
        group=joint.group,
        choice=joint.choice,
        observations={agent: branch.observations[agent] for agent in acting},
        utterances=said,
        rewards={agent: float(rewards.get(agent, 0.0)) for agent in everyone},
        components={agent: dict(infos[agent]["reward_components"]) if agent in infos else {} for agent in everyone},
        metrics=dict(infos[acting[0]].get("metrics", {})),
        reason=str(infos[acting[0]].get("reason", "")),
        legal={a: list(branch.infos[a]["legal_actions"]) for a in said if "legal_actions" in branch.infos[a]},
        executed={agent: str(infos[agent]["executed"]) for agent in said if "executed" in infos.get(agent, ())},
        illegal={agent: int(infos[agent]["illegal"]) for agent in said if infos.get(agent, {}).get("illegal")},
    )
    stop, cut = ended(branch.env.agents, acting, step)
    heard = {
        agent: (*_hear(branch, agent), Message("assistant", said[agent].text)) if agent in said else past
        for agent, past in branch.heard.items()
    }
    after = replace(
        branch,
        node=joint.node,
        heard=heard,
        observations=observations,
        unread={agent: _told(branch, agent) for agent in acting if agent not in said},
        infos=infos,
        turns=(*branch.turns, turn),
        stop=stop,
    )
    return _cut(after, cut)


def _cut(branch: _Branch, agents: Collection[str]) -> _Branch:
    """The branch with the states of these agents, which its last step cut."""
    found = {agent: Ahead(branch.observations[agent], _hear(branch, agent)) for agent in agents}
    return _ahead(branch, {**branch.turns[-1].ahead, **found}) if found else branch


def _foreseen(branch: _Branch, words: Mapping[str, Sequence[Utterance]]) -> _Branch:
    """The branch with the answers that its agents might have given after the cut."""
    states = branch.turns[-1].ahead
    return _ahead(branch, {agent: replace(s, candidates=tuple(words.get(agent, ()))) for agent, s in states.items()})


def _ahead(branch: _Branch, states: Mapping[str, Ahead]) -> _Branch:
    return replace(branch, turns=(*branch.turns[:-1], replace(branch.turns[-1], ahead=states)))


def _booked(branch: _Branch) -> _Branch:
    """A chain whose environment says at the end what each turn has earned, with that in place of what was paid when.

    A tree's earlier turns belong to several leaves, so that they keep what they were paid.
    """
    earned = {agent: info["earned"] for agent, info in branch.infos.items() if "earned" in info}
    turns = []
    for turn in branch.turns if earned else ():
        parts = {agent: dict(earned[agent][turn.index]) if agent in earned else {} for agent in turn.rewards}
        paid = {agent: math.fsum(parts[agent].values()) for agent in parts}
        turns.append(replace(turn, components=parts, rewards=paid))
    return replace(branch, turns=tuple(turns)) if earned else branch


def _outdo(branches: list[_Branch]) -> list[_Branch]:
    """End all siblings but the first of those with the largest team reward this turn."""
    best: dict[str, _Branch] = {}
    for branch in _scored(branches):
        leader = best.setdefault(branch.turns[-1].group, branch)
        if branch.turns[-1].team_reward > leader.turns[-1].team_reward:
            best[branch.turns[-1].group] = branch
    kept = {branch.node for branch in best.values()}
    return [branch if branch.node in kept else replace(branch, stop=branch.stop or "outdone") for branch in branches]


def _scored(branches: Sequence[_Branch]) -> list[_Branch]:
    return [branch for branch in branches if branch.stop != "unscored"]


def _stop_early(branches: list[_Branch], above: float | None) -> list[_Branch]:
    """End the siblings whose mean team reward this turn is above the threshold."""
    if above is None:
        return branches
    rewards: dict[str, list[float]] = {}
    for branch in _scored(branches):
        rewards.setdefault(branch.turns[-1].group, []).append(branch.turns[-1].team_reward)
    over = {group for group, values in rewards.items() if sum(values) / len(values) > above}
    return [
        _cut(replace(b, stop="threshold"), b.env.agents) if not b.stop and b.turns[-1].group in over else b
        for b in branches
    ]
