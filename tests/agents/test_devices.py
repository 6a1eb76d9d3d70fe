"""Policies on several devices: which of them answer at the same time."""

from __future__ import annotations

import threading

import pytest

from palaver.agents.base.policy import act_batched
from palaver.core import Completion, Request, Sampling

ONE = Sampling()


class Answering:
    """A policy that notes its thread, and meets the others of its party before it answers."""

    def __init__(self, name: str, device: object = None, party: threading.Barrier | None = None) -> None:
        self.name, self.party, self.threads = name, party, list[int]()
        if device is not None:
            self.device = device

    def act(self, requests):
        self.threads.append(threading.get_ident())
        if self.party:
            self.party.wait(20)
        return [[Completion(f"{self.name} {seed}") for seed in request.seeds] for request in requests]


def asked(*policies: Answering) -> list[str]:
    queries = [(policy, Request("a", (), (n, n + 10), ONE)) for n, policy in enumerate(policies)]
    return [completion.text for row in act_batched(queries) for completion in row]


def test_policies_on_different_gpus_answer_at_the_same_time():
    """All three wait for each other, which ends in 20 seconds where one is asked after the other."""
    party = threading.Barrier(3)
    a, b, script = (Answering(*each, party) for each in (("a", "cuda:0"), ("b", "cuda:1"), ("script", None)))
    assert asked(a, b, script, a) == ["a 0", "a 10", "b 1", "b 11", "script 2", "script 12", "a 3", "a 13"]
    assert len({*a.threads, *b.threads, *script.threads}) == 3
    assert script.threads == [threading.get_ident()]
    assert len(a.threads) == 1  # one batch for both of its requests


@pytest.mark.parametrize("devices", [("cuda:0", "cuda:0"), ("cpu", "cpu"), ("cpu", None), ("mps", "cpu"), (None, None)])
def test_on_one_device_or_none_they_answer_in_turn_in_this_thread(devices):
    policies = [Answering(str(n), device) for n, device in enumerate(devices)]
    assert asked(*policies) == ["0 0", "0 10", "1 1", "1 11"]
    assert {thread for policy in policies for thread in policy.threads} == {threading.get_ident()}


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_of_one_device_is_raised(failing):
    class Failing(Answering):
        def act(self, requests):
            raise ValueError("no")

    policies = [(Failing if n == failing else Answering)(str(n), f"cuda:{n}") for n in range(3)]
    with pytest.raises(ValueError, match="no"):
        asked(*policies)
