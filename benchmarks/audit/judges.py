"""The judge that is audited, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from palaver.benchmarks.audit.ask import ByScore, Make, Plan
from palaver.benchmarks.audit.data import Data
from palaver.benchmarks.audit.recorded import Recorded
from palaver.core import ConfigError
from palaver.verdict import Comparer, Reward

By = Literal["auto", "pairs", "scores"]
RECORDED = "recorded:"


@dataclass(frozen=True)
class Audited:
    """A judge in the roles that an audit needs.

    Attributes:
        name: of it.
        make: who compares pairs, for each repeat.
        reward: who scores single answers; None where it cannot.
        plan: the plan that suits it: what is on file is not asked again.
    """

    name: str
    make: Make
    reward: Reward | None
    plan: Plan


def audited(name: str, data: Data, plan: Plan, by: str = "auto") -> Audited:
    """The judge called `name`.

    Raises:
        ConfigError, PolicyError, TaskError: there is none of that name, or it cannot do what is asked.
    """
    if name.startswith(RECORDED):
        judge = Recorded(name.removeprefix(RECORDED))
        return Audited(judge.name, lambda _: judge, None, replace(plan, repeats=1, probed=0, timed=0))
    raise ConfigError(name)
