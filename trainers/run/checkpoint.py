"""Checkpoints: folders that are complete or absent.

A checkpoint is written under a temporary name with a manifest of SHA-256 sums, synced, and renamed. A folder whose
manifest does not fit is corrupt: it is named, and the one before is used.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from palaver.core import CheckpointError
from palaver.utils.run_folder import files_in, publish_folder

MANIFEST = "manifest.json"
STUDY = "study.pt"
PREFIX = "step-"


def folder_of(run: Path, step: int) -> Path:
    """Where the checkpoint after `step` is."""
    return run / "checkpoints" / f"{PREFIX}{step:06d}"


def save(
    run: Path,
    step: int,
    policies: Mapping[str, Any],
    optimizers: Mapping[str, Any],
    study: Mapping[str, Any],
    keep: int,
    seats: Mapping[str, str],
) -> Path:
    """Write the checkpoint after `step`, and remove all but the newest `keep`.

    Args:
        run: the run's folder.
        step: updates done.
        policies: name -> anything with `save(folder)` and a `version`.
        optimizers: name -> optimiser.
        study: what else the next step depends on: tensors, numbers and texts in mappings and lists.
        keep: checkpoints that stay, at least 1.
        seats: seat -> where the policy that fills it began.
    """
    target = folder_of(run, step)

    def fill(folder: Path) -> None:
        (folder / "optimizers").mkdir()
        for name, policy in policies.items():
            policy.save(folder / "policies" / name)
            _save(optimizers[name].state_dict(), folder / "optimizers" / f"{name}.pt")
        _save(dict(study), folder / STUDY)
        files = {str(path.relative_to(folder)): _sum(path) for path in files_in(folder)}
        versions = {name: policy.version for name, policy in policies.items()}
        manifest = {"step": step, "files": files, "versions": versions, "seats": dict(seats)}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")

    publish_folder(target, fill)
    for old in sorted(target.parent.glob(f"{PREFIX}*"))[:-keep]:
        shutil.rmtree(old)
    return target


def newest(run: Path) -> tuple[Path, list[str]]:
    """The newest sound checkpoint, and a sentence for every corrupt one that was passed over.

    Raises:
        CheckpointError: there is no sound one.
    """
    complaints: list[str] = []
    for folder in sorted((run / "checkpoints").glob(f"{PREFIX}*"), reverse=True):
        fault = _fault(folder)
        if not fault:
            return folder, complaints
        complaints.append(f"the checkpoint {str(folder)!r} is corrupt ({fault}); using the one before")
    if complaints:
        raise CheckpointError(f"no sound checkpoint in {str(run)!r}: {complaints[0]}, but there is none")
    raise CheckpointError(f"there is no checkpoint in {str(run)!r}; start the run again without --resume")


def step_of(folder: Path) -> int:
    """Updates done when this checkpoint was written."""
    return int(folder.name.removeprefix(PREFIX))


def version_of(folder: Path, name: str) -> int:
    """How often the weights of this policy had been refreshed."""
    found: int = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["versions"][name]
    return found


def seats_of(folder: Path) -> dict[str, str]:
    """Seat -> where the policy that filled it began; empty in checkpoints written before policies could move."""
    found: dict[str, str] = json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("seats", {})
    return found


def load_optimizer(folder: Path, name: str, optimizer: torch.optim.Optimizer) -> None:
    """Restore an optimiser's state."""
    state = torch.load(folder / "optimizers" / f"{name}.pt", map_location="cpu", weights_only=True)
    optimizer.load_state_dict(state)


def load_study(folder: Path) -> dict[str, Any]:
    """What `save` was given as `study`."""
    found: dict[str, Any] = torch.load(folder / STUDY, map_location="cpu", weights_only=True)
    return found


def _save(values: Any, path: Path) -> None:
    with path.open("wb") as file:  # given a path, torch tells no reason where the disk is full
        torch.save(values, file)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fault(folder: Path) -> str:
    """What is wrong with a checkpoint, "" if nothing."""
    try:
        files = dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        files = {}
    if not files:
        return f"its {MANIFEST} is missing or unreadable"
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if _sum(path) != expected:
            return f"{name} is not what was written"
    return ""
