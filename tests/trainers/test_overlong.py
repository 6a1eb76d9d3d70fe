"""Overlong shaping: the penalty by hand, who pays it, and at which token and turn."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.objectives.token_values import TokenValues
from palaver.trainers.rollout.batch import Batch, add_advantages, make_batch
from palaver.trainers.rollout.overlong import mean_overlong, overlong
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from palaver.trainers.update.update_records import token_advantages
from tests.trainers.learning import completion, episode
from tests.trainers.toys import register_toy, save_model

LIMITS = {"a": 10, "b": 10}


def said(*lengths: tuple[int, int], pay: float = 1.0, trained: list[str] | None = None) -> Batch:
    """One task; in joint action g agent a says the first number of tokens, b the second, and each is paid the same."""
    lanes = [
        episode("0", lane, [(pay, pay)], [{"a": completion(a), "b": completion(b)}])
        for lane, (a, b) in enumerate(lengths)
    ]
    return make_batch(lanes, trained)


def punished(table: Batch, limits: dict[str, int] = LIMITS, cache: int = 4) -> Batch:
    return replace(table, overlong=overlong(table, limits, cache))


def test_the_penalty_by_hand():
    """M 10, cache 4: nothing up to 6 tokens, then a quarter more with each."""
    lengths = [(n, 1) for n in (1, 5, 6, 7, 8, 9, 10)]
    table = punished(said(*lengths))
    assert table.overlong is not None
    assert table.overlong[:, 0].tolist() == [0, 0, 0, 0.25, 0.5, 0.75, 1.0]
    assert table.overlong[:, 1].tolist() == [0.0] * 7
    assert mean_overlong(table) == pytest.approx(2.5 / 14)
    assert mean_overlong(table, lambda *mine: [2 * each for each in mine]) == pytest.approx(2.5 / 14)


def test_each_agent_has_its_own_limit():
    table = punished(said((8, 8)), {"a": 10, "b": 8})
    assert table.overlong is not None
    assert table.overlong.tolist() == [[0.5, 1.0]]


@pytest.mark.parametrize("credit", ["team", "own", "both"])
def test_an_agent_pays_for_its_own_texts_after_credit(credit):
    """Paid 1 each; a says 8 and 1 tokens, b 1 and 10: returns 1 - .5 and 1 of a, 1 and 1 - 1 of b; 1 more with both."""
    table = punished(said((8, 1), (1, 10)))
    config = AlgorithmConfig(credit=credit)
    row = algorithm("atgrpo" if credit == "both" else "rae" if credit == "own" else "magrpo")
    filled = add_advantages(table, replace(row, baseline=algorithm("magrpo").baseline, critic="none"), config)
    more = float(credit == "both")
    found = dict(
        zip(
            zip(table.agent.tolist(), table.episode.tolist(), strict=True),
            zip(filled.returns.tolist(), filled.advantage.tolist(), strict=True), strict=True,
        )
    )  # fmt: skip
    assert found == {
        (0, 0): (0.5 + more, -0.25), (0, 1): (1.0 + more, 0.25), (1, 0): (1.0 + more, 0.5), (1, 1): (0.0 + more, -0.5),
    }  # fmt: skip


def test_a_later_text_is_paid_for_by_the_earlier_ones_of_its_agent():
    """Two turns that pay 0 and 1, discount .5: a says 9 tokens in the second, .75; b says 8 in the first, .5."""
    lanes = [
        episode("0", 0, [(0.0, 0.0), (1.0, 1.0)],
                [{"a": completion(1), "b": completion(8)}, {"a": completion(9), "b": completion(1)}]),
    ]  # fmt: skip
    filled = add_advantages(punished(make_batch(lanes)), algorithm("mareinforce"), AlgorithmConfig(discount=0.5))
    keys = zip(filled.agent.tolist(), filled.turn.tolist(), strict=True)
    assert dict(zip(keys, filled.returns.tolist(), strict=True)) == {
        (0, 0): 0.5 * 0.25, (0, 1): 0.25, (1, 0): 0.5 - 0.5, (1, 1): 1.0,
    }  # fmt: skip


def test_a_partner_that_is_not_trained_takes_nothing_from_the_others():
    table = punished(said((1, 10), (1, 1), trained=["a"]))
    assert table.overlong is not None
    assert table.overlong[:, 1].tolist() == [1.0, 0.0]
    filled = add_advantages(table, algorithm("magrpo"), AlgorithmConfig())
    assert filled.returns.tolist() == [1.0, 1.0]
    assert mean_overlong(table) == 0.0, "of those that are trained"


@pytest.mark.parametrize(("decay", "expected"), [(1.0, [1.5, 1.5, 1.5]), (0.0, [1.0, 1.5, 1.5])])
def test_with_values_of_tokens_the_last_token_pays(decay, expected):
    """Paid 2, three tokens of at most 4, cache 2: a half. Values .5, 1, 1.5; lambda 0 leans on the next value alone."""
    table = replace(said((3, 1), pay=2.0, trained=["a"]), overlong=torch.tensor([[0.5, 0.0]], dtype=torch.float64))
    assert overlong(table, {"a": 4, "b": 4}, 2).tolist() == [[0.5, 0.0]]
    value = torch.tensor([[0.5, 1.0, 1.5]], dtype=torch.float64)
    tokens = TokenValues(value, torch.zeros_like(value), torch.tensor([3]))
    config = AlgorithmConfig(name="cory", normalize="none", gae_lambda=decay)
    filled = add_advantages(table, algorithm("cory"), config, value[:, 0], torch.zeros(1), tokens=tokens)
    assert filled.token_returns is not None
    assert filled.token_returns[0].tolist() == pytest.approx(expected)
    assert token_advantages(filled, [0], 3)[0].tolist() == pytest.approx(
        [target - known for target, known in zip(expected, (0.5, 1.0, 1.5), strict=True)]
    )


def test_a_run_logs_the_mean_by_the_limits_of_the_policies_in_the_seats(tmp_path):
    """With roles that change in every update the limits go with the policies, as sampling does."""
    register_toy()
    config = parse({
        "env": {"id": "lengths-v0"}, "policy": {"model": save_model(tmp_path / "m"), "stop": list("abcdefghij")},
        "team": {"swap_every": 1, "kind": "heterogeneous", "agents": {"a": {"max_tokens": 4}, "b": {"max_tokens": 6}}},
        "algorithm": {"group_size": 4, "overlong": 3}, "train": {"steps": 2, "prompts_per_step": 2},
        "eval": {"n": 0}, "device": "cpu", "log": {"tensorboard": False, "tokens": True},
    })  # fmt: skip
    run = train(config, tmp_path / "run")
    for line, limits in zip(read_metrics(run / "metrics.jsonl"), ({"a": 4, "b": 6}, {"a": 6, "b": 4}), strict=True):
        text = (run / f"episodes/train-{line['step']:06d}.jsonl").read_text(encoding="utf-8")
        lengths = [
            (agent, len(each["token_ids"]))
            for episode in map(json.loads, text.splitlines())
            for agent, each in episode["turns"][0]["completions"].items()
        ]
        paid = [min(1, max(0, (n - (limits[agent] - 3)) / 3)) for agent, n in lengths]
        assert max(n for agent, n in lengths if agent == "a") == limits["a"]
        assert line["overlong"] == pytest.approx(sum(paid) / len(paid))
        assert line["return/raw"] == pytest.approx(line["reward/mean"])
        assert line["return/target"] == pytest.approx(line["reward/mean"] - line["overlong"])
