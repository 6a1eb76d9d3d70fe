"""Location and installation of the pokemon-showdown package.

It is pinned by `package-lock.json` next to this file and kept in the user's cache, in a folder named by the hash of
that lock: an upgrade of Palaver with another lock installs again, and never finds a half-written folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from palaver.core import cache_folder
from palaver.envs.pokemon.showdown import node
from palaver.envs.pokemon.showdown.errors import ShowdownError
from palaver.text import one_line

_HERE = Path(__file__).parent
_FILES = ("package.json", "package-lock.json")
# natively compiled packages are for the public server alone; scripts of packages are not run
_NPM = ("ci", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
SECONDS = 900


def version() -> str:
    """The pinned version of the simulator."""
    pinned: str = json.loads((_HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]["pokemon-showdown"]
    return pinned


def folder() -> Path:
    """Folder of this lock's packages."""
    lock = hashlib.sha256((_HERE / "package-lock.json").read_bytes()).hexdigest()
    return cache_folder() / "showdown" / f"{version()}-{lock[:12]}"


def _inside() -> Path:
    return folder() / "node_modules" / "pokemon-showdown"


def present() -> bool:
    """Return whether the package is installed."""
    return (_inside() / "dist" / "sim" / "index.js").is_file()


def package() -> Path:
    """The installed package.

    Raises:
        ShowdownError: it is not installed; the message gives the remedy.
    """
    if not present():
        raise ShowdownError(f"the Pokémon simulator is not installed in {folder()}; run: palaver pokemon install")
    return _inside()


def install() -> Path:
    """Install the package unless it is there; its folder.

    Raises:
        ShowdownError: no Node, no npm, npm fails, or the cache cannot be written.
    """
    if present():
        return package()
    target = folder()
    npm = node.find().npm
    if not npm:
        raise ShowdownError("Node.js was found without npm; install npm, or run: pip install 'palaver[node]'")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise ShowdownError(
            f"the cache {str(target.parent)!r} cannot be written ({error.strerror or error}); "
            f"set PALAVER_CACHE to a folder that can"
        ) from error
    try:
        _run(npm, building)
        if not present():  # another process may have been faster
            shutil.rmtree(target, ignore_errors=True)
            building.rename(target)
    except OSError as error:
        raise ShowdownError(f"the simulator could not be put into {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return package()


def _run(npm: tuple[str, ...], building: Path) -> None:
    for name in _FILES:
        shutil.copyfile(_HERE / name, building / name)
    search_path = os.pathsep.join([str(node.find().path.parent), os.environ.get("PATH", "")])
    try:
        done = subprocess.run(
            [*npm, *_NPM],
            cwd=building,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "PATH": search_path},
        )
    except subprocess.TimeoutExpired as error:
        raise ShowdownError(f"npm did not install the simulator within {SECONDS} seconds; try again") from error
    if done.returncode:
        output_lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()] or [
            "it printed nothing"
        ]
        raise ShowdownError(f"npm could not install the simulator: {one_line(' '.join(output_lines), 400)}")
