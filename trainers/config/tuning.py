"""The section `tuning`: seeds and tasks that a run's settings were chosen on, which no reported result may be of."""

from __future__ import annotations

from pydantic import Field

from palaver.utils.config import Section


class TuningConfig(Section):
    """What the settings were chosen on; results on it are not reported."""

    seeds: tuple[int, ...] = Field((), description="seeds of the runs that the settings were chosen by")
    tasks: tuple[str, ...] = Field((), description="tasks that those runs were compared on, as in env.tasks")
