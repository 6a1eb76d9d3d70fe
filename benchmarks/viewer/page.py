"""The viewer's page: one static file with embedded data.

It loads nothing and runs only its own script.

The content policy names script and style by their hashes, so that nothing else can run even if escaping failed. The
data are a block of JSON in which `<`, `>` and `&` are escaped; the script inserts texts as text nodes only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from palaver.benchmarks.reports.html import content_hash, island
from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.benchmarks.viewer import extras
from palaver.benchmarks.viewer.album import Album
from palaver.benchmarks.viewer.replays import add_replays
from palaver.benchmarks.viewer.sources import find
from palaver.core import ConfigError
from palaver.text import one_line
from palaver.utils.run_folder import replace_text

HERE = Path(__file__).resolve().parent
PAGE = "episodes.html"
SCRIPTS = (
    "dom",
    "diff",
    "data",
    "filters",
    "list",
    "parts",
    "replay",
    "battle",
    "siblings",
    "episode",
    "compare",
    "main",
)
MOST, CHARACTERS, PICTURES = 2_000, 8_000, 48


@dataclass(frozen=True)
class Choices:
    """Limits of the page's contents.

    Attributes:
        max_episodes: episodes.
        characters: of one text.
        pictures: of turns, if the environment renders any.
        tests: run programs again and list their tests.
    """

    max_episodes: int = MOST
    characters: int = CHARACTERS
    pictures: int = PICTURES
    tests: bool = False


@dataclass(frozen=True)
class WrittenPage:
    """A page that was written.

    Attributes:
        path: where.
        episodes: how many it holds.
        notes: remarks for the reader.
        first: (step, task) -> id of the first evaluation episode; `#id` after the page's address opens it.
    """

    path: Path
    episodes: int
    notes: list[str] = field(default_factory=list)
    first: dict[tuple[int | None, str], str] = field(default_factory=dict)


def write(source: Path | RunFolder, out: Path | None = None, choices: Choices | None = None) -> WrittenPage:
    """Write the page of a run folder, a file of episodes or a folder of battles.

    Args:
        source: its path, or the run where it was read before.
        out: the page; if None `episodes.html` in the folder, or next to the file under its name.
        choices: limits of its contents.

    Raises:
        CheckpointError: there are no episodes to read.
        ConfigError: the page cannot be written.
    """
    data = collect(source, choices or Choices())
    target = out or _data_path(source.folder if isinstance(source, RunFolder) else source)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_text(target, html(data))
    except OSError as error:
        raise ConfigError(f"cannot write {str(target)!r}: {error.strerror}") from error
    evaluated = [episode for episode in data["episodes"] if episode["kind"] == "eval"]
    first = {(episode["step"], episode["task"]): episode["id"] for episode in reversed(evaluated)}
    return WrittenPage(target, len(data["episodes"]), data["notes"], first)


def collect(source: Path | RunFolder, choices: Choices) -> dict[str, Any]:
    """Collect the page's contents as plain data.

    Raises:
        CheckpointError: there are no episodes to read.
    """
    known, path = (source, source.folder) if isinstance(source, RunFolder) else (None, source)
    sources, run = find(path, known)
    album = Album(choices.max_episodes, choices.characters)
    for listed in sources:
        album.read(listed)
    album.finish()
    notes = list(run.notes) if run else []
    if album.broken:
        notes.append(f"{album.broken:,} unreadable line{'s' * (album.broken > 1)} left out")
    if album.left_out:
        notes.append(
            f"{album.left_out:,} of {album.left_out + len(album.episodes):,} episodes do not fit and are left out"
        )
    if choices.pictures > 0:
        notes += extras.add_pictures(album, extras.stage(run), choices.pictures)
    notes += add_replays(album, extras.stage(run))
    if album.replays_left_out:
        notes.append(f"{album.replays_left_out:,} replays do not fit and are left out")
    if choices.tests:
        notes += extras.add_verdicts(album, extras.stage(run))
    name = run.name if run else path.resolve().name
    return {
        "title": one_line(name, 80),
        "source": one_line(path, 300),
        "notes": [one_line(note, 400) for note in notes],
        "texts": album.texts,
        "episodes": album.episodes,
    }


def html(data: dict[str, Any]) -> str:
    """The page with these data."""
    script = "(() => {\n'use strict';\n" + "".join(_asset(f"{name}.js") for name in SCRIPTS) + "})();\n"
    style = _asset("viewer.css")
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("viewer.html.j2").render(
        title=data["title"],
        style=Markup(style),
        script=Markup(script),
        data=Markup(island(data)),
        style_hash=content_hash(style),
        script_hash=content_hash(script),
    )


def _asset(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _data_path(path: Path) -> Path:
    if path.is_dir():
        return path / PAGE
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return path.with_name(f"{stem}.html")
