"""Models that vLLM serves on a CPU, and their log-probabilities by plain transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from palaver.agents.llm.model.options import ModelOptions
from palaver.core import Completion, Message, Request, Sampling
from tests.models import tiny_qwen3

OPTIONS = ModelOptions(device="cpu", engine="vllm")
SHAPE: dict[str, Any] = {"hidden": 64, "head_dim": 32, "vocab": 512}  # its attention has no kernel for smaller heads


def model(seed: int = 0, tied: bool = True) -> Any:
    """A random Qwen3. A head of this shape gets vLLM's packed kernel."""
    return tiny_qwen3(seed, tie_word_embeddings=tied, **SHAPE)


def ask(text: str, seeds: Sequence[int], sampling: Sampling) -> Request:
    return Request("a", (Message("user", text),), tuple(seeds), sampling)


@torch.no_grad()
def plain_logprobs(model: Any, completion: Completion, temperature: float = 1.0) -> torch.Tensor:
    """(T,) log-probs of the sampled tokens, from all logits of one unpadded row."""
    ids = torch.tensor([[*completion.prompt_ids, *completion.token_ids]])
    logp = (model(input_ids=ids).logits[0, :-1].double() / temperature).log_softmax(-1)
    return logp.gather(1, ids[0, 1:, None])[len(completion.prompt_ids) - 1 :, 0]


def largest_error(model: Any, completions: Sequence[Completion]) -> float:
    """Largest |difference| of a token's log-prob from that of transformers."""
    return max(float((torch.tensor(c.logprobs) - plain_logprobs(model, c)).abs().max()) for c in completions)


@torch.no_grad()
def shake(parameters: Sequence[torch.nn.Parameter], seed: int = 5) -> None:
    """Add noise to weights, as training would."""
    generator = torch.Generator().manual_seed(seed)
    for p in parameters:
        p.add_(0.05 * torch.randn(p.shape, generator=generator))
