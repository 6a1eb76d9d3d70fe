"""Bias of every policy-gradient estimator, by enumeration.

    python -m palaver.benchmarks.experiments.estimators

Two agents with tabular policies in float64 play a small game with random rewards (`enumeration.py`). The expectation
of the gradient that the trainer computes is taken over all outcomes of the sampler, and compared with the exact
gradient of the expected return under the sampler, differentiated from the probabilities of all trajectories. Printed is
the table of docs/algorithms/policy-gradient.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palaver.benchmarks.experiments.enumeration import (
    AGENTS,
    EnumerableGame,
    JointAction,
    Tabular,
    episodes_of,
    exact,
    outcomes,
)
from palaver.markdown import markdown_table
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.advantages import individual_reward
from palaver.trainers.objectives.token_values import TokenValues
from palaver.trainers.rollout.batch import Batch, make_batch
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.moving_baseline import EpisodeReturns, MovingBaseline
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.update_records import UpdateInput
from palaver.trainers.update.updater import Updater
from palaver.trainers.update.value_estimator import ValueEstimator
from palaver.utils.stats.intervals import quantile


class Keep(torch.optim.SGD):
    """Optimiser that stores the last gradient and leaves the parameters unchanged."""

    def __init__(self, model: Tabular) -> None:
        super().__init__(model.parameters(), lr=0.0)
        self.gradient = torch.zeros_like(model.logits)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Store the gradient."""
        del closure
        (parameter,) = self.param_groups[0]["params"]
        self.gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()


class Alternatives(MovingBaseline):
    """Moving baseline that starts every task equally.

    The tasks of a batch are alternative outcomes of one task.
    """

    def follow(self, episodes: Sequence[EpisodeReturns]) -> tuple[list[dict[str, float]], dict[str, float]]:
        """Baselines before each episode: the initial ones, updated by earlier episodes of its task."""
        baselines: list[dict[str, float]] = []
        for _, task in itertools.groupby(episodes, key=lambda episode: episode.task):
            baselines += super().follow(list(task))[0]
        return baselines, self.means


class KnownValues(ValueEstimator):
    """Estimator with the game's value function in place of critics, for no policies."""

    def __init__(self, game: EnumerableGame, joint: bool, *args: Any) -> None:
        super().__init__(*args)
        self.game, self.reads_joint = game, joint

    def values(self, batch: Batch, inputs: object) -> tuple[Tensor, TokenValues | None]:
        """Expected returns before every token; a critic of the team reads the joint prompt."""
        del inputs
        joint = self.reads_joint
        length = torch.tensor([len(completion.token_ids) for completion in batch.completions])
        known = torch.zeros(len(batch), int(length.max()), dtype=torch.float64)
        for index, completion in enumerate(batch.completions):
            read = completion.prompt_ids[1:] if joint else completion.prompt_ids
            for position in range(len(completion.token_ids)):
                reader = "team" if joint and not position else AGENTS[int(batch.agent[index])]
                known[index, position] = self.game.value(reader, (*read, *completion.token_ids[:position]))
        return known[:, 0], TokenValues(known, torch.zeros_like(known), length) if self.by_token else None


@dataclass(frozen=True, slots=True)
class GradientEstimate:
    """The expectation of an agent's gradient and the exact one.

    Attributes:
        estimated: expectation of what the trainer computes, as a direction of ascent.
        exact: gradient of the agent's expected return.
    """

    estimated: Tensor
    exact: Tensor

    @property
    def cosine(self) -> float:
        """Cosine of the two gradients; 0 if one of them is 0."""
        norms = float(self.estimated.norm() * self.exact.norm())
        return float((self.estimated * self.exact).sum()) / norms if norms else 0.0

    @property
    def ratio(self) -> float:
        """Ratio of the norms."""
        return float(self.estimated.norm() / self.exact.norm())


def study_of(game: EnumerableGame, models: Sequence[Tabular], config: RunConfig) -> tuple[Updater, list[Keep]]:
    """Make an updater with the game's value function as critics; return it with its optimisers."""
    row = chosen(config.algorithm)
    world = Distributed("cpu", "fp32")
    updaters: list[PolicyUpdater] = []
    optimizers = [Keep(model) for model in models]
    for agent, model, optimizer in zip(AGENTS, models, optimizers, strict=True):
        speaker: Any = SimpleNamespace(
            model=model,
            name=agent,
            refresh=lambda: None,
            parameters=model.parameters,
            device=torch.device("cpu"),
            active=lambda model=model: nullcontext(model),
        )
        speaker.shared_engine = speaker
        learner = PolicyUpdater(speaker, [agent], config, world)
        learner.optimizer = optimizer  # type: ignore[assignment]
        updaters.append(learner)
    study = Updater(replace(row, critic="none"), config, updaters, world)
    if row.critic == "agent":
        study.estimator = Alternatives(row, config, updaters, world)
        study.estimator.means = {agent: game.value("moving", agent) for agent in AGENTS}
    elif row.critic != "none":
        study.estimator = KnownValues(game, row.critic == "joint", replace(row, critic="own"), config, [], world)
    return study, optimizers


def settings(name: str, temperature: float = 1.0, level: str = "auto", **algorithm: Any) -> RunConfig:
    """Config with groups of two, unscaled returns, one epoch and no gradient clipping.

    `level` is `critic.level`.
    """
    return parse(
        {
            "policy": {"temperature": temperature, "max_tokens": 8},
            "algorithm": {
                "name": name,
                "group_size": 2,
                "normalize": "none",
                "gae_lambda": 1.0,
                "discount": 1.0,
                "turns": "tree",
                "epochs": 1,
                "minibatches": 1,
                **algorithm,
            },
            "eval": {"n": 0},
            "critic": {"level": level},
            "optim": {"max_grad_norm": 0},
            "train": {"micro_tokens": 1_000_000},
            "device": "cpu",
        }
    )


def gradients(
    game: EnumerableGame, config: RunConfig, table: Batch, chance: Sequence[float], moved: Sequence[Tabular]
) -> list[Tensor]:
    """Each agent's gradient from a table of many tasks, as the trainer computes it.

    Task n has the weight `chance[n]`.

    Args:
        game: gives the critics' values.
        config: of the run.
        table: of the game.
        chance: of each task.
        moved: policies that are trained; the sampling policies unless updated since.
    """
    study, optimizers = study_of(game, moved, config)
    tasks = torch.tensor(chance, dtype=torch.float64) * len(chance)
    first = {
        int(row): int(table.steps[int(step)].node.partition("/")[0])
        for row, step in zip(table.member_row, table.member_step, strict=True)
    }
    weight = tasks[[first[row] for row in range(len(table))]]
    for learner in study.learners:
        learner.update = partial(_weighed_update, learner.update, weight)  # type: ignore[method-assign]
    study.update(study.estimate_advantages(table), 1)
    return [-optimizer.gradient for optimizer in optimizers]


def _weighed_update(update: Callable[[UpdateInput], Any], factor: Tensor, inputs: UpdateInput) -> Any:
    """Update a policy with the loss of each row times its factor (R,)."""
    return update(replace(inputs, factor=factor))


def estimate(game: EnumerableGame, config: RunConfig, shift: float = 0.0) -> list[GradientEstimate]:
    """Expected gradient of the trainer over all outcomes of a task, and the exact one, by agent.

    With `shift` the samples are those of an older policy: every logit has moved since by up to as much.
    """
    temperature, own_rewards = config.policy.temperature, chosen(config.algorithm).credit is individual_reward
    models, moved = ([Tabular(game, agent) for agent in range(len(AGENTS))] for _ in range(2))
    with torch.no_grad():
        for agent, model in enumerate(moved):
            numbers = [game.pseudo_random("shift", agent, n) for n in range(model.logits.numel())]
            model.logits.add_(shift * torch.tensor(numbers, dtype=torch.float64).view_as(model.logits))
    tasks, chance = zip(*outcomes(game, models, config), strict=True)
    assert abs(sum(chance) - 1) < 1e-9
    ours = gradients(game, config, batch_of(game, tasks, config, models), chance, moved)
    return [GradientEstimate(*pair) for pair in zip(ours, exact(game, moved, temperature, own_rewards), strict=True)]


def batch_of(
    game: EnumerableGame, tasks: Sequence[Sequence[JointAction]], config: RunConfig, models: Sequence[Tabular]
) -> Batch:
    """Make the batch of one outcome for each task."""
    return make_batch(
        [
            episode
            for index, nodes in enumerate(tasks)
            for episode in episodes_of(game, nodes, str(index), config, models)
        ]
    )


@dataclass(frozen=True, slots=True)
class Bias:
    """A row of the table.

    Attributes:
        label: the algorithm, or the setting.
        design: the difference by design of its expected gradient from that of the return.
        name: of the algorithm.
        options: of the algorithm.
        shift: of the logits since the samples were drawn, where they are those of an older policy.
        turns: of the games of the measurement.
    """

    label: str
    design: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    shift: float = 0.0
    turns: tuple[int, ...] = (1, 2)


CRITICS = "IAC, MAAC, IPPO, MAPPO, HAPPO"
OLDER = "prefixes are the older policy's"
BIASES = (
    Bias("MAGRPO", "the group's mean holds the sample itself: 1 - 1/G of the gradient", "magrpo"),
    Bias("MAREINFORCE", "none", "mareinforce"),
    Bias("MARLOO", "none", "marloo"),
    Bias("MAREMAX", "the group's best depends on the sample", "maremax"),
    Bias("RAE", "none, of each agent's own return", "rae"),
    Bias(
        "MARSHAL",
        "the role's mean holds the sample; its spread",
        "marshal",
        {"normalize": "whiten"},
    ),
    Bias(f"{CRITICS}, `gae_lambda: 1`", "none, whatever the values", "ippo"),
    Bias("CORY, and the same with `critic.level: token`, `gae_lambda: 1`", "none, whatever the values", "cory"),
    Bias("CORY, `gae_lambda: 0.95`", "wrong values lean on later tokens and turns", "cory", {"gae_lambda": 0.95}),
    Bias(
        "completion level, `gae_lambda: 0.95`",
        "wrong values lean on later turns",
        "ippo",
        {"gae_lambda": 0.95},
        turns=(2,),
    ),
    Bias(
        "completion level, `gae_lambda: 0`", "wrong values replace later turns", "iac", {"gae_lambda": 0.0}, turns=(2,)
    ),
    Bias("C3", "none", "c3", {"turns": "counterfactual"}),
    Bias(
        "AT-GRPO, answering for the team",
        "each turn for its own reward, after the best; partners who are the best; the group's spread",
        "atgrpo",
        {"turns": "by_agent", "discount": 0.0, "normalize": "std", "credit": "team"},
        turns=(2,),
    ),
    Bias(
        "AT-GRPO by teams, answering for the team",
        "each turn for its own reward, after the best sibling; the group's spread",
        "atgrpo-team",
        {"turns": "best", "discount": 0.0, "normalize": "std", "credit": "team"},
        turns=(2,),
    ),
    Bias(
        "Dr. MAS",
        "all turns share one mean and one spread",
        "drmas",
        {"turns": "independent", "normalize": "std"},
        turns=(2,),
    ),
    Bias("Dr. GRPO", "as MAGRPO, over the largest number of tokens, 8 here", "dr-grpo"),
    Bias(
        "GRPO, GSPO, the first pass",
        "the group's spread; tokens of long completions weigh less",
        "grpo",
        {"normalize": "std"},
    ),
    Bias("DAPO, CISPO, the first pass", "the group's spread", "dapo", {"normalize": "std"}),
    Bias("`normalize: std`", "groups whose returns differ little weigh more", "marloo", {"normalize": "std"}),
    Bias(
        "`turn_weights: rows`",
        "a turn of a tree has the weight of its rows",
        "marloo",
        {"turn_weights": "rows"},
        turns=(2,),
    ),
    Bias("`aggregate: mean`", "tokens of long completions weigh less", "marloo", {"aggregate": "mean"}, turns=(1,)),
    Bias("clipped ratio, a later pass", f"no gradient beyond the clip; {OLDER}", "ippo", shift=0.5),
    Bias("CISPO, a later pass", f"the weight is cut; {OLDER}", "ippo", {"surrogate": "cispo"}, shift=0.5),
    Bias("`truncate: 2`, a later pass", f"the weight is cut; {OLDER}", "marloo", {"truncate": 2.0}, shift=0.5),
    Bias(
        "`truncate: 2`, `mask: [0.5, 2]`, older samples",
        f"the tokens outside are left out; {OLDER}",
        "marloo",
        {"truncate": 2.0, "mask": (0.5, 2.0)},
        shift=0.5,
    ),
)
SEEDS = range(10)


def games(bias: Bias) -> list[EnumerableGame]:
    """Games for every seed: one turn with texts of one or two tokens, two turns, or both."""
    kinds = {1: EnumerableGame(1, 2, ends=True), 2: EnumerableGame(2, 1, waits=True)}
    return [replace(kinds[turns], seed=seed) for seed in SEEDS for turns in bias.turns]


def table() -> str:
    """The table in Markdown, at temperature 0.7: over games and agents."""
    rows = []
    for bias in BIASES:
        config = settings(bias.name, 0.7, **bias.options)
        estimates = [gradient for game in games(bias) for gradient in estimate(game, config, bias.shift)]
        cosines = [gradient.cosine for gradient in estimates]
        norm = np.median([gradient.ratio for gradient in estimates])
        figures = f"{np.median(cosines):.3f}", f"{quantile(cosines, 0.1):.3f}", f"{norm:.2f}"
        rows.append([bias.label, bias.design, *figures])
    return markdown_table(["", "bias by design", "cosine: median", "10 % quantile", "norm: median"], rows)


if __name__ == "__main__":
    print(table())
