"""Shape of a battle net as plain data: its sizes, the layout of its inputs, its vocabulary.

Nothing here knows an environment. The caller that makes a net gives the layout of a Pokémon's numbers and the words;
both are saved with the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from palaver.core import ConfigError, did_you_mean

UNKNOWN, NONE = "unknown", "none"  # ids 0 and 1
HEADING = 3  # words before the Pokémon: format, request, weather
MONS, TEAM, MOVES = 12, 6, 4  # own active, five own others, their active, five others
ABOUT = 7  # words of a Pokémon before its moves
WORDS = HEADING + MONS * (ABOUT + MOVES)
SLOTS = 2 * MOVES + TEAM  # moves, moves with a gimmick, own team in alphabetical order
REPLIES = ("result", "return")


@dataclass(frozen=True)
class NetSize:
    """Widths and depths.

    Attributes:
        word: of a word's vector.
        mon: of a Pokémon's.
        width: of a turn's, E.
        layers: of the memory, L.
        heads: of its attention.
        window: turns that a layer looks back at, the present one included, W.
    """

    word: int
    mon: int
    width: int
    layers: int
    heads: int
    window: int = 64

    def __post_init__(self) -> None:
        if min(self.word, self.mon, self.width, self.layers, self.heads, self.window) < 1:
            raise ConfigError(f"all sizes of a battle net are 1 or more, got {self}")
        if self.width % (2 * self.heads):
            raise ConfigError(f"width {self.width} must be a multiple of twice {self.heads} heads")


SIZES: Mapping[str, NetSize] = MappingProxyType(
    {
        "nano": NetSize(word=32, mon=96, width=128, layers=3, heads=4),
        "small": NetSize(word=48, mon=160, width=256, layers=5, heads=8),
        "medium": NetSize(word=96, mon=320, width=640, layers=9, heads=10),
    }
)


def size(name: str) -> NetSize:
    """One of `SIZES`.

    Raises:
        ConfigError: no such size.
    """
    if name not in SIZES:
        raise ConfigError(f"there is no battle net of size {name!r:.40}.{did_you_mean(name[:40], SIZES)}")
    return SIZES[name]


@dataclass(frozen=True)
class Layout:
    """Indices of the K numbers of a turn.

    Attributes:
        count: K.
        shared: places of those that belong to no Pokémon and no move: field, sides, boosts.
        mons: for each of 12 Pokémon the places of its own.
        left: for each of 12 Pokémon the places of what is left of its four moves' PP.
        attacks: for each of the active Pokémon's four moves the places of its own.
    """

    count: int
    shared: tuple[int, ...]
    mons: tuple[tuple[int, ...], ...]
    left: tuple[tuple[int, ...], ...]
    attacks: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        rows = (self.shared, *self.mons, *self.left, *self.attacks)
        indices = sorted(index for row in rows for index in row)
        if indices != list(range(self.count)):
            raise ConfigError(f"a layout names each of its {self.count} numbers once")
        counts = (len(self.mons), len(self.left), len(self.attacks))
        if counts != (MONS, MONS, MOVES) or len({len(row) for row in self.mons}) > 1:
            raise ConfigError("a layout has 12 Pokémon of equally many numbers and 4 moves")


@dataclass(frozen=True)
class Vocabulary:
    """The words of a net; any other is `unknown`.

    Ids follow the alphabet, so that the order of ids is that of words (the net requires it).
    """

    words: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, words: Iterable[str]) -> Vocabulary:
        """With `unknown` and `none` in front."""
        return cls((UNKNOWN, NONE, *sorted(set(words) - {UNKNOWN, NONE})))

    def __post_init__(self) -> None:
        if self.words[:2] != (UNKNOWN, NONE) or any(
            a >= b for a, b in zip(self.words[2:], self.words[3:], strict=False)
        ):
            raise ConfigError("a vocabulary is unknown, none, and the other words in alphabetical order")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Word -> id."""
        return {word: index for index, word in enumerate(self.words)}

    def ids(self, words: Sequence[str]) -> list[int]:
        """An id for each word."""
        return [self.places.get(word, 0) for word in words]
