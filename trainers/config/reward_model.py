"""Config of the training of a reward model. Free of torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from palaver.trainers.config.preferences import PairsConfig
from palaver.trainers.config.run import EnvConfig
from palaver.utils.config import Section


class SourceConfig(PairsConfig):
    """Source of pairs: a file, or joint actions compared by the environment or a judge."""

    file: str = Field("", description="a file or `hf:NAME:SPLIT` with pairs; empty: a team is asked")
    env: EnvConfig = Field(EnvConfig(), description="what the team plays; its tiny model is the one called `tiny`")
    team: str = Field("tiny", description="a policy for all agents, AGENT=POLICY,AGENT=POLICY, or run:FOLDER")
    judge: str = Field("", description="who compares, as `judge:NAME`; empty: the environment's reward")
    group_size: int = Field(12, ge=2, description="joint actions of one task")
    rounds: int = Field(2, ge=1, description="groups of one task")
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    max_tokens: int = Field(256, ge=1, description="of one answer")


class AdapterConfig(Section):
    """LoRA adapter in place of full training; it is merged into the weights at the end."""

    rank: int = Field(0, ge=0, description="0 trains all weights")
    alpha: float = Field(32.0, gt=0, description="over the rank, the adapter's weight")
    targets: str = Field("all-linear", description="names of linear layers with commas between, or all-linear")


class FitConfig(Section):
    """The reward model and its training (Bradley-Terry, by TRL's RewardTrainer)."""

    model: str = Field("tiny", description="`tiny`, or a language model or reward model by name or folder")
    chat: Literal["auto", "template", "plain"] = Field("auto", description="auto: the tokenizer's template if any")
    max_tokens: int = Field(4096, ge=1, description="longest text it reads; longer pairs are left out and counted")
    lora: AdapterConfig = AdapterConfig()
    lr: float = Field(1e-4, gt=0, description="learning rate after warm-up; falls linearly to 0")
    warmup: float = Field(0.05, ge=0, lt=1, description="share of the steps with a rising rate")
    epochs: int = Field(1, ge=1, description="passes over the pairs")
    batch: int = Field(8, ge=1, description="pairs of one step")
    micro: int = Field(0, ge=0, description="pairs of one backward pass; 0: all of a step")
    margins: bool = Field(False, description="ask for score differences beyond the pairs' margins (Llama 2)")
    centre: float = Field(0.01, ge=0, description="weight of (chosen + rejected)^2, which keeps scores about 0")
    weight_decay: float = Field(0.0, ge=0)
    held_out: float = Field(0.2, gt=0, lt=1, description="share of the tasks whose pairs are only looked at")
    dtype: Literal["fp32", "bf16"] = Field("fp32", description="bf16 computes in bfloat16 under fp32 weights")
    gradient_checkpointing: bool = False
