"""Several adapters in one batch.

This module has the interface for generation, and the fallback for models that cannot mix adapters.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from palaver.agents.llm.generation.requests import GenerationRequest, GenerationResult, Generator


class Adapters(Protocol):
    """Adapters of one model that answer requests.

    `GenerationRequest.adapter` is an index of `served`, or -1.
    """

    @property
    def served(self) -> Sequence[str]:
        """Their names in peft's layers."""
        ...

    def mixes(self) -> bool:
        """True if `mixed` works in this model."""
        ...

    def mixed(self, adapters: Sequence[int]) -> AbstractContextManager[None]:
        """Inside, row n of every batch of len(adapters) rows is computed with adapter `adapters[n]`."""
        ...

    def only(self, adapter: int) -> AbstractContextManager[Any]:
        """Inside, everything is computed with this one."""
        ...


class SequentialAdapters:
    """Generator for models whose layers cannot tell the rows of a batch apart.

    See `palaver.agents.llm.generation.requests.Generator`.
    """

    def __init__(self, generator: Generator, adapters: Adapters) -> None:
        self.generator, self.adapters = generator, adapters

    def generate(self, prompts: Sequence[Sequence[int]], rows: Sequence[GenerationRequest]) -> list[GenerationResult]:
        """See `Generator.generate`; a batch for each adapter."""
        by_adapter: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            by_adapter.setdefault(row.adapter, []).append(index)
        samples: dict[int, GenerationResult] = {}
        for adapter, indices in by_adapter.items():
            with self.adapters.only(adapter):
                samples |= zip(
                    indices, self.generator.generate(prompts, [rows[index] for index in indices]), strict=True
                )
        return [samples[index] for index in range(len(rows))]

    def refresh(self) -> None:
        """See `Generator.refresh`."""
        self.generator.refresh()
