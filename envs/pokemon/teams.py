"""Team sets: their sources, validation, and the split into training and held-out teams.

| `teams` | content |
|---|---|
| `sample` | 16 teams for each of gen1ou to gen4ou and gen9ou, shipped with Palaver |
| `generated:K` | drawn now from K base teams; `generated:K:vN:sS` with step N of the ladder (2) and seed S (0) |
| a file or a folder | Showdown's export text: one team a file, or several with lines `=== [gen1ou] NAME ===` |
| `random` | the format draws its own: the random battles |

Each may end in `:train` or `:held-out`, and then in a slice `[a:b]`. A folder is read by format: files that end in
`.FORMAT_team`, else `FORMAT.txt`, else all `.txt`.

The ladder of variation, all drawn from the tier's species with the movesets of the package's roles:

| step | teams |
|---|---|
| v0 | one, the same for both sides |
| v1 | two |
| v2 | K base teams |
| v3 | 4K: the base teams with about half of the movesets drawn again in their roles, effort moved, another lead |
| v4 | 4K: as v3, and one or two Pokémon replaced |
| v5 | 4K, each drawn independently from OU |
| v6 | 4K, from OU and UU |
| v7 | 4K, of the random battles, any tier that the format allows |

Every team passes the format's own validator. A folder's teams that do not are left out with a warning; where nothing
is left, the reasons are the error.

The core of a team are two of its six species, chosen by a hash: teams with the same core, such as variations of one
team, are on the same side of the split. About a fifth of all cores are held out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from palaver.core import ConfigError, PalaverWarning, TaskError, did_you_mean, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.pokemon.showdown import BattlePool, dice, shared_pool
from palaver.text import one_line

SAMPLES = ("gen1ou", "gen2ou", "gen3ou", "gen4ou", "gen9ou")
SAMPLE_SIZE = 16
HELD_OUT = 5  # one core in so many
MOST = 1000

_HEADING = re.compile(r"^===\s*(?:\[(?P<format>[^\]]+)\])?\s*(?P<name>.*?)\s*===\s*$", re.MULTILINE)
_GENERATED = re.compile(r"generated:(?P<count>\d+)(?::v(?P<step>[0-7]))?(?::s(?P<seed>\d+))?")
_SLICE = re.compile(r"\[(-?\d*):(-?\d*)\]$")
_BATCH = 32
FOES = 16  # opponents of each team in a large set
DRAWN = 256  # tasks of a format that draws its own teams


@dataclass(frozen=True)
class Team:
    """A legal team.

    Attributes:
        id: distinct within its set.
        packed: as the simulator reads it.
        species: ids in the team's order.
    """

    id: str
    packed: str
    species: tuple[str, ...]

    @property
    def core(self) -> str:
        """Two species that represent the team: the two with the lowest hashes, by name."""
        chosen = sorted(set(self.species), key=lambda name: stable_seed("core", name))[:2]
        return "+".join(sorted(chosen))

    @property
    def held_out(self) -> bool:
        """True if its core is held out of training."""
        return stable_seed("held-out", self.core) % HELD_OUT == 0


@dataclass(frozen=True)
class TeamSet:
    """Teams of one format; empty where the format draws its own.

    `refused` maps a team's name to what is illegal.
    """

    source: str
    format: str
    teams: tuple[Team, ...]
    refused: Mapping[str, Sequence[str]] = field(default_factory=dict)


def load(source: str | Path, format: str, pool: BattlePool | None = None) -> TeamSet:
    """Read or draw the teams that `source` names.

    Raises:
        ConfigError: a source that no rule above fits.
        TaskError: a path that is missing, or a set without a legal team; the validator's reasons are in the message.
        ShowdownError: no such format, no Node.js, or no simulator.
    """
    pool = pool or shared_pool()
    about = pool.request([["format", format]])[0]
    text, cut = _cut(str(source))
    split_name = next((part for part in ("train", "held-out") if text.endswith(f":{part}")), "all")
    text = text.removesuffix(f":{split_name}")
    if about["random"] or text == "random":
        if not about["random"]:
            raise ConfigError(f"teams='random' is for the random battles; {format} takes sample, generated:K or a path")
        if text not in ("random", "sample"):
            raise ConfigError(f"teams must be 'random' in {format}, which draws its own teams; got {text!r:.60}")
        return TeamSet("random", format, ())
    team_set = _check(_texts(text, format, pool), format, pool)
    if team_set.refused and (not team_set.teams or Path(text).is_file()):
        raise TaskError(f"no legal team in {text!r:.60}: {_reasons(team_set.refused)}")
    if team_set.refused:
        total = len(team_set.refused) + len(team_set.teams)
        warnings.warn(
            f"{len(team_set.refused)} of {total} teams in {text} are not legal in {format} and are left out: "
            f"{_reasons(team_set.refused)}",
            PalaverWarning,
            stacklevel=2,
        )
    selected = tuple(
        team for team in team_set.teams if split_name == "all" or team.held_out == (split_name == "held-out")
    )[cut]
    if not selected:
        raise TaskError(f"no team is left of the {len(team_set.teams)} in {str(source)!r:.60}; give a larger set")
    return replace(team_set, source=str(source), teams=selected)


def generate(
    format: str, count: int, step: int = 2, seed: int = 0, pool: BattlePool | None = None
) -> list[tuple[str, str]]:
    """(name, export text) of the teams of one step of the ladder; all of them are different.

    Raises:
        ConfigError: a count outside of 1 to 1,000.
    """
    if not 1 <= count <= MOST:
        raise ConfigError(f"generated:K takes a K from 1 to {MOST:,}, got {count}")
    pool = pool or shared_pool()
    bases = [dice("team", format, seed, n) for n in range({0: 1, 1: 2}.get(step, count))]
    if step < 3:
        return [(f"base-{n}", text) for n, text in _drawn(format, [(base, "team", None) for base in bases], pool)]
    way = {3: "vary", 4: "swap", 7: "random"}.get(step, "team")
    wanted = [(dice("team", format, seed, step, n), way, bases[n // 4] if step < 5 else None) for n in range(4 * count)]
    return [(f"v{step}-{n}", text) for n, text in _drawn(format, wanted, pool, step)]


def sample(format: str, pool: BattlePool | None = None) -> str:
    """Content of a format's shipped file, generated again; a test compares them."""
    teams = [text for _, text in generate(format, SAMPLE_SIZE // 4, 5, 2026, pool)]
    return "\n\n".join(f"=== [{format}] sample-{n:02} ===\n\n{text}" for n, text in enumerate(teams)) + "\n"


def _drawn(
    format: str, wanted: Sequence[tuple[str, str, str | None]], pool: BattlePool, step: int = 0
) -> list[tuple[int, str]]:
    tiers = ["OU", "UUBL", "UU"] if step == 6 else ["OU"]
    texts: dict[str, int] = {}
    for n, text in enumerate(_batched(pool, (["draw", format, seed, tiers, way, base] for seed, way, base in wanted))):
        texts.setdefault("\n".join(line.rstrip() for line in text.splitlines()), n)
    return [(n, text) for text, n in texts.items()]


def _batched(pool: BattlePool, operations: Iterable[Sequence[Any]]) -> Iterator[Any]:
    every = list(operations)
    for start in range(0, len(every), _BATCH):
        yield from pool.request(every[start : start + _BATCH])


def _texts(source: str, format: str, pool: BattlePool) -> list[tuple[str, str]]:
    """(name, export text) of every team of a source."""
    drawn = _GENERATED.fullmatch(source)
    if drawn:
        return generate(format, int(drawn["count"]), int(drawn["step"] or 2), int(drawn["seed"] or 0), pool)
    if source == "sample":
        if format not in SAMPLES:
            raise ConfigError(f"there are no sample teams of {format}, only of {', '.join(SAMPLES)}; use generated:16")
        return list(
            _several(resources.files("palaver.envs.pokemon").joinpath("sample").joinpath(f"{format}.txt"), format)
        )
    path = Path(source).expanduser()
    if path.is_file():
        return list(_several(path, format))
    if not path.is_dir():
        hint = did_you_mean(source, ["sample", "generated:16", "random"]) if "/" not in source else ""
        raise TaskError(f"there are no teams at {source!r:.80}.{hint}")
    files = sorted(path.rglob(f"*.{format}_team")) or sorted(path.rglob(f"{format}.txt")) or sorted(path.rglob("*.txt"))
    if not files:
        raise TaskError(f"{source!r:.80} holds no teams of {format}: no files *.{format}_team or *.txt")
    return [team for file in files for team in _several(file, format)]


def _several(file: Traversable | Path, format: str) -> Iterator[tuple[str, str]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"the team file {file.name!r} cannot be read: {error}") from error
    heads = list(_HEADING.finditer(text))
    if not heads:
        yield file.name, text
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=False):
        if (head["format"] or format) == format:
            yield head["name"] or file.name, text[head.end() : end]


def _check(texts: Sequence[tuple[str, str]], format: str, pool: BattlePool) -> TeamSet:
    teams: dict[str, Team] = {}
    refused: dict[str, Sequence[str]] = {}
    answers = _batched(pool, (["validate", format, text] for _, text in texts))
    for (name, _), answer in zip(texts, answers, strict=True):
        id = next(candidate for candidate in _names(name) if candidate not in teams and candidate not in refused)
        if answer["problems"]:
            refused[id] = tuple(answer["problems"])
        else:
            teams[id] = Team(id, answer["packed"], tuple(answer["species"]))
    return TeamSet("", format, tuple(teams.values()), refused)


def _names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{n}" for n in range(2, 1_000_000))


def _reasons(refused: Mapping[str, Sequence[str]]) -> str:
    reasons = "; ".join(f"{name}: {' '.join(problems)}" for name, problems in [*refused.items()][:3])
    return one_line(reasons, 500) + (f" (and {len(refused) - 3} more)" if len(refused) > 3 else "")


def _cut(text: str) -> tuple[str, slice]:
    match = _SLICE.search(text)
    if not match:
        return text, slice(None)
    low, high = (int(bound) if bound not in ("", "-") else None for bound in match.groups())
    return text[: match.start()], slice(low, high)


def matchups(source: str | Path, format: str) -> tuple[Task, ...]:
    """Ordered pairs of different teams (one team alone meets itself).

    Of large sets, 16 opponents for each team. A format that draws its own teams has 256 tasks, which differ by their
    seeds alone.

    Raises:
        ConfigError, TaskError, ShowdownError: see `palaver.envs.pokemon.teams.load`.
    """
    team_set = load(source, format)
    if not team_set.teams:
        return tuple(Task(f"{format}-{n:03}", {"teams": None}) for n in range(DRAWN))
    return tuple(
        Task(f"{one.id} v {two.id}", {"teams": (one.packed, two.packed), "names": (one.id, two.id)})
        for one, two in _pairs(team_set.teams)
    )


def _pairs(all_teams: tuple[Team, ...]) -> Iterator[tuple[Team, Team]]:
    for n, one in enumerate(all_teams):
        others = [*all_teams[n + 1 :], *all_teams[:n]] or [one]
        if len(others) > 2 * FOES:
            first = stable_seed("opponents", one.id)
            others = [others[(first + k * len(others) // FOES) % len(others)] for k in range(FOES)]
        yield from ((one, two) for two in others)
