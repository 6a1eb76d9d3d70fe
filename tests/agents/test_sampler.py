from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from palaver.agents.llm.generation.sampler import BLOCK, Sampler, draw, uniforms
from palaver.agents.llm.scoring.truncation import largest
from palaver.core import Sampling

DRAWS = 5_000


def exact(logits: np.ndarray, temperature: float, top_p: float, top_k: int) -> np.ndarray:
    """The distribution drawn from, by definition: temperature, the k largest, the smallest leading set."""
    scaled = logits.astype(np.float64) / temperature
    order = np.argsort(-scaled)
    keep = order[: top_k or len(order)]
    p = np.zeros(len(logits))
    p[keep] = np.exp(scaled[keep] - scaled[keep].max())
    p /= p.sum()
    if top_p < 1:
        mass = 0.0
        for token in order:
            if mass >= top_p:
                p[token] = 0.0
            mass += p[token]
    return p / p.sum()


def fake_logits(vocabulary: int, spread: float, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=vocabulary) * spread).astype(np.float32)


SETTINGS = list(itertools.product([0.6, 1.0, 1.7], [0.5, 0.9, 1.0], [0, 5, 40]))


@pytest.mark.parametrize(("temperature", "top_p", "top_k"), SETTINGS)
@pytest.mark.parametrize("vocabulary", [50, 3 * BLOCK + 17])
def test_frequencies_follow_the_exact_distribution(
    temperature: float, top_p: float, top_k: int, vocabulary: int
) -> None:
    logits = fake_logits(vocabulary, 2.0)
    expected = exact(logits, temperature, top_p, top_k)
    uniform = torch.from_numpy(np.random.default_rng(1).random(DRAWS))
    batch = torch.from_numpy(logits).expand(DRAWS, -1)
    ids, logprobs, drawn = draw(batch, uniform, Sampling(temperature, top_p, top_k))
    counts = np.bincount(ids.numpy(), minlength=vocabulary)
    assert counts[expected == 0].sum() == 0
    often = expected * DRAWS >= 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum()) * DRAWS
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    if len(wanted) > 1:
        assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-4
    np.testing.assert_allclose(drawn.numpy(), np.log(expected[ids.numpy()]), atol=2e-5)
    plain = logits - np.log(np.exp(logits.astype(np.float64)).sum())
    np.testing.assert_allclose(logprobs.numpy(), plain[ids.numpy()], atol=2e-5)


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999])
def test_a_nucleus_of_most_of_the_vocabulary(top_p: float) -> None:
    """Nearly flat: the nucleus spans thousands of tokens and is found by sorting."""
    logits = fake_logits(6000, 0.3)
    expected = exact(logits, 1.0, top_p, 0)
    uniform = torch.linspace(0, 1 - 1e-9, 1000, dtype=torch.float64)
    ids, _, drawn = draw(torch.from_numpy(logits).expand(1000, -1), uniform, Sampling(top_p=top_p))
    assert expected[ids.numpy()].min() > 0
    np.testing.assert_allclose(drawn.numpy(), np.log(expected[ids.numpy()]), atol=1e-4)
    cumulative = np.cumsum(expected)  # the draw inverts the distribution function over ids
    assert (np.searchsorted(cumulative, uniform.numpy(), side="right") == ids.numpy()).mean() > 0.999


@pytest.mark.parametrize("vocabulary", [300, 4096, 9000])
@pytest.mark.parametrize(("leading", "top_p"), [(8, 0.5), (64, 0.99), (100, 0.9)])
def test_equally_likely_tokens_are_all_in_the_nucleus_or_all_out(vocabulary: int, leading: int, top_p: float) -> None:
    """As bf16 heads often have them; with few or many candidates, or none but a sort, and in any company."""
    places = np.random.default_rng(leading).permutation(vocabulary)[:leading]
    logits = torch.full((vocabulary,), -20.0)
    logits[places] = 0.0
    flat = torch.from_numpy(fake_logits(vocabulary, 0.1))
    uniform = torch.linspace(0, 1 - 1e-9, 2000, dtype=torch.float64)
    for sampling in (Sampling(top_p=top_p), Sampling(top_p=top_p, top_k=leading)):
        alone, _, drawn = draw(logits.expand(2000, -1), uniform, sampling)
        assert sorted(set(alone.tolist())) == sorted(places.tolist())
        np.testing.assert_allclose(drawn.numpy(), -np.log(leading), atol=1e-4)
        company = draw(torch.stack([logits, flat]).repeat(500, 1), uniform[::4].repeat_interleave(2), sampling)[0]
        assert torch.equal(company[::2], alone[::4])


def test_the_draw_inverts_the_distribution_function() -> None:
    logits = torch.log(torch.tensor([[0.1, 0.2, 0.0, 0.3, 0.4]])).expand(8, -1)
    uniform = torch.tensor([0.0, 0.09, 0.11, 0.29, 0.31, 0.59, 0.61, 1 - 2**-53], dtype=torch.float64)
    ids, *_ = draw(logits, uniform, Sampling())
    assert ids.tolist() == [0, 0, 1, 1, 3, 3, 4, 4]


def test_greedy_takes_the_largest() -> None:
    logits = torch.from_numpy(np.stack([fake_logits(9000, 1.0, seed) for seed in range(20)]))
    ids, logprobs, drawn = draw(logits, torch.zeros(20, dtype=torch.float64), Sampling(temperature=0))
    assert ids.tolist() == logits.numpy().argmax(1).tolist()
    assert drawn.tolist() == [0.0] * 20
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).amax(-1))


@pytest.mark.parametrize("vocabulary", [10, 1000, 5000, 8192, 70_001])
@pytest.mark.parametrize("k", [1, 7, 50])
def test_largest_equals_topk(vocabulary: int, k: int) -> None:
    k = min(k, vocabulary)
    values = torch.from_numpy(np.stack([fake_logits(vocabulary, 1.0, seed) for seed in range(5)]))
    values[0, -k:] += 100.0  # all in the part that fills no block
    values[1, :: max(1, vocabulary // k)] += 100.0
    found, ids = largest(values, k)
    expected = values.topk(k, -1)
    assert torch.equal(found, expected.values)
    assert torch.equal(ids, expected.indices)


def test_rows_of_different_sampling_share_a_batch() -> None:
    samplings = [
        Sampling(temperature=0),
        Sampling(temperature=0),
        Sampling(top_k=3),
        Sampling(temperature=0.5, top_p=0.5),
    ]
    logits = torch.from_numpy(np.stack([fake_logits(300, 2.0, seed) for seed in range(4)]))
    uniform = torch.tensor([0.1, 0.9, 0.4, 0.7], dtype=torch.float64)
    together = Sampler(samplings).draw(logits, uniform)
    for row, sampling in enumerate(samplings):
        alone = draw(logits[row : row + 1], uniform[row : row + 1], sampling)
        assert [part[row].item() for part in together] == pytest.approx([part.item() for part in alone], abs=1e-6)


def test_uniforms_are_keyed_by_seed_and_do_not_depend_on_their_number() -> None:
    assert np.array_equal(uniforms(5, 10), uniforms(5, 100)[:10])
    assert not np.array_equal(uniforms(5, 10), uniforms(6, 10))
    assert uniforms(2**63 - 1, 1) != uniforms(0, 1)
    uniforms(-3, 1)
    first = np.array([uniforms(seed, 1)[0] for seed in range(2000)])
    assert stats.kstest(first, "uniform").pvalue > 1e-4
