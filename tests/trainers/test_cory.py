"""CORY: numbers worked out by hand, and that as a row it is IPPO with values of tokens."""

from __future__ import annotations

import pytest
import torch

from palaver.core import Completion
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.loading import load, parse
from palaver.trainers.objectives.token_values import TokenValues
from palaver.trainers.rollout.batch import add_advantages, make_batch
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from tests.trainers.learning import config, episode
from tests.trainers.toys import register_toy, save_model

WORD = Completion("x", (1, 2), (3,), (-0.5,), (-0.5,))
TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")


@pytest.mark.parametrize(("discount", "pioneer"), [(1.0, 2.7), (0.9, 2.5)])
@pytest.mark.parametrize("decay", [0.0, 0.95, 1.0])
def test_both_answers_pay_the_pioneer_and_each_pays_for_its_own_words(discount, pioneer, decay):
    """Of words of one token: rewards 1 and 2, values .5 and .25, k1 of 3 and -1 nats at .1: 1 + 2 - .3 and 2 + .1.

    With discount .9 the pioneer's return is 1 + .9 * 2 - .3. Each decides once, so lambda changes nothing.
    """
    table = make_batch([episode("0", 0, [(1.0, 1.0), (2.0, 2.0)], [{"a": WORD}, {"b": WORD}])])
    settings = config(algorithm={"discount": discount, "gae_lambda": decay}).algorithm
    value = torch.tensor([0.5, 0.25], dtype=torch.float64)
    cost = 0.1 * torch.tensor([3.0, -1.0], dtype=torch.float64)
    filled = add_advantages(table, algorithm("cory"), settings, value, cost)
    assert filled.returns.tolist() == pytest.approx([pioneer, 2.1])
    assert filled.advantage.tolist() == pytest.approx([pioneer - 0.5, 1.85])


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
def test_the_example_of_the_page(decay):
    """Answers of two tokens, rewards 1 and 2, values .5, 1 and .25, 1.5, costs of tokens .1, .2 and 0, -.1, discount 1.

    The pioneer decides nothing after its answer: G_1 = 1 - .2 + 2 = 2.8, the observer's costs are its own. The
    observer: G_1 = 2 + .1. First tokens at lambda .5: -.1 + .5 * 1 + .5 * 2.8 = 1.8 and .5 * 1.5 + .5 * 2.1 = 1.8, at
    lambda 0: -.1 + 1 and 1.5, at lambda 1: 2.7 and 2.1.
    """
    expected = {0.0: [[0.9, 2.8], [1.5, 2.1]], 0.5: [[1.8, 2.8], [1.8, 2.1]], 1.0: [[2.7, 2.8], [2.1, 2.1]]}
    answer = Completion("x", (1, 2), (3, 4), (-0.5, -0.5))
    table = make_batch([episode("0", 0, [(1.0, 1.0), (2.0, 2.0)], [{"a": answer}, {"b": answer}])])
    value = torch.tensor([[0.5, 1.0], [0.25, 1.5]], dtype=torch.float64)
    cost = torch.tensor([[0.1, 0.2], [0.0, -0.1]], dtype=torch.float64)
    tokens = TokenValues(value, cost, torch.tensor([2, 2]))
    settings = config(algorithm={"gae_lambda": decay}).algorithm
    filled = add_advantages(table, algorithm("cory"), settings, value[:, 0], cost.sum(dim=1), tokens=tokens)
    for row in (0, 1):
        assert filled.token_returns[row].tolist() == pytest.approx(expected[decay][row])
        assert filled.token_advantage[row].tolist() == pytest.approx(
            [target - known for target, known in zip(expected[decay][row], value[row].tolist(), strict=True)]
        )


def test_with_all_settings_equal_it_is_ippo_with_values_of_tokens(tmp_path):
    register_toy()
    model, found = save_model(tmp_path / "m"), {}
    for name, level in (("cory", "auto"), ("ippo", "token"), ("cory", "completion"), ("ippo", "auto")):
        run = parse({
            "env": {"id": "pioneer-v0", "env": "echo-v0", "tasks": "sample[:4]", "keywords": {"num_turns": 1}},
            "policy": {"model": model, "max_tokens": 6}, "team": {"swap_every": 1}, "eval": {"n": 0}, "device": "cpu",
            "algorithm": {"name": name, "turns": "independent", "epochs": 2},
            "critic": {"lr": 1e-3, "level": level, "epochs": 2, "clip": None},
            "kl": {"coef": 0.1, "place": "reward"}, "train": {"steps": 2}, "optim": {"lr": 1e-3},
            "log": {"tensorboard": False},
        })  # fmt: skip
        lines = read_metrics(train(run, tmp_path / f"{name}-{level}") / "metrics.jsonl")
        found[name, level] = [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in lines]
    assert found["cory", "auto"] == found["ippo", "token"]
    assert found["cory", "completion"] == found["ippo", "auto"]
    assert found["cory", "auto"] != found["ippo", "auto"]


def test_the_recipe_is_what_the_paper_calls_so():
    run = load("arxiv-cory")
    assert (run.env.id, run.team.kind, run.team.swap_every) == ("pioneer-v0", "separate", 5)
    assert (run.kl.place, run.kl.estimator, run.algorithm.discount) == ("reward", "k1", 1.0)
    _, most = run.env.keywords()["keywords"]["length"]
    assert run.policy.max_tokens >= 2 * 1.2 * most, "two paragraphs, at 1.2 tokens a word"
