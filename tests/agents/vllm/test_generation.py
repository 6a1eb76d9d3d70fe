"""Rows that vLLM draws: log-probs, seeds and ends, against transformers and the rules of the other engines."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import PolicyError, Sampling
from tests.agents.vllm.served import OPTIONS, ask, largest_error, model, plain_logprobs, shake
from tests.models import byte_tokenizer

SAMPLING = Sampling(max_tokens=24)


@pytest.fixture(scope="module")
def policy() -> LLMPolicy:
    return LLMPolicy(model(), byte_tokenizer(), OPTIONS, "a")


def test_the_process_is_as_before(policy):
    """vLLM seeds global generators, replaces functions and sets variables that child processes would inherit."""
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)

    def state():
        return (
            *(torch.random.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()),
            *(torch.set_num_threads, torch.get_num_threads(), sys.excepthook, torch.get_default_dtype()),
            [os.environ.get(name) for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "LOCAL_WORLD_SIZE")],
        )

    before = state()
    policy.act([ask("first", [1], SAMPLING)])
    assert state() == before


@pytest.mark.parametrize(
    "sampling",
    [SAMPLING, replace(SAMPLING, temperature=0.7), replace(SAMPLING, top_p=0.8), replace(SAMPLING, top_k=20)],
    ids=["plain", "tempered", "top_p", "top_k"],
)
def test_log_probs_are_those_of_transformers(policy, sampling):
    drawn = [
        c
        for some in policy.act([ask("one", range(4), sampling), ask("a longer two", range(4), sampling)])
        for c in some
    ]
    assert largest_error(policy.model, drawn) <= 1e-4
    plain = sampling == SAMPLING
    assert all(c.sample_logprobs == (c.logprobs if plain else ()) for c in drawn)


def test_greedy_rows_are_those_of_transformers(policy):
    """The most likely token each time, up to ties of rounding; its log-prob under the draw is 0."""
    drawn = policy.act([ask(f"greedy {n}", [n], replace(SAMPLING, temperature=0.0)) for n in range(4)])
    for (row,) in drawn:
        ids = torch.tensor([[*row.prompt_ids, *row.token_ids]])
        with torch.no_grad():
            logp = policy.model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1].log_softmax(-1)
        assert torch.tensor(row.logprobs) == pytest.approx(logp.amax(-1), abs=1e-4)
        assert row.sample_logprobs == (0.0,) * len(row.token_ids)


def test_a_seed_gives_the_same_row_alone_and_in_a_batch(policy):
    seeds = [0, 1, 5, -3, 1 << 62, (1 << 64) + 9]
    alone = [policy.act([ask("seeded", [seed], SAMPLING)])[0][0] for seed in seeds]
    few, _ = policy.act([ask("seeded", seeds, SAMPLING), ask("others", range(3), SAMPLING)])
    many, *_ = policy.act([ask("seeded", seeds, SAMPLING), *(ask(f"other {n}", range(4), SAMPLING) for n in range(14))])
    assert [c.token_ids for c in few] == [c.token_ids for c in many] == [c.token_ids for c in alone]
    assert len({c.token_ids for c in alone}) == len(seeds)
    for one, other in zip(alone, many, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_prompts_beyond_one_forward(policy):
    """More prompt tokens than a step of the scheduler takes (2,048), where vLLM would split a prompt."""
    asked = [ask(f"{n} " + "word " * 30, [n], SAMPLING) for n in range(24)]
    assert sum(len(policy.prompt(request)) for request in asked) > 2500
    drawn = [row for (row,) in policy.act(asked)]
    assert largest_error(policy.model, drawn) <= 1e-4
    assert policy.act(asked[13:14])[0][0].token_ids == drawn[13].token_ids


def test_tokens_come_as_often_as_they_should(policy):
    """The share of the likeliest first token at temperature 0.5 in 600 draws, within 4 standard errors."""
    drawn = policy.act([ask("often", range(600), Sampling(0.5, max_tokens=1))])[0]
    prompt = torch.tensor([drawn[0].prompt_ids])
    with torch.no_grad():
        p, best = (policy.model(input_ids=prompt).logits[0, -1].double() / 0.5).softmax(-1).max(-1)
    share = sum(c.token_ids == (int(best),) for c in drawn) / len(drawn)
    assert share == pytest.approx(float(p), abs=4 * float(p * (1 - p) / len(drawn)) ** 0.5)
    assert 0.05 < float(p) < 0.95
    assert plain_logprobs(policy.model, drawn[0], 0.5).shape == (1,)


def test_rows_end_by_the_rules_of_the_other_engines(policy):
    """A stop string ends a row with the token that completes it, an end token ends it, else the limit does."""
    whole = policy.act([ask("ends", range(30), replace(SAMPLING, max_tokens=60))])[0]
    cut = policy.act([ask("ends", range(30), replace(SAMPLING, max_tokens=60, stop=("e", "Q")))])[0]
    text, stopped = policy._renderer.text, 0
    for long, short in zip(whole, cut, strict=True):
        length = next(
            (n for n in range(1, len(long.token_ids) + 1) if {"e", "Q"} & set(text(long.token_ids[:n]))),
            len(long.token_ids),
        )
        assert short.token_ids == long.token_ids[:length]
        assert len(short.logprobs) == length
        stopped += length < len(long.token_ids)
        assert not {"e", "Q"} & set(short.text)
        ended = short.token_ids[-1] == 1 or length < len(long.token_ids) or {"e", "Q"} & set(text(short.token_ids))
        assert short.finish == ("stop" if ended else "length")
    assert stopped > 3
    assert any(c.token_ids[-1] == 1 for c in whole), "no row drew its end token"
    assert all(1 not in c.token_ids[:-1] for c in whole)


def test_new_weights_are_taken_over_at_a_refresh(policy):
    before = policy.act([ask("weights", range(4), SAMPLING)])[0]
    shake(policy.parameters())
    assert largest_error(policy.model, before) > 0.01
    policy.refresh()
    after = policy.act([ask("weights", range(4), SAMPLING)])[0]
    assert largest_error(policy.model, after) <= 1e-4
    assert [c.version for c in (*before[:1], *after[:1])] == [0, 1]


def test_a_row_that_does_not_fit_is_refused_and_leaves_the_engine_usable(policy):
    with pytest.raises(PolicyError, match="does not fit the context"):
        policy.act([ask("x" * 100, [0], Sampling(max_tokens=4000))])
    assert len(policy.act([ask("fits", [0], Sampling(max_tokens=4))])[0][0].token_ids) <= 4


def test_half_precision(policy):
    """bf16 rounds log-probs by some hundredths: inside the bound of the guard, above that of fp32."""
    half = LLMPolicy(policy.model, byte_tokenizer(), ModelOptions("bf16", "cpu", engine="vllm"), "half")
    drawn = half.act([ask("half", range(8), SAMPLING)])[0]
    errors = torch.cat([(torch.tensor(c.logprobs) - plain_logprobs(half.model, c)).abs() for c in drawn])
    assert 1e-4 < float(errors.mean()) < 0.05


def test_a_model_that_vllm_lacks_is_refused_in_one_line():
    from tests.models import tiny_qwen3

    small = LLMPolicy(tiny_qwen3(), byte_tokenizer(), OPTIONS, "small")  # heads of 8 have no kernel
    with pytest.raises(PolicyError, match="'small'") as failure:
        small.act([ask("hello", [0], SAMPLING)])
    assert "\n" not in str(failure.value)
