"""The viewer's page: one static file with embedded data.

It loads nothing and runs only its own script.

The content policy names script and style by their hashes, so that nothing else can run even if escaping failed. The
data are a block of JSON in which `<`, `>` and `&` are escaped; the script inserts texts as text nodes only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palaver.benchmarks.reports.inline import bundle, inline_page
from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.benchmarks.viewer import extras
from palaver.benchmarks.viewer.album import Album
from palaver.benchmarks.viewer.messages import add_messages
from palaver.benchmarks.viewer.replays import add_replays
from palaver.benchmarks.viewer.sources import ViewerSource, find
from palaver.core import ConfigError
from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode
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
    "mon",
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
        episodes = album.read(listed)
        if known and episodes is not None and listed.step is not None and listed.path == known.evaluation(listed.step):
            known.keep(listed.step, episodes)  # the report needs them too
    notes = list(run.notes) if run else []
    if album.broken:
        notes.append(f"{album.broken:,} unreadable line{'s' * (album.broken > 1)} left out")
    if album.left_out:
        notes.append(
            f"{album.left_out:,} of {album.left_out + len(album.episodes):,} episodes do not fit and are left out"
        )
    if run is not None:
        add_messages(album, run.folder)
    stage = extras.stage(run)
    notes += _finish(album, stage, choices)
    if choices.tests:
        notes += extras.add_verdicts(album, stage)
    return _contents(album, run.name if run else path.resolve().name, path, notes)


def played(episode: Episode, env: TextEnv) -> dict[str, Any]:
    """Collect the page's contents for one episode that was just played.

    Args:
        episode: as it was recorded.
        env: of the episode; forked before use.
    """
    choices = Choices()
    album = Album(1, choices.characters)
    album.add(ViewerSource(Path()), 0, episode)
    notes = _finish(album, lambda _kind, _name: env, choices)
    return _contents(album, episode.env, episode.task, notes)


def _finish(album: Album, stage: extras.Stage, choices: Choices) -> list[str]:
    """Add pictures and replays to an album that is complete; return remarks."""
    album.finish()
    notes = extras.add_pictures(album, stage, choices.pictures) if choices.pictures > 0 else []
    notes += add_replays(album, stage)
    if album.replays_left_out:
        notes.append(f"{album.replays_left_out:,} replays do not fit and are left out")
    return notes


def _contents(album: Album, name: str, source: object, notes: list[str]) -> dict[str, Any]:
    return {
        "title": one_line(name, 80),
        "source": one_line(source, 300),
        "notes": [one_line(note, 400) for note in notes],
        "texts": album.texts,
        "episodes": album.episodes,
    }


def html(data: dict[str, Any]) -> str:
    """The page with these data."""
    style = (HERE / "viewer.css").read_text(encoding="utf-8")
    script = bundle(*(HERE / f"{name}.js" for name in SCRIPTS))
    return inline_page(f"{data['title']} · Palaver episodes", script, style, data).html


def _data_path(path: Path) -> Path:
    if path.is_dir():
        return path / PAGE
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return path.with_name(f"{stem}.html")
