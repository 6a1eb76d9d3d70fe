"""Adapters in training: whose gradients, which weights, what stands still; and the base with all of them off."""

from __future__ import annotations

import copy

import pytest
import torch

from palaver.agents.base.policy import act_batched
from palaver.agents.llm.model.load import checkpoint_gradients, load_pretrained
from palaver.agents.llm.scoring.logprobs import response_logprobs, response_scores
from palaver.agents.llm.scoring.split_head import split_head
from palaver.core import PolicyError
from tests.agents.adapting import NAMES, asks, base_weights, merged, same, shaken, stored_base, team_of, weights_of
from tests.closeness import assert_gradients_close, assert_values_close
from tests.models import tiny_gpt2, tiny_qwen3

PROMPTS = [[5, 6, 7, 8], [5, 6, 7, 8], [9, 10], [5, 6, 7, 8]]
ANSWERS = [[11, 12, 13], [14, 1], [15, 16, 17, 18], [19, 20, 21, 22]]
IDS = torch.tensor([[5, 6, 7, 8, 9]])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stored_base(tmp_path_factory.mktemp("base") / "qwen3")


def loss_of(model) -> torch.Tensor:
    scores = response_scores(model, PROMPTS, ANSWERS, entropy=True)
    return -(scores.logprobs.sum() + 0.1 * scores.entropy.sum())


def test_only_what_is_active_gets_a_gradient_and_moves(base) -> None:
    """A step of `b`: the others have no gradient at all, and every other weight is the same bit for bit."""
    team = team_of(base)
    before = {name: weights_of(policy) for name, policy in team.items()}
    below, trunk = base_weights(team["a"]), team["a"].critic_trunk("v", team["a"].device)
    apart = [p.detach().clone() for p in trunk.parameters()]
    optimizer = torch.optim.AdamW(team["b"].parameters(), lr=1e-2)
    with team["b"].active() as model:
        assert split_head(model) is not None
        assert split_head(model).packs
        loss_of(model).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in team["b"].parameters())
    still = [*team["a"].parameters(), *team["c"].parameters(), *trunk.parameters()]
    assert all(p.grad is None for p in still)
    assert all(p.requires_grad for policy in team.values() for p in policy.parameters())
    optimizer.step()
    assert not any(torch.equal(p, old) for p, old in zip(team["b"].parameters(), before["b"], strict=True))
    assert same(weights_of(team["a"]), before["a"])
    assert same(weights_of(team["c"]), before["c"])
    assert same(base_weights(team["a"]), below)
    assert same(list(trunk.parameters()), apart)
    assert not any(p.requires_grad for name, p in model.named_parameters() if "lora_" not in name)


def test_the_gradient_is_that_of_the_product_b_a(base) -> None:
    """With W' = W + s B A and g = dL/dW': dL/dA = s B^T g, dL/dB = s g A^T, from the merged model's gradient."""
    policy = team_of(base)["b"]
    whole = merged(policy, tiny_qwen3())
    loss_of(whole).backward()
    with policy.active() as model:
        loss_of(model).backward()
        scale = policy.shared_engine.lora.config(policy.key).lora_alpha / policy.shared_engine.lora.config(policy.key).r
        for name in ("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"):
            layer, g = model.get_submodule(name), whole.get_submodule(name).weight.grad
            down, up = layer.lora_A[policy.key].weight, layer.lora_B[policy.key].weight
            assert_gradients_close([down.grad, up.grad], [scale * up.T @ g, scale * g @ down.T])


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_gpt2])
def test_gradient_checkpointing_changes_no_gradient(make, tmp_path) -> None:
    team = team_of(stored_base(tmp_path / "m", make))
    found = []
    for checkpointed in (False, True):
        if checkpointed:
            checkpoint_gradients(team["a"].model)
        for name in ("a", "b"):
            with team[name].active() as model:
                loss_of(model).backward()
            found.append([p.grad for p in team[name].parameters()])
            for p in team[name].parameters():
                p.grad = None
    for one, other in ((found[0], found[2]), (found[1], found[3])):
        assert_gradients_close(other, one)
        assert any(float(a.abs().max()) > 1e-3 for a in one)
    requests = asks(NAMES, ["hello"])
    said = act_batched([(team[r.agent], r) for r in requests])
    assert [team[r.agent].act([r])[0][0].token_ids for r in requests] == [row[0].token_ids for row in said]


def test_choices_nest_and_end_as_they_began(base) -> None:
    team = team_of(base)
    expected = {name: merged(policy, tiny_qwen3())(IDS).logits for name, policy in team.items()}

    def now() -> str:
        logits = team["a"].model(IDS).logits
        near = [name for name, other in expected.items() if torch.allclose(logits, other, atol=1e-4)]
        return near[0] if near else "base"

    assert now() == "base"
    with team["a"].active():
        assert now() == "a"
        with team["c"].active(), team["c"].active():
            assert now() == "c"
        assert now() == "a"
        with pytest.raises(KeyError, match="base"), team["b"].base():
            {}[now()]
        assert now() == "a"
        team["b"].act(asks(["b"]))
        assert now() == "a"
    assert now() == "base"


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_gpt2])
def test_the_base_is_what_it_was_before_there_were_adapters(make, tmp_path) -> None:
    folder = stored_base(tmp_path / "m", make)
    plain = load_pretrained(folder, torch.device("cpu"))[0]
    team = team_of(folder)
    checkpoint_gradients(team["a"].model)
    modes = [module.training for module in team["a"].model.modules()]
    assert any(modes)
    before, state = [weights_of(policy) for policy in team.values()], torch.get_rng_state()
    with team["a"].active(), team["b"].base() as model:
        assert not any(module.training for module in model.modules())
        with torch.no_grad():
            here, _ = response_logprobs(model, PROMPTS, ANSWERS)
        assert_values_close(here, response_logprobs(plain, PROMPTS, ANSWERS)[0])
    assert [module.training for module in team["a"].model.modules()] == modes
    assert all(same(weights_of(policy), old) for policy, old in zip(team.values(), before, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_still_copy_is_one_more_adapter_that_nobody_sees(base, tmp_path) -> None:
    team = team_of(base)
    policy, requests = team["b"], asks(NAMES, ["hello"])
    said = act_batched([(team[r.agent], r) for r in requests])
    policy.save(tmp_path / "before")
    count, state = len(policy.parameters()), torch.get_rng_state()
    still = policy.freeze()
    assert torch.equal(torch.get_rng_state(), state)
    first = response_logprobs(merged(policy, tiny_qwen3()), PROMPTS, ANSWERS)[0]
    shaken(policy, 7)
    with team["a"].active() as now, still.active() as model:
        assert_values_close(response_logprobs(model, PROMPTS, ANSWERS)[0], first)
        assert not response_logprobs(model, PROMPTS, ANSWERS)[0].requires_grad
    kept = copy.deepcopy(still.state_dict())
    still.take()
    with still.active() as model, torch.no_grad():
        taken = response_logprobs(model, PROMPTS, ANSWERS)[0]
    with policy.active() as now, torch.no_grad():
        assert torch.equal(response_logprobs(now, PROMPTS, ANSWERS)[0], taken)
    other = team["a"].freeze()
    other.load_state_dict(kept)
    with other.active() as model:
        assert_values_close(response_logprobs(model, PROMPTS, ANSWERS)[0], first)
    assert len(policy.parameters()) == count == len(kept)
    policy.restore(str(tmp_path / "before"))
    assert act_batched([(team[r.agent], r) for r in requests])[1][0].token_ids == said[1][0].token_ids
    policy.save(tmp_path / "after")
    files = [(tmp_path / folder / "adapter_model.safetensors").read_bytes() for folder in ("before", "after")]
    assert files[0] == files[1]


def test_a_stored_adapter_may_be_the_reference(base, tmp_path) -> None:
    one, other = team_of(base, ["a"])["a"], team_of(base, ["b"])["b"]
    shaken(other, 5)
    other.save(tmp_path / "b")
    expected = response_logprobs(merged(other, tiny_qwen3()), PROMPTS, ANSWERS)[0]
    before = weights_of(one)
    with one.stored(str(tmp_path / "b")).active() as model:
        assert_values_close(response_logprobs(model, PROMPTS, ANSWERS)[0], expected)
    assert same(weights_of(one), before)
    foreign = team_of(stored_base(tmp_path / "gpt2", tiny_gpt2), ["g"])["g"]
    with pytest.raises(PolicyError, match=r"is for '.*qwen3', and not for '.*gpt2'"):
        foreign.stored(str(tmp_path / "b"))
    with pytest.raises(PolicyError, match="holds no adapter"):
        one.stored(str(tmp_path))


def test_a_critics_trunk_is_an_adapter_of_its_own(base) -> None:
    team = team_of(base)
    policy = team["a"]
    trunk, second = (policy.critic_trunk(name, policy.device) for name in ("one", "two"))
    with policy.active() as model, torch.no_grad():
        start = model.base_model(IDS)[0]
    before = weights_of(policy)
    optimizer = torch.optim.SGD(trunk.parameters(), lr=0.1)
    with trunk.active() as decoder:
        assert not hasattr(decoder, "lm_head")
        hidden = decoder(IDS)[0]
        assert torch.equal(hidden, start)
        hidden.square().sum().backward()
    assert all(p.grad is None for p in (*policy.parameters(), *second.parameters()))
    optimizer.step()
    assert same(weights_of(policy), before)
    second.load_state_dict(copy.deepcopy(trunk.state_dict()))
    with trunk.active() as decoder, torch.no_grad():
        moved = decoder(IDS)[0]
        assert not torch.allclose(moved, start)
    with second.active() as decoder, torch.no_grad():
        assert torch.equal(decoder(IDS)[0], moved)


def test_in_bf16_the_base_is_held_so_and_the_adapters_are_not(base) -> None:
    """A step of 5e-6 moves every weight of the adapter, which bf16 would round away; nothing of the base is copied."""
    team = team_of(base, dtype="bf16")
    policy = team["a"]
    assert {p.dtype for p in policy.parameters()} == {torch.float32}
    assert {p.dtype for name, p in policy.model.named_parameters() if "lora_" not in name} == {torch.bfloat16}
    assert policy.model.model.rotary_emb.inv_freq.dtype == torch.float32
    assert team_of(base, dtype="bf16", engine="transformers")["a"]._engine.model is not None
    with policy.active() as model:
        assert split_head(model).packs
    exact, requests = team_of(base)["a"], asks(["a"], ["hello"])
    [[u, _]] = policy.act(requests)
    with policy.active() as model, torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        here = response_logprobs(model, [u.prompt_ids], [u.token_ids])[0][0]
    with exact.active() as model, torch.no_grad():
        there = response_logprobs(model, [u.prompt_ids], [u.token_ids])[0][0]
    assert (here - there).abs().max() < 0.3
    assert (here - torch.tensor(u.logprobs)).abs().max() < 0.3
    before = weights_of(policy)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-6, weight_decay=0.0)
    with policy.active() as model, torch.autocast("cpu", torch.bfloat16):
        loss_of(model).backward()
    optimizer.step()
    for now, old in zip(policy.parameters(), before, strict=True):
        assert ((now - old).abs() > 1e-6).float().mean() > 0.95
