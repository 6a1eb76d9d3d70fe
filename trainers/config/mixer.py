"""Config section `algorithm.mixer` of value decomposition. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from palaver.utils.config import Section

Share = Annotated[float, Field(ge=0, le=1)]
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
    likelihood: bool = Field(
        True, description="encoder policy: read the mean and the least log-probability of an answer's tokens too"
    )
    features: int = Field(256, ge=1, description="texts that a table holds; width of hashed words")
    hidden: int = Field(64, ge=1, description="width of the two hidden layers of Q_i; a table has none")
    embed: int = Field(32, ge=1, description="e: width of the mixer")
    hyper: int = Field(64, ge=1, description="hidden width of the networks that give the mixer its weights")
    optimizer: Literal["rmsprop", "adam"] = Field("rmsprop", description="of values and mixer")
    lr: float = Field(5e-4, gt=0, description="its learning rate, which is constant")
    max_grad_norm: float = Field(10.0, ge=0, description="0 turns clipping off")
    buffer: int = Field(5000, ge=1, description="joint steps that the replay holds")
    batch: int = Field(32, ge=1, description="joint steps of an update; none is made before there are as many")
    updates: int = Field(8, ge=1, description="updates of values and mixer in a training step")
    double: bool = Field(True, description="the next actions are chosen by the live values, not by the target's")
    target: Literal["hard", "soft"] = Field("hard", description="copy the live weights now and then, or move to them")
    target_every: int = Field(200, ge=1, description="updates between hard copies")
    tau: float = Field(0.01, gt=0, le=1, description="how far a soft target moves in an update")
    epsilon: tuple[Share, Share] = Field((1.0, 0.05), description="legal: chance of a random action, first and last")
    epsilon_steps: int = Field(50, ge=1, description="legal: training steps in which it falls")
    credit: Literal["counterfactual", "value"] = Field(
        "counterfactual", description="sentences: the difference that an answer makes to Q_tot, or Q_i less its mean"
    )
    start: int = Field(10, ge=0, description="sentences: first training steps, in which the plain return is compared")
    confidence: float = Field(0.0, ge=0, description="sentences: alpha of the confidence gain; 0 is none")

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
