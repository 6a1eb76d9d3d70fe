"""Calls of `palaver` in a process that cannot import certain packages.

`python -P tests/hidden.py` reads `{"hidden": [package, ...], "calls": [[argument, ...], ...]}` from stdin and writes a
list of `[exit code, text on stderr]` to stdout.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def hide(packages: frozenset[str]) -> None:
    """Let no import find these packages, as if they were not installed."""

    class Finder(PathFinder):
        @classmethod
        def find_spec(
            cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
        ) -> ModuleSpec | None:
            return None if fullname.partition(".")[0] in packages else super().find_spec(fullname, path, target)

    finders: list[Any] = sys.meta_path
    finders[:] = [Finder if finder is PathFinder else finder for finder in finders]


def call(arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code and stderr of one call; a traceback has the code 1."""
    from palaver.cli import main

    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(arguments)
        except SystemExit as end:
            return int(end.code or 0), err.getvalue()
        except BaseException:  # noqa: BLE001 - as a process of its own would end
            traceback.print_exc()
    return 1, err.getvalue()


if __name__ == "__main__":
    order = json.load(sys.stdin)
    hide(frozenset(order["hidden"]))
    json.dump([call(arguments) for arguments in order["calls"]], sys.stdout)
