"""Pins of the oldest versions that `pyproject.toml` allows, as a pip constraints file on standard output.

`make test-oldest` installs with them. Tools of the tests themselves are left as they are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable

from packaging.requirements import Requirement

from tests.architecture.source import ROOT

EXTRAS = ("train", "judge", "serve", "rm", "wandb", "textarena")


def pins(requirements: Iterable[str]) -> list[str]:
    """`name==version` of each requirement with a lower bound.

    >>> pins(["numpy>=2.0", "palaver[train]", "rich>=13.9,<15"])
    ['numpy==2.0', 'rich==13.9']
    """
    read = map(Requirement, requirements)
    return [f"{each.name}=={bound.version}" for each in read for bound in each.specifier if bound.operator == ">="]


def main() -> None:
    """Print the pins of the dependencies and of the extras that `make test-oldest` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    print(*pins([*project["dependencies"], *(each for name in EXTRAS for each in extras[name])]), sep="\n")


if __name__ == "__main__":
    main()
