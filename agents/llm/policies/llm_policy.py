"""A causal language model as a policy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from palaver.agents.llm.generation.engine import end_ids, make_generator
from palaver.agents.llm.generation.requests import Adapters, GenerationRequest, GenerationResult, Generator
from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.model.inference_copy import FrozenCopy, FrozenModel, OwnTrunk, Trunk, evaluating, take_over
from palaver.agents.llm.model.load import is_adapter, load_pretrained, pick_device, save_pretrained
from palaver.agents.llm.model.options import DEFAULT_OPTIONS, ModelOptions
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.core import Completion, Conversation, PolicyError, Request, Sampling, ToolCall, ToolSchema
from palaver.utils.tool_calls import parse_calls

if TYPE_CHECKING:
    from numpy.typing import NDArray

ANSWERS_PER_PASS = 256  # of `answer_log_probs`


class LLMPolicy:
    """Answers conversations with a model of transformers.

    Attributes:
        name: what messages and records call it.
        model: the trainable weights, fp32.
        tokenizer: the tokenizer of transformers that belongs to it.
        device: where the model is.
        version: number of updates of the weights, one for each call of `refresh`.
        adapter: which of its model's adapters answers, -1 for none.
    """

    adapter = -1

    def __init__(
        self, model: nn.Module, tokenizer: Any, options: ModelOptions = DEFAULT_OPTIONS, name: str = "llm"
    ) -> None:
        self.name = name
        self.model: Any = model
        self.tokenizer = tokenizer
        self.options = options
        self.version = 0
        self._renderer = Renderer(tokenizer, options.chat)
        self._engine = self._generator()
        self._stale = False

    @classmethod
    def load(cls, name_or_path: str, options: ModelOptions = DEFAULT_OPTIONS) -> LLMPolicy:
        """Read a saved model or adapter, or fetch a model from the hub.

        Raises:
            PolicyError: it does not exist or cannot be read.
        """
        if is_adapter(name_or_path):
            from palaver.agents.llm.policies.lora_policy import load_adapters

            return load_adapters({name_or_path: name_or_path}, options)[name_or_path]
        model, tokenizer = load_pretrained(name_or_path, pick_device(options.device))
        return cls(model, tokenizer, options, name_or_path)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return torch.device(next(self.model.parameters()).device)

    @property
    def context(self) -> float:
        """Maximum number of tokens that the model reads, infinite if it has no limit."""
        length: float = getattr(self.model.config.get_text_config(), "max_position_embeddings", math.inf)
        return length

    @property
    def shared_engine(self) -> object:
        """Object that answers for this policy: policies of one engine share a batch, learn in turn."""
        return self

    def parameters(self) -> list[nn.Parameter]:
        """Trained parameters."""
        return list(self.model.parameters())

    def active(self) -> AbstractContextManager[Any]:
        """Yields the model that computes as this policy; backward passes belong inside, too."""
        return nullcontext(self.model)

    def freeze(self, device: torch.device | None = None) -> FrozenCopy:
        """A still copy of the present weights, on a device or on this policy's."""
        return FrozenModel(self.model, device)

    def critic_trunk(self, name: str, device: torch.device) -> Trunk:  # noqa: ARG002 - distinguishes adapters
        """Make a decoder for the critic called `name`, initialised from the policy.

        It is trained apart from the policy.
        """
        return OwnTrunk(self.model, device)

    def render(self, conversation: Conversation, tools: tuple[ToolSchema, ...] = ()) -> list[int]:
        """Prompt ids of a conversation in which these tools may be called.

        Raises:
            PolicyError: the conversation is empty or the chat template refuses it.
        """
        return self._renderer.ids(conversation, tools)

    def written(self, text: str) -> list[int]:
        """Token ids of an answer that somebody else has written, its end token included."""
        return self._renderer.answer(text)

    @torch.no_grad()
    def answer_log_probs(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[float]:
        """Log-probability of each answer after its prompt, given as token ids, when sampled so."""
        found: list[float] = []
        with self.active() as model:
            for begin in range(0, len(answers), ANSWERS_PER_PASS):
                part = slice(begin, begin + ANSWERS_PER_PASS)
                logprobs, _ = response_logprobs(model, prompts[part], answers[part], sampling)
                found += logprobs.double().sum(1).tolist()
        return found

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One list per request, one completion per seed; all of them in one batch.

        Raises:
            PolicyError: a prompt is longer than `max_prompt_tokens`, or does not fit the model's context or vocabulary.
        """
        if self._stale:
            self._engine.refresh()
            self._stale = False
        return answer(self._engine, self.model, [(self, request) for request in requests])

    def refresh(self) -> None:
        """Count an update of the weights.

        Every copy that generation computes with is renewed before the next answer. Call this after the weights changed.
        """
        self.version += 1
        self._stale = True

    def save(self, folder: Path | str) -> None:
        """Write model and tokenizer in the ordinary format of transformers."""
        save_pretrained(self.model, self.tokenizer, folder)

    def restore(self, folder: str) -> None:
        """Take over the weights that `save` wrote, and nothing else: the version stays.

        Raises:
            PolicyError: they cannot be read.
        """
        model, _ = load_pretrained(folder, self.device)
        take_over(self.model, model)
        self._stale = True

    def sent_weights(self) -> tuple[int, list[NDArray[Any]]]:
        """Version and trained weights in host memory, for `take_weights` in another process."""
        return self.version, [parameter.detach().cpu().numpy() for parameter in self.parameters()]

    @torch.no_grad()
    def take_weights(self, sent: tuple[int, list[NDArray[Any]]]) -> None:
        """Take over version and weights of this policy in another process, and sample by them."""
        version, weights = sent
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of arrays that torch must not write to; they are only read
            for parameter, array in zip(self.parameters(), weights, strict=True):
                parameter.copy_(torch.from_numpy(array))
        self.refresh()
        self.version = version

    def _generator(self) -> Generator:
        return generator_of(self.model, self._renderer, self.options, self.name)

    def prompt(self, request: Request) -> tuple[int, ...]:
        """Prompt ids of a request.

        Raises:
            PolicyError: see `act`.
        """
        ids = tuple(self.render(request.conversation, request.tools))
        length, max_length = len(ids), self.options.max_prompt_tokens
        config = self.model.config.get_text_config()
        if max(ids) >= config.vocab_size:
            raise PolicyError(f"the tokenizer of {self.name!r} gives id {max(ids)}, which its model does not know")
        if length > max_length:
            raise PolicyError(
                f"the prompt of {request.agent!r} has {length} tokens, more than max_prompt_tokens={max_length}"
            )
        context = self.context
        if length + request.sampling.max_tokens > context:
            raise PolicyError(
                f"the prompt of {request.agent!r} has {length} tokens; with max_tokens={request.sampling.max_tokens} "
                f"it does not fit the context of {context} tokens of {self.name!r}"
            )
        return ids

    def fits(self, request: Request) -> bool:
        """Return whether the prompt of a request fits the limits of the model."""
        try:
            return bool(self.prompt(request))
        except PolicyError:
            return False

    def completion(self, prompt: tuple[int, ...], request: Request, sample: GenerationResult) -> Completion:
        """Make a completion of sampled tokens; calls of tools are parsed if the request has tools."""
        text = self._renderer.text(sample.token_ids)
        ends = [position for position in map(text.find, request.sampling.stop) if position >= 0]
        text = text[: min(ends, default=len(text))]
        calls: tuple[ToolCall, ...] = ()
        if request.tools:
            text, calls = parse_calls(text, request.conversation)
        return Completion(
            text,
            prompt,
            sample.token_ids,
            sample.logprobs,
            sample.sample_logprobs,
            self.version,
            sample.finish,
            calls,
        )


def generator_of(
    model: Any, renderer: Renderer, options: ModelOptions, name: str, adapters: Adapters | None = None
) -> Generator:
    """Make the engine of a policy: vLLM if the options name it, else see `make_generator`.

    Raises:
        PolicyError: the engine that the options insist on does not support the model.
    """
    if options.engine != "vllm":
        return make_generator(model, renderer, options, name, adapters)
    from palaver.agents.llm.vllm.generator import VllmGenerator

    return VllmGenerator(model, end_ids(model, renderer), renderer.text, options, name, adapters)


def answer(
    generator: Generator, model: nn.Module, queries: Sequence[tuple[LLMPolicy, Request]]
) -> list[list[Completion]]:
    """One list per request, one completion per seed.

    Policies that share this model are answered in one batch.

    Raises:
        PolicyError: see `LLMPolicy.act`.
    """
    prompts: dict[tuple[int, tuple[int, ...]], int] = {}
    rows: list[GenerationRequest] = []
    read: list[tuple[int, ...]] = []
    for policy, request in queries:
        read.append(policy.prompt(request))
        index = prompts.setdefault((policy.adapter, read[-1]), len(prompts))
        rows += [GenerationRequest(index, seed, request.sampling, policy.adapter) for seed in request.seeds]
    with evaluating(model):
        samples = iter(generator.generate([ids for _, ids in prompts], rows))
    return [
        [policy.completion(ids, request, next(samples)) for _ in request.seeds]
        for (policy, request), ids in zip(queries, read, strict=True)
    ]
