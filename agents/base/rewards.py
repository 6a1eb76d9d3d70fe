"""Rewards by name: judges (`judge:SPEC`), reward models (`rm:PATH`), and the user's own.

Models load on first use. A name that cannot be right is refused at once; models are loaded by `ready`, or when the
first case is scored.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from urllib.parse import parse_qsl

from palaver import plugins
from palaver.core import ConfigError, did_you_mean, load_attribute, need
from palaver.scoring import Reward, Score, ScoringRequest
from palaver.text import one_line

MODELS = MappingProxyType(
    {"judge": "palaver.agents.judges.judge:make_judge", "rm": "palaver.agents.reward_models.model:load"}
)


def make_reward(name: str) -> Reward:
    """The reward called `name`.

    Args:
        name: `judge:SPEC`, `rm:PATH`, one that an installed package adds, or `module:attribute`; options may follow as
            `?key=value&key=value`.

    Raises:
        ConfigError: no such kind, or options that do not fit.
        PolicyError: the reward model does not exist.
    """
    kind, _, argument = name.partition(":")
    if kind not in MODELS:
        return _plugin_reward(name)
    if not argument:
        raise ConfigError(f"the reward {name!r} is empty; write judge:SPEC or rm:PATH")
    if kind == "judge":
        judge: Reward = load_attribute(MODELS[kind])(argument)
        return judge
    path, options = split_options(argument)
    if path.startswith((".", "/", "~")) and not Path(path).expanduser().is_dir():
        raise ConfigError(f"there is no reward model in {path!r}; train one first, or correct the path")
    need(repr(name), "train")
    return Later(name, lambda: load_attribute(MODELS[kind])(path, options))


def _plugin_reward(name: str) -> Reward:
    """A reward that an installed package or `module:attribute` provides.

    That is a reward, a class of rewards, called with the options as texts, or a function of a `ScoringRequest` that
    returns a number.
    """
    source, options = split_options(name)
    absent = plugins.is_code(source) and find_spec(re.split("[.:]", source)[0]) is None
    found = None if absent else plugins.find("rewards", source)
    if found is None:
        known = [*MODELS, *plugins.installed("rewards")]
        raise ConfigError(f"there is no reward {name!r}; write judge:SPEC or rm:PATH.{did_you_mean(source, known)}")
    if isinstance(found, type):
        try:
            found = found(**options)
        except TypeError as error:
            raise ConfigError(f"the reward {source!r}: {one_line(error)}") from error
    elif options:
        raise ConfigError(f"the reward {source!r} takes no options, because it is no class")
    reward = FunctionReward(source, found) if inspect.isfunction(found) else found
    if not isinstance(reward, Reward):
        raise ConfigError(f"{source!r} is no reward: it needs a name and a method score(cases)")
    return reward


class FunctionReward:
    """A reward that scores each joint action by a function.

    Args:
        name: of the reward.
        function: called with a `ScoringRequest`; returns a number.
    """

    def __init__(self, name: str, function: Callable[[ScoringRequest], float]) -> None:
        self.name = name
        self.component = name.rpartition(":")[2]
        self.function = function

    def score(self, cases: Sequence[ScoringRequest]) -> list[Score]:
        """See `Reward.score`."""
        return [Score(float(self.function(case))) for case in cases]


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """`SOURCE?key=value&key=value` as source and options.

    Raises:
        ConfigError: an option without a value, or given twice.

    >>> split_options("hf:tiny?mode=listwise&seed=3")
    ('hf:tiny', {'mode': 'listwise', 'seed': '3'})
    """
    source, mark, query = text.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if mark else []
    except ValueError as error:
        raise ConfigError(f"write options as ?key=value&key=value, got {query!r}") from error
    options = dict(pairs)
    if len(options) < len(pairs):
        raise ConfigError(f"an option is given twice in {query!r}")
    return source, options


class Later:
    """A reward model that is loaded when it is first needed.

    Args:
        name: of the reward.
        load: makes it.
    """

    component = "reward_model"

    def __init__(self, name: str, load: Callable[[], Reward]) -> None:
        self.name = name
        self._load = load
        self._loaded: Reward | None = None

    def ready(self) -> Reward:
        """The reward, loaded.

        Raises:
            PalaverError: what its kind raises where it cannot be loaded.
        """
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def score(self, cases: Sequence[ScoringRequest]) -> list[Score]:
        """See `Reward.score`."""
        return self.ready().score(cases)

    def metrics(self) -> Mapping[str, float]:
        """Metrics of the loaded reward."""
        get_metrics: Callable[[], Mapping[str, float]] = getattr(self._loaded, "metrics", dict)
        return get_metrics()
