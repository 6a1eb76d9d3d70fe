"""Registry of environments, kept in PettingZoo's parallel registry as `palaver/NAME`.

`palaver.make("arxiv-v0")` and `pettingzoo.make("parallel", "palaver/arxiv-v0")` build the same object.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import gymnasium
from pettingzoo import ParallelEnv
from pettingzoo.env_registry import registration
from pettingzoo.env_registry.exceptions import PettingZooRegistryError

from palaver import plugins
from palaver.core import ConfigError, did_you_mean, load_attribute

NAMESPACE = "palaver"
CATALOGUE = "palaver.envs.catalogue"
SPELLED = (
    "palaver.envs.base.reward_wrapper:parse_reward"  # parses a keyword `reward`, None if it is the environment's own
)
REWARDED = "palaver.envs.base.reward_wrapper:RewardWrapper"
INFERRED = "palaver.envs.base.wrappers:with_questions"
REWARDS = "palaver.agents.base.rewards:make_reward"
IMPORTED = {"textarena/": "palaver.envs.textarena.games:spec"}  # prefix of ids of another library -> their specs
AEC = "palaver.benchmarks.doors.aec:make_aec"
SINGLE_AGENT = "palaver.benchmarks.doors.single_agent:SingleAgentEnv"
_WORD = re.compile(r"[\w.-]+")
COMMON = frozenset({"reward", "infer"})  # keywords that `make` takes for every environment
SAMPLE = "sample"  # tasks that ship with an environment
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


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
        return {name: p for name, p in inspect.signature(self.creator()).parameters.items() if name != "self"}

    def creator(self) -> Callable[..., ParallelEnv[str, str, str]]:
        """Callable that builds the environment.

        Raises:
            ConfigError: the entry point cannot be imported.
        """
        loaded = resolve(self.entry_point) if isinstance(self.entry_point, str) else self.entry_point
        return cast("Callable[..., ParallelEnv[str, str, str]]", loaded)

    def task_keywords(self, source: str) -> dict[str, str]:
        """Keywords that choose the tasks; none for the sample of an environment that takes no tasks."""
        return {self.teamsets: source} if source != SAMPLE or self.takes(self.teamsets) else {}

    def takes(self, keyword: str) -> bool:
        """Return whether the entry point takes a keyword argument, by name or as any."""
        keywords = self.keywords()
        return keyword in keywords or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in keywords.values())

    def competes(self, env: Any) -> bool:
        """Return whether the agents of an environment of this spec compete with its keywords."""
        return self.competitive if env.competitive is None else bool(env.competitive)


_SPECS: dict[str, Spec] = {}
_NAMED: dict[str, Spec] = {}  # id -> its spec: `module:attribute`, and ids of other libraries


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
    name, kwargs = f"{NAMESPACE}/{spec.id}", dict(spec.kwargs)
    try:
        registration.register("parallel", name, entry_point=spec.entry_point, kwargs=kwargs)
    except PettingZooRegistryError as error:
        raise ConfigError(f"write the id of an environment as name-v0, not {spec.id!r}") from error
    registration.register("aec", name, entry_point=AEC, kwargs={"id": spec.id})
    for agent, id in agent_ids(spec).items():
        gymnasium.register(id, entry_point=SINGLE_AGENT, kwargs={"id": spec.id, "agent": agent})
    _declare(spec)
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
    """Every environment by id: registered ones and those of installed packages."""
    for name, found in plugins.load_all("envs").items():
        _adopt(name, found)
    return dict(sorted(_SPECS.items()))


def spec(id: str | type[ParallelEnv[str, str, str]]) -> Spec:
    """Return the spec of an environment.

    Args:
        id: a registered id, also as `palaver/name-v0` or `name_v0`; one that an installed package adds;
            `module:attribute` of a `Spec` or of a callable that builds an environment; or the class of one, which is
            registered by the name in its metadata.

    Ids of other libraries have a prefix, as `textarena/KuhnPoker-v0`.

    Raises:
        ConfigError: no such id; the nearest one is suggested.
    """
    if isinstance(id, type):
        return _of_class(id)
    name = id.removeprefix(f"{NAMESPACE}/")
    if prefix := imported(name):
        return _NAMED.get(name) or _adopt(name, load_attribute(IMPORTED[prefix])(name))
    ids = [*_SPECS, *plugins.installed("envs")]
    if name not in ids:
        name = next((each for each in ids if each.replace("-", "_") == name.replace("-", "_")), name)
    if name in _SPECS:
        return _SPECS[name]
    found = plugins.find("envs", name)
    if found is None:
        raise ConfigError(f"there is no environment {id!r}.{did_you_mean(name, ids)}")
    return _adopt(name, found)


def imported(id: str) -> str:
    """Return the prefix of an id of another library, such as `textarena/`; "" for others."""
    return next((prefix for prefix in IMPORTED if id.startswith(prefix)), "")


def _adopt(id: str, found: Any) -> Spec:
    """Spec of what a package or a path provides, under the name that it was asked for by."""
    if id in _SPECS:
        return _SPECS[id]
    if id not in _NAMED:
        new = replace(found, id=id) if isinstance(found, Spec) else _describe(id, found)
        if not (plugins.is_code(id) or imported(id)):
            return register(new)
        _declare(new)
        _NAMED[id] = new
    return _NAMED[id]


def _of_class(env: type[ParallelEnv[str, str, str]]) -> Spec:
    """Spec of a class; one that was defined again, as in a notebook, replaces the former."""
    id = str(env.metadata.get("name", env.__name__)).replace("_", "-")
    known = _SPECS.get(id)
    if known is not None and known.creator() is not env:
        former = known.creator()
        if (former.__module__, former.__qualname__) != (env.__module__, env.__qualname__):
            raise ConfigError(f"the environment id {id!r} is already registered; give the class another metadata name")
        name = f"{NAMESPACE}/{id}"
        del _SPECS[id], registration.parallel_registry[name], registration.aec_registry[name]
        for name in agent_ids(known).values():
            del gymnasium.registry[name]
    return _adopt(id, env)


def _describe(id: str, creator: Any) -> Spec:
    """Spec of a callable that builds an environment, which is built once with its defaults."""
    if not callable(creator):
        raise ConfigError(f"{id!r} is neither a palaver.Spec nor a class or function that builds an environment")
    new = Spec(id, creator)
    missing = [name for name, p in new.keywords().items() if p.default is p.empty and p.kind not in _VARIADIC]
    if missing:
        raise ConfigError(f"{id!r} cannot be built without {missing[0]!r}: give it a default, or name a palaver.Spec")
    env = creator()
    if not isinstance(env, ParallelEnv):
        raise ConfigError(f"{id!r} builds a {type(env).__name__}, not a pettingzoo.ParallelEnv")
    return replace(
        new,
        summary=(inspect.getdoc(creator) or "").partition("\n")[0],
        agents=tuple(env.possible_agents),
        turns=getattr(env, "num_turns", 1),
        competitive=bool(getattr(env, "competitive", False)),
    )


def _declare(spec: Spec) -> None:
    plugins.declare([spec.demonstrations, *spec.scripted.values(), *spec.players.values()])


def make(id: str | type[ParallelEnv[str, str, str]], **kwargs: Any) -> ParallelEnv[str, str, str]:
    """Build an environment.

    Args:
        id: id of the environment, or its class; see `spec`.
        kwargs: its keywords. Every environment also takes a `reward`, a judge or reward model or its name, see
            `palaver.envs.base.reward_wrapper`, and `infer`, which asks its agents about each other, see
            `palaver.envs.base.inference_wrapper`.

    Raises:
        ConfigError: no such id, or a keyword the environment does not take.
        TaskError: its tasks cannot be read.
    """
    env_spec = spec(id)
    if "infer" in kwargs:
        env = make(id, **{name: value for name, value in kwargs.items() if name != "infer"})
        inferred: ParallelEnv[str, str, str] = load_attribute(INFERRED)(env, kwargs["infer"], env_spec.turns)
        return inferred
    reward_spec = load_attribute(SPELLED)(kwargs["reward"]) if "reward" in kwargs else None
    if reward_spec is not None:
        return _rewarded(env_spec, reward_spec, kwargs)
    for name in kwargs:
        if env_spec.takes(name):
            continue
        if name in COMMON:  # no name of a reward, and no keyword of this environment
            load_attribute(REWARDS)(str(kwargs[name]))
        else:
            raise ConfigError(f"{env_spec.id} has no keyword {name!r}.{did_you_mean(name, env_spec.keywords())}")
    if env_spec.id in _NAMED:  # PettingZoo's registry takes no such ids
        return env_spec.creator()(**{**env_spec.kwargs, **kwargs})
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
