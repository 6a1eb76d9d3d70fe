"""Checks for agents with interests of their own: credit, alignment, past selves."""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.advantages import shared_reward
from palaver.trainers.placement.checks import Check


def alignment_checks(config: RunConfig, algorithm: Algorithm, agents: int, turns: int) -> list[Check]:
    """Advantages of several agents over several turns."""
    return [
        (
            agents < 2 or turns < 2,
            f"{algorithm.name} weighs the advantages of other agents by those of earlier turns, and {config.env.id} "
            f"has {agents} agents and {turns} turns here: take an environment with two or more of both, or "
            "algorithm.name=marloo with algorithm.credit=own",
        ),
        (
            algorithm.credit is shared_reward,
            f"{algorithm.name} is for agents with rewards of their own, and with algorithm.credit=team they have one: "
            "set algorithm.credit to auto, or algorithm.name=marloo",
        ),
        (
            config.algorithm.turns not in ("tree", "independent"),
            f"{algorithm.name} needs the earlier turns of the same episode, and algorithm.turns="
            f"{config.algorithm.turns} compares alternatives that were not played on: set algorithm.turns=independent",
        ),
    ]


def past_self_checks(config: RunConfig, algorithm: Algorithm) -> list[Check]:
    """Past selves as opponents."""
    engines = {config.agent(agent).engine for agent in ["", *config.team.agents]}
    copies = config.team.kind != "lora" and "vllm" not in engines and config.placement.kind == "local"
    alone = algorithm.critic != "joint" and algorithm.mixer == "none" and not algorithm.pairs
    return [
        (
            config.team.past.share > 0 and not (copies and alone and algorithm.order == "together"),
            "team.past keeps whole models in this process, each of which learns from its own rows: set "
            "team.kind=separate (or shared), policy.engine=auto and placement.kind=local with an algorithm without "
            "joint critic, mixer, pairs and order, or team.past.share=0",
        ),
        (
            config.team.past.share > 0 and config.team.swap_every > 0,
            "team.past plays agents by their own past selves, and team.swap_every moves policies between agents: set "
            "one of the two to 0",
        ),
    ]


def team_credit_check(config: RunConfig, algorithm: Algorithm, zero_sum: bool) -> Check:
    """The team's reward as credit where it is constant."""
    agents_may_differ = algorithm.critic != "joint" and algorithm.mixer == "none" and not algorithm.pairs
    own = "algorithm.credit=own, or " if agents_may_differ else ""
    return (
        zero_sum and algorithm.credit is shared_reward,
        f"{config.env.id} is zero-sum here: the mean reward of its agents is the same for every outcome, and "
        f"{algorithm.name}, which credits every agent with it, learns nothing of the game: set {own}algorithm.name=rae",
    )
