"""One side's decisions as arrays, and those as bytes.

Row after row, deflated: rows resemble the one before, which is all that the compression needs. Measured on gen1ou and
gen9ou, transposing the columns or storing differences made them larger, and blocks of many battles saved 3 %.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from palaver.trainers.trajectories.record import Decision

LEVEL = 3  # of the compression; 6 takes three times as long for a fifth less


@dataclass(frozen=True, slots=True)
class Columns:
    """The decisions of one trajectory; words and labels as ids into the table of their file, whose first word is "".

    Attributes:
        turn: (S,) of the simulator.
        words: (S, W) ids.
        numbers: (S, K) float32.
        mask: (S, 14) bool.
        slot: (S,) `MISSING` where it is not known.
        executed: (S,) ids.
        legal: (S, L) ids, filled up with 0.
        reward: (S,) float64.
        requested: S texts.
        texts: S observations; empty where they were not kept.
        advice: (S, 14) float32, the coach's; rows of 0 where it was not asked, None where it never was.
    """

    turn: np.ndarray
    words: np.ndarray
    numbers: np.ndarray
    mask: np.ndarray
    slot: np.ndarray
    executed: np.ndarray
    legal: np.ndarray
    reward: np.ndarray
    requested: tuple[str, ...]
    texts: tuple[str, ...]
    advice: np.ndarray | None = None

    def decisions(self, table: Sequence[str]) -> tuple[Decision, ...]:
        """The record again."""
        advice = [None] * len(self.slot) if self.advice is None else [row if row.any() else None for row in self.advice]
        rows = zip(
            self.turn.tolist(),
            self.words.tolist(),
            self.numbers,
            self.mask,
            self.slot.tolist(),
            self.requested,
            self.executed.tolist(),
            self.legal.tolist(),
            self.reward.tolist(),
            self.texts,
            advice,
            strict=True,
        )
        return tuple(
            Decision(
                turn,
                tuple(table[id] for id in words),
                numbers,
                mask,
                slot,
                requested,
                table[executed],
                tuple(table[id] for id in legal if id),
                reward,
                text,
                advised,
            )
            for turn, words, numbers, mask, slot, requested, executed, legal, reward, text, advised in rows
        )


def pack(decisions: Sequence[Decision], ids: Callable[[list[str]], list[int]]) -> bytes:
    """Decisions as bytes.

    Args:
        decisions: one or more.
        ids: words -> their places in the table; "" has the first.
    """
    width = max(len(each.legal) for each in decisions)
    labels = [each.legal + ("",) * (width - len(each.legal)) for each in decisions]
    arrays = {
        "turn": _whole([each.turn for each in decisions]),
        "words": _table([each.words for each in decisions], ids),
        "numbers": np.stack([each.numbers for each in decisions]).astype("<f4", copy=False),
        "mask": np.stack([each.mask for each in decisions]).astype(np.bool_, copy=False),
        "slot": np.array([each.slot for each in decisions], np.int8),
        "executed": _whole(ids([each.executed for each in decisions])),
        "legal": _table(labels, ids),
        "reward": np.array([each.reward for each in decisions], "<f8"),
    }
    if any(each.advice is not None for each in decisions):
        none = np.zeros(len(decisions[0].mask), "<f4")
        arrays["advice"] = np.stack([none if each.advice is None else each.advice for each in decisions])
    told = {
        "arrays": [[name, each.dtype.str, each.shape] for name, each in arrays.items()],
        "requested": [None if each.requested == each.executed else each.requested for each in decisions],
        "texts": [each.text for each in decisions] if any(each.text for each in decisions) else None,
    }
    parts = [json.dumps(told, separators=(",", ":")).encode(), b"\n", *(each.tobytes() for each in arrays.values())]
    return zlib.compress(b"".join(parts), LEVEL)


def _table(rows: Sequence[Sequence[str]], ids: Callable[[list[str]], list[int]]) -> np.ndarray:
    """Ids of rows of equal length."""
    return _whole(ids(list(chain.from_iterable(rows)))).reshape(len(rows), -1)


def _whole(values: list[int]) -> np.ndarray:
    made = np.array(values, "<u4")
    return made.astype("<u2") if made.max(initial=0) < 2**16 else made


def unpack(block: bytes, table: Sequence[str]) -> Columns:
    """The inverse of `pack`.

    Raises:
        ValueError, KeyError, TypeError, IndexError, zlib.error: these are other bytes.
    """
    data = zlib.decompress(block)
    at = data.index(b"\n") + 1
    told = json.loads(data[: at - 1])
    found: dict[str, np.ndarray] = {}
    for name, dtype, shape in told["arrays"]:
        kind = np.dtype(dtype)
        count = int(np.prod(shape))
        found[name] = np.frombuffer(data, kind, count, at).reshape(shape)
        at += count * kind.itemsize
    executed = [table[id] for id in found["executed"].tolist()]
    requested = tuple(own if said is None else said for said, own in zip(told["requested"], executed, strict=True))
    texts = tuple(told["texts"] or [""] * len(executed))
    return Columns(
        found["turn"],
        found["words"],
        found["numbers"],
        found["mask"],
        found["slot"],
        found["executed"],
        found["legal"],
        found["reward"],
        requested,
        texts,
        found.get("advice"),
    )
