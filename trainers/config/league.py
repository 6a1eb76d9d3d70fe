"""Config section of leagues: a pool of opponents for a team that learns a competitive game.

In a share of a step's tasks the team plays itself and all its agents learn. In the others one agent, in turns, plays
against an opponent of the pool, and only its completions are trained on. The pool holds

    past selves          the team after every `snapshot_every` updates
    opponents            policies as `--team` names them: scripted, models, teams of other runs
    exploiters           policies that learn against the team's present weights alone, and start again
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from palaver.utils.config import Section

Matchmaking = Literal["uniform", "pfsp", "latest"]


class LeagueConfig(Section):
    """Opponents of a team in a competitive game."""

    self_play: float = Field(1.0, ge=0, le=1, description="share of a step's tasks in which the team plays itself")
    matchmaking: Matchmaking = Field(
        "uniform",
        description="how often an opponent is drawn: all alike; those that win more often more (PFSP); or only the "
        "latest of each kind",
    )
    snapshot_every: int = Field(0, ge=0, description="updates after which the team joins the pool; 0: never")
    size: int = Field(40, ge=1, description="past selves and exploiters kept, the newest")
    opponents: tuple[str, ...] = Field((), description="fixed members of the pool, as --team names them")
    per_step: int = Field(4, ge=1, description="opponents drawn for a step, which are held in memory")
    exploiters: int = Field(0, ge=0, description="policies that learn to beat the present team")
    exploiter_every: int = Field(
        100, ge=1, description="updates after which an exploiter joins the pool and starts again"
    )
    games: int = Field(16, ge=0, description="tasks of each pairing of an evaluation's cross-play; 0: none")
    field: int = Field(6, ge=2, description="members of the pool in that cross-play, evenly over the run")

    @property
    def active(self) -> bool:
        """True if a run has a pool."""
        return self.self_play < 1 or self.snapshot_every > 0 or self.exploiters > 0
