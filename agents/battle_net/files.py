"""A battle net as a folder.

`net.safetensors` holds the weights, `net.json` all else.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from palaver.agents.battle_net.net import BattleNet
from palaver.agents.battle_net.shape import REPLIES, Layout, NetSize, Vocabulary
from palaver.core import CheckpointError
from palaver.text import one_line

ABOUT, WEIGHTS = "net.json", "net.safetensors"
VERSION = 1  # of the architecture; weights of another one mean something else


@dataclass(frozen=True)
class NetConfig:
    """Configuration of a net: all but its weights.

    Attributes:
        format: of the battles that it learnt from.
        size: of it.
        layout: of its numbers.
        vocabulary: of its words.
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
        """The net with weights drawn from torch's global generator."""
        return BattleNet(self.size, self.layout, len(self.vocabulary), self.bins)


def save(folder: Path, plan: NetConfig, net: BattleNet) -> None:
    """Write both files into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}
    save_file(weights, folder / WEIGHTS)
    (folder / ABOUT).write_text(json.dumps({"version": VERSION, **asdict(plan)}) + "\n", encoding="utf-8")


def locate(folder: Path | str) -> Path:
    """The folder of a net: itself, or the `net` in the folder of a run that made one.

    Raises:
        CheckpointError: neither holds a net.
    """
    given = Path(os.path.expanduser(folder))
    for candidate in (given, given / "net"):
        if (candidate / ABOUT).is_file():
            return candidate
    raise CheckpointError(f"there is no battle net in {str(folder)!r}; train one: palaver clone --help")


def load(folder: Path | str) -> tuple[NetConfig, BattleNet]:
    """A net in evaluation mode, and its plan.

    Raises:
        CheckpointError: no net, one of another version, or a damaged one.
    """
    net_folder = locate(folder)
    plan = _read(net_folder)
    net = plan.build()
    try:
        net.load_state_dict(load_file(net_folder / WEIGHTS))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(f"the weights in {str(net_folder)!r} cannot be read: {one_line(error, 200)}") from error
    return plan, net.eval()


def identity(folder: Path | str) -> str:
    """Eight hexadecimal digits that change with the weights.

    Raises:
        CheckpointError: there is no net.
    """
    net_folder = locate(folder)
    try:
        with (net_folder / WEIGHTS).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:8]
    except OSError as error:
        raise CheckpointError(f"the weights in {str(net_folder)!r} cannot be read: {error.strerror}") from error


def _read(folder: Path) -> NetConfig:
    try:
        data: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if (version := data.pop("version")) != VERSION:
            raise CheckpointError(
                f"the net in {str(folder)!r} is of version {version!r:.20}, this program's is {VERSION}"
            )
        layout = data.pop("layout")
        rows = {key: tuple(map(tuple, layout[key])) for key in ("mons", "left", "attacks")}
        plan = NetConfig(
            size=NetSize(**data.pop("size")),
            layout=Layout(layout["count"], tuple(layout["shared"]), **rows),
            vocabulary=Vocabulary(tuple(data.pop("vocabulary")["words"])),
            **data,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{str(folder / ABOUT)!r} is not the description of a net: {one_line(error)}") from error
    if plan.reply not in REPLIES or plan.bins < 1:
        raise CheckpointError(f"{str(folder / ABOUT)!r} has no value this program knows: {plan.reply!r:.20}")
    return plan


def fresh(plan: NetConfig, seed: int) -> BattleNet:
    """The net with weights that the seed decides; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return plan.build()
