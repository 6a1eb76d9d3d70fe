"""Registry of environments, kept in PettingZoo's parallel registry as `palaver/NAME`.

`palaver.make("arxiv-v0")` and `pettingzoo.make("parallel", "palaver/arxiv-v0")` build the same object.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from pettingzoo import ParallelEnv
from pettingzoo.env_registry import registration

from palaver.core import ConfigError, did_you_mean, load_attribute

NAMESPACE = "palaver"
CATALOGUE = "palaver.envs.catalogue"
SPELLED = (
    "palaver.envs.base.reward_wrapper:parse_reward"  # parses a keyword `reward`, None if it is the environment's own
)
REWARDED = "palaver.envs.base.reward_wrapper:RewardWrapper"
REWARDS = "palaver.agents.base.rewards:make_reward"
AEC = "palaver.benchmarks.doors.aec:make_aec"
SINGLE_AGENT = "palaver.benchmarks.doors.single_agent:SingleAgentEnv"
_WORD = re.compile(r"[\w.-]+")
COMMON = frozenset({"reward"})  # keywords that `make` takes for every environment


@dataclass(frozen=True, slots=True)
class Spec:
    """Metadata of an environment, available without building it.

    Attributes:
        id: `name-v0`, without the namespace.
        entry_point: `module:attribute` or a callable that returns the environment.
        summary: one sentence.
        agents: the default agents.
        turns: the default number of turns; the maximum if an episode may end earlier.
        max_reward: maximum reward of a turn, for normalised scores.
        dataset: the public data set it reads, as an `hf:` name.
        scripted: name -> `module:function` of a reference policy, used as `scripted:NAME`.
        demonstrations: `module:function` that writes texts for the built-in tiny model, "" if none.
        shares: heading -> label -> metric: metrics that are parts of a whole; reports draw them as one stacked band.
        competitive: True if its agents can be opponents, so that an episode has a winner.
        players: name -> `module:function` of a player for the arena: called as `function(env, agent, seed)` for one
            game, it returns a function of (observation, info) that gives the agent's next action.
        teamsets: the keyword that `--teamsets` of the arena sets, such as the tasks or the teams.
        kwargs: default keyword arguments of the entry point.
    """

    id: str
    entry_point: str | Callable[..., ParallelEnv[str, str, str]]
    summary: str = ""
    agents: tuple[str, ...] = ()
    turns: int = 1
    max_reward: float = 1.0
    dataset: str = ""
    scripted: Mapping[str, str] = field(default_factory=dict)
    demonstrations: str = ""
    shares: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    competitive: bool = False
    players: Mapping[str, str] = field(default_factory=dict)
    teamsets: str = "tasks"
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def keywords(self) -> dict[str, inspect.Parameter]:
        """Keyword arguments of the entry point."""
        creator = resolve(self.entry_point) if isinstance(self.entry_point, str) else self.entry_point
        return {name: p for name, p in inspect.signature(creator).parameters.items() if name != "self"}


_SPECS: dict[str, Spec] = {}


def resolve(path: str) -> Any:
    """Load the object named `module:attribute`.

    Raises:
        ConfigError: the module or the attribute does not exist.
    """
    return load_attribute(path)


def register(spec: Spec) -> Spec:
    """Add an environment to this registry, and to those of PettingZoo and Gymnasium.

    PettingZoo knows it as `palaver/name-v0` in the parallel and the AEC API; Gymnasium knows each default agent as
    `palaver/name-AGENT-v0`.

    Raises:
        ConfigError: the id is taken.
    """
    if spec.id in _SPECS:
        raise ConfigError(f"the environment id {spec.id!r} is already registered; choose another name or version")
    registration.register("parallel", f"{NAMESPACE}/{spec.id}", entry_point=spec.entry_point, kwargs=dict(spec.kwargs))
    registration.register("aec", f"{NAMESPACE}/{spec.id}", entry_point=AEC, kwargs={"id": spec.id})
    for agent, id in agent_ids(spec).items():
        gymnasium.register(id, entry_point=SINGLE_AGENT, kwargs={"id": spec.id, "agent": agent})
    _SPECS[spec.id] = spec
    return spec


def agent_ids(spec: Spec) -> dict[str, str]:
    """Default agent -> its id in Gymnasium, if the environment has a version.

    Agents whose names an id cannot hold are left out.

    >>> agent_ids(Spec("arxiv-v0", "", agents=("background", "method")))
    {'background': 'palaver/arxiv-background-v0', 'method': 'palaver/arxiv-method-v0'}
    """
    name, _, version = spec.id.rpartition("-v")
    if not name or not version.isdecimal():
        return {}
    return {agent: f"{NAMESPACE}/{name}-{agent}-v{version}" for agent in spec.agents if _WORD.fullmatch(agent)}


def specs() -> dict[str, Spec]:
    """Every registered environment, by id."""
    return dict(sorted(_SPECS.items()))


def spec(id: str) -> Spec:
    """Return the spec of an environment; `palaver/name-v0` and `name_v0` are accepted too.

    Raises:
        ConfigError: no such id; the nearest one is suggested.
    """
    known = specs()
    name = id.removeprefix(f"{NAMESPACE}/")
    if name not in known:
        name = next((each for each in known if each.replace("-", "_") == name.replace("-", "_")), name)
    if name not in known:
        raise ConfigError(f"there is no environment {id!r}.{did_you_mean(name, known)}")
    return known[name]


def make(id: str, **kwargs: Any) -> ParallelEnv[str, str, str]:
    """Build an environment.

    Args:
        id: id of the environment.
        kwargs: its keywords. Every environment also takes a `reward`, a judge or reward model or its name, see
            `palaver.envs.base.reward_wrapper`.

    Raises:
        ConfigError: no such id, or a keyword the environment does not take.
        TaskError: its tasks cannot be read.
    """
    env_spec = spec(id)
    reward_spec = load_attribute(SPELLED)(kwargs["reward"]) if "reward" in kwargs else None
    if reward_spec is not None:
        return _rewarded(env_spec, reward_spec, kwargs)
    allowed = env_spec.keywords()
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in allowed.values())
    for name in kwargs:
        if name not in allowed and not open_ended:
            raise ConfigError(f"{env_spec.id} has no keyword {name!r}.{did_you_mean(name, allowed)}")
    return registration.make("parallel", f"{NAMESPACE}/{env_spec.id}", **kwargs)


def _rewarded(env_spec: Spec, reward_spec: Any, kwargs: Mapping[str, Any]) -> ParallelEnv[str, str, str]:
    """Make an environment with another reward than its own."""
    env_kwargs = {name: value for name, value in kwargs.items() if name != "reward"}
    env = make(env_spec.id, **env_kwargs, **({"reward": reward_spec.own} if reward_spec.own else {}))
    reward = reward_spec.reward or load_attribute(REWARDS)(reward_spec.name)
    return load_attribute(REWARDED)(
        env, reward, reward_spec.placement, env_spec.turns, env_spec.turns * env_spec.max_reward
    )


importlib.import_module(CATALOGUE)  # PettingZoo loads no plug-ins: it knows an id once `palaver` is imported
