"""Writing of generated pages, and of the computed parts of a page between markers."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from palaver.core import ConfigError

_PART = re.compile(r"(<!-- computed: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return a page with its computed parts, from `<!-- computed: NAME -->` to `<!-- end -->`, updated.

    Raises:
        ConfigError: the page lacks a part, or has an unknown one.
    """
    names = {match["name"] for match in _PART.finditer(text)}
    if names != parts.keys():
        raise ConfigError(f"the page and what is computed differ in {', '.join(sorted(names ^ parts.keys()))}")
    return _PART.sub(lambda match: f"{match[1]}{parts[match['name']]}\n{match[3]}", text)


def listed(names: list[str]) -> str:
    """Names in a sentence, as code.

    >>> listed(["a", "b", "c"])
    '`a`, `b` and `c`'
    """
    marked = [f"`{name}`" for name in names]
    return " and ".join([", ".join(marked[:-1]), marked[-1]] if len(marked) > 1 else marked)


def renew(wanted: Mapping[Path, str], check: bool, command: str) -> int:
    """Write the pages that are out of date, or with `check` only name them and `command`; returns the exit code."""
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        print(f"out of date: {', '.join(path.name for path in stale)}; run {command}", file=sys.stderr)
        return 1
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    return 0
