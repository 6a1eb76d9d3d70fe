"""The commands that the documentation shows: all are understood, the quick ones of the commands' page and the arena's
also run.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer

from palaver.benchmarks.experiments.marlhf import recipe as marlhf
from palaver.benchmarks.experiments.matrix_games import plan
from palaver.benchmarks.leaderboard.board import read_board
from palaver.benchmarks.scenarios import spec as scenarios
from palaver.cli.app import app
from palaver.cli.commands.arena import ArenaSettings
from palaver.cli.folders import split_recipe
from palaver.cli.options import PlayerSettings, split
from palaver.plugins import TRUST
from palaver.registry import COMMON, spec
from palaver.trainers.config.loading import load
from tests.architecture.source import ROOT
from tests.docs.blocks import PAGES, fences


def shown(page: Path) -> list[list[str]]:
    """The arguments of every `palaver` command in the page's blocks."""
    blocks = [block.code for block in fences(page) if block.info in ("", "bash", "console")]
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [shlex.split(line.removesuffix("&"), comments=True)[1:] for line in lines if line.startswith("palaver ")]


COMMANDS = shown(ROOT / "docs" / "commands.md") + shown(ROOT / "docs" / "arena.md")
KEPT = ROOT / "docs" / "runs"  # commands of kept runs are those of the commit they were made at
EVERYWHERE = [  # those of own parts need the reader's files: tests/docs make them and run all
    (page.name, arguments)
    for page in PAGES
    if KEPT not in page.parents and not page.name.startswith("own-")
    for arguments in shown(page)
    if "kuhn.yaml" not in arguments
]
NEEDS_A_RUN = ("runs/longer", "--resume", "rows", "run:", "recipe:")
LONG = ("bench", "compare", "demo", "experiment", "leaderboard", "pokemon", "serve")


def quick(arguments: list[str]) -> bool:
    """Whether it needs neither training, a person, a benchmark that may not be there nor an extra of a door."""
    trains = arguments[0] == "train" and len(arguments) > 1 and not {"--explain", "--dry-run"} & set(arguments)
    needs_a_run = any(argument.startswith(NEEDS_A_RUN) for argument in arguments)
    long = arguments[0] in LONG or arguments[:2] in (["results", "sweep"], ["export", "inspect"])
    return not (trains or needs_a_run or long or any("human" in each for each in arguments))


def test_the_page_shows_commands():
    assert {arguments[0] for arguments in COMMANDS} == {
        *("demo", "envs", "play", "train", "evaluate", "arena", "report", "compare", "doctor", "leaderboard", "serve"),
        *("view", "bench", "experiment", "judge", "pokemon", "results", "export"),
    }
    assert sum(map(quick, COMMANDS)) >= 12
    assert {"README.md", "commands.md", "demo.md", "benchmarks.md", "magrpo.md"} <= {page for page, _ in EVERYWHERE}


@pytest.mark.parametrize("arguments", list(filter(quick, COMMANDS)), ids=" ".join)
def test_commands_run_as_written(palaver, arguments):
    ran = palaver(*arguments)
    assert ran.code == 0, ran.err
    assert ran.out


def understood(arguments: list[str]) -> None:
    """Raises where an option, a recipe, a key of it, an environment or a keyword of that does not exist."""
    command, rest = typer.main.get_command(app), [word for word in arguments if word not in ("--help", TRUST)]
    names = []
    while rest and hasattr(command, "commands"):  # `bench step` is a command of a command
        if names == ["leaderboard"] and rest[0] not in command.commands:
            rest.insert(0, "write")
        names.append(rest.pop(0))
        command = command.commands[names[-1]]
    found = command.make_context("palaver", rest).params if not hasattr(command, "commands") else {}
    if (recipe := found.get("recipe")) and names[0] == "experiment":
        if not recipe.startswith("runs/"):
            loader = plan.load if names[1] == "matrix-games" else marlhf.load
            loader(*split_recipe(recipe, found["items"], "lab"))
    elif recipe:
        if recipe.startswith("runs/"):
            recipe = "arxiv-magrpo"  # a run of the reader's
        env = load(recipe, found["items"] or []).env
        assert set(env.keywords()) <= COMMON | set(spec(env.id).keywords()), env
    if set(found.get("only") or ()) - {entry.what for entry in read_board()}:
        raise AssertionError(f"there is no such line on the board: {found['only']}")
    if name := found.get("env"):
        if scenarios.is_scenario(name):
            scenarios.load(name)
            return
        pairs = found.get("pairs") or found.get("changes")
        given = split(ArenaSettings if names == ["arena"] else PlayerSettings, pairs)[1]
        assert set(given) <= COMMON | set(spec(name).keywords()), arguments


@pytest.mark.parametrize(
    ("page", "arguments"), EVERYWHERE, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_every_command_that_is_shown_is_understood(page, arguments):
    understood(arguments)


@pytest.mark.parametrize(
    "wrong",
    [
        "train arxiv-magrqo",
        "train arxiv-magrpo trian.steps=3",
        "experiment marlhf reward-model fit.bach=3",
        "train arxiv-magrpo env.lenght=[1,2]",
        "train arxiv-magrpo --explian",
        "play arxive-v0",
        "play arxiv-v0 lenght=[1,2]",
        "evaluate echo-v0 --teem random",
        "evaluate arxiv-stranger-v2",
        "leaderboard --measure --only echo-v1",
        "bench stop",
    ],
)
def test_what_does_not_exist_would_be_noticed(wrong):
    with pytest.raises(Exception, match=r"(?i)no such|there is no|unknown|did you mean|lenght|stop"):
        understood(wrong.split())
