"""Checkpoints, written atomically: a folder is complete or absent.

A checkpoint is written under a temporary name with a manifest of SHA-256 hashes, synced, and renamed. A folder that
does not match its manifest is corrupt: it is reported, and the checkpoint before it is used.

    checkpoints/step-000010/manifest.json         format, step, hashes of the files, versions and agents of the policies
                            policies/NAME/        as `policy.save` writes it
                            optimizers/NAME.pt    state of the policy's optimiser
                            updater.pt            other state of the run
                            rollouts.pt           rollouts of later steps, if there are any
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from palaver.core import FORMAT, CheckpointError, refuse_format
from palaver.episodes import is_role
from palaver.trainers.config.team import SHARED, SHARED_INFERENCE
from palaver.utils.run_folder import files_in, publish_folder

MANIFEST = "manifest.json"
UPDATER = "updater.pt"
ROLLOUTS = "rollouts.pt"
PREFIX = "step-"


def folder_of(run: Path, step: int) -> Path:
    """Path of the checkpoint after `step`."""
    return run / "checkpoints" / f"{PREFIX}{step:06d}"


def save(
    run: Path,
    step: int,
    policies: Mapping[str, Any],
    optimizers: Mapping[str, Callable[[Path], None]],
    updater: Mapping[str, Any],
    keep: int,
    agents: Mapping[str, str],
    rollouts: Mapping[int, Any] | None = None,
) -> Path:
    """Write the checkpoint after `step`, and remove all but the newest `keep`.

    Args:
        run: the run's folder.
        step: updates done.
        policies: name -> anything with `save(folder)` and a `version`.
        optimizers: name of the policy -> function that writes the state of its optimiser.
        updater: other state of the run: tensors, numbers and texts in mappings and lists.
        keep: number of checkpoints to keep, at least 1.
        agents: agent -> the agent that its policy was first assigned to.
        rollouts: step -> rollout that waits for its update, as plain as `updater`.
    """
    checkpoint = folder_of(run, step)

    def write_files(folder: Path) -> None:
        (folder / "optimizers").mkdir()
        for name, policy in policies.items():
            policy.save(folder / "policies" / name)
            optimizers[name](folder / "optimizers" / f"{name}.pt")
        save_state(dict(updater), folder / UPDATER)
        if rollouts:
            save_state(dict(rollouts), folder / ROLLOUTS)
        files = {str(path.relative_to(folder)): _sha256(path) for path in files_in(folder)}
        versions = {name: policy.version for name, policy in policies.items()}
        manifest = {"format": FORMAT, "step": step, "files": files, "versions": versions, "agents": dict(agents)}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")

    publish_folder(checkpoint, write_files)
    for old in sorted(checkpoint.parent.glob(f"{PREFIX}*"))[:-keep]:
        shutil.rmtree(old)
    return checkpoint


def newest(run: Path) -> tuple[Path, list[str]]:
    """Return the newest valid checkpoint, and a message for every corrupt one that was skipped.

    Raises:
        CheckpointError: there is no valid checkpoint, or the newest valid one has another format.
    """
    messages: list[str] = []
    for folder in sorted((run / "checkpoints").glob(f"{PREFIX}*"), reverse=True):
        defect = _defect(folder)
        if not defect:
            refuse_format(_manifest(folder), f"the checkpoint {str(folder)!r}")
            return folder, messages
        messages.append(f"the checkpoint {str(folder)!r} is corrupt ({defect}); using the one before")
    if messages:
        raise CheckpointError(f"no valid checkpoint in {str(run)!r}: {messages[0]}, but there is none")
    raise CheckpointError(f"there is no checkpoint in {str(run)!r}; start the run again without --resume")


def oldest(run: Path) -> int:
    """Step of the oldest checkpoint that is kept."""
    return min(map(step_of, (run / "checkpoints").glob(f"{PREFIX}*")))


def step_of(folder: Path) -> int:
    """Number of updates done when this checkpoint was written."""
    return int(folder.name.removeprefix(PREFIX))


def version_of(folder: Path, name: str) -> int:
    """Version of the policy `name`, the number of updates of its weights."""
    return int(_manifest(folder)["versions"][name])


def agents_of(folder: Path) -> dict[str, str]:
    """Agent -> the agent that its policy was first assigned to."""
    return dict(_manifest(folder)["agents"])


def policy_folders(folder: Path) -> dict[str, Path]:
    """Agent -> folder of its policy; an agent that was not trained has none."""
    stored = {entry.name: entry for entry in (folder / "policies").glob("*")}
    names = {agent: stored_name(home, stored) for agent, home in agents_of(folder).items()}
    return {agent: stored[name] for agent, name in names.items() if name in stored}


def stored_name(home: str, stored: Collection[str]) -> str:
    """Name of the stored policy that began with this agent or role: its own, or one of several."""
    if home in stored:
        return home
    return SHARED_INFERENCE if is_role(home) and SHARED_INFERENCE in stored else SHARED


def load_optimizer(folder: Path, name: str, optimizer: torch.optim.Optimizer) -> None:
    """Load the state of the policy `name`'s optimiser into `optimizer`."""
    state = torch.load(folder / "optimizers" / f"{name}.pt", map_location="cpu", weights_only=True)
    optimizer.load_state_dict(state)


def load_updater(folder: Path) -> dict[str, Any]:
    """State that `save` was given as `updater`, on the CPU."""
    return dict(torch.load(folder / UPDATER, map_location="cpu", weights_only=True))


def load_rollouts(folder: Path) -> dict[int, Any]:
    """Rollouts that `save` was given, on the CPU; empty without one."""
    path = folder / ROLLOUTS
    return dict(torch.load(path, map_location="cpu", weights_only=True)) if path.is_file() else {}


def _manifest(folder: Path) -> Any:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))


def save_state(state: Any, path: Path) -> None:
    """Write tensors, numbers and texts in mappings and lists."""
    with path.open("wb") as file:  # given a path, torch raises an error without the reason if the disk is full
        torch.save(state, file)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _defect(folder: Path) -> str:
    """Return an error message for an invalid checkpoint, "" for a valid one."""
    try:
        expected_hashes = dict(_manifest(folder)["files"])
    except (OSError, ValueError, KeyError, TypeError):
        expected_hashes = {}
    if not expected_hashes:
        return f"its {MANIFEST} is missing or unreadable"
    for name, expected in expected_hashes.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if _sha256(path) != expected:
            return f"{name} is not what was written"
    return ""
