"""Policies by name: how names are written, and the policies that they name.

Imports torch only when a model is requested.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from palaver import plugins
from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import DEFAULT_OPTIONS, ModelOptions
from palaver.agents.simple import EchoPolicy, HumanPolicy, RandomPolicy, ScriptedPolicy
from palaver.core import Conversation, PolicyError, did_you_mean, need

PLAIN: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {"random": RandomPolicy, "echo": EchoPolicy, "human": HumanPolicy}
)
FORMS: Mapping[str, str] = MappingProxyType(
    {
        "run": "run:FOLDER",
        "recipe": "recipe:NAME+key=value",
        "net": "net:FOLDER or net:FOLDER@TEMPERATURE",
        "text": "text:FOLDER_OR_MODEL or text:FOLDER_OR_MODEL@TEMPERATURE",
        "scripted": "scripted:NAME or scripted:module:function",
        "openai": "openai:MODEL or openai:MODEL@URL",
        "hf": "hf:NAME or hf:FOLDER",
    }
)
BATCHED = ("net", "text")  # kinds of players of matches that decide for many games at once
_HEAT = re.compile(r"(.+)@(\d{1,4}(?:\.\d{1,6})?)")


class PolicyName(NamedTuple):
    """A policy's name in its parts.

    Attributes:
        kind: one of `FORMS`, `tiny`, one of `PLAIN`; `plugin` of names that an installed package adds and of
            `module:attribute`; "" of other names, as of a model or an environment's own player.
        source: what the name says after its kind, without a temperature.
        temperature: of `net:` and `text:`; 0 if there is none.
    """

    kind: str
    source: str
    temperature: float = 0.0


def parse_policy(name: str) -> PolicyName:
    """Parse the name of a policy.

    Raises:
        PolicyError: it is empty.

    >>> tuple(parse_policy("net:runs/student@0.5")), tuple(parse_policy("net:runs/a@b"))
    (('net', 'runs/student', 0.5), ('net', 'runs/a@b', 0.0))
    """
    if name in PLAIN or name == "tiny":
        return PolicyName(name, "")
    kind, colon, source = name.partition(":")
    if not colon or kind not in FORMS:
        kind, source = "plugin" if plugins.is_code(name) or kind in plugins.installed("policies") else "", name
    source = source.strip()
    if not source:
        raise PolicyError(f"the policy name {name!r} is empty; it is written {FORMS[kind or 'hf']}")
    match = _HEAT.fullmatch(source) if kind in BATCHED else None
    return PolicyName(kind, match[1], float(match[2])) if match else PolicyName(kind, source)


def split_team(text: str) -> dict[str, str]:
    """Agent -> name of its policy, from `agent=NAME,agent=NAME`; from `NAME` alone, "" -> it.

    Raises:
        PolicyError: an entry is no AGENT=POLICY, or an agent is named twice.

    >>> split_team("a=run:runs/x,b=random"), split_team("run:runs/x")
    ({'a': 'run:runs/x', 'b': 'random'}, {'': 'run:runs/x'})
    """
    parts = [entry.strip() for entry in text.split(",")]
    head, equals, _ = parts[0].partition("=")
    if parse_policy(text).kind in ("run", "recipe") or (len(parts) == 1 and not (equals and head.isidentifier())):
        return {"": text.strip()}
    named: dict[str, str] = {}
    for entry in parts:
        agent, equals, name = entry.partition("=")
        if not agent or not name:
            raise PolicyError(f"write a team as AGENT=POLICY,AGENT=POLICY or one policy for all; got {entry!r}")
        if agent in named:
            raise PolicyError(f"the team names two policies for the agent {agent!r}: {named[agent]!r} and {name!r}")
        named[agent] = name
    return named


def parse_team_names(text: str, agents: Sequence[str]) -> dict[str, str]:
    """Agent -> name of its policy, from `NAME` for all agents or `agent=NAME,agent=NAME`.

    Raises:
        PolicyError: as `split_team`; an unknown agent, or an agent without a policy.
    """
    named = split_team(text)
    if "" in named:
        return dict.fromkeys(agents, named[""])
    for agent in named:
        if agent not in agents:
            raise PolicyError(f"there is no agent {agent!r} in this environment.{did_you_mean(agent, agents)}")
    empty = [agent for agent in agents if agent not in named]
    if empty:
        raise PolicyError(f"the team has no policy for the agent {empty[0]!r}; add {empty[0]}=POLICY")
    return {agent: named[agent] for agent in agents}


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
            `hf:NAME_OR_PATH`, a policy that an installed package adds, `module:attribute`, or a bare name or path,
            which is read as `hf:`.
        scripted: what `scripted:NAME` may name, as NAME -> `module:function`; usually an environment's own.
        demonstrations: the `module:function` whose texts the tiny model learned from.
        options: how a model is loaded.

    Raises:
        PolicyError: it does not exist or cannot be loaded.
    """
    policy = parse_policy(name)
    if policy.kind in PLAIN:
        return PLAIN[policy.kind]()
    if policy.kind == "scripted":
        return _scripted(policy.source, scripted)
    if policy.kind == "plugin":
        return _plugin(name)
    if policy.kind == "openai":
        need(repr(name), "judge", error=PolicyError)
        from palaver.agents.remote.chat import RemoteChat, RemotePolicy

        return RemotePolicy(RemoteChat.named(name), name)
    source = model_source(name, demonstrations, options.from_scratch)
    need(repr(name), "train", error=PolicyError)
    from palaver.agents.llm.policies.llm_policy import LLMPolicy

    model = LLMPolicy.load(source, options)
    model.name = name
    return model


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
    policy = parse_policy(name)
    if policy.kind != "tiny":
        return policy.source if policy.kind == "hf" else name.strip()
    if not demonstrations:
        raise PolicyError(
            "the tiny model has learned no texts for this environment; name a model as hf:NAME or hf:FOLDER"
        )
    need("'tiny'", "train", error=PolicyError)
    from palaver.agents.tiny import build

    return str(build.ensure(demonstrations, from_scratch=from_scratch))


def _scripted(name: str, known: Mapping[str, str]) -> Policy:
    path = known.get(name, name)
    if ":" not in path:
        hint = did_you_mean(name, known) or " This environment has none; give it as scripted:module:function."
        raise PolicyError(f"there is no scripted policy {name!r}.{hint}")
    function: Callable[[Conversation, int], str] = plugins.load_code(path, "the scripted policy ", PolicyError)
    if not callable(function):
        raise PolicyError(f"the scripted policy {path!r} is not a function of (conversation, seed)")
    return ScriptedPolicy(function, f"scripted:{name}")


def _plugin(name: str) -> Policy:
    """A policy that an installed package or `module:attribute` provides.

    That is a policy, a class of policies, called with what follows the installed name as in `NAME:SOURCE`, or a
    function of (conversation, seed) that answers.
    """
    head, _, source = name.partition(":")
    known = head if head in plugins.installed("policies") else name
    found = plugins.find("policies", known, PolicyError)
    if inspect.isfunction(found):
        return ScriptedPolicy(found, name)
    if known != name and not isinstance(found, type):
        raise PolicyError(f"the policy {known!r} takes nothing after its name, as {source!r}")
    policy = found(*[source] if known != name else []) if isinstance(found, type) else found
    if not isinstance(policy, Policy):
        raise PolicyError(f"{known!r} is no policy: it needs a name and a method act(requests)")
    return policy
