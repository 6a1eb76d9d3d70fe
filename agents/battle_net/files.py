"""Folder of a battle net: weights in `net.safetensors`, the configuration in `net.json`."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from palaver.agents.battle_net.net import BattleNet
from palaver.agents.battle_net.shape import REPLIES, Layout, NetSize, Vocabulary
from palaver.core import CheckpointError
from palaver.text import one_line

CONFIG_FILE, WEIGHTS_FILE = "net.json", "net.safetensors"
VERSION = 1  # of the architecture, which gives the weights their meaning


@dataclass(frozen=True)
class NetConfig:
    """Configuration of a battle net: all but its weights.

    Attributes:
        format: battle format of its training data.
        size: widths and depths of its layers.
        layout: layout of its numeric inputs.
        vocabulary: vocabulary of its word inputs.
        reply: meaning of its value: the probability of winning (`result`) or a discounted `return`.
        bins: outputs of the value head; 1 for a result.
        span: largest |symlog| of a return that the bins distinguish.
    """

    format: str
    size: NetSize
    layout: Layout
    vocabulary: Vocabulary
    reply: str = "result"
    bins: int = 1
    span: float = 6.0

    def build(self) -> BattleNet:
        """Build the net, with weights drawn from torch's global generator."""
        return BattleNet(self.size, self.layout, len(self.vocabulary), self.bins)


def save(folder: Path, config: NetConfig, net: BattleNet) -> None:
    """Write configuration and weights into `folder`, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}
    save_file(weights, folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(json.dumps({"version": VERSION, **asdict(config)}) + "\n", encoding="utf-8")


def locate(folder: Path | str) -> Path:
    """Folder of a net: `folder` itself, or `net` in the folder of a training run.

    Raises:
        CheckpointError: neither holds a net.
    """
    root = Path(os.path.expanduser(folder))
    for candidate in (root, root / "net"):
        if (candidate / CONFIG_FILE).is_file():
            return candidate
    raise CheckpointError(f"there is no battle net in {str(folder)!r}; train one: palaver pokemon clone --help")


def load(folder: Path | str) -> tuple[NetConfig, BattleNet]:
    """Load the configuration and the net, in evaluation mode.

    Raises:
        CheckpointError: there is no net, or it has another version or is damaged.
    """
    net_folder = locate(folder)
    config = _read(net_folder)
    net = config.build()
    try:
        net.load_state_dict(load_file(net_folder / WEIGHTS_FILE))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(f"the weights in {str(net_folder)!r} cannot be read: {one_line(error, 200)}") from error
    return config, net.eval()


def identity(folder: Path | str) -> str:
    """Hash of the weights: eight hexadecimal digits of their SHA-256.

    Raises:
        CheckpointError: there is no net.
    """
    net_folder = locate(folder)
    try:
        with (net_folder / WEIGHTS_FILE).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:8]
    except OSError as error:
        raise CheckpointError(f"the weights in {str(net_folder)!r} cannot be read: {error.strerror}") from error


def _read(folder: Path) -> NetConfig:
    try:
        data: dict[str, Any] = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        if (version := data.pop("version")) != VERSION:
            raise CheckpointError(
                f"the net in {str(folder)!r} is of version {version!r:.20}, this program's is {VERSION}"
            )
        config = TypeAdapter(NetConfig).validate_python(data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{str(folder / CONFIG_FILE)!r} is not the description of a net: {one_line(error)}"
        ) from error
    if config.reply not in REPLIES or config.bins < 1:
        raise CheckpointError(f"{str(folder / CONFIG_FILE)!r} has no value this program knows: {config.reply!r:.20}")
    return config


def untrained(config: NetConfig, seed: int) -> BattleNet:
    """Build an untrained net from a seed; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return config.build()
