"""Training runs from a config: all settings are checked before any work, then the loop runs.

folder = train(load("arxiv-magrpo"), Path("runs/mine"))
resume(folder)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

import palaver
from palaver.agents.base.policy import LanguageModel, Policy
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import ConfigError, Message, PolicyError, Sampling, ToolSchema, need
from palaver.envs.base.env import TextEnv
from palaver.envs.base.tools import schema_of
from palaver.envs.base.wrappers import rewarded
from palaver.trainers.algorithms.base import Algorithm, chosen, has_token_values
from palaver.trainers.checks import refuse_contradictions, refuse_tools
from palaver.trainers.config.loading import parse_file
from palaver.trainers.config.placement import refuse_placement
from palaver.trainers.config.run import RunConfig
from palaver.trainers.config.team import refuse_team
from palaver.trainers.inference_checks import refuse_inference
from palaver.trainers.league_setup import league_loop, refuse_league
from palaver.trainers.placement.checks import refuse_devices, refuse_vllm
from palaver.trainers.placement.in_process import load_learners
from palaver.trainers.policy_gradient import PolicyGradientLoop
from palaver.trainers.preferences.offline import PairReader
from palaver.trainers.rollout.episodes import text_env
from palaver.trainers.rollout.joint_prompt import refuse_long_joint
from palaver.trainers.rollout.opponent import load_opponent, refuse_opponent
from palaver.trainers.rollout.tasks import with_epochs
from palaver.trainers.rollout.team import frozen_team, model_options, refuse_tiny, warm_starts
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.files import CONFIG, METRICS, refuse_edited, refuse_no_run
from palaver.trainers.run.memory import memory_advice, most_rows
from palaver.trainers.run.session import RunStart, run_session
from palaver.trainers.run_summary import announce
from palaver.trainers.update.learner import Learner
from palaver.trainers.update.reference_model import refuse_own
from palaver.trainers.update.rollout_lead import load_pending
from palaver.trainers.update.updater import Updater
from palaver.trainers.value_decomposition.legal import refuse_legal, train_values
from palaver.utils.run_folder import locked, refuse_in_use


def train(
    config: RunConfig, folder: Path, *, console: Console | None = None, launch: Mapping[str, Any] | None = None
) -> Path:
    """Train a team.

    Args:
        config: config of the run.
        folder: folder of the run.
        console: console of the summary and the progress bar.
        launch: record of the command that started the run; saved as `launch.json` at the start, with the hash of each
            tiny model that it starts from.

    Returns:
        The folder. Its `status.json` is `done` or `interrupted`.

    Raises:
        ConfigError: choices that contradict each other, or a folder that holds another run or is in use.
        DiskError: the disk is full.
        TaskError: the data cannot be read.
        PolicyError: the model cannot be loaded, or a prompt is too long for it.
        NumericalError: a loss was not finite.
    """
    if (folder / METRICS).is_file():
        refuse_in_use(folder)
        raise ConfigError(f"{str(folder)!r} already holds a run; resume it, or choose another folder")
    return _start(with_epochs(config), RunStart(folder, launch=launch), console or Console(stderr=True))


def resume(folder: Path, *, console: Console | None = None) -> Path:
    """Resume a run from its newest valid checkpoint, with the run's own config.

    Returns:
        The folder, as `train` does.

    Raises:
        CheckpointError: there is no run, or it has no valid checkpoint.
        ConfigError: its config cannot be read or was edited, or another process uses the folder.
        DiskError: the disk is full.
        TaskError, PolicyError, NumericalError: as `train`.
    """
    console = console or Console(stderr=True)
    refuse_no_run(folder)
    with locked(folder) if os.environ.get("RANK", "0") == "0" else nullcontext():  # the main process's, for all
        config = parse_file(folder / CONFIG)
        refuse_edited(folder, config)
        begun = RunStart(folder, locked=True)
        start = _latest(folder, console)
        if start is None:
            console.print("the run was stopped before its first checkpoint: starting it from the beginning")
        return _start(config, replace(begun, checkpoint=start), console)


def _latest(folder: Path, console: Console) -> Path | None:
    """The latest valid checkpoint of a run, None before the first one; corrupt ones are named.

    Raises:
        CheckpointError: all are corrupt, or the latest valid one has another format.
    """
    if not list((folder / "checkpoints").glob(f"{checkpoint.PREFIX}*")):
        return None
    start, complaints = checkpoint.newest(folder)
    for complaint in complaints:
        console.print(Text(complaint, style="yellow"))
    return start


def prepare(config: RunConfig) -> tuple[Algorithm, TextEnv, TextEnv]:
    """Check a config without loading models; return algorithm, training and eval environments.

    Raises:
        ConfigError: choices that contradict each other, an unknown environment or keyword, a library that is missing.
        TaskError: the data cannot be read.
        PolicyError: the tiny model on tasks it cannot read.
    """
    algorithm = chosen(config.algorithm)
    if config.log.wandb != "disabled":
        need("log.wandb", "wandb", "wandb")
    held_out = config.eval.tasks
    env = text_env(config.env.id, config.env.keywords())
    refuse_team(config.team, env.possible_agents)
    refuse_placement(config.placement, config.team, env.possible_agents)
    refuse_devices(config, algorithm, env.possible_agents)
    at_once = env.first_to_act is None or set(env.first_to_act) >= set(env.possible_agents)
    refuse_contradictions(
        config, algorithm, len(env.possible_agents), turns(config, env), env.shared_prompt_turns, env.zero_sum, at_once
    )
    if any(env.tools(agent) for agent in env.possible_agents):
        refuse_tools(config, algorithm)
    eval_env = text_env(config.env.id, config.env.keywords(held_out)) if held_out else env
    refuse_opponent(config, eval_env)
    refuse_league(config, algorithm, env)
    refuse_inference(config, algorithm, env)
    if values_legal(config, algorithm):
        for environment in (env, eval_env):
            refuse_legal(config, environment)
        return algorithm, env, eval_env
    refuse_vllm(config, env.possible_agents)
    models = {config.agent(agent).model for agent in config.team.trained(env.possible_agents)}
    if "tiny" in models | set(config.team.frozen.values()):
        for environment in (env, eval_env):
            refuse_tiny(environment.source, config.policy.force)
    return algorithm, env, eval_env


def load_rewards(env: TextEnv, eval_env: TextEnv) -> None:
    """Load the judge or the reward model of a run, once for training and evaluation.

    Raises:
        PolicyError: it cannot be loaded.
    """
    if (judged := rewarded(env)) is not None:
        judged.ready()
        if (held_out := rewarded(eval_env)) is not None:
            held_out.score_with(judged.reward)


def values_legal(config: RunConfig, algorithm: Algorithm) -> bool:
    """Return whether the run learns values of legal actions, and no policy."""
    return algorithm.mixer != "none" and config.algorithm.mixer.actions == "legal"


def turns(config: RunConfig, env: TextEnv) -> int:
    """Turns of an episode, from the environment or its spec."""
    return int(getattr(env, "num_turns", palaver.spec(config.env.id).turns))


def _start(config: RunConfig, begun: RunStart, console: Console) -> Path:
    """Train from the checkpoint or from the beginning.

    A run on workers that are lost goes on from its latest valid checkpoint with new ones, at most
    `placement.retries` times.
    """
    if config.placement.kind == "local":
        return _attempt(config, begun, console)
    prepare(config)  # a mistake in the config shows before a cluster is started
    from palaver.trainers.placement.ray_workers import PlacementLostError, cluster

    with ExitStack() as stack:
        stack.enter_context(cluster(config.placement))
        for left in reversed(range(config.placement.retries + 1)):
            try:
                return _attempt(config, begun, console)
            except PlacementLostError as error:
                if not left:
                    raise
                if not begun.locked:
                    stack.enter_context(locked(begun.folder))
                start = _latest(begun.folder, console)
                where = f"step {checkpoint.step_of(start)}" if start else "the beginning"
                console.print(Text(f"{error}; going on from {where} with new workers", style="yellow"))
                begun = replace(begun, checkpoint=start, locked=True)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _attempt(config: RunConfig, begun: RunStart, console: Console) -> Path:
    """Load everything, print a summary, and train from the checkpoint or from the beginning."""
    algorithm, env, eval_env = prepare(config)
    load_rewards(env, eval_env)
    distributed = Distributed(config.device, config.policy.dtype)
    begun = replace(
        begun, folder=Path(distributed.broadcast(str(begun.folder)))
    )  # processes may differ in a folder's time stamp
    refuse_own(config, begun.folder)
    if config.train.prompts_per_step < distributed.size:
        raise ConfigError(f"train.prompts_per_step must be at least the number of processes, {distributed.size}")
    if config.threads:
        torch.set_num_threads(config.threads)
    spec = palaver.spec(config.env.id)
    if values_legal(config, algorithm):
        partners = frozen_team(
            config, spec, env.possible_agents, model_options(config, distributed.device), console.print
        )
        if begun.launch is not None:  # no model begins the run: its values are of legal actions
            begun = replace(begun, launch={**begun.launch, "warm_starts": {}})
        return train_values(config, algorithm, env, eval_env, partners, distributed, begun, console)
    if begun.launch is not None:
        starts = warm_starts(config, spec, env.possible_agents)
        begun = replace(begun, launch={**begun.launch, "warm_starts": starts})
    with _learners(config, env.possible_agents, distributed, begun) as learners:
        return _train_policies(config, algorithm, (env, eval_env), learners, distributed, begun, console)


def _learners(
    config: RunConfig, agents: Sequence[str], distributed: Distributed, begun: RunStart
) -> AbstractContextManager[Sequence[Learner]]:
    """Context with the learners of a run, in this process or on workers."""
    if config.placement.kind == "local":
        return nullcontext(load_learners(config, palaver.spec(config.env.id), agents, distributed, begun.checkpoint))
    from palaver.trainers.placement.ray_workers import ray_learners

    if distributed.size > 1:
        raise ConfigError("placement.kind=ray starts processes itself: start the run without torchrun or accelerate")
    return ray_learners(config, agents, begun.folder, begun.checkpoint)


def _train_policies(
    config: RunConfig,
    algorithm: Algorithm,
    envs: tuple[TextEnv, TextEnv],
    learners: Sequence[Learner],
    distributed: Distributed,
    begun: RunStart,
    console: Console,
) -> Path:
    """Check that prompts and memory fit, print a summary, and train."""
    env, eval_env = envs
    team = _team(config, env, learners, distributed, console.print)
    opponent = load_opponent(config, eval_env, distributed.device, console.print)
    longest = longest_prompt(config, env, eval_env, team)
    pairs = _pair_reader(config, algorithm, learners, distributed)
    updater = make_updater(config, algorithm, learners, distributed, begun.checkpoint)
    rows = most_rows(config, max(len(one.agents) for one in learners), len(env.possible_agents), turns(config, env))
    read = 0
    if joint := updater.estimator.critics.get("joint"):
        max_tokens = {agent: config.agent(agent).max_tokens for agent in team}
        by_token = has_token_values(algorithm, config.critic)
        read = refuse_long_joint(env, joint.body, max_tokens, turns(config, env), tokens=by_token)
    announce(config, team, updater, longest, rows, console, read)
    with memory_advice(config, "in its largest backward pass"):
        for learner in updater.learners if config.team.agents else updater.learners[:1]:
            learner.probe(longest, config.agent(learner.agents[0]).max_tokens, rows)

    with run_session(config, distributed, begun, console) as run:
        rollouts = load_pending(config, begun.checkpoint)
        loop = PolicyGradientLoop(run, env, eval_env, team, updater, pairs, opponent, rollouts)
        if config.league.active:
            loop = league_loop(loop, algorithm, distributed, begun.checkpoint, console.print)
        loop.run()
    return begun.folder


def _pair_reader(
    config: RunConfig, algorithm: Algorithm, learners: Sequence[Learner], distributed: Distributed
) -> PairReader | None:
    if not (algorithm.pairs and config.algorithm.pairs.file):
        return None
    local = {agent: learner.policy for learner in learners for agent in learner.agents}
    policies = {agent: policy for agent, policy in local.items() if isinstance(policy, LLMPolicy)}
    assert len(policies) == len(local)  # pairs of a file are refused on workers
    return PairReader(config, policies, distributed)


@dataclass(frozen=True)
class RestoredRun:
    """A run at one of its checkpoints.

    Attributes:
        config: of the run.
        env: training environment.
        team: agent -> its policy, as assigned at the checkpoint.
        sampling: agent -> sampling parameters of its policy.
        updater: learners and critics.
    """

    config: RunConfig
    env: TextEnv
    team: Mapping[str, Policy]
    sampling: Mapping[str, Sampling]
    updater: Updater


def restore(folder: Path) -> RestoredRun:
    """Load a run at its latest valid checkpoint, for use without training.

    Raises:
        CheckpointError: there is no run, or no valid checkpoint.
        ConfigError, TaskError, PolicyError: as `train`; or the run learns values of legal actions, and no policy.
    """
    refuse_no_run(folder)
    config = parse_file(folder / CONFIG)
    algorithm, env, eval_env = prepare(config)
    if values_legal(config, algorithm):
        raise ConfigError(f"the run {str(folder)!r} learns values of legal actions and has no policies that answer")
    start, _ = checkpoint.newest(folder)
    load_rewards(env, eval_env)
    distributed, spec = Distributed(config.device, config.policy.dtype), palaver.spec(config.env.id)
    learners = load_learners(config, spec, env.possible_agents, distributed, start)
    team = _team(config, env, learners, distributed)
    updater = make_updater(config, algorithm, learners, distributed, start)
    homes = config.team.seating(list(team), checkpoint.step_of(start))
    team = {agent: team[home] for agent, home in homes.items()}
    sampling = {agent: config.agent(home).sampling() for agent, home in homes.items()}
    updater.assign(team)
    return RestoredRun(config, env, team, sampling, updater)


def _team(
    config: RunConfig,
    env: TextEnv,
    learners: Sequence[Learner],
    distributed: Distributed,
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Policy]:
    """Agent -> its policy at the start: trained, or a stored partner."""
    spec, trained = palaver.spec(config.env.id), {a: learner.policy for learner in learners for a in learner.agents}
    partners = frozen_team(config, spec, env.possible_agents, model_options(config, distributed.device), note)
    team = partners | trained
    return {name: team[name] for name in config.team.roster(env.possible_agents)}


def make_updater(
    config: RunConfig,
    algorithm: Algorithm,
    learners: Sequence[Learner],
    distributed: Distributed,
    start: Path | None = None,
) -> Updater:
    """Make the updater of learners, and critics, from a checkpoint if given."""
    updater = Updater(algorithm, config, learners, distributed)
    if start:
        updater.load_state_dict(checkpoint.load_updater(start))
    return updater


def longest_prompt(config: RunConfig, env: TextEnv, eval_env: TextEnv, team: Mapping[str, Policy]) -> int:
    """Tokens of the longest initial observation over all tasks and language-model agents.

    Raises:
        PolicyError: it is longer than `policy.max_prompt_tokens`, or does not fit the model's context.
    """
    longest = 0
    for source, tasks in ((env, env.tasks), (eval_env, eval_env.tasks[: config.eval.n])):
        scratch = source.fork()
        for task in tasks:
            for agent, text in scratch.reset(seed=0, options={"task": task.id})[0].items():
                if isinstance(policy := team[agent], LanguageModel):
                    tools = tuple(map(schema_of, scratch.tools(agent)))
                    longest = max(longest, _prompt_length(config, policy, task.id, agent, text, tools))
    return longest


def _prompt_length(
    config: RunConfig, policy: LanguageModel, task: str, agent: str, text: str, tools: tuple[ToolSchema, ...]
) -> int:
    length, policy_config = len(policy.render((Message("user", text),), tools)), config.agent(agent)
    max_length = min(policy_config.max_prompt_tokens, policy.context - policy_config.max_tokens)
    if length > max_length:
        raise PolicyError(
            f"the prompt of task {task!r} for {agent!r} has {length} tokens, but at most {max_length} fit "
            f"(policy.max_prompt_tokens, and the model's context less policy.max_tokens); shorten the data "
            f"or raise the limit"
        )
    return length
