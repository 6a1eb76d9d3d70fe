"""Settings that come with an algorithm's name: those of its paper, as dotted keys.

They replace the sections' defaults; a recipe, and an override above it, replace them. A learning rate, a batch, a
number of steps or the weight of a penalty depends on model, task and reward, and comes with no name (but MADPO's beta,
without which its loss is 0). The files of the algorithms cite each number. They are here because a config is read
without torch, which those files import; `Algorithm.defaults` is a row's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from palaver import plugins

_NONE: Mapping[str, Any] = {}
_PPO = {
    "algorithm.clip": (0.2, 0.2),
    "algorithm.normalize": "whiten",
    "algorithm.gae_lambda": 0.95,
    "critic.normalize": True,
}
_TEAM_PPO = _PPO | {"algorithm.epochs": 5, "critic.epochs": 5, "critic.clip": 0.2, "critic.huber": 10.0}
_TD0 = {"algorithm.normalize": "whiten", "algorithm.gae_lambda": 0.0}
_GROUP_STD = {"algorithm.normalize": "std", "algorithm.std": "unbiased"}
_DAPO = {
    "algorithm.normalize": "std",
    "algorithm.aggregate": "token",
    "algorithm.minibatches": 16,
    "algorithm.resample": 9,
}

DEFAULTS: Mapping[str, Mapping[str, Any]] = {  # every algorithm that ships with Palaver
    **dict.fromkeys(("magrpo", "mareinforce", "marloo", "maremax", "rae", "vdn", "qmix"), _NONE),
    "iac": _TD0,
    "maac": _TD0,
    "ippo": _PPO | {"algorithm.epochs": 4, "critic.epochs": 4},
    "mappo": _TEAM_PPO,
    "happo": _TEAM_PPO,
    "cory": _PPO
    | {
        "algorithm.epochs": 4,
        "algorithm.discount": 1.0,
        "critic.epochs": 4,
        "critic.clip": 0.2,
        "kl.place": "reward",
        "team.swap_every": 5,
    },
    "atgrpo": {"algorithm.turns": "by_agent", "algorithm.discount": 0.0} | _GROUP_STD,
    "atgrpo-team": {"algorithm.turns": "best", "algorithm.discount": 0.0} | _GROUP_STD,
    "marshal": {"algorithm.normalize": "whiten"},
    "adalign": {"algorithm.turns": "independent", "algorithm.discount": 0.96, "algorithm.beta": 2.0},
    "c3": {"algorithm.turns": "counterfactual"},
    "drmas": {"algorithm.turns": "independent", "algorithm.group_by": "agent"} | _GROUP_STD,
    "grpo": {"algorithm.normalize": "std", "algorithm.aggregate": "mean"},
    "dr-grpo": {"algorithm.normalize": "none", "algorithm.aggregate": "fixed", "algorithm.clip": (0.2, 0.2)},
    "dapo": _DAPO | {"algorithm.clip": (0.2, 0.28)},
    "gspo": {
        "algorithm.normalize": "std",
        "algorithm.aggregate": "mean",
        "algorithm.ratio": "turn",
        "algorithm.clip": (3e-4, 4e-4),
        "algorithm.minibatches": 4,
    },
    "cispo": _DAPO | {"algorithm.clip": (0.2, 4.0)},
    "madpo": {"kl.coef": 0.1},
}


def defaults(name: object) -> Mapping[str, Any]:
    """Dotted key -> value of the settings that come with a name; empty for unknown names.

    Those of an algorithm that does not ship with Palaver are its `settings`.

    >>> defaults("madpo")["kl.coef"]
    0.1
    """
    if not isinstance(name, str):
        return {}
    if name in DEFAULTS:
        return MappingProxyType(DEFAULTS[name])
    return MappingProxyType(getattr(plugins.find("algorithms", name), "settings", {}))


def without_constants(values: Any, constants: Mapping[str, Any]) -> Any:
    """Drop settings of earlier versions that are constants now, where they have that value."""
    if not isinstance(values, dict):
        return values
    return {key: value for key, value in values.items() if key not in constants or value != constants[key]}


def fill_section(name: object, section: str, values: Any) -> Any:
    """Fill the given settings of one section with those that come with the name."""
    section_defaults = {
        key.partition(".")[2]: value for key, value in defaults(name).items() if key.startswith(f"{section}.")
    }
    return section_defaults | values if section_defaults and isinstance(values, dict) else values


def fill_sections(values: Any) -> Any:
    """Fill the given sections of a run with the settings that come with `algorithm.name`."""
    if not isinstance(values, dict):
        return values
    algorithm = values.get("algorithm")
    name = algorithm.get("name") if isinstance(algorithm, dict) else getattr(algorithm, "name", None)
    sections = {key.partition(".")[0] for key in defaults(name)} - {"algorithm"}  # which fills itself
    return values | {section: fill_section(name, section, values.get(section, {})) for section in sections}
