"""Tasks of a training step: their order, and dynamic sampling, which replaces some.

Dynamic sampling is DAPO's (arXiv 2503.14476, equation 11). A group without variance has no group-relative advantage, so
that its task gives no gradient. Such a task is replaced by another, in rounds, on each process for its own tasks: all
draws follow from the seed and the step. The samples of replaced tasks count wherever samples are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from palaver.core import ConfigError, stable_seed
from palaver.episodes import Episode
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import AlgorithmConfig, RunConfig
from palaver.trainers.objectives.advantages import ALMOST_EQUAL
from palaver.trainers.rollout.batch import add_advantages, make_batch
from palaver.trainers.rollout.episodes import text_env

Play = Callable[[Sequence[tuple[int, str]], int], list[Episode]]  # (place, task) and the round -> their episodes


def batch_of_tasks(tasks: Sequence[str], size: int, seed: int, step: int) -> list[str]:
    """Tasks of a training step; every epoch visits each task once, in an order of its own.

    A step depends on its number alone, so a resumed run has the same tasks.

    Args:
        tasks: ids of all tasks.
        size: number of tasks in a step; a step may span two epochs or more.
        seed: seed of the run.
        step: number of the step, from 1.
    """
    batch = []
    for position in range((step - 1) * size, step * size):
        epoch, index = divmod(position, len(tasks))
        order = np.random.default_rng(stable_seed(seed, "order", epoch)).permutation(len(tasks))
        batch.append(tasks[order[index]])
    return batch


def with_epochs(config: RunConfig) -> RunConfig:
    """The config with `train.steps` of `train.epochs` passes; the last step is filled up.

    Raises:
        ConfigError: the run trains on pairs of a file, or its environment cannot be made.
        TaskError: the tasks cannot be read.
    """
    train = config.train
    if train.epochs is None:
        return config
    if config.algorithm.pairs.file:
        raise ConfigError("train.epochs counts passes over env.tasks, and this run trains on pairs: set train.steps")
    tasks = len(text_env(config.env.id, config.env.keywords()).tasks)
    steps = math.ceil(round(train.epochs * tasks, 6) / train.prompts_per_step)
    return config.model_copy(update={"train": train.model_copy(update={"steps": steps})})


@dataclass(slots=True)
class ResampledEpisodes:
    """Episodes of a step on one process.

    Attributes:
        episodes: episodes to train on.
        replaced: episodes of tasks that were replaced.
        again: number of replaced tasks, over all rounds.
    """

    episodes: list[Episode]
    replaced: list[Episode]
    again: int


def resampled(
    first: Sequence[tuple[int, str]],
    spare: Sequence[str],
    size: int,
    rounds: int,
    play: Play,
    varies: Callable[[Sequence[Episode]], bool],
) -> ResampledEpisodes:
    """Play tasks, and in each round replace those that do not vary; the last ones are kept.

    A task drawn in round r for place p of the step has the place r * size + p, so that no two tasks have the same nodes
    or seeds.

    Args:
        first: (place, task) of the step's tasks on this process.
        spare: replacement tasks in order, which is repeated if they run out.
        size: tasks of the step, of all processes.
        rounds: maximum rounds of replacement.
        play: plays tasks in their places.
        varies: returns True if the episodes of one task have unequal advantages.
    """
    waiting, rolled = list(first), ResampledEpisodes([], [], 0)
    for round_index in range(rounds + 1):
        by_place: dict[int, list[Episode]] = {}
        for episode in play(waiting, round_index):
            by_place.setdefault(int(episode.turns[0].node.partition("/")[0]), []).append(episode)
        dull = {index for index, played in by_place.items() if round_index < rounds and not varies(played)}
        for index, played in by_place.items():
            (rolled.replaced if index in dull else rolled.episodes).extend(played)
        rolled.again += len(dull)
        if not dull:
            break
        # the order moves on by one with each time through it, else a place could get the same task for ever
        waiting = [(index + size, spare[(index + index // len(spare)) % len(spare)]) for index in sorted(dull)]
    return rolled


def spares(tasks: Sequence[str], taken: Collection[str], seed: int, step: int) -> list[str]:
    """Tasks that the step has not drawn, shuffled; all if it has drawn every one."""
    remaining = [task for task in tasks if task not in taken] or list(tasks)
    order = np.random.default_rng(stable_seed(seed, "spare", step)).permutation(len(remaining))
    return [remaining[index] for index in order]


def varies(episodes: Sequence[Episode], algorithm: Algorithm, config: AlgorithmConfig, agents: Collection[str]) -> bool:
    """Return whether a completion has an advantage that is not 0, by environment rewards alone.

    Args:
        episodes: episodes of one task.
        algorithm: the algorithm, which compares siblings.
        config: its settings.
        agents: trained agents.
    """
    scored = [episode.by_role() for episode in episodes if episode.scored]
    if not any(agent in turn.completions for episode in scored for turn in episode.turns for agent in agents):
        return False
    plain = config.model_copy(update={"normalize": "none"})
    advantage = add_advantages(make_batch(scored, agents), algorithm, plain).advantage
    return bool((advantage.abs() > ALMOST_EQUAL).any())


def sampled(episodes: Sequence[Episode], agents: Collection[str]) -> tuple[int, int]:
    """Numbers of distinct completions of these agents, and of their tokens, on this process.

    Joint steps share the records of their completions; equal texts of several draws are several records.
    """
    token_counts = {
        id(completion): completion.sampled_tokens
        for episode in episodes
        for turn in episode.by_role().turns
        for agent, completion in turn.completions.items()
        if agent in agents
    }
    return len(token_counts), sum(token_counts.values())
