"""Specification of scenarios: environment, settings, focal agents and their partners.

A shipped scenario is a file `NAME.yaml` in this folder; NAME ends with its version, as in `arxiv-strangers-v2`. It
never changes: a change of the partner, the tasks or a keyword is a new version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig
from palaver.benchmarks.evaluation.focal import FocalRound
from palaver.core import Sampling
from palaver.registry import spec
from palaver.trainers.config.run import EVAL_SEED
from palaver.utils.config import Section, recipes, validated, values


class SamplingSection(Section):
    """Sampling parameters of models; see `palaver.core.Sampling`."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256


class Partner(Section):
    """Policy of the other agents.

    Attributes:
        policy: `scripted:lazy`, `random`, `tiny`, `run:FOLDER`, or `recipe:NAME+key=value`, a recipe that is trained
            once, from this repository only.
        weights: agent -> required fingerprint of its weights; mandatory for a run, whose folder may change.
        then: policy that replaces it in the middle of every episode; "" for none.
        after: number of answers of the first, guesses included.
    """

    policy: str
    weights: dict[str, str] = Field({})
    then: str = ""
    after: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _run_has_fingerprints(self) -> Partner:
        if "run:" in self.policy and not self.weights:
            raise ValueError("a run is named with the fingerprints of its weights, so that it stays what it was")
        if bool(self.then) != bool(self.after):
            raise ValueError("a partner that is replaced needs then, the new policy, and after, a number of answers")
        return self


class Scenario(Section):
    """A scenario.

    Attributes:
        name: name of its file.
        about: description, one sentence.
        env: id of the environment, with its version.
        keywords: keywords of the environment, `tasks` included.
        n: number of tasks, from the first; 0 takes all.
        samples: episodes per task and entry of `focal`.
        seed: seed of tasks, environments and sampling.
        sampling: sampling parameters of models.
        focal: one entry per round: the agents that the evaluated team plays. The partner plays the others.
        partner: the partner.
        max_reward: upper bound of the episode return; None takes the environment's.
        score: `added`, the focal agents' return less that of the same agents when silent; `own`, their own return, for
            partners that are opponents.
    """

    name: str = Field(pattern=r"^[a-z0-9-]+-v\d+$")
    about: str
    env: str
    keywords: dict[str, Any] = Field({})
    n: int = Field(32, ge=0)
    samples: int = Field(1, ge=1)
    seed: int = EVAL_SEED
    sampling: SamplingSection = SamplingSection()
    focal: tuple[tuple[str, ...], ...] = Field(min_length=1)
    partner: Partner
    max_reward: float | None = None
    score: Literal["added", "own"] = "added"


def is_scenario(name: str) -> bool:
    """Return whether `name` is a shipped scenario or the path of a YAML file."""
    return name.endswith((".yaml", ".yml")) or name in recipes("scenario")


def load(name: str) -> Scenario:
    """Load a shipped scenario by name, or one from a YAML file by path.

    Raises:
        ConfigError: there is no such scenario, or it is invalid.
    """
    return validated(Scenario, {"name": Path(name).stem, **values("scenario", name)}, where=f"{name}: ")


def setting(scenario: Scenario, team: str, options: ModelOptions) -> EvaluationConfig:
    """Settings to evaluate `team` in a scenario, which fixes tasks, seeds and sampling.

    Raises:
        ConfigError: its environment does not exist.
    """
    seats = spec(scenario.env).agents
    return EvaluationConfig(
        env=scenario.env,
        keywords=scenario.keywords,
        team=team,
        n=scenario.n,
        samples=scenario.samples,
        seed=scenario.seed,
        sampling=Sampling(**scenario.sampling.model_dump()),
        options=options,
        seatings=tuple(
            FocalRound(
                focal_agents,
                {agent: scenario.partner.policy for agent in seats if agent not in focal_agents},
                scenario.partner.weights,
                scenario.partner.then,
                scenario.partner.after,
            )
            for focal_agents in scenario.focal
        ),
        scenario=scenario.name,
        max_reward=scenario.max_reward,
        added=scenario.score == "added",
    )
