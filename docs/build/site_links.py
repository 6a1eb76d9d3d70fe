"""Hooks of mkdocs: source of the reference pages, and links to what is not on the site.

In a checkout, pages link source files and folders. The site has none of them, so such a link becomes its label, or,
where `PALAVER_URL` holds the address of the repository, an absolute link.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
SOURCE = DOCS.parent / "build" / "site-source"  # as in mkdocs.yml
WINGS = ("agents", "benchmarks", "envs", "trainers")
ELSEWHERE = {"../LEADERBOARD.md": "leaderboard/leaderboard.html"}  # the same table
_CODE_OR_LINK = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]*`(?!\]))|(?<!!)\[(?P<label>[^\]\[]*)\]\((?P<target>[^)\s]+)\)", re.M | re.S
)


def on_startup(**_: Any) -> None:
    """Copy the package for the reference pages: their reader does not follow links to folders."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyi", "__main__.py", "node_modules")
    shutil.copytree(DOCS.parent / "palaver", SOURCE / "palaver", ignore=ignored)
    for wing in WINGS:
        (SOURCE / "palaver" / wing / "__init__.py").touch()


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page with the links that the site can follow."""
    return outside_links(markdown, page.file.src_uri, os.environ.get("PALAVER_URL", "").rstrip("/"))


def outside_links(text: str, page: str, url: str = "") -> str:
    """Replace the links of a page to what is outside of the documentation, or is a folder.

    Args:
        text: of the page, in Markdown.
        page: its path in the documentation.
        url: address of the repository; empty if there is none.
    """

    def replaced(match: re.Match[str]) -> str:
        target = match["target"]
        if match["code"] or re.match(r"\w+:|#", target):
            return match.group()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target.partition("#")[0]))
        if path in ELSEWHERE:
            return f"[{match['label']}]({posixpath.relpath(ELSEWHERE[path], posixpath.dirname(page) or '.')})"
        if not path.startswith("../") and (DOCS / path).is_file():
            return match.group()
        address = f"{url}/blob/main/{posixpath.normpath(posixpath.join('docs', path))}"
        return f"[{match['label']}]({address})" if url else str(match["label"])

    return _CODE_OR_LINK.sub(replaced, text)
