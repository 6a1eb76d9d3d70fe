"""Check that no result is reported on the seeds or tasks used for tuning.

Every command that makes a row calls it.
"""

from __future__ import annotations

from collections.abc import Collection

import palaver
from palaver.core import ConfigError
from palaver.trainers.config.run import RunConfig


def complaint(config: RunConfig, evaluated: Collection[str] | None = None) -> str:
    """Return the reason not to report a run, in one line.

    The reason is "" if the run was tuned on other seeds and other tasks.

    Args:
        config: of the run.
        evaluated: ids of the tasks of the result; None: of the evaluation that the config describes.

    Raises:
        TaskError: the tasks of `tuning.tasks` cannot be read.
    """
    if config.seed in config.tuning.seeds:
        return f"its settings were chosen on seed {config.seed} (tuning.seeds); report other seeds"
    chosen_on = {task for source in config.tuning.tasks for task in _ids(config, source)}
    if not chosen_on:
        return ""
    if evaluated is None:
        evaluated = _ids(config, config.eval.tasks)[: config.eval.n]
    both = sorted(chosen_on & set(evaluated))
    if not both:
        return ""
    return f"its settings were chosen on {len(both)} of its tasks, {both[0]!r} among them (tuning.tasks)"


def refuse(config: RunConfig, where: str, evaluated: Collection[str] | None = None) -> None:
    """Refuse a run as a reported row.

    Raises:
        ConfigError: see `complaint`; the line begins with `where`.
    """
    if why := complaint(config, evaluated):
        raise ConfigError(f"{where} cannot be reported: {why}")


def _ids(config: RunConfig, tasks: str | None) -> list[str]:
    """The ids of the tasks of a source; None: those that training draws from."""
    return [task.id for task in palaver.make(config.env.id, **config.env.keywords(tasks)).unwrapped.tasks]
