"""Options of loading and running a language model. Free of torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from palaver.core import ConfigError, did_you_mean


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Choices that do not change what a policy is, only how it runs.

    Attributes:
        dtype: what generation computes in; the trainable weights are fp32 either way.
        device: `auto` takes the GPU where there is one; otherwise a torch device such as `cpu` or `cuda:1`.
        chat: `template` needs the tokenizer's chat template, `plain` never uses it, `auto` uses it where there is one.
        engine: `palaver` is the own generation engine, `transformers` the library's `generate`, `vllm` an engine of
            vLLM in this process, `auto` the own one wherever it can serve the architecture, else that of transformers.
        max_prompt_tokens: a longer prompt is refused.
        from_scratch: the tiny model is one taught on this machine, not the shipped one.
        vllm_share: part of a GPU's memory that an engine of vLLM takes, weights included; not used on a CPU.
    """

    dtype: Literal["fp32", "bf16"] = "fp32"
    device: str = "auto"
    chat: Literal["auto", "template", "plain"] = "auto"
    engine: Literal["auto", "palaver", "transformers", "vllm"] = "auto"
    max_prompt_tokens: int = 4096
    from_scratch: bool = False
    vllm_share: float = 0.35

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            allowed = get_args(hints[field.name])
            value = getattr(self, field.name)
            if allowed and value not in allowed:
                raise ConfigError(f"{field.name} cannot be {value!r}.{did_you_mean(str(value), allowed)}")
        if self.max_prompt_tokens < 1:
            raise ConfigError(f"max_prompt_tokens must be 1 or more, got {self.max_prompt_tokens}")


@dataclass(frozen=True, slots=True)
class LoraOptions:
    """Shape of a low-rank adapter (LoRA, arXiv 2106.09685).

    A layer computes W x + (alpha / rank) B A x in place of W x.

    Attributes:
        rank: rows of A and columns of B.
        alpha: over the rank, what multiplies B A x.
        targets: `all-linear` for every linear layer but the vocabulary's head, or the names of linear layers or how
            their names end, such as `q_proj`.
    """

    rank: int = 16
    alpha: float = 32.0
    targets: str | tuple[str, ...] = "all-linear"

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigError(f"the rank of an adapter must be 1 or more, got {self.rank}")
        if not 0 < self.alpha < math.inf:
            raise ConfigError(f"the alpha of an adapter must be above 0 and finite, got {self.alpha}")
        names = [self.targets] if isinstance(self.targets, str) else self.targets
        if not names or not all(names):
            raise ConfigError(f"an adapter's targets must be all-linear or names of layers, got {self.targets!r}")


DEFAULT_OPTIONS = ModelOptions()
DEFAULT_LORA = LoraOptions()
