"""What a curriculum asks of the rest of Palaver: to play battles, and to learn from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from palaver.benchmarks.curriculum.battles import Order
from palaver.trainers.matches.results import Played


@dataclass(frozen=True)
class Source:
    """Recorded battles to learn from.

    Attributes:
        folder: that holds them.
        weight: share of the decisions that are taken from it.
        players: whose decisions the policy learns; None for everybody's. The value learns from all.
        winners: only of those who won.
    """

    folder: Path
    weight: float
    players: frozenset[str] | None = None
    winners: bool = False


@dataclass(frozen=True)
class Lesson:
    """One training.

    Attributes:
        sources: what is learnt from; their weights add up to 1.
        own: those of them that the stage has played, which say how many decisions an epoch takes.
        start: the network it starts from; None starts with a fresh one.
        size: of a fresh network.
        epochs: over as many decisions as `own` hold.
        loss: by name.
        options: further settings of the training.
        seed: of this training.
        device: that trains.
    """

    sources: tuple[Source, ...]
    own: tuple[Source, ...]
    start: Path | None
    size: str
    epochs: int
    loss: str
    seed: int
    device: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Learnt:
    """A network with the digest of its weights, and what it took: steps of the optimiser, decisions seen in all of
    them, seconds.
    """

    net: Path
    digest: str
    steps: int
    decisions: int
    seconds: float


Tick = Callable[[str, int], None]  # (what was done, how much there is in all)


class Shop(Protocol):
    """Plays and trains. Both calls go on where an earlier one with the same arguments was stopped at any moment, and
    both leave what they finished; called once more they do nothing again.
    """

    def play(self, order: Order, folder: Path, recorded: bool, tick: Tick) -> Sequence[Played]:
        """The battles of the order that count, some of which may have been played before; `games.jsonl` in the folder
        holds them, and if `recorded` the folder also holds what both sides decided. `tick` is told each as it ends,
        and at once those that had ended.
        """

    def learn(self, lesson: Lesson, folder: Path, tick: Tick) -> Learnt:
        """The network trained in this folder; the folder's `metrics.jsonl` has a line for every step that is told."""

    def player(self, net: Path) -> str:
        """The name under which the arena knows a network."""
