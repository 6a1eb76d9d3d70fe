"""Steps of fixed shape against the ordinary ones, and the parts of a captured step that a CPU can show."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from palaver.agents.llm.generation import sampler as sampler_module
from palaver.agents.llm.generation import static_decode
from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.engine import Engine
from palaver.agents.llm.generation.forward import AdapterDecoder
from palaver.agents.llm.generation.kv_cache import KeyValues, StaticKeyValues
from palaver.agents.llm.generation.requests import GenerationRequest
from palaver.agents.llm.generation.sampler import Sampler, draw, uniform_table
from palaver.agents.llm.scoring import truncation
from palaver.core import PalaverWarning, Sampling
from tests.agents.adapting import stored_base, team_of
from tests.agents.test_engine import assert_same, prompts_of, tiny_qwen2, varied_norms
from tests.models import tiny_llama, tiny_qwen3

KINDS = [
    Sampling(max_tokens=80),
    Sampling(0.7, 0.9, 20, 60),
    Sampling(1.3, 0.8, 0, 70),
    Sampling(temperature=0, max_tokens=40),
]


def engine_of(forward, static: bool) -> Engine:
    """An engine whose rows end at a tenth of the tokens."""
    engine = Engine(forward, frozenset(range(4)), lambda ids: "")
    engine.static_rows = 64 if static else 0
    return engine


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_llama, tiny_qwen2])
def test_static_steps_draw_what_the_ordinary_ones_do(make, monkeypatch) -> None:
    """48 rows with left padding, of mixed samplings; they leave at other times, and windows of 32 columns fill."""
    monkeypatch.setattr(static_decode, "WINDOW", 32)
    opened = []
    monkeypatch.setattr(
        static_decode, "StaticKeyValues", lambda *args: opened.append(args[1]) or StaticKeyValues(*args)
    )
    forward = DenseDecoder(varied_norms(make(3)), torch.float32)
    prompts = prompts_of(12)
    rows = [GenerationRequest(n % 12, n, KINDS[n % 4]) for n in range(48)]
    ordinary = engine_of(forward, static=False).generate(prompts, rows)
    assert not opened
    assert_same(engine_of(forward, static=True).generate(prompts, rows), ordinary)
    assert len(opened) >= 3
    assert all(width % 32 == 0 for width in opened[:-1])
    assert len({len(result.token_ids) for result in ordinary}) > 10


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_llama, tiny_qwen2])
def test_weights_folded_by_rows_are_those_of_a_cpu(make) -> None:
    """A GPU scales and rounds each linear layer in one operation; a copy, which later changes of the model spare."""
    model = varied_norms(make(3))
    model.model.embed_tokens.weight.data *= 20  # hidden states of about 1, next to which eps is nothing
    on_cpu = DenseDecoder(model, torch.float32)
    by_rows = DenseDecoder(model, torch.float32)
    by_rows.cpu = False
    by_rows.refresh()
    prompts = torch.tensor(prompts_of(1) * 2)
    lengths = [prompts.shape[1]] * 2
    expected, _ = on_cpu.prefill(prompts, lengths)
    torch.testing.assert_close(by_rows.prefill(prompts, lengths)[0], expected, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        for parameter in model.model.layers.parameters():
            parameter.zero_()
        model.model.norm.weight.zero_()
    torch.testing.assert_close(by_rows.prefill(prompts, lengths)[0], expected, rtol=1e-4, atol=1e-4)


def test_static_steps_of_rows_with_adapters(tmp_path) -> None:
    lora = team_of(stored_base(tmp_path / "base"))["a"].shared_engine.lora
    forward = AdapterDecoder(lora.model, torch.float32, lora.served)
    prompts = prompts_of(6)
    rows = [GenerationRequest(n % 6, n, KINDS[0], (0, 1, -1)[n % 6 % 3]) for n in range(18)]
    with torch.no_grad():
        ordinary = engine_of(forward, static=False).generate(prompts, rows)
        assert_same(engine_of(forward, static=True).generate(prompts, rows), ordinary)


def test_columns_that_are_not_filled_may_hold_anything() -> None:
    """Memory beyond the prompts is not a number at first; logits are those of a store of the exact size."""
    forward = DenseDecoder(varied_norms(tiny_qwen3(3)), torch.float32)
    found = []
    with torch.no_grad():
        logits, layers = forward.prefill(torch.tensor([[5, 6, 7], [8, 9, 0]]), [3, 2])
        for static in (False, True):
            store = KeyValues([3, 2], 8, torch.device("cpu"), torch.float32)
            store.insert(layers, torch.arange(2), torch.arange(2))
            for tensor in (*store.keys, *store.values):
                tensor[:, :, 3:] = torch.nan
            seen = StaticKeyValues(store, 8, torch.float32) if static else store
            found.append(torch.stack([forward.step(torch.tensor([4, n]), seen) for n in range(4)]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
    assert logits.isfinite().all()


def test_a_step_reads_nothing_and_allocates_no_other_shape_later(monkeypatch) -> None:
    """The same operations on the same shapes at every step, none of which hands a number to Python."""
    monkeypatch.setattr(sampler_module, "_draw_nucleus", draw_elsewhere)
    forward = DenseDecoder(varied_norms(tiny_qwen3(3)), torch.float32)
    with torch.inference_mode():
        _, layers = forward.prefill(torch.tensor([[5, 6, 7], [8, 9, 0]]), [3, 2])
        for sampling in KINDS:
            store = KeyValues([3, 2], 40, torch.device("cpu"), torch.float32)
            store.insert(layers, torch.arange(2), torch.arange(2))
            steps = static_decode.StaticSteps(forward, store, Sampler([sampling] * 2), None)
            ids, recorded = torch.tensor([4, 5]), []
            for uniform in uniform_table([1, 2], 12, torch.device("cpu")):
                with Recorder() as recorder:
                    ids, _, _ = steps(ids, uniform)
                recorded.append(recorder.calls)
            assert all(calls == recorded[1] for calls in recorded[1:])
            assert not [name for name, _ in recorded[1] if "local_scalar_dense" in name or "nonzero" in name]


class Recorder(TorchDispatchMode):
    """Names of operations and the shapes of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, list]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.calls.append((str(func), [tuple(a.shape) for a in args if isinstance(a, torch.Tensor)]))
        return result


def draw_elsewhere(probabilities, uniform, top_p):
    """The draw from a nucleus on devices other than a CPU."""
    floor = truncation.bisected_floor(probabilities, top_p)
    return sampler_module._draw_all(sampler_module._above(probabilities, floor), uniform)


@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0, 30.0])
def test_the_floor_of_a_nucleus_by_halving(spread: float) -> None:
    """It is that by sorting, also where many tokens are equally likely, and where the mass never reaches top_p."""
    generator = torch.Generator().manual_seed(5)
    logits = (torch.randn(40, 3000, generator=generator) * spread).round(decimals=1)
    probabilities = logits.softmax(-1)
    for top_p in (1e-6, 0.1, 0.5, 0.9, 0.999, 1 - 1e-12):
        found, expected = truncation.bisected_floor(probabilities, top_p), truncation.kept_floor(probabilities, top_p)
        # sums of the same numbers in another order may put a border elsewhere: no more than one row, by one place
        same = (probabilities >= found).sum(1) == (probabilities >= expected).sum(1)
        assert int((~same).sum()) <= (0 if top_p < 0.999 else 2)


def test_the_floor_by_hand() -> None:
    probabilities = torch.tensor([[0.5, 0.25, 0.125, 0.125], [0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])
    expected = {0.4: [0.5, 0.25, 1.0], 0.5: [0.5, 0.25, 1.0], 0.51: [0.25, 0.25, 1.0], 0.8: [0.125, 0.25, 1.0]}
    for top_p, floors in expected.items():
        assert truncation.bisected_floor(probabilities, top_p)[:, 0].tolist() == floors


@pytest.mark.parametrize("sampling", KINDS, ids=str)
def test_without_fp64_the_draws_are_the_same(sampling: Sampling, monkeypatch) -> None:
    """Apple's GPUs: no tensor of a draw is fp64; a uniform number never rounds to 1."""
    logits = torch.randn(300, 3000, generator=torch.Generator().manual_seed(1)) * 2
    uniform = uniform_table(range(300), 1, torch.device("cpu"))[0]
    expected = draw(logits, uniform, sampling)
    for module in (truncation, sampler_module):
        monkeypatch.setattr(module, "widest", lambda device: torch.float32)
    monkeypatch.setattr(sampler_module, "_draw_nucleus", draw_elsewhere)
    monkeypatch.setattr(sampler_module, "uniforms", lambda seed, n: np.full(n, 1 - 2.0**-53))
    assert uniform_table([0], 1, torch.device("cpu")).item() == 1 - 2.0**-24
    with NoDouble():
        ids, logprobs, drawn = draw(logits, uniform.float(), sampling)
        edge, _, edge_drawn = draw(logits, torch.full((300,), 1 - 2.0**-24), sampling)
    same = ids == expected[0]
    assert int((~same).sum()) <= 3  # of 300: a border of the draw that rounds to the other side
    torch.testing.assert_close(logprobs[same], expected[1][same], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(drawn[same], expected[2][same], rtol=1e-3, atol=1e-3)
    assert edge_drawn.isfinite().all()
    assert len(edge) == 300


class NoDouble(TorchDispatchMode):
    """Refuses every operation whose result is fp64."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        assert not (isinstance(result, torch.Tensor) and result.dtype == torch.float64), func
        return result


class FakeGraph:
    """A graph that records a function and calls it at each replay."""

    def __init__(self, body) -> None:
        self.body = body

    def replay(self) -> None:
        self.body()


class FakeCapture:
    """`GraphCapture` whose graphs are functions; each replay fills the tensors of the capture."""

    failure = ""

    def __init__(self) -> None:
        self.warmed, self.captured, self.replayed = 0, 0, 0

    def warm_up(self, body):
        self.warmed += 1
        return body()

    def capture(self, body):
        self.captured += 1
        results = tuple(torch.zeros(0) for _ in range(3))

        def replay() -> None:
            self.replayed += 1
            for kept, new in zip(results, body(), strict=True):
                kept.resize_(new.shape)
                kept.data = new.clone()

        return FakeGraph(replay), results


def test_each_window_is_warmed_up_once_captured_once_and_then_replayed(monkeypatch) -> None:
    """60 tokens of 3 rows: the first is drawn from the prompts, the windows over 4 + 59 columns are 32 and 64 wide."""
    monkeypatch.setattr(static_decode, "WINDOW", 32)
    forward = DenseDecoder(varied_norms(tiny_qwen3(3)), torch.float32)
    rows = [GenerationRequest(0, n, Sampling(max_tokens=60)) for n in range(3)]
    plain = Engine(forward, frozenset(), lambda ids: "").generate([[5, 6, 7, 8]], rows)
    engine, graphs = Engine(forward, frozenset(), lambda ids: ""), FakeCapture()
    engine.static_rows, engine.__dict__["graphs"] = 64, graphs
    assert_same(engine.generate([[5, 6, 7, 8]], rows), plain)
    assert (graphs.warmed, graphs.captured, graphs.replayed) == (2, 2, 59 - 2)


def test_a_capture_that_fails_is_reported_and_decoding_goes_on(monkeypatch) -> None:
    capture = object.__new__(static_decode.GraphCapture)
    capture.device, capture.captured, capture.failure = torch.device("cpu"), 0, ""

    def refuse(graph, body):
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    monkeypatch.setattr(static_decode.torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(capture, "_record", refuse)
    monkeypatch.setattr(capture, "warm_up", lambda body: body())
    replay, calls = static_decode.GraphReplay(capture), []

    def body():
        calls.append(1)
        return (torch.zeros(1),) * 3

    replay(body)
    with pytest.warns(PalaverWarning, match="without CUDA graphs, more slowly: operation not permitted when stream"):
        replay(body)
    replay(body)
    assert len(calls) == 3
    assert capture.failure
