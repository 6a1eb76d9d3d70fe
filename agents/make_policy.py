"""Policies by name. Imports torch only when a model is requested."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import DEFAULT_OPTIONS, ModelOptions
from palaver.agents.simple import EchoPolicy, HumanPolicy, RandomPolicy, ScriptedPolicy
from palaver.core import Conversation, PolicyError, did_you_mean, load_attribute

_TORCH = ("torch", "transformers")
PLAIN: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {"random": RandomPolicy, "echo": EchoPolicy, "human": HumanPolicy}
)


def make_policy(
    name: str,
    *,
    scripted: Mapping[str, str] = MappingProxyType({}),
    demonstrations: str = "",
    options: ModelOptions = DEFAULT_OPTIONS,
) -> Policy:
    """The policy called `name`.

    Args:
        name: `random`, `echo`, `human`, `scripted:NAME`, `scripted:module:function`, `openai:MODEL@URL`, `tiny`,
            `hf:NAME_OR_PATH`, or a bare name or path, which is read as `hf:`.
        scripted: what `scripted:NAME` may name, as NAME -> `module:function`; usually an environment's own.
        demonstrations: the `module:function` whose texts the tiny model learned from.
        options: how a model is loaded.

    Raises:
        PolicyError: it does not exist or cannot be loaded.
    """
    if name in PLAIN:
        return PLAIN[name]()
    if name.startswith("scripted:"):
        return _scripted(name.removeprefix("scripted:"), scripted)
    if name.startswith("openai:"):
        return _remote(name)
    return _model(model_source(name, demonstrations, options.from_scratch), options, name)


def model_source(name: str, demonstrations: str = "", from_scratch: bool = False) -> str:
    """Folder or hub name of the model called `name`: `tiny`, `hf:X` or `X`.

    The tiny model is built if it does not exist yet.

    Args:
        name: of the model.
        demonstrations: the `module:function` whose texts the tiny model learned from.
        from_scratch: the tiny model is one taught on this machine, not the shipped one.

    Raises:
        PolicyError: there is no tiny model for these demonstrations, or the name is empty.
    """
    if name == "tiny":
        return str(_tiny(demonstrations, from_scratch))
    source = name.removeprefix("hf:").strip()
    if not source:
        raise PolicyError(f"the policy name {name!r} is empty; give a model as hf:NAME or hf:FOLDER")
    return source


def _scripted(name: str, known: Mapping[str, str]) -> Policy:
    path = known.get(name, name)
    if ":" not in path:
        hint = did_you_mean(name, known) or " This environment has none; give it as scripted:module:function."
        raise PolicyError(f"there is no scripted policy {name!r}.{hint}")
    function: Callable[[Conversation, int], str] = load_attribute(path, "the scripted policy ", PolicyError)
    if not callable(function):
        raise PolicyError(f"the scripted policy {path!r} is not a function of (conversation, seed)")
    return ScriptedPolicy(function, f"scripted:{name}")


def _tiny(demonstrations: str, from_scratch: bool) -> Path:
    if not demonstrations:
        raise PolicyError(
            "the tiny model has learned no texts for this environment; name a model as hf:NAME or hf:FOLDER"
        )
    _need("tiny", _TORCH, "train")
    tiny = importlib.import_module("palaver.agents.tiny")
    folder: Path = tiny.ensure(demonstrations, from_scratch=from_scratch)
    return folder


def _model(source: str, options: ModelOptions, name: str) -> Policy:
    _need(name, _TORCH, "train")
    from palaver.agents.llm.policies.llm_policy import LLMPolicy

    policy = LLMPolicy.load(source, options)
    policy.name = name
    return policy


def _remote(name: str) -> Policy:
    _need("openai:", ("openai", "tenacity"), "judge")
    from palaver.agents.remote.chat import RemoteChat
    from palaver.agents.remote.policy import RemotePolicy

    return RemotePolicy(RemoteChat.named(name), name)


def _need(name: str, libraries: Sequence[str], extra: str) -> None:
    for library in libraries:
        try:
            importlib.import_module(library)
        except ImportError as error:
            raise PolicyError(f"{name!r} needs {library}; install it with: pip install 'palaver[{extra}]'") from error
