"""Make the tiny models that ship with Palaver.

    python -m palaver.benchmarks.experiments.warm_starts [GENERATOR ...]

Each is trained from scratch, tested, and written to `agents/tiny/shipped/NAME-KEY`, where it replaces the one of an
older key. Its `manifest.json` holds the hash of every file, one hash of all, the command and the commit.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

import palaver
from palaver.agents.tiny import cache
from palaver.agents.tiny.build import SHIPPED, ensure, folder_stem
from palaver.core import PolicyError
from palaver.trainers.config.loading import load
from palaver.utils.config import recipes
from palaver.utils.provenance import commit

COMMAND = "python -m palaver.benchmarks.experiments.warm_starts"


def generators() -> list[str]:
    """The `module:function` of all texts for the tiny model, of environments and recipes.

    Recipes that leave the shipped model aside (`policy.from_scratch`) have none.
    """
    of_environments = [palaver.spec(name).demonstrations for name in palaver.specs()]
    policies = [load(name).policy for name in recipes("run")]
    of_recipes = [policy.demonstrations for policy in policies if not policy.from_scratch]
    return sorted({*of_environments, *of_recipes} - {""})


def ship(demonstrations: str, made_at: str, target: Path = SHIPPED) -> Path:
    """Train one model and write it under `target`, in place of the one of an older key.

    Args:
        demonstrations: the generator as `module:function`.
        made_at: the commit, for the manifest.
        target: the folder of the models.

    Raises:
        PolicyError: no such generator, or the model did not pass its test.
    """
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = ensure(demonstrations, cache=Path(scratch), from_scratch=True)
        for old in target.glob(f"{folder_stem(demonstrations)}-{'[0-9a-f]' * 12}"):
            shutil.rmtree(old)
        folder = target / checkpoint.name
        shutil.copytree(checkpoint, folder)
    cache.write_manifest(folder, hash=cache.fingerprint(folder), command=f"{COMMAND} {demonstrations}", commit=made_at)
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 2 if a model was refused."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("generators", nargs="*", metavar="GENERATOR", help="module:function; none: all that ship")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="the folder of the models")
    given = parser.parse_args(arguments)
    made_at = commit()  # once: writing the first model changes the checkout
    try:
        for name in given.generators or generators():
            Console().print(str(ship(name, made_at, given.out)), soft_wrap=True, highlight=False, markup=False)
    except PolicyError as error:
        Console(stderr=True).print(str(error), style="red", highlight=False, markup=False)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
