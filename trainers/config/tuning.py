"""Config section `tuning`: seeds and tasks used for tuning, excluded from reported results."""

from __future__ import annotations

from pydantic import Field

from palaver.utils.config import Section


class TuningConfig(Section):
    """Seeds and tasks that the settings were tuned on; results on them are not reported."""

    seeds: tuple[int, ...] = Field((), description="seeds of the runs that the settings were chosen by")
    tasks: tuple[str, ...] = Field((), description="tasks that those runs were compared on, as in env.tasks")
