"""What pyproject.toml cannot state: the README on a package index, and the links to the wings in an sdist.

`PALAVER_URL` is the address of the repository, for a release: links of the README become absolute, and the metadata
names it. Without it links become plain text, because a package index has none of the files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist

WINGS = ("agents", "benchmarks", "envs", "trainers")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def readme(text: str, url: str) -> str:
    """Return a README whose relative links and pictures are absolute, or are left out if `url` is empty."""

    def absolute(match: re.Match[str]) -> str:
        picture, label, path = match.groups()
        if re.match(r"\w+:|#", path):
            return match.group()
        if not url:
            return "" if picture else label
        return f"{picture}[{label}]({url}/{'raw' if picture else 'blob'}/main/{path})"

    return _LINK.sub(absolute, text)


class LinkedSdist(sdist):
    """Source distribution in which `palaver/envs` and the other wings are links, as in a checkout."""

    def make_release_tree(self, base_dir: str, files: Iterable[str]) -> None:
        """Copy the files, and make the links."""
        super().make_release_tree(base_dir, list(files))
        for wing in WINGS:
            (Path(base_dir) / "palaver" / wing).symlink_to(f"../{wing}")


if __name__ == "__main__":
    address = os.environ.get("PALAVER_URL", "").rstrip("/")
    urls = {"Repository": address, "Documentation": f"{address}/blob/main/docs/README.md"}
    urls |= {"Changelog": f"{address}/blob/main/CHANGELOG.md", "Issues": f"{address}/issues"}
    page = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    setup(
        cmdclass={"sdist": LinkedSdist},
        long_description=readme(page, address),
        long_description_content_type="text/markdown",
        project_urls=urls if address else {},
    )
