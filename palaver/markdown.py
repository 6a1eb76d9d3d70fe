"""Markdown (CommonMark with GitHub's tables) from any text, with escaped special characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from palaver.text import clean, one_line

LIMIT = 1000
_ACTS = re.compile(r"[\\`*_<&~$]|\](?=[(\[:])")


def code(text: object, limit: int = LIMIT) -> str:
    """Code span of one line of text, cut at `limit`, with a fence longer than any inside.

    >>> code("a"), code("x`"), code("``y")
    ('`a`', '`` x` ``', '``` ``y ```')
    """
    line = one_line(text, limit)
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if not line or "`" in (line[0], line[-1]) else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def code_block(text: object, language: str = "") -> str:
    """Fenced block of code, with a fence longer than any inside."""
    block = clean(text)
    fence = "`" * max(3, _longest_run(block) + 1)
    return f"{fence}{language}\n{block}\n{fence}"


def prose(text: object, limit: int = LIMIT) -> str:
    """Escaped line of text, cut at `limit`, without emphasis, code, links, HTML or entities.

    >>> prose("<b> *a* [0, 1]"), prose("[x](javascript:y)")
    ('\\\\<b> \\\\*a\\\\* [0, 1]', '[x\\\\](javascript:y)')
    """
    return _ACTS.sub(lambda match: f"\\{match.group()}", one_line(text, limit))


def link(text: object, path: str) -> str:
    """Link with a label to a file next to the page."""
    label = re.sub(r"[][\\`*_<&~$]", r"\\\g<0>", one_line(text, LIMIT))
    return f"[{label}]({quote(path)})"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], rules: Sequence[str] = ()) -> str:
    """Table of Markdown cells, without a trailing newline.

    Args:
        head: one cell per column.
        rows: rows of as many cells.
        rules: `---` per column, or `---:` for numbers; empty for `---` in all.
    """
    lines = [head, rules or ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(markdown: str) -> str:
    """Escape the bars of a cell, for a table is split at bars first, even within code spans."""
    return markdown.replace("|", "\\|").replace("\n", " ")


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
