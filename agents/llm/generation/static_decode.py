"""Decoding steps over fixed buffers.

Forward and draw are one function, which a GPU replays as one graph.

At a few rows a step is hundreds of operations that each take longer to launch than to run. A CUDA graph launches them
together. It needs equal shapes and addresses in every step, and nothing that waits for a result: keys and values are
seen through a `StaticKeyValues`, the place in it is a tensor, and the sampler draws inside. Graphs are captured when
the rows of a batch or the window over its columns change, which takes about as long as two ordinary steps; so weights
that are folded again between two batches need no care.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.kv_cache import KeyValues, StaticKeyValues
from palaver.agents.llm.generation.sampler import Sampler
from palaver.agents.llm.scoring.truncation import widest
from palaver.core import PalaverWarning

Draws = tuple[Tensor, Tensor, Tensor]  # ids, log-probs under the model, log-probs under the sampler; each (R,)
T = TypeVar("T")

WINDOW = 256  # a window has a multiple of so many columns: what is not filled is read in vain
_CAPTURING = threading.Lock()  # a process captures one graph at a time


class StaticSteps:
    """Steps of a batch whose rows stay.

    Args:
        forward: the model.
        store: keys and values of the batch; its column advances with the steps.
        sampler: of its rows.
        graphs: captures the steps; None runs them one operation after the other, with equal results.
    """

    def __init__(self, forward: DenseDecoder, store: KeyValues, sampler: Sampler, graphs: GraphCapture | None) -> None:
        self.forward, self.store, self.sampler, self.graphs = forward, store, sampler, graphs
        self._ids = torch.zeros_like(store.padding)
        self._uniform = torch.zeros(len(store.padding), dtype=widest(forward.device), device=forward.device)
        self._window: StaticKeyValues | None = None
        self._replay: GraphReplay | None = None

    def __call__(self, ids: Tensor, uniform: Tensor) -> Draws:
        """Add one token per row (R,) and draw the next with uniform numbers (R,)."""
        self._ids.copy_(ids)
        self._uniform.copy_(uniform)
        window = self._open_window()
        draws = self._step(window) if self._replay is None else self._replay(lambda: self._step(window))
        self.store.advance()
        ids, logprobs, drawn = draws
        return ids.clone(), logprobs.clone(), drawn.clone()  # a replay overwrites its outputs

    def _open_window(self) -> StaticKeyValues:
        """The window over the current column; a new one where the last is full."""
        if self._window is None or self.store.column >= self._window.reach:
            columns = min((self.store.column // WINDOW + 1) * WINDOW, self.store.columns)
            self._window = StaticKeyValues(self.store, columns, self.forward.dtype)
            self._replay = None if self.graphs is None else GraphReplay(self.graphs)
        return self._window

    def _step(self, window: StaticKeyValues) -> Draws:
        return self.sampler.draw(self.forward.step(self._ids, window), self._uniform)


class GraphCapture:
    """CUDA graphs of one engine, in one memory pool. Only for a CUDA device.

    Attributes:
        captured: number of graphs captured.
        failure: message of a capture that failed, after which steps run without graphs; "" if none has.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.captured, self.failure = device, 0, ""
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._keeper = torch.cuda.CUDAGraph()  # a pool ends with its last graph, and batches drop theirs
        self._record(self._keeper, lambda: torch.zeros(1, device=device))

    def warm_up(self, body: Callable[[], T]) -> T:
        """Run a function on the stream of the captures.

        Libraries allocate at their first use, which no capture may.
        """
        current = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            result = body()
        current.wait_stream(self._stream)
        return result

    def capture(self, body: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T] | None:
        """Graph of a function that has been warmed up, and its result; None if it fails.

        Each replay fills the tensors of the result.
        """
        graph = torch.cuda.CUDAGraph()
        try:
            result = self._record(graph, body)
        except RuntimeError as error:
            self.failure = " ".join(str(error).split())[:300]
            warnings.warn(f"decoding goes on without CUDA graphs, more slowly: {self.failure}", PalaverWarning, 2)
            return None
        self.captured += 1
        return graph, result

    def _record(self, graph: torch.cuda.CUDAGraph, body: Callable[[], T]) -> T:
        # not `torch.cuda.graph`, which empties torch's cache at each capture; thread_local, as other GPUs have threads
        with _CAPTURING, torch.cuda.stream(self._stream):
            graph.capture_begin(self._pool, capture_error_mode="thread_local")
            try:
                return body()
            finally:
                graph.capture_end()


class GraphReplay:
    """Steps of one window.

    The first warms up, the second is captured, and that one and all later ones are replays.
    """

    def __init__(self, graphs: GraphCapture) -> None:
        self.graphs = graphs
        self._warm = False
        self._captured: tuple[torch.cuda.CUDAGraph, Draws] | None = None

    def __call__(self, body: Callable[[], Draws]) -> Draws:
        """Run a step, which is always the same function."""
        if not self._warm:
            self._warm = True
            return self.graphs.warm_up(body)
        if self._captured is None and not self.graphs.failure:
            self._captured = self.graphs.capture(body)
        if self._captured is None:
            return body()
        graph, draws = self._captured
        graph.replay()
        return draws
