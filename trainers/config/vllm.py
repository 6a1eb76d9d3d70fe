"""Config section of generation by vLLM (`policy.engine: vllm`)."""

from __future__ import annotations

from pydantic import Field

from palaver.utils.config import Section


class VllmConfig(Section):
    """Engines of vLLM; ignored by other engines."""

    share: float = Field(
        0.35, gt=0, lt=1, description="part of a GPU's memory for each engine, weights included; not used on a CPU"
    )
    max_drift: float | None = Field(
        None,
        gt=0,
        description="largest mean difference between the log-probs of generation and training, beyond which the run "
        "stops; null: 1e-4 in fp32, 0.05 in bf16",
    )
