"""Episodes of two scripted agents."""

from __future__ import annotations

from palaver.core import Message


def play(env, rules, task=0):
    """Returns of all agents, and the last metrics; rules are called for agents that may act."""
    observations, infos = env.reset(seed=0, options={"task": task})
    conversations, totals = dict.fromkeys(env.agents, ()), dict.fromkeys(env.agents, 0.0)
    rule = dict(zip(env.agents, rules, strict=True))
    while env.agents:
        for agent in env.agents:
            if observations[agent]:
                past = () if env.fresh else conversations[agent]
                conversations[agent] = (*past, Message("user", observations[agent]))
        said = {agent: rule[agent](conversations[agent], 0) for agent in env.agents if infos[agent]["can_act"]}
        for agent, text in said.items():
            conversations[agent] += (Message("assistant", text),)
        observations, rewards, *_, infos = env.step(said)
        totals = {agent: totals[agent] + reward for agent, reward in rewards.items()}
    return list(totals.values()), next(iter(infos.values()))["metrics"]
