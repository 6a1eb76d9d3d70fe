"""Finished models on disk, written atomically; safe against crashes and concurrent builds."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock

from palaver.core import PolicyError

MANIFEST = "manifest.json"


def is_whole(folder: Path) -> bool:
    """Return whether every file that was written is there and unchanged."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return bool(files) and all(_hash((folder / name).read_bytes()) == digest for name, digest in files.items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def fingerprint(folder: Path) -> str:
    """Hash of a whole model.

    It covers names and hashes of all files, the tokenizer's and the examination's included.

    Raises:
        OSError, ValueError, KeyError: it has no sound manifest.
    """
    files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    return _hash(json.dumps(files, sort_keys=True).encode())


def publish(folder: Path, build: Callable[[Path], None]) -> None:
    """Let `build` fill a temporary folder and rename it to `folder`, replacing a broken one.

    Processes that want the same folder wait for each other; who comes second finds it made. If `build` raises, or the
    process is killed, `folder` is as before.

    Raises:
        PolicyError: the cache cannot be written.
    """
    prefix = f".{folder.name}-"
    with ExitStack() as held:
        with writing(folder.parent):
            folder.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(folder.parent / f"{prefix}lock"))
        if is_whole(folder):
            return
        for left in folder.parent.glob(f"{prefix}building-*"):  # of a process that was killed: we hold the lock
            shutil.rmtree(left, ignore_errors=True)
        with writing(folder.parent):
            temporary = Path(tempfile.mkdtemp(prefix=f"{prefix}building-", dir=folder.parent))
        held.callback(shutil.rmtree, temporary, ignore_errors=True)
        build(temporary)
        with writing(folder.parent):
            write_manifest(temporary)
            shutil.rmtree(folder, ignore_errors=True)
            temporary.rename(folder)


@contextmanager
def writing(cache: Path) -> Iterator[None]:
    """An `OSError` in here is the cache's.

    Raises:
        PolicyError: in its place.
    """
    try:
        yield
    except OSError as error:
        raise PolicyError(
            f"the cache {str(cache)!r} cannot be written ({error.strerror or error}); "
            f"set PALAVER_CACHE to a folder that can"
        ) from error


def write_manifest(folder: Path, **about: str) -> None:
    """List every file with its hash; `about` holds further fields of the model."""
    files = {path.name: _hash(path.read_bytes()) for path in sorted(folder.iterdir()) if path.name != MANIFEST}
    (folder / MANIFEST).write_text(json.dumps({**about, "files": files}, indent=1) + "\n", encoding="utf-8")


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
