"""Markdown (CommonMark with the tables of GitHub) from any text: what is filled in shows as it is, and does nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from palaver.text import clean, one_line

LIMIT = 1000
_ACTS = re.compile(r"[\\`*_<&~$]|\](?=[(\[:])")


def code(text: object, limit: int = LIMIT) -> str:
    """A code span of one line of text, cut at `limit`: its fence is longer than any run of backticks inside.

    >>> code("a"), code("x`"), code("``y")
    ('`a`', '`` x` ``', '``` ``y ```')
    """
    line = one_line(text, limit)
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if not line or "`" in (line[0], line[-1]) else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def code_block(text: object, language: str = "") -> str:
    """A fenced block of code, fenced as `code` is."""
    block = clean(text)
    fence = "`" * max(3, _longest_run(block) + 1)
    return f"{fence}{language}\n{block}\n{fence}"


def prose(text: object, limit: int = LIMIT) -> str:
    """One line of text, cut at `limit`, that is neither emphasis, code, link, HTML nor an entity.

    >>> prose("<b> *a* [0, 1]"), prose("[x](javascript:y)")
    ('\\\\<b> \\\\*a\\\\* [0, 1]', '[x\\\\](javascript:y)')
    """
    return _ACTS.sub(lambda found: f"\\{found.group()}", one_line(text, limit))


def link(text: object, path: str) -> str:
    """A link to a file beside the page, under a text."""
    label = re.sub(r"[][\\`*_<&~$]", r"\\\g<0>", one_line(text, LIMIT))
    return f"[{label}]({quote(path)})"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], rules: Sequence[str] = ()) -> str:
    """A table of cells that are Markdown, without a newline at its end.

    Args:
        head: a cell for each column.
        rows: as many cells in each.
        rules: for each column `---`, or `---:` for numbers; empty for `---` in all.
    """
    lines = [head, rules or ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(markdown: str) -> str:
    """A table is cut at its bars before anything else is read, in code spans too."""
    return markdown.replace("|", "\\|").replace("\n", " ")


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
