"""Chat with a local language model of transformers, with the interface of a server."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import torch

from palaver.agents.base.chat import Answer, Question
from palaver.agents.base.rewards import split_options
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.top_logprobs import top_logprobs
from palaver.core import PolicyError, Request
from palaver.scoring import Cost

PROMPT = 32_768  # tokens, by default: a group's answers share one prompt


class LocalChat:
    """Answers questions in batches. JSON is requested by prompt; no schema is enforced.

    Args:
        policy: answers; its weights must not change.
        name: as cache keys have it; "" takes the policy's.
        revision: of the weights; "" makes one of them.
        batch: most questions at once.
    """

    def __init__(self, policy: LLMPolicy, name: str = "", revision: str = "", batch: int = 16) -> None:
        self.policy, self.batch = policy, batch
        self.name = name or policy.name
        self.revision = f"{revision or digest(policy)}/{policy.options.dtype}/{policy.options.chat}"
        self._lock = threading.Lock()

    @classmethod
    def named(cls, name: str) -> LocalChat:
        """The chat called `hf:NAME_OR_PATH` or `NAME_OR_PATH`.

        Fields of `ModelOptions` may follow as `?key=value`.

        Raises:
            PolicyError: the model does not exist or cannot be read.
            ConfigError: an option that does not fit.
        """
        source, given = split_options(name.removeprefix("hf:"))
        prompt = given.pop("max_prompt_tokens", str(PROMPT))
        if not prompt.isdecimal():
            raise PolicyError(f"max_prompt_tokens must be a whole number, got {prompt!r}")
        policy = LLMPolicy.load(source, ModelOptions(max_prompt_tokens=int(prompt), **given))  # type: ignore[arg-type]
        return cls(policy, name, str(getattr(policy.model.config, "_commit_hash", None) or ""))

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """One answer a question, in order; a prompt that does not fit the model is a `refusal`."""
        answers: dict[int, Answer] = {}
        fitting: list[tuple[int, int]] = []
        for index, question in enumerate(questions):
            try:
                fitting.append((len(self.policy.prompt(_request(question))), index))
            except PolicyError as error:
                answers[index] = Answer("", failure=f"refusal: {error}")
        indices = [index for _, index in sorted(fitting, reverse=True)]  # of like length together
        with self._lock:
            for start in range(0, len(indices), self.batch):
                batch = indices[start : start + self.batch]
                answers |= dict(zip(batch, self._answers([questions[index] for index in batch]), strict=True))
        return [answers[index] for index in range(len(questions))]

    def _answers(self, questions: Sequence[Question]) -> list[Answer]:
        completions = [samples[0] for samples in self.policy.act([_request(question) for question in questions])]
        tops: dict[int, tuple[dict[str, float], ...]] = {}
        for k in {question.top_logprobs for question in questions} - {0}:
            indices = [index for index, question in enumerate(questions) if question.top_logprobs == k]
            tops |= dict(
                zip(indices, top_logprobs(self.policy, [completions[index] for index in indices], k), strict=True)
            )
        return [
            Answer(u.text, u.finish, tops.get(index, ()), Cost(len(u.prompt_ids), len(u.token_ids), calls=1))
            for index, u in enumerate(completions)
        ]


def digest(policy: LLMPolicy) -> str:
    """Sixteen hexadecimal digits of a policy's weights and of its chat template."""
    hasher = hashlib.blake2b(str(getattr(policy.tokenizer, "chat_template", "")).encode(), digest_size=8)
    for name, weights in policy.model.state_dict().items():
        hasher.update(f"{name} {tuple(weights.shape)} {weights.dtype}".encode())
        hasher.update(weights.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return hasher.hexdigest()


def _request(question: Question) -> Request:
    return Request("judge", question.conversation, (question.seed,), question.sampling)
