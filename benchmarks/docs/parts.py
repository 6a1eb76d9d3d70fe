"""The computed parts of a page, between markers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from palaver.core import ConfigError

_PART = re.compile(r"(<!-- computed: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return a page with its computed parts updated.

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
