"""Definition of an algorithm as a record of choices, and the list of all algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor

from palaver import plugins
from palaver.core import ConfigError, did_you_mean, load_attribute
from palaver.trainers.config.defaults import defaults
from palaver.trainers.config.run import AlgorithmConfig, CriticConfig
from palaver.trainers.objectives.advantages import individual_reward, mixed_reward, shared_reward
from palaver.trainers.objectives.losses import Loss, cispo, ppo_clip, reinforce

Credit = Callable[[Tensor], Tensor]  # (J, N) rewards -> (J, N) credited rewards
Baseline = Callable[[Tensor, Tensor], Tensor]  # (R,) returns, (R,) groups or values -> (R,) advantages


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Choices that define an algorithm.

    Attributes:
        name: name in recipes.
        paper: paper that defines it.
        credit: reward credited to each agent.
        baseline: baseline of the return (`objectives/advantages.py`).
        loss: per-token policy loss (`objectives/losses.py`).
        critic: value estimate: none, a critic of each agent's conversation, one of the joint conversation, or a moving
            mean of each agent's returns.
        level: level of values of a critic model: one per completion, or one per token (`critic.level`).
        order: agents update together, or in sequence, each with the likelihood ratio of the former ones.
        needs_group: the baseline compares siblings, so G must be 2 or more.
        mixer: function from the agents' action values to the team's: none, their sum, or one that is monotonic in each
            (`value_decomposition`).
        pairs: True if joint actions are compared in pairs, in place of returns with a baseline (`preferences`).
        aligned: True if advantages of the agents weigh each other over turns (`update/advantage_alignment.py`).
        alone: True if it is defined for one trained agent only.
        in_turn: True if it is defined only for agents that act one after the other.
        settings: dotted key -> setting that comes with the name, of an algorithm that does not ship with Palaver.
    """

    name: str
    paper: str
    credit: Credit
    baseline: Baseline
    loss: Loss
    critic: Literal["none", "own", "joint", "agent"] = "none"
    level: Literal["completion", "token"] = "completion"
    order: Literal["together", "sequence"] = "together"
    needs_group: bool = True
    mixer: Literal["none", "sum", "monotonic"] = "none"
    pairs: bool = False
    aligned: bool = False
    alone: bool = False
    in_turn: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def estimator(self) -> str:
        """Kind of its advantage estimator: `pairs`, `aligned`, `mixer`, or that of its critic."""
        if self.pairs or self.aligned:
            return "pairs" if self.pairs else "aligned"
        return "mixer" if self.mixer != "none" else self.critic

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Settings that come with the name, by dotted key (`config/defaults.py`)."""
        return defaults(self.name)


ALGORITHMS = {
    "magrpo": "palaver.trainers.algorithms.magrpo:MAGRPO",
    "mareinforce": "palaver.trainers.algorithms.mareinforce:MAREINFORCE",
    "marloo": "palaver.trainers.algorithms.marloo:MARLOO",
    "maremax": "palaver.trainers.algorithms.maremax:MAREMAX",
    "iac": "palaver.trainers.algorithms.iac:IAC",
    "maac": "palaver.trainers.algorithms.maac:MAAC",
    "ippo": "palaver.trainers.algorithms.ippo:IPPO",
    "mappo": "palaver.trainers.algorithms.mappo:MAPPO",
    "happo": "palaver.trainers.algorithms.happo:HAPPO",
    "rae": "palaver.trainers.algorithms.rae:RAE",
    "marshal": "palaver.trainers.algorithms.marshal:MARSHAL",
    "adalign": "palaver.trainers.algorithms.adalign:ADALIGN",
    "c3": "palaver.trainers.algorithms.c3:C3",
    "atgrpo": "palaver.trainers.algorithms.atgrpo:ATGRPO",
    "atgrpo-team": "palaver.trainers.algorithms.atgrpo:ATGRPO_TEAM",
    "drmas": "palaver.trainers.algorithms.drmas:DRMAS",
    "grpo": "palaver.trainers.algorithms.grpo:GRPO",
    "dr-grpo": "palaver.trainers.algorithms.drgrpo:DRGRPO",
    "dapo": "palaver.trainers.algorithms.dapo:DAPO",
    "gspo": "palaver.trainers.algorithms.gspo:GSPO",
    "cispo": "palaver.trainers.algorithms.cispo:CISPO",
    "madpo": "palaver.trainers.algorithms.madpo:MADPO",
    "cory": "palaver.trainers.algorithms.cory:CORY",
    "vdn": "palaver.trainers.algorithms.vdn:VDN",
    "qmix": "palaver.trainers.algorithms.qmix:QMIX",
}
CREDITS: dict[str, Credit] = {"team": shared_reward, "own": individual_reward, "both": mixed_reward}
SURROGATES: dict[str, Loss] = {"reinforce": reinforce, "clip": ppo_clip, "cispo": cispo}


def algorithm(name: str) -> Algorithm:
    """Return the algorithm called `name`: a shipped or installed one, or `module:attribute`.

    Raises:
        ConfigError: there is none; the nearest is suggested.
    """
    found = load_attribute(ALGORITHMS[name]) if name in ALGORITHMS else plugins.find("algorithms", name)
    if found is None:
        known = [*ALGORITHMS, *plugins.installed("algorithms")]
        raise ConfigError(f"there is no algorithm {name!r}.{did_you_mean(name, known)}")
    if not isinstance(found, Algorithm):
        raise ConfigError(f"{name!r} is no palaver.trainers.algorithms.base.Algorithm")
    return found if name in ALGORITHMS else replace(found, name=name)


def provide_algorithm(given: Algorithm) -> str:
    """Return the name of an algorithm, by which configs of this process find it from now on.

    Raises:
        ConfigError: another algorithm, shipped or installed, has the name.
    """
    name = given.name
    if name not in (*ALGORITHMS, *plugins.installed("algorithms")):
        plugins.provide("algorithms", name, given)
    elif algorithm(name) != given:
        raise ConfigError(f"the algorithm name {name!r} is taken; give yours another one: replace(..., name=...)")
    return name


def has_token_values(algorithm: Algorithm, config: CriticConfig) -> bool:
    """Return True if the critics of a run have a value for every token."""
    return (
        algorithm.critic in ("own", "joint")
        and (algorithm.level if config.level == "auto" else config.level) == "token"
    )


def chosen(config: AlgorithmConfig) -> Algorithm:
    """Return the algorithm of a config, with its overrides of credit, loss and order.

    Raises:
        ConfigError: there is no such algorithm.
    """
    row = algorithm(config.name)
    row = replace(row, credit=CREDITS.get(config.credit, row.credit), loss=SURROGATES.get(config.surrogate, row.loss))
    return replace(row, order="sequence") if row.pairs and config.pairs.others == "joint" else row
