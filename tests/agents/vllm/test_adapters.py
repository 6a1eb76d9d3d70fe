"""Adapters of one base in one engine of vLLM, in one batch with rows of the base."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from palaver.agents.llm.lora.adapter_files import new_config
from palaver.agents.llm.model.options import LoraOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.lora_policy import AdapterPolicy, SharedEngine
from palaver.core import Completion, Sampling
from tests.agents.vllm.served import OPTIONS, ask, model, shake
from tests.models import byte_tokenizer

SAMPLING = Sampling(max_tokens=24)
SEEDS = range(4)


class Base(LLMPolicy):
    """The base of an engine, without an adapter."""

    def __init__(self, engine: SharedEngine) -> None:
        self.engine = engine
        super().__init__(engine.model, engine.tokenizer, engine.options, "base")

    def active(self) -> AbstractContextManager[Any]:
        return self.engine.lora.active(None)

    def _generator(self):
        return self.engine.generator


@pytest.fixture(scope="module")
def team() -> list[LLMPolicy]:
    engine = SharedEngine(model(), byte_tokenizer(), OPTIONS, "base")
    shape = new_config(engine.model, LoraOptions(4, 8), "base")
    for name in "ab":
        engine.lora.served.append(engine.lora.add(shape, trained=True, seed=name))
    adapters = [AdapterPolicy(engine, index, name) for index, name in enumerate("ab")]
    return [*adapters, Base(engine)]


def together(team) -> list[list[Completion]]:
    """All policies in one batch, the base between the adapters."""
    a, b, base = team
    drawn = a.shared_engine.act_batched([(each, ask("shared", SEEDS, SAMPLING)) for each in (a, base, b)])
    return [drawn[0], drawn[2], drawn[1]]


@torch.no_grad()
def errors(team, drawn) -> list[float]:
    found = []
    for policy, rows in zip(team, drawn, strict=True):
        with policy.active() as model:
            worst = 0.0
            for row in rows:
                ids = torch.tensor([[*row.prompt_ids, *row.token_ids]])
                logp = model(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
                worst = max(worst, float((logp[len(row.prompt_ids) - 1 :] - torch.tensor(row.logprobs)).abs().max()))
            found.append(worst)
    return found


def test_new_adapters_compute_as_their_base(team):
    a, b, base = together(team)
    assert [c.token_ids for c in a] == [c.token_ids for c in b] == [c.token_ids for c in base]
    assert max(errors(team, (a, b, base))) <= 1e-4


def test_trained_adapters_and_the_base_in_one_batch(team):
    """Log-probs of transformers, and the tokens that each draws alone."""
    for seed, policy in enumerate(team[:2]):
        shake(policy.parameters(), seed)
        policy.refresh()
    mixed = together(team)
    assert max(errors(team, mixed)) <= 1e-4
    assert len({tuple(c.token_ids for c in rows) for rows in mixed}) == 3
    for policy, rows in zip(team, mixed, strict=True):
        alone = policy.shared_engine if policy is not team[2] else team[0].shared_engine
        (again,) = alone.act_batched([(policy, ask("shared", SEEDS, SAMPLING))])
        assert [c.token_ids for c in again] == [c.token_ids for c in rows]
        for one, other in zip(again, rows, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_adapters_follow_every_update(team):
    """New files are read, and no keys of an old adapter are left in the prefix cache (its blocks hold 128 tokens)."""
    prompt = "a prompt that is longer than one block of the prefix cache: " + "word " * 40
    for step in range(3):
        shake(team[step % 2].parameters(), step)
        team[step % 2].refresh()
        queries = [(policy, ask(prompt, SEEDS, SAMPLING)) for policy in team]
        assert len(queries[0][0].prompt(queries[0][1])) > 128
        assert max(errors(team, team[0].shared_engine.act_batched(queries))) <= 1e-4
