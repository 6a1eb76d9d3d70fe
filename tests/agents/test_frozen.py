"""Still copies and critics' trunks of whole models, and who is asked in one batch."""

from __future__ import annotations

import torch

from palaver.agents.base.policy import act_batched
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.simple import EchoPolicy, ScriptedPolicy
from palaver.core import Completion, Message, Request
from tests.models import byte_tokenizer, tiny_gpt2, tiny_qwen3

IDS = torch.tensor([[5, 6, 7, 8]])


def policy() -> LLMPolicy:
    return LLMPolicy(tiny_qwen3(), byte_tokenizer(), name="m")


def moved(model: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)


def test_a_still_copy_stands_still_until_it_takes() -> None:
    who = policy()
    still = who.freeze()
    first = who.model(IDS).logits
    moved(who.model)
    with still.active() as model:
        assert not any(p.requires_grad for p in model.parameters())
        assert torch.equal(model(IDS).logits, first)
    still.take()
    with still.active() as model, who.active() as now:
        assert now is who.model
        assert torch.equal(model(IDS).logits, now(IDS).logits)
        assert not torch.equal(model(IDS).logits, first)


def test_a_still_copy_does_not_drop_out_and_is_saved() -> None:
    who = LLMPolicy(tiny_gpt2(), byte_tokenizer())
    who.model.train()
    still, other = who.freeze(), LLMPolicy(tiny_gpt2(3), byte_tokenizer()).freeze()
    other.load_state_dict(still.state_dict())
    assert set(still.state_dict()) == {name for name, _ in who.model.named_parameters()}
    with still.active() as one, other.active() as two:
        assert torch.equal(one(IDS).logits, two(IDS).logits)
    assert who.model.training


def test_a_trunk_starts_as_the_policys_and_goes_its_own_way() -> None:
    who = policy()
    trunk = who.critic_trunk("v", who.device)
    other = LLMPolicy(tiny_qwen3(1), byte_tokenizer()).critic_trunk("v", who.device)
    with trunk.active() as decoder:
        assert torch.equal(decoder(IDS)[0], who.model.model(IDS)[0])
        assert not hasattr(decoder, "lm_head")
    before = who.model(IDS).logits
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.mul_(1.5)
    assert torch.equal(who.model(IDS).logits, before)
    other.load_state_dict(trunk.state_dict())
    with trunk.active() as one, other.active() as two:
        assert torch.equal(one(IDS)[0], two(IDS)[0])


class Host:
    """Answers for others; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def act_batched(self, asked):
        self.asked.append([f"{policy.name}:{request.agent}" for policy, request in asked])
        return [[Completion(f"{policy.name} to {request.agent}")] for policy, request in asked]


class Guest:
    def __init__(self, name: str, host: Host) -> None:
        self.name, self.shared_engine = name, host

    def act(self, requests):
        raise AssertionError("its host is asked")


def test_policies_of_one_host_are_asked_in_one_batch() -> None:
    host, alone, calls = Host(), EchoPolicy(), []
    scripted = ScriptedPolicy(lambda conversation, seed: f"{conversation[-1].content}{seed}", "s")
    act, scripted.act = scripted.act, lambda requests: calls.append(len(requests)) or act(requests)
    one, two = Guest("one", host), Guest("two", host)

    def request(agent: str) -> Request:
        return Request(agent, (Message("user", agent),))

    who = [one, alone, two, scripted, one, scripted]
    said = act_batched([(policy, request(agent)) for policy, agent in zip(who, "abcdef", strict=True)])
    assert [answers[0].text for answers in said] == ["one to a", "b", "two to c", "d0", "one to e", "f0"]
    assert host.asked == [["one:a", "two:c", "one:e"]]
    assert calls == [2]
    assert act_batched([]) == []
