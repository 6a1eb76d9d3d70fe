"""Config section of the KL penalty to a reference.

`kl.reference` is one of

    base            the base model, adapters off
    start           the weights that the run began with
    step:N          those after update N of this run; until then the start's
    lag:N           those of N updates ago; the start's before
    every:N         those after the last update whose number N divides; the start's before
    adapter:PATH    a stored adapter on the same base
    model:NAME      another model with the same tokenizer, by name or folder
"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from palaver.core import refuse
from palaver.trainers.config.defaults import without_constants
from palaver.utils.config import Section

_NUMBER = re.compile(r"[0-9]{1,9}")
_ANOTHER = re.compile(r",\s*((base|start)$|(step|lag|every|adapter|model):)")
_ARGUMENTS = {
    "step": "step:N takes the number of an update, 0 or more",
    "lag": "lag:N takes a number of updates, 1 or more",
    "every": "every:N takes a number of updates, 1 or more",
    "adapter": "adapter:PATH lacks an adapter's folder",
    "model": "model:NAME lacks a model's name or folder",
}


def _checked(text: str) -> str:
    """Return a valid `kl.reference`."""
    kind, colon, argument = text.partition(":")
    number = int(argument) if _NUMBER.fullmatch(argument) else -1
    fits = {"step": number >= 0, "lag": number >= 1, "every": number >= 1}.get(kind, bool(argument.strip()))
    refuse(
        [
            (_ANOTHER.search(text), "name one reference, not several"),
            (
                text not in ("base", "start") and not (colon and kind in _ARGUMENTS),
                "say `base`, `start`, `step:N`, `lag:N`, `every:N`, `adapter:PATH` or `model:NAME_OR_FOLDER`",
            ),
            (colon and not fits, _ARGUMENTS.get(kind, "")),
        ],
        partial(PydanticCustomError, "reference"),
    )
    return text


class KLConfig(Section):
    """KL penalty to a reference; a coefficient of 0 turns it off at no cost."""

    coef: float = Field(0.0, ge=0, description="weight of the term; what an adaptive one begins with")
    place: Literal["loss", "reward", "advantage"] = Field(
        "loss", description="a term of the loss, a cost of the completion before returns, or of each token's advantage"
    )
    estimator: Literal["auto", "k1", "k2", "k3"] = Field(
        "auto",
        description="-d, d^2 / 2, or exp(d) - d - 1, per token; d = log pi_ref - log pi. auto: k3 in the loss, else k1",
    )
    clamp: float | None = Field(None, gt=0, description="largest size of one token's term")
    reference: Annotated[str, AfterValidator(_checked)] = Field(
        "start",
        description="`start`, `step:N` (weights after update N), `lag:N` (of N updates ago; keeps N copies of what is "
        "trained in host memory and in checkpoints), `every:N` (renewed after each N updates), "
        "`model:NAME_OR_FOLDER` (same tokenizer); with team.kind=lora also "
        "`base` (adapters off) and `adapter:PATH`",
    )
    target: float | None = Field(
        None, gt=0, description="KL of a completion, in nats, that the weight is moved to keep; null keeps the weight"
    )
    horizon: int = Field(1000, ge=1, description="completions in which the weight may move by a fifth or so")
    schedule: Literal["constant", "linear"] = Field(
        "constant", description="linear: the weight falls to 0 over the steps of the run"
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_constants(cls, values: Any) -> Any:
        return without_constants(values, {"centre": "agent_batch", "source": "sample"})

    @property
    def named(self) -> tuple[str, str]:
        """The kind of reference, and the argument after its colon."""
        kind, _, argument = self.reference.partition(":")
        return kind, argument.strip()
