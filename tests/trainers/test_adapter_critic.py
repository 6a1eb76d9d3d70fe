"""Critics of policies that are adapters: an adapter of their own on the same base, or the policy's."""

from __future__ import annotations

import copy

import pytest
import torch

from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.critic import Critic, Samples
from tests.agents.adapting import base_weights, merged, same, stored_base, team_of, weights_of
from tests.closeness import assert_gradients_close, assert_values_close
from tests.models import tiny_qwen3
from tests.trainers.learning import config

IDS = [(5, 6, 7, 8), (5, 6), (9, 10, 11), (5, 6)]
SAMPLES = Samples(IDS, torch.tensor([1.0, -2.0, 0.3, 0.9]), torch.zeros(4))
WORLD = Distributed("cpu", "fp32")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stored_base(tmp_path_factory.mktemp("base") / "qwen3")


def critic(policy, **changes) -> Critic:
    made = Critic(policy, "c", config(critic={"lr": 1e-2, **changes}), WORLD)
    torch.nn.init.normal_(made.head.weight, std=0.3)
    return made


def test_it_starts_as_its_policy_and_learns_beside_it(base):
    team = team_of(base)
    made = critic(team["b"])
    whole = merged(team["b"], tiny_qwen3()).model
    expected = [made.head(whole(input_ids=torch.tensor([each]))[0][0, -1]).item() for each in IDS]
    assert_values_close(made.values(IDS), expected)
    before, below = [weights_of(policy) for policy in team.values()], base_weights(team["b"])
    losses = [made.update(Samples(IDS, SAMPLES.target, made.values(IDS)), 1).loss]
    while losses[-1] >= 0.6 and len(losses) < 300:
        losses.append(made.update(Samples(IDS, SAMPLES.target, made.values(IDS)), len(losses) + 1).loss)
    assert losses[-1] < 0.6  # two equal conversations are worth -2 and 0.9, so that no less than 0.53 is left
    assert losses[0] > 0.7
    assert all(same(weights_of(policy), old) for policy, old in zip(team.values(), before, strict=True))
    assert same(base_weights(team["b"]), below)
    other = critic(team_of(base)["b"])
    other.load_state_dict(copy.deepcopy(made.state_dict()))
    assert torch.equal(other.values(IDS), made.values(IDS))


def test_on_the_policys_adapter_the_loss_is_the_policys(base):
    team = team_of(base)
    made = critic(team["b"], model="shared", coef=0.3)
    whole = merged(team["b"], tiny_qwen3())
    values = torch.cat([made.head(whole.model(input_ids=torch.tensor([each]))[0][0, -1]) for each in IDS])
    (0.3 * (values - SAMPLES.target).square().mean() / 2).backward()
    made.head.zero_grad()
    made.backward(SAMPLES)
    layer = team["b"].model.model.layers[1].mlp.down_proj
    down, g = layer.lora_A[team["b"].key].weight, whole.model.layers[1].mlp.down_proj.weight.grad
    assert_gradients_close([layer.lora_B[team["b"].key].weight.grad], [1.5 * g @ down.T])
    assert all(p.grad is None for name in ("a", "c") for p in team[name].parameters())
    assert made.state_dict()["trunk"] == {}
