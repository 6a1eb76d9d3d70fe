"""The step that teaches values and mixer: what is compared with what, and when the targets follow."""

from __future__ import annotations

import copy

import pytest
import torch

from palaver.trainers.config.mixer import MixerConfig
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.value_decomposition.factored import FactoredValues, Shape
from palaver.trainers.value_decomposition.replay import DecisionFeatures, Replay, Transition, together

SHAPE = Shape(agents=2, features=4, state=2, linear=True, shared=False)


def made(kind: str = "sum", **settings: object) -> FactoredValues:
    return FactoredValues(MixerConfig.model_validate({"batch": 1, "updates": 1} | settings), kind, SHAPE, seed=0)


def scene(first: int, allowed: int = 2) -> DecisionFeatures:
    """Two actions for each agent, with one-hot features `first` and `first + 1`."""
    candidates = torch.eye(4)[first : first + 2].expand(2, -1, -1)
    return DecisionFeatures(
        torch.tensor([1.0, 0.0]), candidates, torch.tensor([[place < allowed for place in (0, 1)]] * 2)
    )


def put(values: FactoredValues, live: list[list[float]], target: list[list[float]]) -> None:
    for networks, rows in ((values.live, live), (values.target, target)):
        with torch.no_grad():
            for net, row in zip(networks.values.nets, rows, strict=True):
                net.weight.copy_(torch.tensor([row]))


def test_the_live_values_choose_and_the_target_tells_what_that_is_worth():
    """Next actions are features 2 and 3. Agent 0: live prefers the second (0 < 4), which the target values 1, its own
    best is 5. Agent 1: both prefer the first, 2. r = 1, gamma = 0.5, Q_tot now 0.25 + 0.5 = 0.75.
    """
    values = made()
    put(values, [[0.25, 0, 0, 4], [0.5, 0, 3, 0]], [[0, 0, 5, 1], [0, 0, 2, -1]])
    step = Transition(scene(0), torch.tensor([0, 0]), 1.0, 0.5, scene(2))
    loss, q_tot, gap, _ = values.update(together([step]))
    y = 1.0 + 0.5 * (1.0 + 2.0)
    assert loss == pytest.approx((y - 0.75) ** 2)
    assert q_tot == pytest.approx(0.75)
    assert gap == pytest.approx(0.75)  # the target values the present actions 0


def test_an_action_that_is_not_allowed_is_not_the_best():
    values = made()
    put(values, [[0, 0, 1, 4], [0, 0, 1, 9]], [[0, 0, 1, 4], [0, 0, 1, 9]])
    step = Transition(scene(0), torch.tensor([0, 0]), 0.0, 1.0, scene(2, allowed=1))
    assert values.update(together([step]))[0] == pytest.approx((1.0 + 1.0) ** 2)


@pytest.mark.parametrize("kind", ["sum", "monotonic"])
def test_hard_targets_of_agents_and_mixer_are_copied_every_so_many_updates(kind):
    values = made(kind, target_every=3, lr=0.1)
    batch = together([Transition(scene(0), torch.tensor([0, 1]), 5.0, 0.0, scene(0))])
    first = [p.clone() for p in values.target.parameters()]
    for update in range(1, 7):
        values.update(batch)
        same = [torch.equal(a, b) for a, b in zip(values.target.parameters(), values.live.parameters(), strict=True)]
        assert all(same) == (update % 3 == 0)
        if update < 3:
            assert all(torch.equal(a, b) for a, b in zip(values.target.parameters(), first, strict=True))


def test_targets_begin_as_the_live_networks():
    values = made("monotonic")
    assert all(torch.equal(a, b) for a, b in zip(values.live.parameters(), values.target.parameters(), strict=True))
    assert not any(p.requires_grad for p in values.target.parameters())


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_values_come_to_what_is_paid(optimizer):
    """One joint action pays 3: each agent's part moves alike, to 1.5."""
    values = made(optimizer=optimizer, lr=0.05)
    batch = together([Transition(scene(0), torch.tensor([0, 0]), 3.0, 0.0, scene(0))])
    for _ in range(200):
        values.update(batch)
    assert values.values(scene(0).candidates[None])[0, :, 0].tolist() == pytest.approx([1.5, 1.5], abs=0.1)


def test_nothing_is_learnt_before_the_replay_holds_a_batch():
    values, replay = made(batch=2), Replay(5)
    replay.add([Transition(scene(0), torch.tensor([0, 0]), 1.0, 0.0, scene(0))])
    assert values.learn(replay, 0).updates == 0
    replay.add([Transition(scene(0), torch.tensor([0, 0]), 1.0, 0.0, scene(0))])
    found = values.learn(replay, 0)
    assert (found.updates, found.replay, found.td_loss) == (1, 2, 1.0)


def test_a_loss_that_is_not_finite_stops_before_the_weights_change():
    values = made()
    before = [p.clone() for p in values.live.parameters()]
    with pytest.raises(NumericalError, match="mixed values"):
        values.update(together([Transition(scene(0), torch.tensor([0, 0]), float("inf"), 0.0, scene(0))]))
    assert all(torch.equal(a, b) for a, b in zip(values.live.parameters(), before, strict=True))


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_what_is_restored_goes_on_as_if_it_had_not_stopped(optimizer):
    step = together([Transition(scene(0), torch.tensor([0, 1]), 2.0, 0.5, scene(2))])
    one, two = (made("monotonic", optimizer=optimizer, target_every=2, lr=0.01) for _ in range(2))
    for _ in range(3):
        one.update(step)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    assert [one.update(step) for _ in range(3)] == [two.update(step) for _ in range(3)]


def test_the_seed_fixes_the_first_weights():
    first, same, other = (
        [p.detach().clone() for p in FactoredValues(MixerConfig(), "monotonic", SHAPE, seed).live.parameters()]
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, same, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
