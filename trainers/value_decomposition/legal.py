"""Value decomposition over legal actions: checks, and the training loop.

The loop has epsilon-greedy play, replay, and updates of values. No algorithm is known by name. Every draw is keyed by
the run's seed and the step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from palaver.agents.base.policy import Policy
from palaver.core import ConfigError, refuse, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode, only_scored
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.evaluation import summarize
from palaver.trainers.rollout.metrics import describe
from palaver.trainers.rollout.tasks import batch_of_tasks
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.loop import BaseLoop
from palaver.trainers.run.session import RunStart, run_session, title
from palaver.trainers.value_decomposition.play import Assignment, play
from palaver.trainers.value_decomposition.players import ValueTeam
from palaver.trainers.value_decomposition.replay import Replay
from palaver.trainers.value_decomposition.targets import epsilon


@dataclass(frozen=True, slots=True)
class LegalLoop(BaseLoop):
    """Training loop of values.

    Attributes:
        assignment: the agents' players.
        replay: replay of their transitions.
    """

    assignment: Assignment
    replay: Replay

    def step(self, step: int) -> dict[str, Any]:
        """Play, then learn from the replay; return the metrics of the step."""
        config, a, began = self.session.config, self.session.config.algorithm, time.perf_counter()
        tasks = batch_of_tasks([task.id for task in self.env.tasks], config.train.prompts_per_step, config.seed, step)
        chance = epsilon(*a.mixer.epsilon, a.mixer.epsilon_steps, step)
        result = play(
            self.env,
            self.assignment,
            [task for task in tasks for _ in range(a.group_size)],
            epsilon=chance,
            discount=a.discount,
            seed=stable_seed(config.seed, "rollout", step),
        )
        rolled = time.perf_counter()
        only_scored(result.episodes, f"in step {step}")
        self.replay.add(result.transitions)
        learned = self.assignment.team.values.learn(self.replay, stable_seed(config.seed, "mixer replay", step))
        if self.session.run_logger:
            self.session.run_logger.episodes("train", step, result.episodes)
        return {
            **self.session.clock.read(),
            **describe(result.episodes),
            **{f"mixer/{name}": value for name, value in asdict(learned).items()},
            "mixer/epsilon": chance,
            "time/rollout_s": rolled - began,
            "time/update_s": time.perf_counter() - rolled,
        }

    def evaluation(self, step: int) -> tuple[list[Episode], dict[str, Any]]:
        """Episodes of the greedy agents on the tasks of evaluations."""
        del step
        config = self.session.config.eval
        tasks = [task.id for task in self.eval_env.tasks[: config.n] for _ in range(config.samples)]
        result = play(self.eval_env, self.assignment, tasks, epsilon=0.0, discount=1.0, seed=config.seed)
        return result.episodes, {**summarize(result.episodes).to_dict(), "greedy": True}

    def write_checkpoint(self, step: int) -> None:
        """Write values and replay; every agent keeps its own values."""
        seats = {agent: agent for agent in self.env.possible_agents}
        state = {"team": self.assignment.team.state_dict(), "replay": self.replay.state_dict()}
        checkpoint.save(self.session.folder, step, {}, {}, state, self.session.config.train.keep, seats)


def refuse_legal(config: RunConfig, env: TextEnv) -> None:
    """Refuse settings that a run over legal actions cannot have.

    Raises:
        ConfigError: an environment that does not list its actions, or settings of language-model teams.
    """
    refuse(
        [
            (
                config.team.kind not in ("separate", "shared"),
                "algorithm.mixer.actions=legal trains values and no language model, so "
                f"team.kind={config.team.kind} has no meaning: set it to separate or shared",
            ),
            (
                config.team.swap_every,
                "team.swap_every exchanges policies, and values of legal actions belong to agents: set it to 0",
            ),
            (
                config.algorithm.mixer.reads == "policy",
                "algorithm.mixer.encoder=policy reads hidden states of a policy, and with "
                "algorithm.mixer.actions=legal there is none: set it to table, words or hf:NAME",
            ),
        ]
    )
    infos = env.fork().reset(seed=0, options={"task": env.tasks[0].id})[1]
    refuse(
        (
            "legal_actions" not in infos[agent],
            f"{config.env.id} lists no legal_actions for {agent!r}: set algorithm.mixer.actions=sentences, or take "
            "an environment that lists them, such as matrix-v1",
        )
        for agent in config.team.trained(env.possible_agents)
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

    with run_session(config, distributed, begun, console) as run:
        LegalLoop(run, env, eval_env, assignment, replay).run()
    return begun.folder
