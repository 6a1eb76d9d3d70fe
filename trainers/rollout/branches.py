"""Branches of a rollout: episodes so far, each with its environment, and their next steps."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from palaver.core import Completion, Conversation, CutState, Message, Stop, Turn, stable_seed
from palaver.envs.base.env import Each, Step, TextEnv
from palaver.trainers.rollout.ends import ended


@dataclass(frozen=True, slots=True)
class Branch:
    """An episode so far.

    Attributes:
        env: its own environment.
        task: its task.
        seed: seed of the episode.
        root: name of its task in the rollout.
        node: name of its last joint step; the root before the first.
        branch_index: index of the root's joint action that it descends from.
        seeds: the name that keys its draws: its node, or for an alternative that of the branch it leaves.
        conversations: agent -> the conversation so far.
        observations: agent -> the newest observation.
        unread: agent -> earlier observations that the agent has not yet answered.
        infos: infos of the last step.
        turns: turns so far.
        stop: how it ended; None before its end.
        aside: True if it is an alternative to a joint action that the episode took.
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
    unread: Mapping[str, str]
    infos: Mapping[str, Mapping[str, Any]]
    turns: tuple[Turn, ...] = ()
    stop: Stop | None = None
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Joint:
    """One joint action to be played in a branch."""

    branch: Branch
    node: str
    group: str
    choice: dict[str, int]
    completions: dict[str, Completion]
    aside: bool = False


def start(env: TextEnv, task: str, seed: int) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Reset `env` as a rollout does for this task and `Episode.seed`; return as `reset`.

    Raises:
        TaskError: there is no such task.
    """
    return env.reset(seed=seed % 2**31, options={"task": task})


def start_branch(env: TextEnv, task: str, index: int, seed: int) -> Branch:
    """Branch of a task before its first turn; its draws are keyed by the task and its index."""
    fork = env.fork()
    task_seed = stable_seed(seed, "task", index, task)
    observations, infos = start(fork, task, task_seed)
    root, conversations = str(index), dict[str, Conversation].fromkeys(env.possible_agents, ())
    return Branch(fork, task, task_seed, root, root, 0, root, conversations, observations, {}, infos)


def observe(branch: Branch, agent: str) -> Conversation:
    """The agent's conversation, with all unanswered observations as the last message.

    Observations from turns in which it waited are put before the newest one: many chat templates refuse two user
    messages in a row.
    """
    if branch.env.metadata.get("conversation") == "fresh":
        return (Message("user", branch.observations[agent]),)
    return (*branch.conversations[agent], Message("user", _new_observations(branch, agent)))


def _new_observations(branch: Branch, agent: str) -> str:
    parts = (branch.unread.get(agent, ""), branch.observations[agent])
    return "\n\n".join(text for text in parts if text)


def step_all(joints: Sequence[Joint], map_function: Each) -> list[Branch]:
    """Play the joint actions of a turn together, each in its branch's own environment."""
    envs = [joint.branch.env for joint in joints]
    actions = [
        {
            agent: joint.completions[agent].text if agent in joint.completions else None
            for agent in joint.branch.env.agents
        }
        for joint in joints
    ]
    steps = type(envs[0]).step_together(envs, actions, [joint.group for joint in joints], map_function)
    return [_step_branch(*parts) for parts in zip(joints, map(list, actions), steps, strict=True)]


def _step_branch(joint: Joint, acting: Sequence[str], step: Step) -> Branch:
    """Branch after its joint action was played."""
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
        metrics=dict(infos[acting[0]].get("metrics", {})),
        reason=str(infos[acting[0]].get("reason", "")),
        legal={a: list(branch.infos[a]["legal_actions"]) for a in completions if "legal_actions" in branch.infos[a]},
        executed={agent: str(infos[agent]["executed"]) for agent in completions if "executed" in infos.get(agent, ())},
        illegal={agent: int(infos[agent]["illegal"]) for agent in completions if infos.get(agent, {}).get("illegal")},
        aside=joint.aside,
    )
    stop, cut = ended(branch.env.agents, acting, step)
    conversations = {
        agent: (*observe(branch, agent), Message("assistant", completions[agent].text))
        if agent in completions
        else past
        for agent, past in branch.conversations.items()
    }
    after = replace(
        branch,
        node=joint.node,
        conversations=conversations,
        observations=observations,
        unread={agent: _new_observations(branch, agent) for agent in acting if agent not in completions},
        infos=infos,
        turns=(*branch.turns, turn),
        stop=stop,
        aside=joint.aside,
    )
    return cut_off(after, cut)


def cut_off(branch: Branch, agents: Collection[str]) -> Branch:
    """Add the states of these agents, which the last step cut, to a branch."""
    states = {agent: CutState(branch.observations[agent], observe(branch, agent)) for agent in agents}
    return _with_cut_states(branch, {**branch.turns[-1].cut_states, **states}) if states else branch


def foreseen(branch: Branch, words: Mapping[str, Sequence[Completion]]) -> Branch:
    """Add answers that the agents might have given after the cut to a branch."""
    states = branch.turns[-1].cut_states
    return _with_cut_states(
        branch, {agent: replace(s, candidates=tuple(words.get(agent, ()))) for agent, s in states.items()}
    )


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
