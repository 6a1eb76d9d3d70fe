"""Tasks: match-ups of two teams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from palaver.core import stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.pokemon import teams

FOES = 16  # opponents of each team in a large set
DRAWN = 256  # tasks of a format that draws its own teams


def load(source: str | Path, format: str) -> tuple[Task, ...]:
    """Ordered pairs of different teams (one team alone meets itself).

    Of large sets, 16 opponents for each team. A format that draws its own teams has 256 tasks, which differ by their
    seeds alone.

    Raises:
        ConfigError, TaskError, ShowdownError: see `palaver.envs.pokemon.teams.load`.
    """
    team_set = teams.load(source, format)
    if not team_set.teams:
        return tuple(Task(f"{format}-{n:03}", {"teams": None}) for n in range(DRAWN))
    return tuple(
        Task(f"{one.id} v {two.id}", {"teams": (one.packed, two.packed), "names": (one.id, two.id)})
        for one, two in _pairs(team_set.teams)
    )


def _pairs(all_teams: tuple[teams.Team, ...]) -> Iterator[tuple[teams.Team, teams.Team]]:
    for n, one in enumerate(all_teams):
        others = [*all_teams[n + 1 :], *all_teams[:n]] or [one]
        if len(others) > 2 * FOES:
            first = stable_seed("opponents", one.id)
            others = [others[(first + k * len(others) // FOES) % len(others)] for k in range(FOES)]
        yield from ((one, two) for two in others)
