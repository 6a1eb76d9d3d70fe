"""Config section `algorithm.mixer` of value decomposition. Free of torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from palaver.trainers.config.defaults import without_constants
from palaver.utils.config import Section, Share

CONSTANTS = {
    "hyper": 64, "max_grad_norm": 10.0, "double": True, "target": "hard", "tau": 0.01, "confidence": 0.0,
}  # fmt: skip
ENCODERS = ("auto", "table", "words", "policy")


class MixerConfig(Section):
    """Settings of value decomposition; ignored by other algorithms."""

    actions: Literal["sentences", "legal"] = Field(
        "sentences", description="what is valued: texts that policies sample, or the legal actions that `infos` list"
    )
    encoder: str = Field(
        "auto",
        description="what makes numbers of texts: `table` (one for each text), `words` (hashed), `policy` (hidden "
        "states of the policy at its start) or `hf:NAME` (a sentence-embedding model); auto: table for legal actions, "
        "else policy",
    )
    encoder_device: str | None = Field(
        None, description="device of the encoder's model; null: that of the first policy, for hf:NAME the run's"
    )
    device: str = Field("cpu", description="device of values and mixer, which are small")
    likelihood: bool = Field(
        True, description="encoder policy: read the mean and the least log-probability of an answer's tokens too"
    )
    features: int = Field(256, ge=1, description="texts that a table holds; width of hashed words")
    hidden: int = Field(64, ge=1, description="width of the two hidden layers of Q_i; a table has none")
    embed: int = Field(32, ge=1, description="e: width of the mixer")
    optimizer: Literal["rmsprop", "adam"] = Field("rmsprop", description="of values and mixer")
    lr: float = Field(5e-4, gt=0, description="its learning rate, which is constant")
    buffer: int = Field(5000, ge=1, description="joint steps that the replay holds")
    batch: int = Field(32, ge=1, description="joint steps of an update; none is made before there are as many")
    updates: int = Field(8, ge=1, description="updates of values and mixer in a training step")
    target_every: int = Field(200, ge=1, description="updates between copies of the live weights to the targets")
    epsilon: tuple[Share, Share] = Field((1.0, 0.05), description="legal: chance of a random action, first and last")
    epsilon_steps: int = Field(50, ge=1, description="legal: training steps in which it falls")
    credit: Literal["counterfactual", "value"] = Field(
        "counterfactual", description="sentences: the difference that an answer makes to Q_tot, or Q_i less its mean"
    )
    start: int = Field(10, ge=0, description="sentences: first training steps, in which the plain return is compared")

    @model_validator(mode="before")
    @classmethod
    def _drop_constants(cls, values: Any) -> Any:
        return without_constants(values, CONSTANTS)

    @field_validator("encoder")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in ENCODERS and not (value.startswith("hf:") and value[3:].strip()):
            raise ValueError(f"input should be one of {', '.join(ENCODERS)}, or hf:NAME")
        return value

    @property
    def reads(self) -> str:
        """The encoder, `auto` resolved."""
        return ("table" if self.actions == "legal" else "policy") if self.encoder == "auto" else self.encoder
