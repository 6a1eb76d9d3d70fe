"""The Python blocks of the documentation, and the markers above them. docs/README.md describes both."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.source import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
NOT_RUN = ("network", "gpu", "key")
_FENCE = re.compile(
    r"(?P<marks>(?:^<!-- .*? -->\n+)*)"
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)\n(?P<code>.*?)^ *(?P=fence) *$",
    re.DOTALL | re.MULTILINE,
)
_MARK = re.compile(r"<!-- (needs|processes): (.+?) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: its file.
        info: what follows the fence, such as `python`.
        code: its text, without the fence's indentation.
        needs: what the markers above it name: one of `NOT_RUN`, `showdown`, or a file.
        processes: what the marker above it allows; None without one.
    """

    page: Path
    info: str
    code: str
    needs: tuple[str, ...]
    processes: int | None

    @property
    def runs(self) -> bool:
        """True where a test can run it."""
        return not set(self.needs) & set(NOT_RUN)


def fences(page: Path) -> Iterator[Block]:
    """All fenced blocks of a page."""
    for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
        marks = _MARK.findall(found["marks"])
        numbers = [int(value) for key, value in marks if key == "processes"]
        needs = tuple(name for key, value in marks if key == "needs" for name in value.split(", "))
        yield Block(page, found["info"].strip(), textwrap.dedent(found["code"]), needs, max(numbers, default=None))


def python(page: Path) -> list[Block]:
    """The Python blocks of a page, in order."""
    return [block for block in fences(page) if block.info == "python"]


def module(page: Path) -> str:
    """The text of the one module that the page's blocks make."""
    return "\n".join(block.code for block in python(page) if block.runs)
