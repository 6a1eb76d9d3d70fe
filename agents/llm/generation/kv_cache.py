"""Keys and values of a batch, allocated once.

All prompts end at the same column, so one column is written a step.

row 0:  . . p p p | a a a _ _        p prompt, a answer so far, . left padding (masked), _ not yet used
row 1:  p p p p p | a a a _ _
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

LayerStates = Sequence[tuple[Tensor, Tensor]]


class KeyValues:
    """Keys and values of each layer (R, heads, columns, dim), and the left padding.

    The column to be written next is held too.

    Attributes:
        keys, values: one tensor per layer.
        column: how many columns are filled; the next token's keys go there.
        padding: (R,) left padding per row.
        mask: (R, 1, 1, columns), 0 where a row may look and -inf on its padding; None if no row has any.
        adapters: (R,) which adapter computes a row, -1 for none.
    """

    def __init__(
        self,
        prompt_lengths: Sequence[int],
        columns: int,
        device: torch.device,
        dtype: torch.dtype,
        adapters: Sequence[int] = (),
    ) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.columns = columns
        self.column = max(prompt_lengths)
        self.padding = torch.tensor([self.column - n for n in prompt_lengths], device=device)
        self.adapters = torch.tensor(adapters or [-1] * len(prompt_lengths), device=device)
        self.mask: Tensor | None = None
        if min(prompt_lengths) != self.column:
            hidden = torch.arange(columns, device=device) < self.padding[:, None]
            self.mask = torch.zeros(hidden.shape, device=device, dtype=dtype).masked_fill_(hidden, float("-inf"))
            self.mask = self.mask[:, None, None]

    def insert(self, layers: LayerStates, rows: Tensor, sources: Tensor) -> None:
        """Copy prompts into rows, moved to the right so that each ends at the common column.

        Args:
            layers: per layer keys and values (U, heads, P, dim) of right-padded prompts.
            rows: (r,) rows to fill.
            sources: (r,) which of the U prompts each row gets.
        """
        for layer, (keys, values) in enumerate(layers):
            if layer == len(self.keys):
                shape = (len(self.padding), keys.shape[1], self.columns, keys.shape[3])
                self.keys.append(keys.new_zeros(shape))
                self.values.append(values.new_zeros((*shape[:3], values.shape[3])))
            self._write(self.keys[layer], keys, rows, sources)
            self._write(self.values[layer], values, rows, sources)

    def _write(self, target: Tensor, states: Tensor, rows: Tensor, sources: Tensor) -> None:
        width = min(states.shape[2], self.column)
        padding = self.padding[rows] - (self.column - width)  # (r,) within the last `width` columns
        columns = torch.arange(width, device=target.device) - padding[:, None]  # (r, width) column in the prompt
        # padding columns repeat the first one: they are masked, and must only be finite
        moved = states.transpose(1, 2)[sources[:, None], columns.clamp_min_(0)]  # (r, width, heads, dim)
        target[rows, :, self.column - width : self.column] = moved.transpose(1, 2)

    def positions(self) -> Tensor:
        """(R,) position of the next token in each row's own sequence."""
        return self.column - self.padding

    def current_mask(self) -> Tensor | None:
        """Mask (R, 1, 1, column + 1) of the token that is being added; None if nothing is hidden."""
        return None if self.mask is None else self.mask[..., : self.column + 1]

    @property
    def reach(self) -> int:
        """Columns that the next token sees, its own included."""
        return self.column + 1

    def put(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the current column (R, heads, dim) of a layer.

        Return its keys and values (R, heads, reach, dim).
        """
        stored_keys, stored_values, column = self.keys[layer], self.values[layer], self.column
        stored_keys.select(2, column).copy_(keys)
        stored_values.select(2, column).copy_(values)
        return stored_keys.narrow(2, 0, column + 1), stored_values.narrow(2, 0, column + 1)

    def advance(self) -> None:
        """Go on to the next column."""
        self.column += 1

    def select(self, rows: Tensor) -> None:
        """Drop every other row, and the columns that only padded the rows that left."""
        self.padding, self.adapters = self.padding[rows], self.adapters[rows]
        start = int(self.padding.min())
        for tensors in (self.keys, self.values):
            for layer, old in enumerate(tensors):
                new = old.new_empty((len(rows), old.shape[1], self.columns - start, old.shape[3]))
                new[:, :, : self.column - start] = old[:, :, start : self.column].index_select(0, rows)
                tensors[layer] = new
        self.padding = self.padding - start
        self.column -= start
        self.columns -= start
        if self.mask is not None:
            self.mask = self.mask[rows, ..., start:] if bool(self.padding.any()) else None


class StaticKeyValues:
    """The first columns of a store in a form that no step changes: equal shapes and addresses.

    Every step sees all columns, those to come masked; the current column is a tensor. It serves
    `DenseDecoder.step` as the store itself does, and writes into the store's memory.

    Args:
        store: not changed in rows or columns while this is used.
        columns: that a step sees; the store's current one is among them.
        dtype: of the mask.
    """

    def __init__(self, store: KeyValues, columns: int, dtype: torch.dtype) -> None:
        self.reach, self.adapters, self._padding = columns, store.adapters, store.padding
        self.keys = [keys.narrow(2, 0, columns) for keys in store.keys]
        self.values = [values.narrow(2, 0, columns) for values in store.values]
        for tensor in (*self.keys, *self.values):
            tensor[:, :, store.column :].zero_()  # masked, but 0 times what is not finite is not finite
        self._column = torch.tensor([store.column], device=store.padding.device)
        self._columns = torch.arange(columns, device=store.padding.device)
        hidden = self._columns < store.padding[:, None]
        self._mask = torch.zeros(hidden.shape, device=hidden.device, dtype=dtype).masked_fill_(hidden, float("-inf"))

    def positions(self) -> Tensor:
        """See `KeyValues.positions`."""
        return self._column - self._padding

    def current_mask(self) -> Tensor:
        """See `KeyValues.current_mask`; (R, 1, 1, reach)."""
        return self._mask.masked_fill(self._columns > self._column, float("-inf"))[:, None, None]

    def put(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """See `KeyValues.put`."""
        self.keys[layer].index_copy_(2, self._column, keys[:, :, None])
        self.values[layer].index_copy_(2, self._column, values[:, :, None])
        return self.keys[layer], self.values[layer]

    def advance(self) -> None:
        """See `KeyValues.advance`; the store's own column stays."""
        self._column += 1


class _Layer(CacheLayerMixin):  # type: ignore[misc]
    """One layer of `KeyValues` for transformers.

    An update writes the current column and returns the filled part.
    """

    is_sliding = False

    def __init__(self, store: KeyValues, index: int) -> None:
        super().__init__()
        self.store = store
        self.index = index
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the store is allocated."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write (R, heads, 1, dim) and return (R, heads, column + 1, dim)."""
        del args, kwargs
        return self.store.put(self.index, key_states[:, :, 0], value_states[:, :, 0])

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of what a query may see."""
        return self.store.column + query_length, 0

    def get_seq_length(self) -> int:
        """Columns filled."""
        return self.store.column

    def get_max_length(self) -> int:
        """Columns allocated."""
        return self.store.columns


def as_library_cache(store: KeyValues) -> Cache:
    """`KeyValues` behind the interface that the models of transformers write to."""
    return Cache(layers=[_Layer(store, index) for index in range(len(store.keys))])
