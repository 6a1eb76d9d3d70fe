"""Palaver: multi-agent text environments, language-model agents, and their trainers."""

from pathlib import Path

if not (Path(__file__).parent / "envs").is_dir():  # a checkout without symbolic links: the wings lie one level up
    __path__.append(str(Path(__file__).parent.parent))

from typing import Any

from palaver.core import Completion, Conversation, Message, PalaverError, Request, Sampling
from palaver.episodes import Episode, Turn
from palaver.registry import Spec, make, register, spec, specs

__version__ = "0.1.0"

_LATE = {  # imported on first use, because they import torch or much else
    "Run": "palaver.api.training:Run",
    "evaluate": "palaver.api.playing:evaluate",
    "from_dataset": "palaver.api.data:from_dataset",
    "rollout": "palaver.api.playing:rollout",
    "to_dataset": "palaver.api.data:to_dataset",
    "train": "palaver.api.training:train",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from palaver.core import load_attribute

    return load_attribute(_LATE[name])


__all__ = [
    "Completion",
    "Conversation",
    "Episode",
    "Message",
    "PalaverError",
    "Request",
    "Run",
    "Sampling",
    "Spec",
    "Turn",
    "evaluate",
    "from_dataset",
    "make",
    "register",
    "rollout",
    "spec",
    "specs",
    "to_dataset",
    "train",
]
