"""Palaver: multi-agent text environments, language-model agents, and their trainers."""

from pathlib import Path

if not (Path(__file__).parent / "envs").is_dir():  # a checkout without symbolic links: the wings lie one level up
    __path__.append(str(Path(__file__).parent.parent))

from palaver.core import Completion, Conversation, Message, PalaverError, Request, Sampling
from palaver.episodes import Episode, Turn
from palaver.registry import Spec, make, register, spec, specs

__version__ = "0.1.0"

__all__ = [
    "Completion",
    "Conversation",
    "Episode",
    "Message",
    "PalaverError",
    "Request",
    "Sampling",
    "Spec",
    "Turn",
    "make",
    "register",
    "spec",
    "specs",
]
