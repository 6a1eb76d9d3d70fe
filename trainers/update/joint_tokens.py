"""Inputs of a joint critic of tokens: joint conversation, speaker label, tokens so far."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import PolicyError
from palaver.trainers.objectives.token_values import Ids, speaker_label
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.rollout.joint_prompt import joint_ids, refuse_longer


def joint_prompts(batch: Batch, body: LLMPolicy) -> list[Ids]:
    """Inputs of a joint critic before the first token of each row (R), with the speaker's label.

    Joint steps that share a completion share the conversation before it.

    Raises:
        PolicyError: an input with its completion appended does not fit the context of the model.
    """
    joint, step = joint_ids(batch, body), torch.zeros(len(batch), dtype=torch.long)
    step[batch.member_row] = batch.member_step
    agents = [batch.agents[index] for index in batch.agent.tolist()]
    prompts = [(*joint[above], *speaker_label(agent, body)) for above, agent in zip(step.tolist(), agents, strict=True)]
    refuse_longer(
        [(*ids, *completion.token_ids[:-1]) for ids, completion in zip(prompts, batch.completions, strict=True)], body
    )
    return prompts


def refuse_other_tokens(body: LLMPolicy, policies: Sequence[LLMPolicy]) -> None:
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
