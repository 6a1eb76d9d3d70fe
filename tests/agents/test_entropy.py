"""The exact entropy of a head's softmax, against the plain form and numbers by hand."""

from __future__ import annotations

import math

import pytest
import torch

from palaver.agents.llm.scoring import fused_logprobs as entropy
from palaver.agents.llm.scoring import fused_logprobs as linear
from palaver.agents.llm.scoring.fused_logprobs import linear_entropy
from palaver.agents.llm.scoring.logprobs import response_logprobs, response_scores
from palaver.core import Sampling
from tests.agents.test_logprob import tiny_gemma2
from tests.closeness import assert_gradients_close, assert_values_close
from tests.models import tiny_llama, tiny_qwen3

PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12], [5, 6, 7, 8, 9, 10, 11, 12], [20, 21]]
ANSWERS = [[30, 31, 1], [32], [33, 34, 35, 36, 1]]


def inputs(n: int = 37, hidden: int = 16, vocabulary: int = 101, dtype: torch.dtype = torch.float32, bias: bool = True):
    generator = torch.Generator().manual_seed(0)
    shape = {"generator": generator, "dtype": dtype}
    h = torch.randn(n, hidden, **shape).requires_grad_()
    w = torch.randn(vocabulary, hidden, **shape).requires_grad_()
    return h, w, torch.randn(vocabulary, **shape).requires_grad_() if bias else None


def plain(logits: torch.Tensor) -> torch.Tensor:
    return torch.distributions.Categorical(logits=logits).entropy()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("columns", [7, 2048])
def test_values_and_gradients_equal_the_plain_form(
    bias: bool, temperature: float, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "TILE_COLUMNS", columns)
    monkeypatch.setattr(linear, "TILE", 5 * columns)
    h, w, b = inputs(bias=bias)
    weights = torch.linspace(-1, 2, len(h))
    leaves = [leaf for leaf in (h, w, b) if leaf is not None]
    found = linear_entropy(h, w, b, temperature)
    gradients = torch.autograd.grad((found * weights).sum(), leaves)
    logits = (h.double() @ w.double().T + (0 if b is None else b.double())) / temperature
    expected = plain(logits)
    assert_values_close(found, expected)
    assert_gradients_close(gradients, torch.autograd.grad((expected * weights).sum(), leaves))


def test_gradcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "TILE_COLUMNS", 4)
    h, w, b = inputs(6, 4, 9, torch.float64)
    assert torch.autograd.gradcheck(lambda h, w, b: linear_entropy(h, w, b, 0.8), (h, w, b))


def test_numbers_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform over 8: ln 8. Odds 3 to 1: ln 4 - 3/4 ln 3. One token that leaves the rest at e^-400: 0, not NaN."""
    monkeypatch.setattr(linear, "TILE_COLUMNS", 1)
    one = torch.ones(1, 1)
    assert linear_entropy(one, torch.full((8, 1), 3.0)).item() == pytest.approx(math.log(8), abs=1e-6)
    odds = torch.tensor([[0.0], [math.log(3)]])
    assert linear_entropy(one, odds).item() == pytest.approx(math.log(4) - 0.75 * math.log(3), abs=1e-6)
    for order in ([[0.0], [400.0]], [[400.0], [0.0]]):
        assert linear_entropy(one, torch.tensor(order)).item() == 0.0


def test_frozen_inputs_get_no_gradient() -> None:
    h, w, _ = inputs(bias=False)
    linear_entropy(h, w.detach()).sum().backward()
    assert h.grad is not None
    assert w.grad is None
    with torch.no_grad():
        assert not linear_entropy(h, w).requires_grad


def test_bf16_autocast() -> None:
    h, w, b = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = linear_entropy(h, w, b)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, plain(h @ w.T + b), atol=0.05, rtol=0.05)


def test_no_more_than_a_tile_of_logits_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 x 5000 logits in tiles of at most 4096, forward and backward; all of them are made, twice."""
    made = []
    plain_logits = entropy.head_logits
    monkeypatch.setattr(linear, "TILE", 4096)
    monkeypatch.setattr(entropy, "head_logits", lambda *a: (made.append(len(a[0]) * len(a[1])), plain_logits(*a))[1])
    h, w, b = inputs(64, vocabulary=5000)
    linear_entropy(h, w, b).sum().backward()
    assert max(made) <= 4096
    assert sum(made) == 2 * 64 * 5000


def test_no_tokens() -> None:
    h, w, b = inputs(0)
    assert linear_entropy(h, w, b).shape == (0,)


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_llama, tiny_gemma2])
def test_of_a_model_along_its_answers(make) -> None:
    """Packed, split into trunk and head, or whole (Gemma 2 caps its logits): as the full logits of each row alone."""
    model = make()
    scores = response_scores(model, PROMPTS, ANSWERS, Sampling(0.9), entropy=True)
    assert scores.entropy is not None
    expected = torch.zeros(3, 5)
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1].float() / 0.9
        expected[row, : len(answer)] = plain(logits)
    assert_values_close(scores.entropy, expected)
    weight = next(model.parameters())
    found = torch.autograd.grad(scores.entropy.sum(), weight)[0]
    assert_gradients_close([found], torch.autograd.grad(expected.sum(), weight))


def test_asking_for_it_leaves_the_log_probabilities_alone() -> None:
    model = tiny_qwen3()
    plain_logprobs, mask = response_logprobs(model, PROMPTS, ANSWERS)
    scores = response_scores(model, PROMPTS, ANSWERS, entropy=True)
    assert torch.equal(scores.logprobs, plain_logprobs)
    assert torch.equal(scores.mask, mask)
    assert response_scores(model, PROMPTS, ANSWERS).entropy is None
    assert response_scores(model, PROMPTS[:1], [[]], entropy=True).entropy.shape == (1, 0)
