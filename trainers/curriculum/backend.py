"""Interface of the curriculum's backend: play battles, and train on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from palaver.trainers.curriculum.battles import BattleOrder
from palaver.trainers.matches.results import GameResult


@dataclass(frozen=True)
class BattleData:
    """Recorded battles as training data.

    Attributes:
        folder: of the battles.
        weight: share of the decisions taken from it.
        players: whose decisions the policy imitates; None for all. The value is trained on all.
        winners: imitate winners only.
    """

    folder: Path
    weight: float
    players: frozenset[str] | None = None
    winners: bool = False


@dataclass(frozen=True)
class TrainingJob:
    """Settings of one training.

    Attributes:
        sources: training data; their weights add up to 1.
        stage_sources: those of them played in the stage, which set the number of decisions of an epoch.
        start: the initial network; None for a fresh one.
        size: of a fresh network.
        epochs: over as many decisions as `stage_sources` hold.
        loss: by name.
        options: further settings of the training.
        seed: of this training.
        device: that trains.
    """

    sources: tuple[BattleData, ...]
    stage_sources: tuple[BattleData, ...]
    start: Path | None
    size: str
    epochs: int
    loss: str
    seed: int
    device: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingResult:
    """A trained network with the digest of its weights.

    Its cost is given in optimiser steps, decisions seen in all of them, and seconds.
    """

    net: Path
    digest: str
    steps: int
    decisions: int
    seconds: float


Tick = Callable[[str, int], None]  # (what was done, total)


class Backend(Protocol):
    """Backend that plays and trains.

    A call resumes an earlier one with the same arguments, interrupted at any moment, and repeats no finished work.
    """

    def play(self, order: BattleOrder, folder: Path, recorded: bool, tick: Tick) -> Sequence[GameResult]:
        """Play the battles of the order that were not played before; returns all valid ones.

        `games.jsonl` in the folder holds them; if `recorded`, the folder also holds the decisions of both sides.
        `tick` is called as each ends, and at once for those that had ended.
        """

    def train(self, job: TrainingJob, folder: Path, tick: Tick) -> TrainingResult:
        """Train a network in this folder; its `metrics.jsonl` has a line for every logged step."""

    def player(self, net: Path) -> str:
        """Return the arena's player name of a network."""
