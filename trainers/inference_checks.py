"""Checks for environments whose agents are asked about each other, and for who answers."""

from __future__ import annotations

from palaver.core import refuse
from palaver.envs.base.env import TextEnv
from palaver.envs.base.inference_wrapper import InferenceWrapper
from palaver.episodes import inference_role
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.config.team import SHARED_INFERENCE
from palaver.trainers.placement.checks import Check


def refuse_inference(config: RunConfig, algorithm: Algorithm, env: TextEnv) -> None:
    """Refuse what does not go with questions, or with other policies that answer them.

    Raises:
        ConfigError: the run selects siblings by the reward of a turn, or learns values of listed actions, and its
            agents are asked; or other policies answer, and there are no questions, or its settings are for one policy
            of each agent.
    """
    checks = _selection(config) if isinstance(env, InferenceWrapper) else []
    refuse(checks + (_other_policies(config, algorithm, env) if config.team.inference != "own" else []))


def _selection(config: RunConfig) -> list[Check]:
    """Siblings selected by the reward of a turn: guesses have another."""
    a, why = config.algorithm, "env.infer adds turns whose reward is that of guesses"
    return [
        (
            a.turns in ("best", "by_agent"),
            f"{why}, and algorithm.turns={a.turns} would continue the best guesser: set algorithm.turns=tree or "
            "independent",
        ),
        (a.stop_above is not None, f"{why}, which algorithm.stop_above would compare too: set it to null"),
        (
            a.mixer.actions == "legal",
            f"{why}, and not all of their answers are listed: set algorithm.mixer.actions=sentences",
        ),
    ]


def _other_policies(config: RunConfig, algorithm: Algorithm, env: TextEnv) -> list[Check]:
    """Policies that answer questions and do not act."""
    how, own = f"team.inference={config.team.inference}", "or team.inference=own, where the acting models answer"
    agents = env.possible_agents
    taken = [name for name in (SHARED_INFERENCE, *map(inference_role, agents)) if name in agents]
    separable = algorithm.estimator in ("none", "own", "agent") and algorithm.order == "together"
    return [
        (
            not isinstance(env, InferenceWrapper),
            f"{how} is about the answers to questions, and nothing is asked: set env.infer, as env.infer=after",
        ),
        (
            config.team.kind not in ("separate", "shared"),
            f"{how} adds models to a team, which needs team.kind=separate or shared, not {config.team.kind}: set one "
            f"of them, {own}",
        ),
        (
            not separable,
            f"{how} needs an algorithm that trains each policy by its own returns, as marloo, magrpo or ippo; "
            f"{algorithm.name} looks at all agents' texts together: set another algorithm.name, {own}",
        ),
        (
            config.algorithm.turns == "counterfactual",
            f"algorithm.turns=counterfactual compares alternatives of one agent's messages, and with {how} some are "
            f"another policy's: set algorithm.turns=tree, {own}",
        ),
        (
            config.team.inference == "model" and isinstance(env, InferenceWrapper) and env.infer.agents,
            f"{how} makes a model for each agent, and env.infer.agents asks some alone: leave it out, or set "
            "team.inference=shared",
        ),
        (
            config.team.swap_every,
            f"{how} has models that only answer, and team.swap_every would make them act: set team.swap_every=0",
        ),
        (
            config.placement.kind != "local" or config.placement.shard != "none",
            f"{how} trains in one process on whole models: set placement.kind=local and placement.shard=none, {own}",
        ),
        (config.league.active, f"a league stores models that act, and none that answers: leave league out, {own}"),
        (
            config.eval.opponent,
            f"eval.opponent evaluates every trained model as a player, and with {how} some only answer: set it to null",
        ),
        (taken, f"{how} gives a policy the name {''.join(taken[:1])!r}, which is an agent of this environment"),
    ]
