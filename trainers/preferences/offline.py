"""Offline pairs in place of rollouts: each is a group of two joint actions from a file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from palaver.agents.base.policy import Policy
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.logprobs import response_logprobs, token_batches
from palaver.core import Completion, Message, PolicyError, TaskError, stable_seed
from palaver.episodes import Episode, Turn
from palaver.trainers.config.run import RunConfig
from palaver.trainers.preferences.record import ALONE, PreferenceRecord, read
from palaver.trainers.run.distributed import Distributed

SIDES = (("chosen", 1.0), ("rejected", 0.0))


class PairReader:
    """Reader of `algorithm.pairs.file`: episodes with reward 1 for the better one, else 0.

    Args:
        config: config of the run; `train.prompts_per_step` is the number of pairs in a step.
        team: the trained policies.
        distributed: device and processes.

    Raises:
        TaskError: the file cannot be read, or it lacks trained agents.
        PolicyError: a text does not fit the context of a model.
    """

    def __init__(self, config: RunConfig, team: Mapping[str, LLMPolicy], distributed: Distributed) -> None:
        self.config, self.distributed = config, distributed
        source = config.algorithm.pairs.file
        self.pairs = [_seated(source, pair, list(team)) for pair in read(source)]
        for pair in self.pairs:
            for agent, policy in team.items():
                for text in (pair.chosen[agent], pair.rejected[agent]):
                    _fits(policy, _written(policy, pair.observations[agent], text), pair.task, agent)

    def episodes(self, step: int, team: Mapping[str, Policy]) -> list[Episode]:
        """This process's pairs of a step, two episodes each, with log-probs under current weights."""
        size = self.config.train.prompts_per_step
        places = [
            _walk(len(self.pairs), position, self.config.seed) for position in range((step - 1) * size, step * size)
        ]
        mine = self.distributed.shard(list(enumerate(places)))
        names = {agent: policy.name for agent, policy in team.items()}
        turns = [
            _turn(position, self.pairs[pair_index], side, team)
            for position, pair_index in mine
            for side in range(len(SIDES))
        ]
        tasks = [self.pairs[pair_index].task for _, pair_index in mine for _ in SIDES]
        return [
            Episode("pairs", task, 0, (turn,), "terminated", names)
            for task, turn in zip(tasks, self._scored(turns, team), strict=True)
        ]

    def _scored(self, turns: Sequence[Turn], team: Mapping[str, Policy]) -> list[Turn]:
        """Add the log-probs of the completions under the current weights."""
        known: list[dict[str, Completion]] = [dict(turn.completions) for turn in turns]
        by_policy: dict[int, list[tuple[int, str]]] = {}
        for index, turn in enumerate(turns):
            for agent, completion in turn.completions.items():
                if completion.token_ids:
                    by_policy.setdefault(id(team[agent]), []).append((index, agent))
        for spoken in by_policy.values():
            policy = team[spoken[0][1]]
            assert isinstance(policy, LLMPolicy)  # no other has tokens
            entries = [(known[index][agent], index, agent) for index, agent in spoken]
            max_tokens = self.config.train.pass_tokens(self.distributed.device)
            for batch in token_batches(entries, [_length(entry[0]) for entry in entries], max_tokens):
                prompts = [completion.prompt_ids for completion, *_ in batch]
                tokens = [completion.token_ids for completion, *_ in batch]
                with torch.no_grad(), self.distributed.autocast(), policy.active() as model:
                    logp, _ = response_logprobs(model, prompts, tokens, self.config.agent(policy.name).sampling())
                for row, (completion, index, agent) in zip(logp.tolist(), batch, strict=True):
                    known[index][agent] = replace(completion, sample_logprobs=tuple(row[: len(completion.token_ids)]))
        return [replace(turn, completions=completions) for turn, completions in zip(turns, known, strict=True)]


def _turn(position: int, pair: PreferenceRecord, side: int, team: Mapping[str, Policy]) -> Turn:
    """Make a joint step of one side of a pair.

    The texts have no tokens for policies other than language models.
    """
    name, reward = SIDES[side]
    texts = pair.chosen if name == "chosen" else pair.rejected
    completions = {
        agent: _written(policy, pair.observations[agent], texts[agent])
        if isinstance(policy, LLMPolicy)
        else Completion(texts[agent])
        for agent, policy in team.items()
        if agent in texts  # else a partner who is not trained, and of whom the file knows nothing
    }
    return Turn(
        index=0,
        node=f"{position}/{side}",
        parent="",
        group=str(position),
        choice=dict.fromkeys(completions, side),
        observations={agent: pair.observations[agent] for agent in completions},
        completions=completions,
        rewards=dict.fromkeys(completions, reward),
        components={agent: {"preferred": reward} for agent in completions},
    )


def _written(policy: LLMPolicy, observation: str, text: str) -> Completion:
    """Make a completion of a text in this model's tokens, without log-probs."""
    prompt = tuple(policy.render((Message("user", observation),)))
    tokens = tuple(policy.written(text))
    return Completion(text, prompt, tokens, version=policy.version)


def _length(completion: Completion) -> int:
    return len(completion.prompt_ids) + len(completion.token_ids)


def _fits(policy: LLMPolicy, completion: Completion, task: str, agent: str) -> None:
    context = getattr(policy.model.config.get_text_config(), "max_position_embeddings", math.inf)
    if (length := _length(completion)) > context:
        raise PolicyError(
            f"a pair of task {task!r} has {length} tokens for {agent!r}, more than the {context} of {policy.name!r}: "
            "shorten the pairs, or leave it out"
        )


def _seated(source: str, pair: PreferenceRecord, agents: Sequence[str]) -> PreferenceRecord:
    """Assign a pair's unnamed agent to the only agent of the team.

    Raises:
        TaskError: the pair lacks an agent of the team.
    """
    if set(pair.observations) == {ALONE} and len(agents) == 1:
        prompts, chosen, rejected = (
            {agents[0]: texts[ALONE]} for texts in (pair.observations, pair.chosen, pair.rejected)
        )
        return replace(pair, observations=prompts, chosen=chosen, rejected=rejected)
    if missing := [agent for agent in agents if agent not in pair.observations]:
        raise TaskError(
            f"{source!r}: a pair of task {pair.task!r} is of {', '.join(pair.observations)}, and says nothing for "
            f"{missing[0]!r}, who is trained"
        )
    return pair


def _walk(count: int, position: int, seed: int) -> int:
    """Index of the pair at a position of shuffled passes over all pairs."""
    epoch, index = divmod(position, count)
    return int(np.random.default_rng(stable_seed(seed, "order of pairs", epoch)).permutation(count)[index])
