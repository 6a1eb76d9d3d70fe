"""Prompts of house builders. A change of these words bumps the version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palaver.envs.minecraft.blueprint import layers
from palaver.envs.minecraft.env import BuildTarget
from palaver.envs.minecraft.housebuild.rules import Spiders
from palaver.envs.minecraft.world import AIR_NAME, box_of, name


@dataclass(frozen=True, slots=True)
class Brief:
    """Contents of an opening in addition to the plan.

    Attributes:
        index: of the agent, from 0.
        shares: number of commands of each agent.
        turns: of the episode.
        persistent: whether the world stays.
        limits: code -> most cells; empty for none.
        spiders: of the task.
    """

    index: int
    shares: Sequence[int]
    turns: int
    persistent: bool
    limits: Mapping[int, int]
    spiders: Spiders


def opening(plan: BuildTarget, brief: Brief) -> str:
    """The first observation."""
    low, high = (" ".join(map(str, corner)) for corner in box_of(plan.target.shape, plan.origin))
    return "\n".join(
        [
            f"{_role(brief)} Answer with commands alone, one a line:",
            "/fill x1 y1 z1 x2 y2 z2 block",
            *(["/kill"] if brief.spiders.attacks else []),
            f"The world goes from {low} to {high}, y is up, and holds only air. {_order(brief)}".rstrip(),
            "The plan, in each layer x1 z1 x2 z2 block; all else is air:",
            layers(plan.target, plan.palette, plan.origin),
            *_rules(plan, brief),
        ]
    )


def _role(brief: Brief) -> str:
    n = len(brief.shares)
    if n == 1:
        return "You build a house."
    return f"You are builder {brief.index + 1} of {n} who build one house at once, unseen by each other."


def _order(brief: Brief) -> str:
    if len(brief.shares) == 1:
        return ""
    return "Builder 1's commands are carried out first; later ones overwrite."


def _rules(plan: BuildTarget, brief: Brief) -> list[str]:
    lines = [f"You have {brief.shares[brief.index]} commands a turn."]
    if brief.limits:
        limits = ", ".join(f"{max_blocks} {name(code, plan.palette)}" for code, max_blocks in brief.limits.items())
        span = "in all turns together" if brief.persistent and brief.turns > 1 else "a turn"
        lines.append(f"You may fill, in cells {span}: {limits}; {AIR_NAME} without limit.")
    if brief.spiders.attacks:
        attacks = " + ".join(map(str, brief.spiders.attacks))
        lines.append(
            f"Spiders attack with {attacks} against a health of {brief.spiders.health}: "
            f"unless somebody sends /kill, {brief.spiders.penalty:g} is lost."
        )
    if brief.turns > 1:
        after = "the world stays as it is" if brief.persistent else "the world is emptied"
        lines.append(f"There are {brief.turns} turns; after each {after}.")
    return lines
