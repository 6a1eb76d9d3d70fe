"""Advantage estimator with critics, of each agent's conversation or of the joint one.

After a cut that is no part of the task the return goes on with the critic's value of the state after it: Pardo et al.,
"Time limits in reinforcement learning", arXiv 1712.00378, section 4. Axes: J joint steps, N agents, R rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from palaver.agents.base.policy import LanguageModel
from palaver.core import PolicyError
from palaver.trainers.algorithms.base import has_token_values
from palaver.trainers.objectives.token_values import Ids, TokenValues, laid_out, speaker_label, token_reads
from palaver.trainers.rollout.batch import Batch, by_step, joint_returns
from palaver.trainers.rollout.joint_prompt import (
    joint_ids,
    joint_ids_after,
    own_ids_after,
    refuse_longer,
)
from palaver.trainers.update.advantage_estimators import AdvantageBatch, AdvantageEstimator, KLTerms
from palaver.trainers.update.critic import Samples
from palaver.trainers.update.learner import Learner, ValueModel
from palaver.trainers.update.update_records import padded_rows


class ValueEstimator(AdvantageEstimator):
    """Estimator of returns less values of critics, one for each policy or one for the team.

    A policy's critic reads the conversations of its agents. The joint critic reads the joint conversation: it has one
    value of each joint step, or with values of tokens those of each row, whose input ends with a speaker label.

    Raises:
        PolicyError: a joint critic has values of tokens, and a policy has another vocabulary than the first.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.by_token = has_token_values(self.algorithm, self.config.critic)
        self.joint: ValueModel | None = None
        policies = [learner.policy for learner in self.learners]
        if self.algorithm.critic == "joint":
            if self.by_token:
                refuse_other_tokens(policies[0], policies)
            self.joint = self.critics["joint"] = self.learners[0].make_critic("joint")
        else:
            self.critics = {one.policy.name: one.make_critic(one.policy.name) for one in self.learners}

    def estimate(self, batch: Batch, kl: KLTerms) -> AdvantageBatch:
        """Fill a batch with lambda-returns, and their advantages over the critics' values."""
        inputs = self.inputs(batch)
        value, tokens = self.values(batch, inputs)
        if tokens is not None and self.config.kl.place == "reward" and kl.tokens:
            tokens = replace(tokens, kl_cost=kl.coef[:, None] * padded_rows(kl.tokens, tokens.value))
        bootstrap = self._bootstrap(batch)
        return self.filled(batch, kl, value, inputs, bootstrap, tokens)

    def inputs(self, batch: Batch) -> Sequence[Ids]:
        """(R) inputs of critics before the first tokens, or (J) those of a critic of joint steps.

        Joint steps that share a completion share the conversation before it.

        Raises:
            PolicyError: a joint conversation, with a completion if tokens have values, does not fit the context.
        """
        if self.joint is None:
            return [completion.prompt_ids for completion in batch.completions]
        body = self.joint.body
        joint, step = joint_ids(batch, body), torch.zeros(len(batch), dtype=torch.long)
        if not self.by_token:
            return joint
        step[batch.member_row] = batch.member_step
        agents = [batch.agents[index] for index in batch.agent.tolist()]
        prompts = [(*joint[at], *speaker_label(agent, body)) for at, agent in zip(step.tolist(), agents, strict=True)]
        refuse_longer([(*ids, *c.token_ids[:-1]) for ids, c in zip(prompts, batch.completions, strict=True)], body)
        return prompts

    def values(self, batch: Batch, inputs: Sequence[Ids]) -> tuple[Tensor, TokenValues | None]:
        """(R,) values before each completion, and values of tokens if critics have them."""
        if self.joint is not None and not self.by_token:
            value = torch.full((len(batch),), torch.nan, dtype=torch.float64)
            value[batch.member_row] = self.joint.values(inputs)[batch.member_step]
            return value, None
        order, counts, flat = list[int](), list[int](), list[Tensor]()
        for name, critic in self.critics.items():
            rows = self._rows(name, batch)
            ids, value_counts = self._reads(batch, rows, inputs)
            order, counts, flat = order + rows, counts + value_counts, [*flat, critic.values(ids, value_counts)]
        length = torch.tensor(counts)[torch.tensor(order).argsort()]
        known = torch.zeros(len(batch), max(counts), dtype=torch.float64)
        known[order] = laid_out(torch.cat(flat), torch.tensor(counts))
        return known[:, 0], TokenValues(known, torch.zeros_like(known), length) if self.by_token else None

    def samples(self, name: str, estimated: AdvantageBatch) -> Samples:
        """Training data of a critic: completions; joint steps if joint without values of tokens."""
        batch, value = estimated.batch, estimated.value
        if self.joint is None or self.by_token:
            return self._completion_samples(estimated, self._rows(name, batch))
        assert value is not None
        cost = self.cost(estimated.kl)
        target = joint_returns(batch, self.algorithm, self.config.algorithm, value, cost, estimated.bootstrap)
        known = by_step(batch, value)
        acted = ~known.isnan()
        mean = torch.where(acted, target, 0.0).sum(dim=1) / acted.sum(dim=1).clamp(min=1)
        some = acted.any(dim=1).nonzero()[:, 0].tolist()
        return Samples([estimated.inputs[index] for index in some], mean[some], known.nanmean(dim=1)[some])

    def trunk_samples(self, estimated: AdvantageBatch, learner: Learner) -> Samples | None:
        """Training data of the critic that shares this policy's trunk; None if none is shared."""
        critic = self.critics.get(learner.policy.name)
        return None if critic is None or not critic.shared else self.samples(critic.name, estimated)

    def update(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Update every critic that has a trunk of its own."""
        metrics: dict[str, Any] = {}
        for name, critic in self.critics.items():
            samples = self.samples(name, estimated)
            stats = critic.stats(samples) if critic.shared else critic.update(samples, step)
            metrics |= {f"critic/{name}/{key}": value for key, value in asdict(stats).items()}
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """State of the critics."""
        return {"critics": {name: critic.state_dict() for name, critic in self.critics.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name, critic in self.critics.items():
            critic.load_state_dict(state["critics"][name])

    def _bootstrap(self, batch: Batch) -> Tensor | None:
        """(J, N) value of each agent's state after a joint step that cut it, 0 elsewhere.

        The input of an own critic is the prompt that the agent would have answered next; that of a joint critic the
        joint conversation with the last completions and observations, and with values of tokens the agent's label.
        None if nothing was cut, or without a discount factor, where a return is the reward of its turn.

        Raises:
            PolicyError: the input of a critic does not fit the context of its model.
        """
        cuts = [(step, agent) for step, turn in enumerate(batch.steps) for agent in turn.cut_states]
        if not cuts or not self.config.algorithm.discount:
            return None
        values = torch.zeros_like(batch.reward)

        def put(some: Sequence[tuple[int, str]], critic: ValueModel, ids: Sequence[Ids]) -> None:
            for (step, agent), value in zip(some, critic.values(ids).tolist(), strict=True):
                values[step, batch.agents.index(agent)] = value

        if self.joint is not None:
            ids, body = joint_ids_after(batch, [step for step, _ in cuts], self.joint.body), self.joint.body
            if self.by_token:
                ids = [(*prompt, *speaker_label(agent, body)) for prompt, (_, agent) in zip(ids, cuts, strict=True)]
            put(cuts, self.joint, ids)
            return values
        for learner in self.learners:
            mine = [(step, agent) for step, agent in cuts if agent in learner.agents]
            states = [batch.steps[step].cut_states[agent].conversation for step, agent in mine]
            put(mine, self.critics[learner.policy.name], own_ids_after(states, learner.policy))
        return values

    def _rows(self, name: str, batch: Batch) -> list[int]:
        """Rows that a critic has values of."""
        learners = [learner for learner in self.learners if name in ("joint", learner.policy.name)]
        return batch.rows_of([agent for learner in learners for agent in learner.agents])

    def _reads(self, batch: Batch, rows: Sequence[int], inputs: Sequence[Ids]) -> tuple[list[Ids], list[int]]:
        """Input sequences of a critic for some rows, and the number of values of each."""
        prompts = [inputs[row] for row in rows]
        if not self.by_token:
            return prompts, [1] * len(rows)
        return token_reads(prompts, [batch.completions[row].token_ids for row in rows])

    def _completion_samples(self, estimated: AdvantageBatch, rows: Sequence[int]) -> Samples:
        batch, value, tokens, some = estimated.batch, estimated.value, estimated.tokens, list(rows)
        assert value is not None
        ids, counts = self._reads(batch, rows, estimated.inputs)
        if tokens is None or batch.token_returns is None:
            return Samples(ids, batch.returns[some], value[some], counts)
        mask = tokens.mask[some]
        return Samples(ids, batch.token_returns[some][mask], tokens.value[some][mask], counts)


def refuse_other_tokens(body: LanguageModel, policies: Sequence[LanguageModel]) -> None:
    """Check that all policies have the vocabulary of the joint critic.

    Raises:
        PolicyError: a policy has another vocabulary than the body of the critic.
    """
    known = body.tokenizer.get_vocab()
    for policy in policies:
        if policy.tokenizer.get_vocab() != known:
            raise PolicyError(
                f"the critic of the team reads with the model of {body.name!r}, whose tokens are not those of "
                f"{policy.name!r}, so it has no value for each of them: set critic.level=completion, or give all "
                "agents models with one tokenizer"
            )
