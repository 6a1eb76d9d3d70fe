"""Extensions: names that installed packages add, and names of the form `module:attribute`.

An installed package adds names by entry points, in a group for each of `GROUPS` with `palaver.` in front. Where such a
name is accepted, `module:attribute` is too.

Recipes, run folders and result rows may come from strangers. A command therefore loads `module:attribute` only where it
stands on its command line, belongs to a registered environment, or the user trusts all files with `--trust`. Python
programs may load any name; they can restrict themselves with `restricted`.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, get_args
from warnings import warn

from palaver.core import ConfigError, PalaverError, PalaverWarning, load_attribute

Group = Literal["envs", "algorithms", "rewards", "policies", "players", "recipes"]
GROUPS: Final[tuple[Group, ...]] = get_args(Group)
TRUST: Final = "--trust"
ALLOWED: Final = "PALAVER_CODE"  # names that may be loaded, read by child processes too; `*` is every name
OWN: Final = ("palaver.envs.", "palaver.benchmarks.scenarios.partners:")  # what a recipe or a scenario may name
KINDS: Final = frozenset({"run", "recipe", "net", "text", "scripted", "openai", "hf", "judge", "rm", "rg"})
_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_CODE = re.compile(rf"({_NAME}):{_NAME}")
_WITHIN = re.compile(rf"(?<![\w.])(?=({_NAME}:{_NAME}))")  # overlapping, as in `scripted:module:function`
_declared: set[str] = set()
_provided: dict[tuple[Group, str], Any] = {}


def is_code(name: str) -> bool:
    """Return whether a name has the form `module:attribute`.

    A kind of policy, as `hf:`, is no module.

    >>> is_code("animals.env:Animals"), is_code("hf:gpt2"), is_code("arxiv-v0")
    (True, False, False)
    """
    match = _CODE.fullmatch(name)
    return match is not None and match[1] not in KINDS


@functools.cache
def installed(group: Group) -> Mapping[str, EntryPoint]:
    """Name -> entry point of the installed packages; of two with one name, the first package's."""
    found = sorted(entry_points(group=f"palaver.{group}"), key=lambda entry: entry.dist.name if entry.dist else "")
    return {entry.name: entry for entry in reversed(found)}


def packages() -> dict[str, str]:
    """Name -> version of every installed package that adds names."""
    found = [entry.dist for group in GROUPS for entry in installed(group).values() if entry.dist]
    return {package.name: package.version for package in sorted(found, key=lambda package: package.name)}


def find(group: Group, name: str, error: type[PalaverError] = ConfigError) -> Any:
    """Load what this process, a package or `module:attribute` provides under a name, or None.

    Raises:
        ConfigError: (or `error`) it cannot be imported, or only a file names it.
    """
    if (group, name) in _provided:
        return _provided[group, name]
    entry = installed(group).get(name)
    if entry is not None:
        package = f" of the package {entry.dist.name}" if entry.dist else ""
        return load_attribute(entry.value, f"{name!r}{package}, ", error)
    return load_code(name, error=error) if is_code(name) else None


def load_all(group: Group) -> dict[str, Any]:
    """Name -> object of every entry point of a group; broken ones are left out with a warning."""
    loaded = {}
    for name in installed(group):
        try:
            loaded[name] = find(group, name)
        except ConfigError as error:
            warn(f"{error}; the plug-in is left out", PalaverWarning, stacklevel=2)
    return loaded


def load_code(path: str, what: str = "", error: type[PalaverError] = ConfigError) -> Any:
    """Load `module:attribute` that a user may have named; `what` precedes it in messages.

    Raises:
        ConfigError: (or `error`) it cannot be imported, or only a file names it.
    """
    allowed = os.environ.get(ALLOWED, "*").split()
    if "*" not in allowed and path not in {*allowed, *_declared} and not path.startswith(OWN):
        raise error(
            f"{what}{path!r} is code that a file names, so it was not loaded; where you trust the file, "
            f"add {TRUST}, or name the code on the command line"
        )
    return load_attribute(path, what, error)


def declare(paths: Iterable[str]) -> None:
    """Allow files to name these paths, which a registered environment provides."""
    _declared.update(path for path in paths if path)


def provide(group: Group, name: str, provided: object) -> None:
    """Let this process find an object under a name; a later object replaces it."""
    _provided[group, name] = provided


@contextmanager
def restricted(arguments: Iterable[str]) -> Iterator[None]:
    """Load only `module:attribute` that one of the arguments contains; with `--trust` any.

    Inside, modules of the working folder can be imported, after all installed ones. Child processes inherit both.
    """
    arguments = list(arguments)
    names = ["*"] if TRUST in arguments else sorted({name for text in arguments for name in _WITHIN.findall(text)})
    before, folder = os.environ.get(ALLOWED), os.getcwd()
    os.environ[ALLOWED] = " ".join(names)
    added = folder not in sys.path
    if added:
        sys.path.append(folder)
    try:
        yield
    finally:
        if added and folder in sys.path:
            sys.path.remove(folder)
        os.environ.pop(ALLOWED)
        if before is not None:
            os.environ[ALLOWED] = before
