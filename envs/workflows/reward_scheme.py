"""Rewards of each turn: scores by `who` and `when`, shaping, penalties. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, ValidationError

from palaver.core import ConfigError
from palaver.envs.workflows import reward
from palaver.envs.workflows.graph import Declared, Kind, WorkflowStage
from palaver.envs.workflows.reward import Earlier, When, Who
from palaver.text import first_fault

Parts = dict[str, float]


class RewardScheme(Declared):
    """Settings that turn scores into rewards.

    Attributes:
        who: the scores that count, see `reward.shared`.
        when: the turns that are rewarded, see `reward.per_turn`, `last`, `accumulated`, `influence`.
        discount: of `influence`.
        labels: `truth`, or `majority` for the turn's majority in place of the right answer (TTRL).
        shaping: the term that is added, see `margin`, `quality`, `influence_sign`, `incentive`.
        earlier: of margin and quality: the earlier scores of the agent itself, or of all.
        weight: of margin and quality.
        outcome: fraction of the agent's final score added to each earlier turn (margin and quality only).
        step: of the influence.
        alpha: of the incentives.
        no_answer: penalty of a text without an answer (a verdict, a choice).
        format: penalty of an answer that is not in the required form.
        length: penalty of a text of twice the words allowed, or more; in proportion between.
        words: the words allowed.
    """

    who: Who = "mean"
    when: When = "each"
    discount: float = Field(0.3, ge=0, le=1)
    labels: Literal["truth", "majority"] = "truth"
    shaping: Literal["none", "margin", "quality", "influence", "incentive"] = "none"
    earlier: Earlier = "own"
    weight: float = Field(0.5, ge=0, le=1000)
    outcome: float = Field(0.0, ge=0, le=1000)
    step: float = Field(0.2, ge=0, le=1000)
    alpha: tuple[float, float, float, float] = (0.1, 0.1, 0.1, 0.1)
    no_answer: float = Field(0.0, ge=0, le=1000)
    format: float = Field(0.0, ge=0, le=1000)
    length: float = Field(0.0, ge=0, le=1000)
    words: int = Field(100, ge=1)

    @property
    def late(self) -> bool:
        """True if the reward of a turn is known only at the end."""
        progress = self.shaping in ("margin", "quality") and self.outcome > 0
        return progress or self.shaping in ("influence", "incentive") or self.when in ("accumulated", "influence")


def parse_reward_scheme(given: Mapping[str, Any] | RewardScheme | None) -> RewardScheme:
    """The settings by name; those left out keep their defaults.

    Raises:
        ConfigError: no such setting, or a value that does not fit.
    """
    if isinstance(given, RewardScheme):
        return given
    try:
        scheme = RewardScheme.model_validate(dict(given or {}))
    except (ValidationError, TypeError, ValueError) as error:
        reason = (
            first_fault(error) if isinstance(error, ValidationError) else "give settings by name, as {'who': 'mean'}"
        )
        raise ConfigError(f"reward_scheme: {reason}") from error
    if not all(math.isfinite(weight) for weight in scheme.alpha):
        raise ConfigError(f"reward_scheme: alpha must be four finite numbers, got {scheme.alpha}")
    return scheme


@dataclass(frozen=True, slots=True)
class TurnScores:
    """Scores of one turn: (N,) each.

    Attributes:
        own_scores: the score of every agent, None where it was not scored.
        answers: the same where it answered the task, else None.
        standing: the score of the team's answer, if the turn gave one.
        penalties: of every agent's text, by name; not positive.
    """

    own_scores: tuple[float | None, ...]
    answers: tuple[float | None, ...]
    standing: float | None
    penalties: tuple[Mapping[str, float], ...]


def penalties(scheme: RewardScheme, kind: Kind, text: str, answered: bool, formed: bool) -> Parts:
    """Penalties of a text by name, those with a weight of 0 left out.

    length = -scheme.length * min(1, (n - words) / words) for n > words white-space tokens.
    """
    parts: Parts = {}
    if scheme.no_answer and kind != "talk":
        parts["no_answer"] = 0.0 if answered else -scheme.no_answer
    if scheme.format and kind == "answer":
        parts["format"] = 0.0 if formed else -scheme.format
    if scheme.length:
        over = max(0, len(text.split()) - scheme.words) / scheme.words
        parts["length"] = -scheme.length * min(1.0, over) if over else 0.0
    return parts


def turn_rewards(turns: Sequence[TurnScores], scheme: RewardScheme) -> list[list[Parts]]:
    """Reward parts (T, N) of each agent and turn if the episode ends here; without penalties."""
    own_scores = [turn.own_scores for turn in turns]
    answerable = [reward.shared(turn.own_scores, turn.answers, turn.standing, scheme.who) for turn in turns]
    if scheme.when == "influence":
        base = reward.influence(own_scores, answerable, scheme.discount)
    else:
        base = {"each": reward.per_turn, "last": reward.last, "accumulated": reward.accumulated}[scheme.when](
            answerable
        )
    parts: list[list[Parts]] = [[{"score": value} for value in row] for row in base]
    for name, added in _added(own_scores, scheme).items():
        for row, values in zip(parts, added, strict=True):
            for components, value in zip(row, values, strict=True):
                components[name] = value
    return parts


def _added(own_scores: reward.Scores, scheme: RewardScheme) -> dict[str, list[list[float]]]:
    if scheme.shaping in ("margin", "quality"):
        added = {
            scheme.shaping: {"margin": reward.margin, "quality": reward.quality}[scheme.shaping](
                own_scores, scheme.weight, scheme.earlier
            )
        }
        return added | ({"outcome": reward.outcome(own_scores, scheme.outcome)} if scheme.outcome else {})
    if scheme.shaping == "influence":
        return {"influence": reward.influence_sign(own_scores, scheme.step)}
    return {"incentive": reward.incentive(own_scores, scheme.alpha)} if scheme.shaping == "incentive" else {}


def shaped_rewards(turns: Sequence[TurnScores], scheme: RewardScheme, over: bool) -> list[Parts]:
    """Rewards (N,) given at the newest turn.

    A turn's reward is given in it, or at the end where it is known only then; penalties are given at once.
    """
    table = turn_rewards(turns, scheme)
    if scheme.late:
        now = [{name: math.fsum(row[n][name] for row in table) for name in table[0][n]} for n in range(len(table[0]))]
    else:
        now = table[-1]
    if not over and (scheme.late or scheme.when == "last"):
        keep = () if scheme.late else tuple(name for name in now[0] if name != "score")
        now = [{name: value if name in keep else 0.0 for name, value in components.items()} for components in now]
    return [components | dict(cost) for components, cost in zip(now, turns[-1].penalties, strict=True)]


def most_possible(
    stages: Sequence[WorkflowStage], agents: Sequence[str], final: str, scheme: RewardScheme
) -> float | None:
    """Upper bound of the return, as a mean over agents; None where shaping adds to it."""
    if scheme.shaping != "none":
        return None
    turns = []
    for stage in stages:
        own_scores = tuple(1.0 if agent in stage.speakers and stage.kind != "talk" else None for agent in agents)
        answers = own_scores if stage.kind in ("answer", "choice") else (None,) * len(agents)
        decides = any(
            value is not None and final in ("vote", "last", agent) for agent, value in zip(agents, answers, strict=True)
        )
        turns.append(TurnScores(own_scores, answers, 1.0 if decides else None, ({},) * len(agents)))
    return sum(components["score"] for row in turn_rewards(turns, scheme) for components in row) / len(agents)
