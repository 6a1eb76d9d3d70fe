"""Config of behaviour cloning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from palaver.core import refuse
from palaver.trainers.config.run import LogConfig
from palaver.utils.config import Section, Share


class BCConfig(Section):
    """Settings of behaviour cloning from recorded battles."""

    size: Literal["nano", "small", "medium"] = Field("nano", description="of a new battle net")
    model: str = Field("", description="a causal LM by name or folder, which learns instead of a battle net")
    loss: Literal["clone", "filter", "weigh"] = Field(
        "clone", description="-log pi of what was played; of what did better than expected; weighted by exp(beta A)"
    )
    beta: float = Field(1.0, gt=0, description="of the weights")
    clip: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(gt=0)]] = Field(
        (1e-7, 100.0), description="least and largest weight"
    )
    trace: float = Field(
        1.0, ge=0, le=1, description="lambda of the advantage: 1 compares with how it ended, 0 with the next decision"
    )
    value: Literal["result", "return"] = Field(
        "result", description="what the value head says: the chance of winning, or the discounted rewards"
    )
    discount: float = Field(1.0, ge=0, le=1, description="of the rewards, per decision")
    bins: int = Field(63, ge=3, description="of a return, on the symlog scale")
    value_coef: float = Field(0.5, ge=0, description="weight of the value's loss")
    entropy: float = Field(0.0, ge=0, description="weight of the policy's entropy bonus")
    hide: Share = Field(0.0, description="share of the battles with feature dropout")
    hide_most: Share = Field(0.33, description="highest dropout rate of their words")
    epochs: int = Field(3, ge=1, description="as many trajectories as there are, each time")
    steps: int = Field(0, ge=0, description="updates after which it ends before; 0: the epochs decide")
    decisions: int = Field(2048, ge=1, description="of a batch, padding included")
    lr: float = Field(1e-3, gt=0, description="learning rate after warm-up; falls to a tenth along a cosine")
    warmup: int = Field(50, ge=0, description="steps of linear warm-up")
    weight_decay: float = Field(0.01, ge=0, description="decoupled")
    max_grad_norm: float = Field(1.5, ge=0, description="0 turns clipping off")
    held_out: float = Field(0.0, ge=0, lt=1, description="share of the battles that are only looked at")
    checkpoint_every: int = Field(200, ge=1, description="steps")
    keep: int = Field(2, ge=1, description="checkpoints kept")
    seed: int = Field(0, description="of the weights, the order and what is hidden")
    device: str = Field("cpu", description="auto, cpu, cuda")
    dtype: Literal["fp32", "bf16"] = Field("fp32", description="bf16 computes in bfloat16 under fp32 weights")
    threads: int = Field(0, ge=0, description="torch threads; 0 leaves the default")
    log: LogConfig = LogConfig(tensorboard=False)

    @model_validator(mode="after")
    def _fits(self) -> BCConfig:
        low, high = self.clip
        refuse(
            [
                (low > high, f"clip: the least weight {low} is above the largest {high}"),
                (
                    self.model and self.loss != "clone",
                    "loss: a language model has no value head; it learns with loss=clone only",
                ),
                (self.model and self.hide, "hide: only a battle net's words can be hidden"),
            ],
            ValueError,
        )
        return self
