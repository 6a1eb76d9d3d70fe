"""Runs over legal actions: checks, summary, and loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from palaver.agents.base.policy import Policy
from palaver.core import ConfigError
from palaver.envs.base.env import TextEnv
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.progress import title
from palaver.trainers.run.session import RunStart, SessionResources, run_session
from palaver.trainers.value_decomposition.legal import Assignment, LegalLoop
from palaver.trainers.value_decomposition.players import ValueTeam
from palaver.trainers.value_decomposition.replay import Replay


def refuse_legal(config: RunConfig, env: TextEnv) -> None:
    """Refuse settings that a run over legal actions cannot have.

    Raises:
        ConfigError: an environment that does not list its actions, or settings of language-model teams.
    """
    if config.team.kind not in ("separate", "shared"):
        raise ConfigError(
            "algorithm.mixer.actions=legal trains values and no language model, so "
            f"team.kind={config.team.kind} has no meaning: set it to separate or shared"
        )
    if config.team.swap_every:
        raise ConfigError(
            "team.swap_every exchanges policies, and values of legal actions belong to agents: set it to 0"
        )
    if config.algorithm.mixer.reads == "policy":
        raise ConfigError(
            "algorithm.mixer.encoder=policy reads hidden states of a policy, and with algorithm.mixer.actions=legal "
            "there is none: set it to table, words or hf:NAME"
        )
    infos = env.fork().reset(seed=0, options={"task": env.tasks[0].id})[1]
    silent = [agent for agent in config.team.trained(env.possible_agents) if "legal_actions" not in infos[agent]]
    if silent:
        raise ConfigError(
            f"{config.env.id} lists no legal_actions for {silent[0]!r}: set algorithm.mixer.actions=sentences, or take "
            "an environment that lists them, such as matrix-v1"
        )


def train_values(
    config: RunConfig,
    algorithm: Algorithm,
    env: TextEnv,
    eval_env: TextEnv,
    partners: Mapping[str, Policy],
    distributed: Distributed,
    begun: RunStart,
    console: Console,
) -> Path:
    """Train the values of the team's legal actions; return the run's folder.

    Raises:
        ConfigError: several processes, or a table of texts that is full.
        NumericalError: a loss was not finite.
    """
    if distributed.size > 1:
        raise ConfigError("algorithm.mixer.actions=legal trains in one process: start it without accelerate launch")
    agents = config.team.trained(env.possible_agents)
    team, replay = ValueTeam(config, agents, distributed.device), Replay(config.algorithm.mixer.buffer)
    if begun.checkpoint:
        state = checkpoint.load_updater(begun.checkpoint)
        team.load_state_dict(state["team"])
        replay.load_state_dict(state["replay"])
    assignment = Assignment(team, partners, {agent: config.agent(agent).sampling() for agent in partners})
    settings = config.algorithm
    numbers = sum(parameter.numel() for parameter in team.values.live.parameters())
    console.print(
        title(config, algorithm, f"{settings.group_size} episodes").append(
            f"team: {', '.join(agents)}: values of legal actions, {numbers:,} trained numbers, "
            f"texts read as {settings.mixer.reads}"
        )
    )

    def opened(given: SessionResources) -> LegalLoop:
        return LegalLoop(
            config,
            env,
            eval_env,
            assignment,
            replay,
            distributed,
            given.run_logger,
            begun.folder,
            given.clock,
            given.report,
            given.interrupted,
        )

    return run_session(config, distributed, begun, console, opened)
