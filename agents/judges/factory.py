"""Judges by name."""

from __future__ import annotations

import functools

from palaver.agents.judges.chats import make_chat
from palaver.agents.judges.ensemble import Ensemble
from palaver.agents.judges.judge import Judge
from palaver.agents.judges.spec import EnsembleSpec, read_spec


def make_judge(name: str) -> Judge | Ensemble:
    """The judge called `name`; its models are loaded when they are first needed.

    Args:
        name: `MODEL?key=value&...` or `FILE.yaml?key=value&...`; an optional prefix is `judge:`.

    Raises:
        ConfigError: the file cannot be read, or an option is unknown or does not fit.
    """
    text = name.removeprefix("judge:")
    spec, called = read_spec(text), f"judge:{text}"
    if not isinstance(spec, EnsembleSpec):
        return Judge(spec, called)
    find = functools.cache(make_chat)  # members of one model share it
    members = [Judge(member, find=find) for member in spec.members]
    holdout = Judge(spec.holdout, find=find) if spec.holdout else None
    return Ensemble(members, holdout, called, spec.placement, spec.failures)
