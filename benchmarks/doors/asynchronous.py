"""Episodes whose agents are queried in an event loop, as other libraries query models."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
from anyio import from_thread, to_thread

from palaver.core import Completion, Request, Sampling
from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode
from palaver.trainers.rollout.episodes import SamplingPlan, rollout

Answer = Callable[[Sequence[Request]], Coroutine[Any, Any, Sequence[Completion]]]


class LoopPolicy:
    """Policy of all agents whose answers are awaited in the event loop that started this thread.

    Args:
        answer: awaited with the requests of a turn; returns one completion each.
    """

    name = "loop"

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One completion per request, which has one seed."""
        return [[completion] for completion in from_thread.run(self._answer, requests)]


async def play_episode(
    env: TextEnv, answer: Answer, task: str, team: Mapping[str, str], *, seed: int, place: int = 0
) -> Episode:
    """Play one episode by the rollout of evaluations, in a thread of its own.

    Args:
        env: is forked.
        answer: see `LoopPolicy`.
        task: id.
        team: agent -> name of its policy, for the record.
        seed: of the rollout.
        place: index of the task; the seed of the episode depends on it, as in `palaver evaluate`.
    """

    def play() -> Episode:
        policies = dict.fromkeys(env.possible_agents, LoopPolicy(answer))
        sampling = dict.fromkeys(env.possible_agents, Sampling())  # unused: the library has its own
        plan = SamplingPlan(turns="independent")
        (episode,) = rollout(env, policies, [task], plan, sampling=sampling, seed=seed, places=[place])
        return replace(episode, team=dict(team))

    # a limiter of its own, so that episodes do not occupy all threads that answers may need; after a cancellation the
    # thread ends with its next question
    return await to_thread.run_sync(play, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
