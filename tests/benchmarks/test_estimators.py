"""Expectation of every estimator's gradient over all outcomes of the sampler, against the gradient of the return."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.tiny.build import ensure
from palaver.benchmarks.experiments.enumeration import AGENTS, EnumerableGame, Tabular, exact, outcomes, prompt
from palaver.benchmarks.experiments.estimators import BIASES, batch_of, estimate, gradients, settings, table
from palaver.core import Sampling
from palaver.registry import spec
from palaver.trainers.algorithms.base import ALGORITHMS, chosen
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.advantages import individual_reward
from palaver.trainers.objectives.losses import reinforce
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout, text_env
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.update_records import UpdateInput
from tests.trainers.learning import config, spied

PAGE = Path(__file__).resolve().parents[2] / "docs" / "algorithms" / "policy-gradient.md"
UNBIASED = {
    "magrpo": 0.5, "mareinforce": 1.0, "marloo": 1.0, "rae": 1.0, "iac": 1.0, "maac": 1.0, "ippo": 1.0, "mappo": 1.0,
    "happo": 1.0, "cory": 1.0, "iac token": 1.0, "maac token": 1.0, "ippo token": 1.0, "mappo token": 1.0,
    "happo token": 1.0, "c3": 1.0, "dr-grpo": 0.5 / 8,
}  # fmt: skip
GAMES = {
    "one turn, aligned": (EnumerableGame(1, 2), {}),
    "one turn, cross": (EnumerableGame(1, 2), {"joint": "cross"}),
    "one turn, texts of one or two tokens": (EnumerableGame(1, 2, ends=True, seed=1), {}),
    "two turns, independent": (EnumerableGame(2, 1), {"turns": "independent"}),
    "two turns, tree, one agent waits": (EnumerableGame(2, 1, waits=True), {}),
    "two turns, tree": (EnumerableGame(2, 1), {}),
    "two turns, tree, cross, one agent waits": (EnumerableGame(2, 1, waits=True), {"joint": "cross"}),
}
TEMPERATURES = [pytest.param(1.0, marks=pytest.mark.slow), 0.7, pytest.param(0.6, marks=pytest.mark.slow)]
LARGE = ("two turns, tree", "two turns, tree, cross, one agent waits")  # 4,096 outcomes


def per_outcome(game: EnumerableGame, config: RunConfig) -> list[float]:
    """Expectation of the norm of the gradient of a single task, by agent."""
    models = [Tabular(game, agent) for agent in range(len(AGENTS))]
    sizes = [0.0] * len(AGENTS)
    for nodes, chance in outcomes(game, models, config):
        ours = gradients(game, config, batch_of(game, [nodes], config, models), [1.0], models)
        sizes = [size + chance * float(gradient.norm()) for size, gradient in zip(sizes, ours, strict=True)]
    return sizes


def sampled(game: EnumerableGame, config: RunConfig, batches: int, tasks: int, seed: int) -> list[torch.Tensor]:
    """Projection of a sampled batch's gradient on the exact one, (batches,) for each agent.

    The unit is the norm of the exact gradient.
    """
    own_rewards = chosen(config.algorithm).credit is individual_reward
    models = [Tabular(game, agent) for agent in range(len(AGENTS))]
    goals = exact(game, models, config.policy.temperature, own_rewards)
    random = np.random.default_rng(seed)
    projections: list[list[float]] = [[] for _ in AGENTS]
    for _ in range(batches):
        drawn = [next(outcomes(game, models, config, random))[0] for _ in range(tasks)]
        ours = gradients(game, config, batch_of(game, drawn, config, models), [1 / tasks] * tasks, models)
        for values, one, goal in zip(projections, ours, goals, strict=True):
            values.append(float((one * goal).sum() / goal.square().sum()))
    return [torch.tensor(values) for values in projections]


def check(name: str, game: str, temperature: float) -> None:
    rules, options = GAMES[game]
    constant, (name, _, level) = UNBIASED[name], name.partition(" ")
    options = {"turns": "counterfactual"} if name == "c3" else options
    chosen = settings(name, temperature, level or "auto", **({} if name == "happo" and "cross" in game else options))
    for each in estimate(rules, chosen):
        assert each.cosine >= 1 - 1e-6
        assert each.ratio == pytest.approx(constant, rel=1e-6)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("game", [name for name in GAMES if name not in LARGE])
@pytest.mark.parametrize("name", UNBIASED)
def test_the_expectation_is_the_exact_gradient_times_a_constant(name, game, temperature):
    """1 - 1/G with the group's mean as baseline, else 1; Dr. GRPO's over 8 tokens.

    HAPPO refuses `cross`, C3 has `turns: counterfactual`.
    """
    check(name, game, temperature)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.6])
@pytest.mark.parametrize("game", LARGE)
@pytest.mark.parametrize("name", UNBIASED)
def test_the_expectation_is_the_exact_gradient_in_trees_of_4096_outcomes(name, game, temperature):
    check(name, game, temperature)


def test_a_tree_of_4096_outcomes():
    check("magrpo", "two turns, tree", 0.7)


def test_weights_by_rows_are_biased_in_a_tree():
    rows = estimate(EnumerableGame(2, 1, waits=True), settings("marloo", 0.7, turn_weights="rows"))
    assert rows[0].cosine < 0.999  # the other agent acts in the first turn alone


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "options"),
    [("marloo", {"joint": "cross"}), ("ippo", {"joint": "cross"}), ("mareinforce", {"group_size": 4})],
)
def test_the_mean_of_samples_is_the_exact_gradient_where_outcomes_are_too_many(name, options):
    """Projections of 100 batches of 400 tasks on the exact gradient, whose mean is 1 within 3 standard errors."""
    for projection in sampled(EnumerableGame(2, 1), settings(name, 0.7, **options), 100, 400, seed=5):
        error = float(projection.std()) / math.sqrt(len(projection))
        assert error <= 0.01
        assert abs(float(projection.mean()) - 1) < 3 * error


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("name", ["mareinforce", "maremax", "rae", "iac", "maac", "ippo", "mappo", "happo"])
def test_a_constant_reward_teaches_nothing(name, temperature):
    """|E g| <= 1e-6 E |g|."""
    game, chosen = EnumerableGame(1, 2, ends=True, constant=True), settings(name, temperature)
    means = estimate(game, chosen)
    for mean, size in zip(means, per_outcome(game, chosen), strict=True):
        assert float(mean.estimated.norm()) <= 1e-6 * size
        assert (size > 0.01) == (name != "maremax"), "single gradients are not zero"


def test_the_exact_gradient_by_hand():
    """One turn of one token: J is bilinear in the agents' chances of token 0, p and q."""
    game, temperature = EnumerableGame(1, 1), 0.7
    models = [Tabular(game, agent) for agent in range(2)]
    pays = {
        (i, j): sum(game.reward(agent, (((i,), (j,)),)) for agent in range(2)) / 2 for i in range(2) for j in range(2)
    }
    p, q = (float((model.logits.detach()[0] / temperature).softmax(0)[0]) for model in models)
    slope = q * (pays[0, 0] - pays[1, 0]) + (1 - q) * (pays[0, 1] - pays[1, 1])
    by_hand = p * (1 - p) / temperature * slope
    found = exact(game, models, temperature)[0]
    assert found[0].tolist() == pytest.approx([by_hand, -by_hand])
    assert prompt(0, ()) == (10,)
    assert len(AGENTS) == 2


def numbers(row: str) -> list[float]:
    return [float(cell) for cell in row.split("|")[3:-1]]


@pytest.mark.slow
def test_the_pages_table_is_what_is_computed():
    text = PAGE.read_text(encoding="utf-8")
    shown = text.partition("<!-- enumerated -->\n")[2].partition("\n<!-- end -->")[0].splitlines()
    found = table().splitlines()
    assert [row.split("|")[1:3] for row in shown] == [row.split("|")[1:3] for row in found]
    for ours, theirs in zip(shown[2:], found[2:], strict=True):
        assert numbers(ours) == pytest.approx(numbers(theirs), abs=2e-3)


def test_every_algorithm_has_a_row_or_a_sentence():
    text = PAGE.read_text(encoding="utf-8").partition("## Bias")[2].partition("\n## ")[0]
    names = {
        "atgrpo": "AT-GRPO", "atgrpo-team": "AT-GRPO by teams", "drmas": "Dr. MAS", "dr-grpo": "Dr. GRPO",
    }  # fmt: skip
    for name in ALGORITHMS:
        assert names.get(name, name.upper()) in text, name
    assert len({bias.label for bias in BIASES}) == len(BIASES)


@pytest.mark.slow
def test_batches_of_a_constant_reward_are_not_alike():
    """MAREINFORCE with the shipped tiny model: the mean cosine of 20 pairs of independent batches is 0 in its interval.

    Scored at temperature 1, though sampled at 0.7, every batch sharpens the policy, and batches are alike.
    """
    env = text_env("coding-mini-v0", {})
    who = LLMPolicy.load(str(ensure(spec("coding-mini-v0").demonstrations)), ModelOptions(device="cpu"))
    tasks = [task.id for task in env.tasks]
    means = {}
    for scored in (0.7, 1.0):
        learner = PolicyUpdater(
            who, ["aux"], config(policy={"temperature": scored, "max_tokens": 24}), Distributed("cpu", "fp32")
        )
        spy = spied(learner)
        found = []
        for seed in range(40 if scored == 0.7 else 8):
            sampling = dict.fromkeys(env.possible_agents, Sampling(temperature=0.7, max_tokens=24))
            team = dict.fromkeys(env.possible_agents, who)
            played = make_batch(
                rollout(env, team, tasks[4 * seed : 4 * seed + 4], SamplingPlan(8), seed=seed, sampling=sampling),
                ["aux"],
            )
            one = replace(played, advantage=torch.ones(len(played), dtype=torch.float64))
            learner.update(UpdateInput(one, one.rows_of(["aux"]), reinforce, 1))
            found.append(torch.cat([part.flatten() for part in spy.steps[-1].values()]))
        pairs = zip(found[::2], found[1::2], strict=True)
        cosines = torch.tensor([float(torch.cosine_similarity(one, other, 0)) for one, other in pairs])
        means[scored] = float(cosines.mean())
        if scored == 0.7:
            half = 2.093 * float(cosines.std()) / math.sqrt(20)  # t of 19 degrees of freedom
    assert abs(means[0.7]) < half
    assert means[1.0] > 0.15
