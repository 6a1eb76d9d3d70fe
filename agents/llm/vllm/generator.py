"""Generation by vLLM, with seeds, ends and log-probabilities as the other engines have them.

vLLM draws each row from a generator of its own, seeded by the row: the tokens of a row depend neither on its batch nor
on earlier ones, but they are other tokens than the own engine's for the same seed. It returns log-probabilities at
temperature 1 over the whole vocabulary. Those of the distribution that was drawn from are the same where sampling is
plain, 0 where it is greedy, and otherwise left out (`GenerationResult.sample_logprobs` is empty): trainers score such
rows.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from palaver.agents.llm.generation.requests import (
    CPU_STORE_BYTES,
    Adapters,
    GenerationRequest,
    GenerationResult,
    Progress,
    column_bytes,
)
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.vllm.process import start
from palaver.agents.llm.vllm.sync import make_sync
from palaver.core import PolicyError, Sampling, stable_seed
from palaver.text import one_line

_CONTEXT = 4096  # of a model whose config names none
_PREFILL_TOKENS = 2048  # of one forward on a CPU, or one whole prompt
_CPU_ROWS = 64  # rows whose keys and values a CPU has room for at full length; more take turns
_ONE_AT_A_TIME = threading.Lock()  # vLLM keeps the layers of an engine that starts, and the batch, in globals


class VllmGenerator:
    """See `palaver.agents.llm.generation.requests.Generator`.

    The engine starts at the first use: that takes seconds, and not every policy that is loaded generates.

    Args:
        model: a causal LM of transformers.
        end_ids: tokens that end a row.
        decode: sampled ids to text, for stop strings.
        options: of the policy: `dtype` is what vLLM computes in, `vllm_share` its part of a GPU.
        name: of the policy, for messages.
        adapters: of the model.
    """

    def __init__(
        self,
        model: Any,
        end_ids: frozenset[int],
        decode: Callable[[Sequence[int]], str],
        options: ModelOptions,
        name: str,
        adapters: Adapters | None = None,
    ) -> None:
        self.model, self.end_ids, self.decode, self.options, self.name = model, end_ids, decode, options, name
        self.sync = make_sync(model, adapters)
        self.engine: Any = None
        self.stale = True

    def refresh(self) -> None:
        """See `Generator.refresh`; the weights are sent when rows are drawn next."""
        self.stale = True

    def generate(self, prompts: Sequence[Sequence[int]], rows: Sequence[GenerationRequest]) -> list[GenerationResult]:
        """See `Generator.generate`.

        Raises:
            PolicyError: vLLM cannot serve the model or a row, or a probability is not finite.
        """
        with _ONE_AT_A_TIME:
            if self.engine is None:
                self.engine = start(_device(self.model), self.name, **self._settings(), **self.sync.settings())
            try:
                with torch.random.fork_rng(devices=[]):  # vLLM draws from torch's global generator, too, for nothing
                    if self.stale:
                        self.sync.transfer(self.engine)
                        self.stale = False
                    return self._drawn(prompts, rows)
            except (ValueError, RuntimeError) as error:
                raise PolicyError(f"engine='vllm' cannot generate for {self.name!r}: {one_line(error, 300)}") from error

    def _settings(self) -> dict[str, Any]:
        dtype = torch.bfloat16 if self.options.dtype == "bf16" else torch.float32
        settings = {
            "dtype": str(dtype).removeprefix("torch."),
            "skip_tokenizer_init": True,
            "generation_config": "vllm",  # no hidden defaults
            "max_model_len": -1,  # the model's context, or what fits
            "enable_prefix_caching": True,
            "logprobs_mode": "raw_logprobs",
        }
        if _device(self.model).type != "cpu":
            return settings | {"gpu_memory_utilization": self.options.vllm_share}
        config = self.model.config.get_text_config()
        context = getattr(config, "max_position_embeddings", None) or _CONTEXT
        return settings | {
            "enforce_eager": True,
            "kv_cache_memory_bytes": min(CPU_STORE_BYTES, _CPU_ROWS * context * column_bytes(config, dtype)),
            # after a part of a prompt vLLM turns the row's generator back, which those of a CPU cannot do
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(context, _PREFILL_TOKENS),
        }

    def _drawn(self, prompts: Sequence[Sequence[int]], rows: Sequence[GenerationRequest]) -> list[GenerationResult]:
        from vllm.inputs import tokens_input

        progress = Progress(rows, self.end_ids, self.decode)
        logprobs: list[list[float]] = [[] for _ in rows]
        try:
            for index, row in enumerate(rows):
                self.engine.add_request(
                    str(index),
                    tokens_input(list(prompts[row.prompt])),
                    self._parameters(row),
                    lora_request=self.sync.adapter(row.adapter),
                )
            while self.engine.has_unfinished_requests():
                stopped = [done for output in self.engine.step() if (done := _take(output, progress, logprobs))]
                if stopped:
                    self.engine.abort_request(stopped)
        finally:
            if self.engine.has_unfinished_requests():
                self.engine.abort_request([str(index) for index in range(len(rows))])
        return [_result(progress, index, plain) for index, plain in enumerate(logprobs)]

    def _parameters(self, row: GenerationRequest) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = row.sampling
        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=sampling.max_tokens,
            seed=stable_seed(row.seed),  # on a CPU torch keeps 32 bits of it, the lowest
            stop_token_ids=sorted(self.end_ids),
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )


def _device(model: Any) -> torch.device:
    return torch.device(next(model.parameters()).device)


def _take(output: Any, progress: Progress, logprobs: list[list[float]]) -> str:
    """Take over the new tokens of a row.

    Returns its name if it has ended by a rule that vLLM does not know, else "".
    """
    row, (completion,) = int(output.request_id), output.outputs
    for token, known in zip(completion.token_ids, completion.logprobs, strict=True):
        if progress.finish[row] is None:
            progress.take([row], [token])
            logprobs[row].append(known[token].logprob)
    return "" if output.finished or progress.finish[row] is None else output.request_id


def _result(progress: Progress, row: int, plain: Sequence[float]) -> GenerationResult:
    if not all(map(math.isfinite, plain)):
        raise PolicyError("the model's probabilities are not finite; its weights have diverged or are damaged")
    sampled = drawn_logprobs(progress.rows[row].sampling, plain)
    return GenerationResult(tuple(progress.tokens[row]), tuple(plain), sampled, progress.finish[row] or "length")


def drawn_logprobs(sampling: Sampling, plain: Sequence[float]) -> tuple[float, ...]:
    """Log-probabilities of the draw by those at temperature 1; empty where they do not tell.

    >>> drawn_logprobs(Sampling(), [-1.0]), drawn_logprobs(Sampling(0.0), [-1.0]), drawn_logprobs(Sampling(0.5), [-1.0])
    ((-1.0,), (0.0,), ())
    """
    if sampling.temperature == 0:
        return (0.0,) * len(plain)
    return tuple(plain) if sampling.temperature == 1 and not sampling.truncated else ()
