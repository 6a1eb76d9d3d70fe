"""Policy protocol: anything that reads conversations and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from palaver.core import Completion, Request


@runtime_checkable
class Policy(Protocol):
    """Answers conversations.

    `act` gets every conversation that waits for this policy, whichever episode or agent it comes from, and returns one
    list per request with one completion per seed, in order. The seed alone fixes the draw: the same conversation,
    sampling and seed give the same text, independent of the other requests of the call (of a language model in fp32:
    with fewer digits a sum depends on the batch it is computed in).
    """

    name: str

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One list per request, one completion per seed."""
        ...


def act_batched(asked: Sequence[tuple[Policy, Request]]) -> list[list[Completion]]:
    """Answer each policy's request, in order: `act`, one batch for all policies of one host.

    A policy without a `host`, or that is its own, is queried alone. Any other host has a `act_batched` like this one.
    """
    hosts: dict[int, tuple[Any, list[int]]] = {}
    for place, (policy, _) in enumerate(asked):
        host = getattr(policy, "shared_engine", policy)
        hosts.setdefault(id(host), (host, []))[1].append(place)
    said: list[list[Completion]] = [[] for _ in asked]
    for host, places in hosts.values():
        parts = [asked[place] for place in places]
        alone = host is parts[0][0]
        answers = host.act([request for _, request in parts]) if alone else host.act_batched(parts)
        for place, answer in zip(places, answers, strict=True):
            said[place] = answer
    return said
