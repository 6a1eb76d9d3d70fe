"""Branches of a rollout: episodes so far, each with its environment, and their next steps.

The one place where trainers read the termination flags of PettingZoo. `terminated` ends the task: states after it have
value 0. `truncated` cuts it by an outer limit, and so does `algorithm.stop_above` (the stop `threshold`): the state
after the cut has a value, which critics and mixers estimate.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from palaver.core import Completion, ConfigError, Conversation, Message
from palaver.envs.base.env import Each, Step, TextEnv
from palaver.episodes import CutState, Stop, Turn, inference_role

MOST_WIDE = 10_000  # joint actions of one task in a turn, beyond which a step would not end

CUT: tuple[Stop, ...] = ("truncated", "threshold")


@dataclass(frozen=True, slots=True)
class Branch:
    """An episode so far.

    Attributes:
        env: its own environment.
        task: its task.
        seed: seed of the episode.
        root: number of its task in the rollout, or of the episode.
        node: name of its last joint step; the root before the first.
        branch_index: index of the root's joint action that it descends from.
        seeds: the name that keys its draws: its node, or for an alternative that of the branch it leaves.
        conversations: agent -> the conversation so far; it ends with all that the agent has not yet answered.
        observations: agent -> the newest observation.
        infos: infos of the last step.
        turns: turns so far.
        stop: how it ended; None before its end.
        aside: True if it is an alternative to a joint action that the episode took.
        looks: agents that its last step cut and whose answers are to be sampled, and not played.
    """

    env: TextEnv
    task: str
    seed: int
    root: str
    node: str
    branch_index: int
    seeds: str
    conversations: Mapping[str, Conversation]
    observations: Mapping[str, str]
    infos: Mapping[str, Mapping[str, Any]]
    turns: tuple[Turn, ...] = ()
    stop: Stop | None = None
    aside: bool = False
    looks: tuple[str, ...] = ()

    def can_act(self, agent: str) -> bool:
        """Return whether the agent may act, or might have acted had the last step not cut it."""
        alive = self.turns[-1].cut_states if self.stop else self.env.agents
        return agent in alive and bool(self.infos[agent].get("can_act", True))

    def legal_actions(self, agent: str) -> tuple[str, ...]:
        """Return the legal next actions of the agent; none if they are not listed."""
        return tuple(self.infos[agent].get("legal_actions", ()))

    def answered(self, agent: str) -> int:
        """Return the number of the agent's answers so far."""
        return sum(agent in turn.completions for turn in self.turns)

    def asked(self, agent: str) -> bool:
        """Return whether the agent's next text answers a question about another agent (`infer`)."""
        return bool(self.infos[agent].get("asked"))

    def role(self, agent: str, team: Collection[str]) -> str:
        """Name in the team of the policy that gives the agent's next text (`inference_role`)."""
        role = inference_role(agent) if self.asked(agent) else agent
        return role if role in team else agent

    def unanswered(self, agent: str) -> str:
        """Return what the agent has not answered yet, cut at its start to `max_length`."""
        last = self.conversations[agent][-1]
        return last.content[-self.env.max_length :] if last.role == "user" else ""


@dataclass(frozen=True, slots=True)
class Joint:
    """One joint action to be played in a branch."""

    branch: Branch
    node: str
    group: str
    choice: dict[str, int]
    completions: dict[str, Completion]
    aside: bool = False


OnStep = Callable[[Joint, Step, Branch], Branch]  # (joint action, result, branch after it) -> the branch as recorded


def start(env: TextEnv, task: str, seed: int, root: str = "0") -> Branch:
    """Reset `env` for a task and `Episode.seed`; return the branch before its first turn.

    Raises:
        TaskError: there is no such task.
    """
    return begin(env, *env.reset(seed=seed % 2**31, options={"task": task}), seed, root)


def begin(
    env: TextEnv,
    observations: Mapping[str, str],
    infos: Mapping[str, Mapping[str, Any]],
    seed: int,
    root: str = "0",
) -> Branch:
    """Branch before the first turn of an environment, from what its reset returned."""
    fresh = env.metadata.get("conversation") == "fresh"
    conversations = {agent: with_observation((), observations[agent], fresh) for agent in env.possible_agents}
    return Branch(env, env.task.id, seed, root, root, 0, root, conversations, observations, infos)


def with_observation(before: Conversation, text: str, fresh: bool) -> Conversation:
    """Append an observation to a conversation; two user messages in a row are merged.

    Many chat templates refuse them.

    Args:
        before: conversation so far.
        text: the observation.
        fresh: True if observations are self-contained, so that the conversation so far is dropped.
    """
    if fresh or not before:
        return (Message("user", text),)
    if before[-1].role == "user":
        unread = before[-1].content
        return (*before[:-1], Message("user", f"{unread}\n\n{text}" if unread and text else unread or text))
    return (*before, Message("user", text))


def first_joint(branch: Branch, candidates: Mapping[str, Sequence[Completion]]) -> Joint:
    """Joint action of the first candidate of each agent, compared with no other."""
    completions = {agent: answers[0] for agent, answers in candidates.items()}
    onward = replace(branch, seeds=f"{branch.seeds}/0")
    return Joint(onward, f"{branch.node}/0", branch.node, dict.fromkeys(completions, 0), completions)


def step_all(
    joints: Sequence[Joint], on_step: OnStep | None = None, each: Each = map, compare: bool = True
) -> list[Branch]:
    """Play the joint actions of a turn together, each in its branch's own environment.

    Args:
        joints: the joint actions.
        on_step: records every joint action that was played.
        each: how single environments are stepped.
        compare: if the joint actions of a group are scored with each other.

    Raises:
        ConfigError: the tree of one task is wider than `MOST_WIDE`.
    """
    if not joints:
        return []
    if max(Counter(joint.branch.root for joint in joints).values()) > MOST_WIDE:
        raise ConfigError(
            f"the tree of a task has grown to more than {MOST_WIDE:,} joint actions in one turn: set "
            "algorithm.turns=independent, which branches at the first turn alone, or lower algorithm.group_size"
        )
    envs = [joint.branch.env for joint in joints]
    actions = [
        {agent: joint.completions[agent].text if agent in joint.completions else None for agent in env.agents}
        for joint, env in zip(joints, envs, strict=True)
    ]
    groups = [joint.group for joint in joints] if compare else ()
    steps = type(envs[0]).step_together(envs, actions, groups, each)
    branches = [after(joint, list(acting), step) for joint, acting, step in zip(joints, actions, steps, strict=True)]
    return list(map(on_step, joints, steps, branches)) if on_step else branches


def after(joint: Joint, acting: Sequence[str], step: Step) -> Branch:
    """Branch after its joint action was played.

    Args:
        joint: the joint action.
        acting: the agents alive before it.
        step: the five dictionaries of PettingZoo.
    """
    branch, completions, everyone = joint.branch, joint.completions, joint.branch.env.possible_agents
    observations, rewards, _, _, infos = step
    turn = Turn(
        index=len(branch.turns),
        node=joint.node,
        parent=branch.node if branch.turns else "",
        group=joint.group,
        choice=joint.choice,
        observations={agent: branch.observations[agent] for agent in acting},
        completions=completions,
        rewards={agent: float(rewards.get(agent, 0.0)) for agent in everyone},
        components={agent: dict(infos[agent]["reward_components"]) if agent in infos else {} for agent in everyone},
        metrics=dict(infos[acting[0]].get("metrics", {})) | _tool_metrics(completions),
        reason=str(infos[acting[0]].get("reason", "")),
        legal={a: list(branch.infos[a]["legal_actions"]) for a in completions if "legal_actions" in branch.infos[a]},
        executed={agent: str(infos[agent]["executed"]) for agent in completions if "executed" in infos.get(agent, ())},
        illegal={agent: int(infos[agent]["illegal"]) for agent in completions if infos.get(agent, {}).get("illegal")},
        asked=[agent for agent in completions if branch.asked(agent)],
        aside=joint.aside,
    )
    stop, cut = ended(branch.env.agents, acting, step)
    fresh = branch.env.metadata.get("conversation") == "fresh"
    answers = {
        agent: completion.messages if completion.steps else (Message("assistant", completion.text),)
        for agent, completion in completions.items()
    }
    read = {
        agent: with_observation((*branch.conversations[agent], *answers.get(agent, ())), text, fresh)
        for agent, text in observations.items()
    }
    stepped = replace(
        branch,
        node=joint.node,
        conversations={**branch.conversations, **read},
        observations=observations,
        infos=infos,
        turns=(*branch.turns, turn),
        stop=stop,
        aside=joint.aside,
    )
    return cut_off(stepped, cut)


def _tool_metrics(completions: Mapping[str, Completion]) -> dict[str, float]:
    """Number of calls of tools in a turn, and of those with an error; empty without calls."""
    steps = [step for completion in completions.values() for step in completion.steps]
    calls, faults = sum(len(step.results) for step in steps), sum(len(step.faults) for step in steps)
    return {"tool_calls": float(calls), "tool_faults": float(faults)} if steps else {}


def ended(live: Collection[str], acting: Sequence[str], step: Step) -> tuple[Stop | None, tuple[str, ...]]:
    """Return how a step ended the episode (None if it continues), and the agents that it cut.

    An agent is cut if it is truncated and not terminated. An episode is `terminated` if its last agents all are.

    Args:
        live: the agents alive after the step.
        acting: those alive before it.
        step: the five dictionaries of PettingZoo.
    """
    _, _, terminations, truncations, infos = step
    if any(info.get("unscored") for info in infos.values()):
        return "unscored", ()
    cut = tuple(agent for agent in acting if truncations[agent] and not terminations[agent])
    if live:
        return None, cut
    return ("terminated" if all(terminations[agent] for agent in acting) else "truncated"), cut


def cut_off(branch: Branch, agents: Collection[str]) -> Branch:
    """Add the states of these agents, which the last step cut, to a branch."""
    states = {agent: CutState(branch.observations[agent], branch.conversations[agent]) for agent in agents}
    return _with_cut_states(branch, {**branch.turns[-1].cut_states, **states}) if states else branch


def looking(branch: Branch, agents: Collection[str]) -> Branch:
    """Branch in which the cut ones of these agents are to be queried once more."""
    cut = branch.turns[-1].cut_states if branch.stop in CUT else ()
    return replace(branch, looks=tuple(agent for agent in cut if agent in agents))


def foreseen(branch: Branch, candidates: Mapping[str, Sequence[Completion]]) -> Branch:
    """Add answers that the agents might have given after the cut to a branch, and end it."""
    states = branch.turns[-1].cut_states
    added = {agent: replace(state, candidates=tuple(candidates.get(agent, ()))) for agent, state in states.items()}
    return replace(_with_cut_states(branch, added), looks=())


def _with_cut_states(branch: Branch, states: Mapping[str, CutState]) -> Branch:
    return replace(branch, turns=(*branch.turns[:-1], replace(branch.turns[-1], cut_states=states)))


def with_turn_rewards(branch: Branch) -> Branch:
    """Replace a chain's rewards by those per turn that its environment gives at the end, if any.

    A tree's earlier turns belong to several leaves, so that they keep their rewards.
    """
    earned = {agent: info["turn_rewards"] for agent, info in branch.infos.items() if "turn_rewards" in info}
    turns = []
    for turn in branch.turns if earned else ():
        parts = {agent: dict(earned[agent][turn.index]) if agent in earned else {} for agent in turn.rewards}
        rewards = {agent: math.fsum(parts[agent].values()) for agent in parts}
        turns.append(replace(turn, components=parts, rewards=rewards))
    return replace(branch, turns=tuple(turns)) if earned else branch


@dataclass(frozen=True, slots=True)
class Pick:
    """One joint action of candidates.

    Attributes:
        label: last part of the name of its joint step, numbers with dots between them.
        index: agent -> index of its candidate, for every agent that acts.
        compared: agents whose candidates this joint action compares; the texts of the others are context.
        aside: True if it is an alternative to the joint action that the episode takes.
    """

    label: str
    index: Mapping[str, int]
    compared: tuple[str, ...]
    aside: bool = False


def aligned(agents: Sequence[str], width: int) -> list[Pick]:
    """Candidates paired by index: `width` joint actions, one if no agent acts."""
    return [Pick(str(k), dict.fromkeys(agents, k), tuple(agents)) for k in range(width if agents else 1)]


def crossed(agents: Sequence[str], width: int) -> list[Pick]:
    """All width^N combinations."""
    combinations = itertools.product(range(width), repeat=len(agents))
    return [
        Pick(".".join(map(str, choice)) or "0", dict(zip(agents, choice, strict=True)), tuple(agents))
        for choice in combinations
    ]


def swept(agents: Sequence[str], position: int, width: int, index: Mapping[str, int]) -> list[Pick]:
    """All candidates of agent `position`, with the others' in `index`.

    AT-GRPO, arXiv 2510.11062.
    """
    if not agents:
        return aligned(agents, width)
    agent = agents[position]
    return [Pick(f"{position}.{k}", {**index, agent: k}, (agent,)) for k in range(width)]


def counterfactual(agents: Sequence[str], width: int) -> list[Pick]:
    """The first candidates, and all changes of one agent's candidate. C3, arXiv 2603.06859.

    1 + N (width - 1) joint actions.
    """
    base = dict.fromkeys(agents, 0)
    return [
        Pick("0", base, tuple(agents)),
        *(
            Pick(f"{position}.{k}", {**base, agent: k}, (agent,), aside=True)
            for position, agent in enumerate(agents, start=1)
            for k in range(1, width)
        ),
    ]


def frozen(agents: Sequence[str]) -> list[Pick]:
    """One candidate of each agent, none of them compared: the continuation of an alternative."""
    return [Pick("0", dict.fromkeys(agents, 0), (), aside=True)]


def select_best(branches: list[Branch]) -> list[Branch]:
    """End all siblings but the first one with the largest team reward this turn."""
    best: dict[str, Branch] = {}
    for branch in _scored(branches):
        leader = best.setdefault(branch.turns[-1].group, branch)
        if branch.turns[-1].team_reward > leader.turns[-1].team_reward:
            best[branch.turns[-1].group] = branch
    best_nodes = {branch.node for branch in best.values()}
    return [branch if branch.node in best_nodes else pruned(branch) for branch in branches]


def _scored(branches: Sequence[Branch]) -> list[Branch]:
    return [branch for branch in branches if branch.stop != "unscored"]


def stop_early(branches: list[Branch], above: float | None) -> list[Branch]:
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


def pruned(branch: Branch) -> Branch:
    """The branch, ended for a better sibling unless it has ended already."""
    return replace(branch, stop=branch.stop or "pruned")
