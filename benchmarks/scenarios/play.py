"""Evaluation settings of a scenario."""

from __future__ import annotations

from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig
from palaver.benchmarks.evaluation.focal import FocalRound
from palaver.benchmarks.scenarios.spec import Scenario
from palaver.registry import spec


def setting(scenario: Scenario, team: str, options: ModelOptions) -> EvaluationConfig:
    """Settings to evaluate `team` in a scenario, which fixes tasks, seeds and sampling.

    Raises:
        ConfigError: its environment does not exist.
    """
    seats = spec(scenario.env).agents
    seatings = tuple(
        FocalRound(
            focal_agents,
            {agent: scenario.partner.policy for agent in seats if agent not in focal_agents},
            scenario.partner.weights,
        )
        for focal_agents in scenario.focal
    )
    return EvaluationConfig(
        env=scenario.env,
        keywords=scenario.keywords,
        team=team,
        n=scenario.n,
        samples=scenario.samples,
        seed=scenario.seed,
        sampling=scenario.sampling_parameters(),
        options=options,
        seatings=seatings,
        scenario=scenario.name,
        max_reward=scenario.max_reward,
        added=scenario.score == "added",
    )
