"""Students of behaviour cloning: a battle net here, a causal LM in `text_student.py`.

A student makes batches of a mixture and scores the legal actions of each decision. Loop and losses are shared. Its
attribute `version` counts updates, and `span` is as in `palaver.agents.battle_net.files.NetConfig`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from palaver.agents.battle_net import files
from palaver.agents.battle_net.net import BattleNet, order
from palaver.agents.battle_net.shape import WORDS, Layout, Vocabulary, size
from palaver.core import ConfigError, stable_seed
from palaver.envs.pokemon import vector
from palaver.envs.pokemon.showdown import dex
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.behaviour_cloning.mixture import Mixture
from palaver.trainers.trajectories.loader import TrajectoryBatch, batches


@dataclass(frozen=True)
class StudentOutputs:
    """A student's outputs for B battles of S decisions with A slots, and their labels.

    Attributes:
        scores: (B, S, A), with gradients.
        values: (B, S, Q), with gradients; None of a student without a value head.
        mask, slot, reward, result, real, advice: as of `palaver.trainers.trajectories.loader.TrajectoryBatch`.
    """

    scores: Tensor
    values: Tensor | None
    mask: Tensor
    slot: Tensor
    reward: Tensor
    result: Tensor
    real: Tensor
    advice: Tensor


class NetStudent:
    """A battle net.

    Args:
        plan: of it.
        net: on its device.
    """

    def __init__(self, plan: files.NetConfig, net: BattleNet) -> None:
        self.plan, self.module, self.span, self.version = plan, net, plan.span, 0

    @classmethod
    def make(cls, config: BCConfig, format: str, start: Path | None, device: torch.device) -> NetStudent:
        """From a folder, or new with weights that the seed decides.

        Raises:
            CheckpointError: no sound net in the folder.
            ConfigError: it is of another size or its value means something else.
        """
        bins = config.bins if config.value == "return" else 1
        if start is None:
            net_config = files.NetConfig(format, size(config.size), layout(), vocabulary(format), config.value, bins)
            return cls(net_config, files.untrained(net_config, stable_seed(config.seed, "battle net")).to(device))
        plan, net = files.load(start)
        if plan.size != size(config.size) or (plan.reply, plan.bins) != (config.value, bins):
            raise ConfigError(
                f"the net in {str(start)!r} is another one than size={config.size}, value={config.value}, bins={bins}; "
                "begin with one of these, or give its own settings"
            )
        return cls(plan, net.to(device))

    def batches(self, mixture: Mixture, config: BCConfig, epoch: int, skip: int = 0) -> Iterator[TrajectoryBatch]:
        """Padded trajectories of one epoch, the first `skip` batches left out."""
        ids, weights = self.plan.vocabulary.ids, mixture.weights
        return batches(mixture, ids, config.decisions, config.seed, epoch, weights, skip)

    def score(self, batch: TrajectoryBatch, config: BCConfig, step: int) -> StudentOutputs:
        """Score whole battles, each decision from all before it.

        Random draws depend on seed and step only; step 0 evaluates, and nothing is hidden.

        Raises:
            ConfigError: battles that were recorded with another observation than the net reads.
        """
        recorded, read = (batch.words.shape[-1], batch.numbers.shape[-1]), (WORDS, self.plan.layout.count)
        if recorded != read:
            raise ConfigError(
                f"the battles have {recorded[0]} words and {recorded[1]} numbers a decision, and the net reads "
                f"{read[0]} and {read[1]}; record them with this version of Palaver"
            )
        device = next(self.module.parameters()).device
        words, places = batch.words, None
        if config.hide and step:
            places = order(words).to(device)
            words = feature_dropout(words, config.hide, config.hide_most, stable_seed(config.seed, "hide", step))
        parts = {
            name: getattr(batch, name).to(device) for name in ("mask", "slot", "reward", "result", "real", "advice")
        }
        scores, values = self.module(words.to(device), batch.numbers.to(device), places)
        return StudentOutputs(scores, values, **parts)

    def save(self, folder: Path) -> None:
        """`net.json` and `net.safetensors`."""
        files.save(folder, self.plan, self.module)

    def load(self, folder: Path) -> None:
        """Take the weights of such a folder.

        Raises:
            CheckpointError: there is no sound net.
        """
        self.module.load_state_dict(files.load(folder)[1].state_dict())


def feature_dropout(words: Tensor, share: float, max_share: float, seed: int) -> Tensor:
    """Some words of some battles become `unknown` (id 0).

    As in Grigsby et al., Human-Level Competitive Pokémon via Scalable Offline RL with Transformers (2025): a battle is
    chosen with probability `share`, and each of its words hidden with one probability drawn from U(0, max_share).

    Args:
        words: (B, S, W) ids; stay as they are.
        share: of battles.
        max_share: of words.
        seed: decides all.

    Raises:
        ConfigError: a share outside 0 to 1.
    """
    if not 0 <= share <= 1 or not 0 <= max_share <= 1:
        raise ConfigError(f"shares of hidden words lie between 0 and 1, got {share} and {max_share}")
    draw = torch.Generator().manual_seed(seed)
    B = words.shape[0]
    chance = torch.rand(B, generator=draw) * max_share * (torch.rand(B, generator=draw) < share)
    hidden = torch.rand(words.shape, generator=draw) < chance[:, None, None]
    return words.masked_fill(hidden, 0)


STATUSES = ("par", "slp", "frz", "brn", "psn", "tox", "fainted")
REQUESTS = ("move", "switch", "revive", "team", "wait", "end")
WEATHERS = (
    "raindance",
    "sunnyday",
    "sandstorm",
    "hail",
    "snow",
    "snowscape",
    "desolateland",
    "primordialsea",
    "deltastream",
)


@functools.cache
def layout() -> Layout:
    """Of the numbers of `palaver.envs.pokemon.vector`, read from their names."""
    names = vector.names()
    places = ("active", *(f"bench {n}" for n in range(1, vector.TEAM)))
    owners = [f"{owner} {position}: " for owner in ("own", "their") for position in places]
    mons = [[n for n, name in enumerate(names) if name.startswith(owner)] for owner in owners]
    left = [[n for n in indices if re.search(r"move \d left$", names[n])] for indices in mons]
    about = [[n for n in indices if n not in moves_left] for indices, moves_left in zip(mons, left, strict=True)]
    attacks = [[n for n, name in enumerate(names) if name.startswith(f"move {k + 1}: ")] for k in range(vector.MOVES)]
    taken = {n for rows in (mons, attacks) for row in rows for n in row}
    shared = tuple(n for n in range(len(names)) if n not in taken)
    return Layout(len(names), shared, *(tuple(map(tuple, rows)) for rows in (about, left, attacks)))


@functools.cache
def vocabulary(format: str) -> Vocabulary:
    """All words of the format's generation.

    Raises:
        ConfigError: the format names no generation.
        ShowdownError: no Node.js, or no simulator.
    """
    match = re.match(r"gen(\d)", format)
    if not match:
        raise ConfigError(f"the format {format!r:.40} names no generation; it should begin with gen1 to gen9")
    facts = dex.load(int(match.group(1)))
    types = {entry for species in facts.species.values() for entry in species["types"]} | set(facts.chart)
    hidden = {f"hiddenpower{entry}{power}" for entry in types for power in ("", 60, 70)}
    tables = (facts.moves, facts.species, facts.items, facts.abilities)
    return Vocabulary.of(
        {
            format,
            "stellar",
            *STATUSES,
            *REQUESTS,
            *WEATHERS,
            *types,
            *hidden,
            *(word for entry in tables for word in entry),
        }
    )
