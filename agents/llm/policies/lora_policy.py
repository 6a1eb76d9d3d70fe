"""Policies that share a frozen base model, with a low-rank adapter per agent (LoRA).

    team = adapted("Qwen/Qwen3-0.6B", ["background", "method"], ModelOptions(), LoraOptions(rank=8))

Their answers are drawn in one batch (`palaver.agents.base.policy.act_batched`). What is selected in the shared model is
state: one policy is scored or trained at a time, backward pass included, inside its `active()`. With `dtype: bf16` the
base is held in bf16, not only computed in it, for it is never trained; adapters are fp32 in any case.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from palaver.agents.llm.generation.requests import Generator
from palaver.agents.llm.lora.adapter_files import new_config, read_config, read_weights, write
from palaver.agents.llm.lora.layers import AdapterTrunk, FrozenAdapter, Lora
from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.model.inference_copy import FrozenCopy, Trunk, evaluating
from palaver.agents.llm.model.load import is_adapter, load_pretrained, pick_device, quiet
from palaver.agents.llm.model.options import DEFAULT_LORA, DEFAULT_OPTIONS, LoraOptions, ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy, answer, generator_of
from palaver.core import Completion, PolicyError, Request


class SharedEngine:
    """The base of several policies, which draws the answers of all in one batch.

    Args:
        model: the base; it is frozen and gets its adapters in place.
        tokenizer: of transformers.
        options: how it is run.
        source: the hub name or absolute folder it came from, which stored adapters name.
    """

    def __init__(self, model: Any, tokenizer: Any, options: ModelOptions, source: str) -> None:
        self.lora = Lora(model)
        self.model, self.tokenizer, self.options, self.source = model, tokenizer, options, source
        self._stale = False

    @cached_property
    def generator(self) -> Generator:
        """The engine, built on first use for the adapters that are served then."""
        return generator_of(
            self.model, Renderer(self.tokenizer, self.options.chat), self.options, self.source, self.lora
        )

    def act_batched(self, queries: Sequence[tuple[AdapterPolicy, Request]]) -> list[list[Completion]]:
        """Answer each policy's request; see `palaver.agents.base.policy.act_batched`.

        Raises:
            PolicyError: see `LLMPolicy.act`.
        """
        if self._stale:
            self.generator.refresh()
            self._stale = False
        return answer(self.generator, self.model, queries)

    def refresh(self) -> None:
        """Call after an adapter changed: the next answers are drawn with it."""
        self._stale = True

    def load(self, folder: str, *, trained: bool) -> str:
        """Add a stored adapter; its key.

        Raises:
            PolicyError: it cannot be read, or is not for this base.
        """
        config = read_config(folder)
        if _canonical_source(config.base_model_name_or_path) != self.source:
            raise PolicyError(
                f"the adapter in {folder!r} is for {config.base_model_name_or_path!r}, and not for {self.source!r}"
            )
        weights = read_weights(folder)
        try:
            key = self.lora.add(config, trained=trained)
        except ValueError as error:
            raise PolicyError(f"the adapter in {folder!r} does not fit {self.source!r}: {error}") from error
        try:
            self.take_over(key, weights, folder)
        except PolicyError:
            self.lora.remove(key)
            raise
        return key

    def take_over(self, key: str, weights: Mapping[str, Tensor], folder: str) -> None:
        """Give an adapter the weights that were read from a folder.

        Raises:
            PolicyError: they are of another shape.
        """
        try:
            fault = self.lora.imported(key, weights)
        except RuntimeError:
            fault = "its weights are of another shape"
        if fault:
            raise PolicyError(f"the adapter in {folder!r} does not fit {self.source!r}: {fault}")


class AdapterPolicy(LLMPolicy):
    """A policy that is an adapter on a shared base.

    Attributes:
        model: the shared base. It computes as this policy inside `active()` only.
    """

    def __init__(self, engine: SharedEngine, adapter: int, name: str) -> None:
        self._shared_engine, self.adapter, self.key = engine, adapter, engine.lora.served[adapter]
        super().__init__(engine.model, engine.tokenizer, engine.options, name)

    @property
    def shared_engine(self) -> SharedEngine:
        """See `LLMPolicy.shared_engine`."""
        return self._shared_engine

    def parameters(self) -> list[nn.Parameter]:
        """See `LLMPolicy.parameters`."""
        return list(self._shared_engine.lora.named(self.key).values())

    def active(self) -> AbstractContextManager[Any]:
        """See `LLMPolicy.active`; afterwards the selection is as before."""
        return self._shared_engine.lora.active(self.key)

    @contextmanager
    def base(self) -> Iterator[Any]:
        """Yields the base in evaluation mode, all adapters off; afterwards all is as before."""
        with self._shared_engine.lora.active(None) as model, evaluating(model):
            yield model

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """See `LLMPolicy.act`."""
        return self._shared_engine.act_batched([(self, request) for request in requests])

    def refresh(self) -> None:
        """See `LLMPolicy.refresh`."""
        self.version += 1
        self._shared_engine.refresh()

    def freeze(self, device: torch.device | None = None) -> FrozenCopy:  # noqa: ARG002 - it is where its base is
        """See `LLMPolicy.freeze`: one more adapter, which nothing trains, saves or generates with."""
        lora = self._shared_engine.lora
        return FrozenAdapter(lora, lora.copy(self.key, trained=False), self.key)

    def stored(self, folder: str) -> FrozenCopy:
        """As `freeze`, with the weights of a stored adapter for the same base.

        `take` is for one of equal shape.

        Raises:
            PolicyError: it cannot be read, is for another base, or does not fit it.
        """
        return FrozenAdapter(self._shared_engine.lora, self._shared_engine.load(folder, trained=False), self.key)

    def critic_trunk(self, name: str, device: torch.device) -> Trunk:  # noqa: ARG002 - its key and base are enough
        """See `LLMPolicy.critic_trunk`: one more adapter, trained and kept by the caller."""
        lora = self._shared_engine.lora
        return AdapterTrunk(lora, lora.copy(self.key, trained=True))

    def save(self, folder: Path | str) -> None:
        """Write the adapter in peft's format.

        `LLMPolicy.load` and `peft.PeftModel.from_pretrained` read it.
        """
        lora = self._shared_engine.lora
        write(folder, lora.config(self.key), lora.exported(self.key))
        with quiet():
            self.tokenizer.save_pretrained(folder)

    def restore(self, folder: str) -> None:
        """See `LLMPolicy.restore`."""
        self._shared_engine.take_over(self.key, read_weights(folder), folder)
        self._shared_engine.refresh()

    def _generator(self) -> Generator:
        return self._shared_engine.generator


def adapted(
    source: str,
    names: Sequence[str],
    options: ModelOptions = DEFAULT_OPTIONS,
    lora: LoraOptions = DEFAULT_LORA,
    *,
    seed: object = 0,
) -> dict[str, AdapterPolicy]:
    """One base and a new adapter for each name.

    Args:
        source: a folder or hub name of a model; or a folder with an adapter, as which all of them then start.
        names: of the policies.
        options: how the base is loaded and run.
        lora: the shape of the adapters.
        seed: of the adapters' first weights, each drawn by its name.

    Raises:
        PolicyError: the base cannot be loaded, or the shape does not fit it.
    """
    if is_adapter(source):
        adapter_config = read_config(source)
        if (adapter_config.r, adapter_config.lora_alpha) != (lora.rank, lora.alpha):
            raise PolicyError(
                f"the adapter in {source!r} has rank {adapter_config.r} and alpha {adapter_config.lora_alpha}: ask for "
                f"these, or start from its base {adapter_config.base_model_name_or_path!r}"
            )
        return load_adapters(dict.fromkeys(names, source), options)
    engine = _load_engine(source, options)
    config = new_config(engine.model, lora, engine.source)
    for name in names:
        engine.lora.served.append(engine.lora.add(config, trained=True, seed=f"{seed} {name}"))
    return {name: AdapterPolicy(engine, index, name) for index, name in enumerate(names)}


def load_adapters(folders: Mapping[str, str], options: ModelOptions = DEFAULT_OPTIONS) -> dict[str, AdapterPolicy]:
    """Stored adapters as policies, by name; those for one base share it.

    Raises:
        PolicyError: an adapter or its base cannot be loaded.
    """
    engines: dict[str, SharedEngine] = {}
    served: dict[str, tuple[SharedEngine, int]] = {}
    for name, folder in folders.items():
        base = _canonical_source(read_config(folder).base_model_name_or_path)
        if base not in engines:
            try:
                engines[base] = _load_engine(base, options)
            except PolicyError as error:
                raise PolicyError(f"the adapter in {folder!r} needs its base: {error}") from error
        lora = engines[base].lora
        served[name] = engines[base], len(lora.served)
        lora.served.append(engines[base].load(folder, trained=True))
    return {name: AdapterPolicy(engine, index, name) for name, (engine, index) in served.items()}


def _load_engine(source: str, options: ModelOptions) -> SharedEngine:
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    model, tokenizer = load_pretrained(source, pick_device(options.device), dtype)
    return SharedEngine(model, tokenizer, options, _canonical_source(source))


def _canonical_source(source: str) -> str:
    """A folder by its absolute path, a hub name as it is."""
    folder = Path(os.path.expanduser(source))
    return os.path.abspath(folder) if folder.is_dir() else source
