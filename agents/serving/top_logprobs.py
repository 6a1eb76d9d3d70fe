"""Log-probabilities in OpenAI's shape, of the policies that can tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palaver.agents.base.policy import Policy
from palaver.agents.serving.protocol import RequestRefused
from palaver.core import Completion


def token_logprobs(policy: Policy, completions: Sequence[Completion], top: int) -> list[list[dict[str, Any]] | None]:
    """Log-probability and likeliest tokens at each token of each completion's text.

    They are those of the model's softmax at temperature 1. A token that spells nothing, as the end token, is left out.

    Args:
        policy: that sampled them.
        completions: their texts.
        top: how many of the likeliest are listed, 0 to 20.

    Raises:
        RequestRefused: the policy is no language model of this process.
    """
    tokenizer = getattr(policy, "tokenizer", None)
    if tokenizer is None or not all(completion.prompt_ids for completion in completions):
        raise RequestRefused(400, f"{policy.name} has no log-probabilities to tell", "unsupported")
    from palaver.agents.llm.policies.top_logprobs import top_logprobs

    if top:
        alternatives = top_logprobs(policy, completions, top)  # type: ignore[arg-type]
    else:
        alternatives = [({},) * len(sample.token_ids) for sample in completions]
    return [
        [
            _entry(tokenizer.decode([token]), logprob, best)
            for token, logprob, best in zip(sample.token_ids, sample.logprobs, tops, strict=True)
            if tokenizer.decode([token], skip_special_tokens=True)
        ]
        for sample, tops in zip(completions, alternatives, strict=True)
    ]


def _entry(text: str, logprob: float, best: dict[str, float]) -> dict[str, Any]:
    return _token(text, logprob) | {"top_logprobs": [_token(*item) for item in best.items()]}


def _token(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}
