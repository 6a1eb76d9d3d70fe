"""Terminal output of a run: its title, and a progress bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.utils.progress import Bar


def title(config: RunConfig, algorithm: Algorithm, samples: str) -> Text:
    """First line of a run's summary; `samples` are those of a task."""
    steps = f", {config.train.steps} steps of {config.train.prompts_per_step} tasks x {samples}\n"
    return Text.assemble((algorithm.name, "bold"), f" ({algorithm.paper}) on ", (config.env.id, "bold"), steps)


@contextmanager
def bar(config: RunConfig, done: int, console: Console, *, visible: bool) -> Iterator[Any]:
    """Live progress bar; yields the function that the loop calls after each step."""
    with Bar("training", console, config.train.steps, disable=not visible) as progress:
        progress.show(completed=done)

        def report(step: int, metrics: Mapping[str, Any]) -> None:
            speed = f"  {metrics['tokens_per_s']:,.0f} tokens/s" if "tokens_per_s" in metrics else ""
            progress.show(f"reward {metrics['reward/mean']:.3f}{speed}", completed=step)

        yield report
