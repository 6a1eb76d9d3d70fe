"""Samples of another policy than the one before the update: weights, masks and denominators, worked out by hand.

The policy has two tokens of probability 1/2. A token that the sampler drew with probability 1 / (2 rho) has the weight
rho. Token 0 was always drawn, whose log-probability has the gradient 1 - 1/2 = .5 by its logit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from palaver.core import Completion
from palaver.trainers.objectives.losses import cispo, ppo_clip, reinforce
from palaver.trainers.objectives.off_policy import within, without_masked_rows
from palaver.trainers.rollout.batch import Batch, make_batch
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.update_records import UpdateInput, UpdateStats, correction
from palaver.trainers.update.updater import Updater
from tests.trainers.learning import Softmax, Spy, config, episode, spied, together
from tests.trainers.test_study import BARE, Mover

HALF = math.log(0.5)
Row = tuple[float, Sequence[float]]  # advantage, and the weight of each token
ROWS: Sequence[Row] = [(3.0, (1, 10, 1)), (-1.0, (1, 1, 1)), (5.0, (10,))]


def learner_of(algorithm: dict[str, Any], **sections: Any) -> PolicyUpdater:
    """The policy of this module, whose `refreshed` counts calls of `refresh`."""
    model = Softmax()
    who = SimpleNamespace(
        model=model, name="a", refreshed=0, parameters=model.parameters, active=lambda: nullcontext(model)
    )
    who.refresh = lambda: setattr(who, "refreshed", who.refreshed + 1)
    return PolicyUpdater(who, ["a"], config(algorithm=algorithm, **sections), Distributed("cpu", "fp32"), Softmax())


def batch_of(rows: Sequence[Row]) -> Batch:
    """A row a completion, all with token 0 alone."""
    said = [
        Completion("", (0,), (0,) * len(rho), (HALF,) * len(rho), tuple(HALF - math.log(each) for each in rho))
        for _, rho in rows
    ]
    batch = make_batch([episode("0", lane, [(0.0,)], [{"a": word}]) for lane, word in enumerate(said)])
    return replace(batch, advantage=torch.tensor([advantage for advantage, _ in rows], dtype=torch.float64))


def learn(
    rows: Sequence[Row],
    algorithm: dict[str, Any],
    loss: Any = reinforce,
    work: dict[str, Any] | None = None,
    **sections,
) -> tuple[UpdateStats, float]:
    """Statistics of an update, and the gradient by the logit of token 0 in its last optimiser step."""
    learner = learner_of(algorithm, **sections)
    spy = spied(learner)
    stats = learner.update(UpdateInput(batch_of(rows), range(len(rows)), loss, 1, **(work or {})))
    return stats, spy.steps[-1]["logits"][0].item()


def test_within_keeps_the_bounds_and_what_is_between():
    rho = torch.tensor([[0.4, 0.6, 1.0], [1.9, 2.1, 50.0]])
    assert within(rho.log(), (0.5, 2.0)).tolist() == [[False, True, True], [True, False, False]]
    assert within(torch.zeros(1, 1), (1.0, 2.0)).item()
    assert within(torch.zeros(1, 1), (0.0, 1.0)).item()


def test_rows_that_are_left_share_the_weight_of_those_that_are_not():
    assert without_masked_rows([0.5, 0.25, 0.25], [False, True, False], 1.0, 0.75) == pytest.approx([2 / 3, 0, 1 / 3])
    assert without_masked_rows([0.5, 0.5], [True, True], 1.0, 0.0) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("level", "weights", "kept"),
    [
        ("token", [2.0, 0.25, 1.0], [True, False, True]),
        ("turn", [0.75 ** (1 / 3)] * 3, [True] * 3),
        ("sequence", [0.75] * 3, [True] * 3),
    ],
)
def test_weights_and_masks_of_a_completion(level, weights, kept):
    """Weights 3, .25, 1, truncated at 2, bounds .5 and 4; their product is .75."""
    before = {7: torch.tensor([-1.0, -2.0, -3.0])}
    sampled = {7: torch.tensor([-1 - math.log(3), -2 + math.log(4), -3.0])}
    settings = config(algorithm={"old": "learner", "truncate": 2, "mask": [0.5, 4], "correction": level}).algorithm
    found = correction(before, sampled, settings)
    assert found.weight[7].tolist() == pytest.approx(weights, abs=1e-6)
    assert found.kept[7].tolist() == kept
    assert found.old[7].tolist() == [-1.0, -2.0, -3.0]
    assert found.drift == pytest.approx(math.log(4), abs=1e-6)
    left = [weight for weight, stays in zip(weights, kept, strict=True) if stays]
    assert found.sums == pytest.approx((sum(left), len(left), 3), abs=1e-6)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [("sum", (2 * 3 - 3) / 2), ("mean", (3 - 1) / 2), ("token", (2 * 3 - 3) / 5), ("fixed", (2 * 3 - 3) / 2 / 12)],
)
def test_masked_tokens_leave_the_denominator(aggregate, expected):
    """Of 3, 3 and 1 tokens 2, 3 and 0 are left: two rows, five tokens. The loss is sum of w A log 2."""
    stats, gradient = learn(ROWS, {"aggregate": aggregate, "mask": [0.5, 5]})
    assert stats.loss == pytest.approx(expected * math.log(2), rel=1e-6)
    assert gradient == pytest.approx(-0.5 * expected, rel=1e-6)
    assert (stats.rows, stats.correction, stats.masked) == (2, pytest.approx(1), pytest.approx(2 / 7))
    assert stats.drift == pytest.approx(math.log(10), rel=1e-6)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("sum", 6 * 2 / 3 - 3 / 3),
        ("mean", 3 * 2 / 3 - 1 / 3),
        ("token", (6 / 2 - 3 / 4) / (2 / 2 + 3 / 4)),
        ("fixed", 0.25),
    ],
)
def test_masked_tokens_leave_the_denominator_of_rows_of_different_weight(aggregate, expected):
    """Weights 1/2, 1/4 and 1/4 of the rows become 2/3, 1/3 and 0."""
    weight = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    stats, _ = learn(ROWS, {"aggregate": aggregate, "mask": [0.5, 5]}, work={"weight": weight})
    assert stats.loss == pytest.approx(expected * math.log(2), rel=1e-6)


@pytest.mark.parametrize(
    ("aggregate", "expected"), [("sum", (9 - 3) / 2), ("mean", (3 - 1) / 2), ("token", (9 - 3) / 6), ("fixed", 0.25)]
)
def test_masked_completions_leave_the_denominator(aggregate, expected):
    """The weight of the last one alone is outside: 1, 1 and 10."""
    rows = [(3.0, (4, 0.25, 1)), (-1.0, (1, 1, 1)), (5.0, (10,))]
    stats, gradient = learn(rows, {"aggregate": aggregate, "mask": [0.5, 5], "correction": "sequence"})
    assert gradient == pytest.approx(-0.5 * expected, rel=1e-6)
    assert (stats.rows, stats.masked) == (2, pytest.approx(1 / 7))


@pytest.mark.parametrize("aggregate", ["sum", "mean", "token", "fixed"])
def test_denominators_are_those_of_all_processes(aggregate):
    """One process has the first row and the masked one, the other the second."""
    whole, _ = learn(ROWS, {"aggregate": aggregate, "mask": [0.5, 5]})

    def job(learner: PolicyUpdater, total: Any, mine: Sequence[int]) -> UpdateStats:
        learner.distributed.all_sum = total
        return learner.update(UpdateInput(batch_of(ROWS), mine, reinforce, 1))

    # made here and not in the threads, as accelerate has one state a process, which each `Distributed` sets anew
    processes = [(learner_of({"aggregate": aggregate, "mask": [0.5, 5]}), mine) for mine in ([0, 2], [1])]
    for stats in together([lambda total, each=each: job(each[0], total, each[1]) for each in processes]):
        assert stats.loss == pytest.approx(whole.loss, rel=1e-6)
        assert (stats.rows, stats.masked) == (2, pytest.approx(2 / 7))


@pytest.mark.parametrize("loss", [reinforce, ppo_clip, cispo])
@pytest.mark.parametrize(
    ("level", "expected"), [(None, 1 + 2 + 0.5), ("turn", 3 * 2 ** (1 / 3)), ("sequence", 3 * 2.0)]
)
def test_one_pass_of_the_learners_ratio_is_the_weight_times_the_policy_gradient(loss, level, expected):
    """Weights 1, 4, .5 of tokens, their product 2, truncated at 2; the ratio is 1."""
    stats, gradient = learn([(1.0, (1, 4, 0.5))], {"old": "learner", "truncate": 2, "correction": level}, loss)
    assert gradient == pytest.approx(-0.5 * expected, rel=1e-6)
    assert (stats.correction, stats.masked, stats.moved) == (pytest.approx(expected / 3), None, pytest.approx(0.0))


def test_without_a_bound_nothing_is_corrected_and_the_weight_is_shown():
    stats, gradient = learn([(1.0, (1, 4, 0.5))], {"old": "learner"}, ppo_clip)
    assert gradient == pytest.approx(-0.5 * 3, rel=1e-6)
    assert stats.correction == pytest.approx(5.5 / 3)


def test_the_level_of_the_correction_is_not_that_of_the_ratio():
    """REINFORCE with the sampler's log-probs, too: the product of 1, 4, .5 is 2, of a bound of 3."""
    found = [learn([(1.0, (1, 4, 0.5))], {"truncate": 3} | more)[1] for more in ({}, {"correction": "sequence"})]
    assert found == pytest.approx([-0.5 * (1 + 3 + 0.5), -0.5 * 6], rel=1e-6)
    assert learn([(1.0, (1, 4, 0.5))], {"truncate": 3, "ratio": "sequence"})[1] == pytest.approx(found[1])


class Jump(Spy):
    """The first step is to probability .6 of token 0."""

    def step(self, closure=None):
        super().step()
        if len(self.steps) == 1:
            with torch.no_grad():
                self.param_groups[0]["params"][0].copy_(torch.tensor([0.6, 0.4]).log())


@pytest.mark.parametrize(
    ("old", "loss", "gradient", "moved"),
    [("learner", -2 * 1.2, -2 * 1.2 * 0.4, 0.2 - math.log(1.2)), ("sampler", -1.5, 0.0, 3.8 - math.log(4.8))],
)
def test_a_later_pass_is_bounded_around_what_the_ratio_is_measured_from(old, loss, gradient, moved):
    """Sampled at 1/8, 1/2 before, .6 now. The learner's ratio is 1.2 and the weight min(4, 2); the sampler's is 4.8."""
    learner = learner_of({"old": old, "truncate": 2, "epochs": 2, "clip": [0.5, 0.5]})
    learner.optimizer = spy = Jump(learner.model)
    stats = learner.update(UpdateInput(batch_of([(1.0, (4,))]), [0], ppo_clip, 1))
    assert stats.loss == pytest.approx(loss, rel=1e-6)
    assert spy.steps[1]["logits"][0].item() == pytest.approx(gradient, rel=1e-6)
    assert stats.moved == pytest.approx(moved, rel=1e-4)
    assert stats.drift == pytest.approx(math.log(4), rel=1e-6), "always from the sampler"


def test_masked_tokens_leave_the_penalty_and_the_entropy_too():
    """The reference differs at the masked token only. Two tokens are left, of entropy log 2 each."""
    reference = {0: torch.tensor([HALF, -9.0, HALF])}
    stats, _ = learn(
        [(0.0, (1, 10, 1))], {"mask": [0.5, 5], "entropy": 0.1}, work={"reference": reference},
        kl={"coef": 1.0, "reference": "model:x"},
    )  # fmt: skip
    assert stats.kl == 0.0
    assert stats.entropy == pytest.approx(math.log(2))
    assert stats.loss == pytest.approx(-0.1 * 2 * math.log(2), rel=1e-6)


def test_an_update_with_nothing_left_makes_no_step():
    learner = learner_of({"mask": [0.5, 5]})
    spy = spied(learner)
    stats = learner.update(UpdateInput(batch_of([(1.0, (9,)), (1.0, (0.1, 8))]), [0, 1], reinforce, 1))
    assert (spy.steps, learner.policy.refreshed) == ([], 0)
    assert (stats.rows, stats.passes, stats.masked) == (0, 0, 1.0)
    assert stats.drift == pytest.approx(math.log(10), rel=1e-6)


def test_copies_that_generate_are_renewed_once_an_update():
    learner = learner_of({"epochs": 3, "minibatches": 2})
    spy = spied(learner)
    learner.update(UpdateInput(batch_of(ROWS), [0, 1, 2], ppo_clip, 1))
    assert (len(spy.steps), learner.policy.refreshed) == (6, 1)


def test_copies_that_generate_are_renewed_where_a_later_step_fails():
    """Of two minibatches of a row each, one is not finite: the first that is drawn or the second."""
    counts = []
    for broken in (0, 1):
        learner = learner_of({"minibatches": 2})
        rows: list[Row] = [(1.0, (1,)), (1.0, (1,))]
        rows[broken] = (math.inf, (1,))
        with pytest.raises(NumericalError):
            learner.update(UpdateInput(batch_of(rows), [0, 1], reinforce, 1))
        counts.append(learner.policy.refreshed)
    assert sorted(counts) == [0, 1]


class Older(Mover):
    """Samples of an older policy: `ahead` of them before the update, `moves` after."""

    def __init__(self, agent: str, ahead: list[list[float]], moves: list[list[float]]) -> None:
        super().__init__(agent, ahead)
        self.after = moves

    def update(self, work):
        self.moves = self.after
        return super().update(work)


@pytest.mark.parametrize(("old", "expected"), [("sampler", [0.5, -0.2]), ("learner", [0.2, -0.3])])
def test_a_sequential_weight_is_of_what_the_update_moved(old, expected):
    """Agent a's two tokens were .3 and .1 ahead of the sampler, and are .5 and -.2 ahead after its update."""
    word = Completion("x", (1,), (3,), (-1.0,), (-1.0,))
    table = make_batch([episode("0", lane, [(1.0, 1.0)], [{"a": word, "b": word}]) for lane in (0, 1)])
    a, b = Older("a", [[0.3], [0.1]], [[0.5], [-0.2]]), Older("b", [[0.0], [0.0]], [[0.0], [0.0]])
    study = Updater(BARE, config(algorithm={"old": old, "order": "fixed"}), [a, b], Distributed("cpu", "fp32"))
    study.update(study.estimate_advantages(table), 1)
    assert a.factor == [1.0, 1.0]
    assert b.factor == pytest.approx([math.exp(value) for value in expected], abs=1e-6)


def test_metrics_are_shown_where_they_are_in_use():
    table = make_batch(
        [episode("0", lane, [(lane,)], [{"a": Completion("x", (0,), (0,), (HALF,), (HALF,))}]) for lane in (0, 1)]
    )
    for choices, expected in (
        ({"truncate": 2.0}, set()),
        ({"old": "learner"}, {"a/correction"}),
        ({"mask": [0.5, 2]}, {"a/correction", "a/masked"}),
    ):
        learner = learner_of({"group_size": 2} | choices)
        learner.policy.shared_engine = learner.policy
        study = Updater(replace(BARE, order="together"), learner.config, [learner], learner.distributed)
        shown = study.update(study.estimate_advantages(table), 1)
        assert {name for name in shown if name.split("/")[-1] in ("correction", "masked")} == expected
