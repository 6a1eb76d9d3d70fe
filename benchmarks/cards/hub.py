"""The Hugging Face hub: names of repositories, and upload of a folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError

from palaver.core import ConfigError, PalaverError
from palaver.text import one_line

Kind = Literal["model", "dataset"]
_REPOSITORY = re.compile(r"(?!.*(--|\.\.))[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
# of the library that sends requests, which differs between versions of huggingface_hub
_FAULTS: tuple[type[Exception], ...] = (ValueError, *HfHubHTTPError.__bases__)


class HubError(PalaverError):
    """The hub could not be reached, or refused a request."""


def is_repository(name: str) -> bool:
    """Return whether this names a hub repository, as `owner/name`, and no path of this machine.

    >>> is_repository("Qwen/Qwen3-0.6B"), is_repository("../model"), is_repository("tiny")
    (True, False, False)
    """
    return _REPOSITORY.fullmatch(name) is not None and not Path(name).exists()


def refuse_no_repository(name: str) -> None:
    """Raise unless a text has the form of a repository's name.

    Raises:
        ConfigError: it is none.
    """
    if not _REPOSITORY.fullmatch(name):
        raise ConfigError(f"--push takes OWNER/NAME of letters, digits and single . _ -; got {name!r}")


def push(folder: Path, repository: str, kind: Kind = "model") -> str:
    """Upload all files of a folder in one commit; returns the repository's address.

    A repository that does not exist is made, and is private. The token is the one that `hf auth login` has stored or
    that `HF_TOKEN` holds.

    Raises:
        HubError: the hub cannot be reached, or refuses; the folder is kept.
    """
    api = huggingface_hub.HfApi()
    try:
        address = api.create_repo(repository, repo_type=kind, private=True, exist_ok=True)
        api.upload_folder(
            repo_id=repository, folder_path=folder, repo_type=kind, commit_message="Upload by palaver results card"
        )
    except _FAULTS as error:
        option = " --repo-type dataset" if kind == "dataset" else ""
        raise HubError(
            f"the hub did not take {str(folder)!r} ({one_line(error)}); the folder is kept, and "
            f"`hf upload {repository} {folder}{option}` tries again after `hf auth login`"
        ) from error
    return str(address)
