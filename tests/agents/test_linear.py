from __future__ import annotations

import math

import pytest
import torch
from trl.trainer.utils import selective_log_softmax

from palaver.agents.llm.scoring import fused_logprobs as linear
from palaver.agents.llm.scoring.fused_logprobs import linear_logprobs
from tests.closeness import assert_gradients_close, assert_values_close

KEEP = [0, 1 << 30]  # computed again in the backward pass, or kept


def inputs(n: int = 37, hidden: int = 16, vocabulary: int = 101, dtype: torch.dtype = torch.float32, bias: bool = True):
    generator = torch.Generator().manual_seed(0)
    shape = {"generator": generator, "dtype": dtype}
    h = torch.randn(n, hidden, **shape).requires_grad_()
    w = torch.randn(vocabulary, hidden, **shape).requires_grad_()
    b = torch.randn(vocabulary, **shape).requires_grad_() if bias else None
    return h, w, torch.randint(0, vocabulary, (n,), generator=generator), b


@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_values_and_gradients_equal_the_plain_form(
    keep: int, bias: bool, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "MIN_CHUNK", 8)
    monkeypatch.setattr(linear, "CHUNK_BYTES", 0)
    h, w, targets, b = inputs(bias=bias)
    weights = torch.linspace(-1, 2, len(h))
    leaves = [leaf for leaf in (h, w, b) if leaf is not None]
    found = linear_logprobs(h, w, targets, b, temperature, keep)
    found_gradients = torch.autograd.grad((found * weights).sum(), leaves)
    logits = (h.double() @ w.double().T + (0 if b is None else b.double())) / temperature
    expected = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
    expected_gradients = torch.autograd.grad((expected * weights).sum(), leaves)
    assert_values_close(found, expected)
    assert_gradients_close(found_gradients, expected_gradients)
    assert_values_close(found, selective_log_softmax(logits.float(), targets))


@pytest.mark.parametrize("keep", KEEP)
def test_gradcheck(keep: int) -> None:
    h, w, targets, b = inputs(6, 4, 9, torch.float64)
    assert torch.autograd.gradcheck(lambda h, w, b: linear_logprobs(h, w, targets, b, 0.8, keep), (h, w, b))


def test_a_second_backward_gives_the_same() -> None:
    h, w, targets, _ = inputs(bias=False)
    total = linear_logprobs(h, w, targets).sum()
    first = torch.autograd.grad(total, (h, w), retain_graph=True)
    second = torch.autograd.grad(total, (h, w))
    assert_gradients_close(second, first)


def test_frozen_inputs_get_no_gradient() -> None:
    h, w, targets, _ = inputs(bias=False)
    linear_logprobs(h, w.detach(), targets).sum().backward()
    assert h.grad is not None
    assert w.grad is None
    with torch.no_grad():
        assert not linear_logprobs(h, w, targets).requires_grad


@pytest.mark.parametrize("keep", KEEP)
def test_very_unlikely_and_very_likely_targets(keep: int) -> None:
    """log p and d log p / d h of p = 1/(1+e^40) and 1/(1+e^-16): fp32 rounds a sum by 6e-8 of its largest term."""
    h = torch.tensor([[1.0], [0.4]], requires_grad=True)
    w = torch.tensor([[40.0], [0.0]])
    values = linear_logprobs(h, w, torch.tensor([1, 0]), keep_bytes=keep)
    assert values[0].item() == pytest.approx(-40.0, rel=1e-6)
    assert values[1].item() == pytest.approx(-math.log1p(math.exp(-16)), abs=16 * 1.2e-7)
    assert values[1].item() <= 0
    values.sum().backward()
    assert h.grad is not None
    assert h.grad[0].item() == pytest.approx(-40.0, rel=1e-6)
    assert h.grad[1].item() == pytest.approx(40 * math.exp(-16), abs=40 * 16 * 1.2e-7)
    values = linear_logprobs(torch.tensor([[400.0]]), w, torch.tensor([1]), keep_bytes=keep)
    assert values.item() == pytest.approx(-16000.0)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_in_bf16_no_logprob_is_above_0_and_keeping_changes_nothing(temperature: float) -> None:
    """The target's logit is rounded as those of its softmax are, or a likely one would stand above their sum."""
    h, w, targets, b = inputs(200, 32, 300)
    targets = (h @ w.T + b).argmax(1)
    with torch.autocast("cpu", torch.bfloat16):
        again, kept = (linear_logprobs(h, w, targets, b, temperature, keep).detach() for keep in KEEP)
    assert again.max() <= 0
    assert kept.max() <= 0
    assert (again - kept).abs().mean() < 1e-4


@pytest.mark.parametrize("keep", KEEP)
def test_bf16_autocast(keep: int) -> None:
    """Master weights in fp32, products in bf16: values to bf16's 3 digits, gradients in fp32."""
    h, w, targets, b = inputs(64, 32, 200)
    with torch.autocast("cpu", torch.bfloat16):
        found = linear_logprobs(h, w, targets, b, 1.0, keep)
    assert found.dtype == torch.float32
    expected = (h @ w.T + b).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    assert (found - expected).abs().max() < 0.15
    one = torch.autograd.grad(found.mean(), (h, w, b))
    other = torch.autograd.grad(expected.mean(), (h, w, b))
    for left, right in zip(one, other, strict=True):
        assert left.dtype == torch.float32
        assert (left - right).norm() < 0.02 * right.norm()


def test_no_tokens() -> None:
    h, w, targets, b = inputs(0)
    values = linear_logprobs(h, w, targets, b)
    values.sum().backward()
    assert values.shape == (0,)
    assert w.grad is not None
    assert not w.grad.any()


@pytest.mark.parametrize("keep", [1 << 30, 0])
def test_products_of_half_precision_that_are_rounded_late(monkeypatch: pytest.MonkeyPatch, keep: int) -> None:
    """As on CUDA, where the product of bf16 factors comes in fp32: errors are those of the factors alone."""
    generator = torch.Generator().manual_seed(3)
    h = torch.randn(50, 64, generator=generator).bfloat16().requires_grad_()
    w = torch.randn(301, 64, generator=generator).bfloat16().requires_grad_()
    targets = torch.randint(301, (50,), generator=generator)
    exact_h, exact_w = (x.detach().double().requires_grad_() for x in (h, w))
    exact = (exact_h @ exact_w.t()).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    exact.sum().backward()
    early = linear_logprobs(h, w, targets, keep_bytes=keep)
    monkeypatch.setattr(linear, "rounds_late", lambda x: x.dtype == torch.bfloat16)
    monkeypatch.setattr(linear.torch, "mm", fp32_mm(torch.mm))
    late = linear_logprobs(h, w, targets, keep_bytes=keep)
    late.sum().backward()
    assert float((late - exact).detach().abs().max()) < 1e-4
    assert float((early - exact).detach().abs().max()) > 1e-3
    assert_gradients_close([h.grad, w.grad], [exact_h.grad, exact_w.grad], rel=1e-2)  # they are bf16 themselves


def fp32_mm(mm):
    """`torch.mm` with CUDA's `out_dtype`."""

    def product(left, right, *, out=None, out_dtype=None):
        if out_dtype is None:
            return mm(left, right, out=out)
        assert (left.dtype, out_dtype) == (torch.bfloat16, torch.float32)
        return mm(left.float(), right.float())

    return product


def test_sizes_follow_the_device() -> None:
    """8,192 tokens and Qwen's vocabulary: a GPU takes 10 tiles, and keeps the softmax of up to 3,533 tokens in bf16."""
    assert linear.keep_bytes_on("cuda") // (151_936 * 2) == 3533
    assert linear.keep_bytes_on("cpu") == linear.keep_bytes_on("mps") == 96 << 20
    hidden, weight = (torch.empty(size, 1, device="meta") for size in (8192, 151_936))
    assert len([*linear.tiles(hidden, weight, None, 1.0, torch.float32)]) == 75
    assert -(-8192 // (linear.TILE_CUDA // 151_936)) == 10
