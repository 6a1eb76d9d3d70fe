"""Interface of environments whose exploitability can be computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Chances = Sequence[Sequence[float]]  # information set -> probability of each of its actions


@dataclass(frozen=True, slots=True, eq=False)
class ExactGame:
    """Information sets of a game, and exact values of what agents do in them.

    Attributes:
        agents: agent that acts in each information set.
        prompts: its observation there, which is all that it reads.
        actions: its legal actions there.
        parse: (text, legal actions) -> index of the action that the environment reads in it, None for none.
        nash_conv: sum over agents of what a best response gains over these probabilities; 0 in equilibrium.
        mixture: probabilities of the policy that draws one of several at the start of an episode, each as often.
    """

    agents: tuple[str, ...]
    prompts: tuple[str, ...]
    actions: tuple[tuple[str, ...], ...]
    parse: Callable[[str, Sequence[str]], int | None]
    nash_conv: Callable[[Chances], float]
    mixture: Callable[[Sequence[Chances]], Chances]
