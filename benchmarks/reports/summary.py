"""Key figures of a run: scores before and after training, cost, and status."""

from __future__ import annotations

import functools
import json
import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from palaver.benchmarks.reports.run_folder import RunFolder, number, numbers
from palaver.core import PalaverError
from palaver.registry import Spec, make, spec
from palaver.utils.run_folder import alive


@dataclass(frozen=True)
class EvaluationPoint:
    """One evaluation: mean reward, bounds of its 95 % interval (None for a single task), and n."""

    step: int
    mean: float
    low: float | None
    high: float | None
    n: int
    line: Mapping[str, Any]


@dataclass(frozen=True)
class BeforeAfter:
    """The evaluation before training and the last one after it; None if missing."""

    before: EvaluationPoint | None
    after: EvaluationPoint | None

    @property
    def greedy(self) -> bool:
        """True if the evaluation decoded greedily."""
        evaluation = self.after or self.before
        return bool(evaluation and evaluation.line.get("greedy"))


@dataclass(frozen=True)
class Status:
    """Status of a run: `tone` is "good", "open" or "bad"."""

    text: str
    tone: str


@dataclass(frozen=True)
class SummaryRow:
    """One line of a before / after table; None for a missing number."""

    name: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        """after - before."""
        return None if self.before is None or self.after is None else self.after - self.before


def score(run: RunFolder) -> BeforeAfter:
    """Return the evaluation at step 0, if any, and the last one of a later step."""
    points = [evaluation for line in run.evals if (evaluation := point(line)) is not None]
    before = next((evaluation for evaluation in points if evaluation.step == 0), None)
    after = next((evaluation for evaluation in reversed(points) if evaluation.step > 0), None)
    return BeforeAfter(before, after)


def point(line: Mapping[str, Any]) -> EvaluationPoint | None:
    """Parse an evaluation line; None if its mean is no finite number."""
    mean = number(line, "mean")
    if mean is None:
        return None
    return EvaluationPoint(
        step=int(line["step"]),
        mean=mean,
        low=number(line, "low"),
        high=number(line, "high"),
        n=int(number(line, "n") or 0),
        line=line,
    )


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Format the bounds of an interval.

    >>> interval(1.0, 1.25), interval(None, None)
    ('[1.000, 1.250]', '[–]')
    """
    return "[–]" if low is None or high is None else f"[{low:.{digits}f}, {high:.{digits}f}]"


def status(run: RunFolder) -> Status:
    """Status of a run as written by the trainer, checked against its files and process."""
    recorded, step = run.state.get("status"), run.step
    planned = run.config.train.steps if run.config else None
    where = f"step {step}" + (f" of {planned}" if planned else "")
    if faults := _not_finite(run):
        return Status(f"stopped after {where}: {faults}", "bad")
    if recorded == "done" or (recorded is None and planned is not None and step >= planned):
        return Status(f"finished, {step} steps", "good")
    if recorded in ("interrupted", "failed"):
        return Status(f"{recorded} after {where}", "open" if recorded == "interrupted" else "bad")
    if recorded == "running":
        pid = run.state.get("pid")
        if type(pid) is int and pid > 0 and alive(pid):
            return Status(f"running, {where}", "open")
        return Status(f"killed after {where}", "bad")
    return Status(f"stopped or running, {where}" if run.train else "no training step yet", "open")


def _not_finite(run: RunFolder) -> str:
    """Return the name of the value that was not finite, or "".

    Faults before the last good step are ignored.
    """
    last = run.train[-1] if run.train else {}
    files = sorted(run.folder.glob("not-finite-*.json"))
    number_of = files[-1].stem.rpartition("-")[2] if files else ""
    if number_of.isdecimal() and int(number_of) > run.step:
        return f"the loss or gradient of step {int(number_of)} is not finite, its rows are in {files[-1].name}"
    broken = [key for key, value in last.items() if isinstance(value, float) and number(last, key) is None]
    return f"{broken[0]} is not finite" if broken else ""


def most_possible(env: object, env_spec: Spec) -> float:
    """Upper bound of the episode return: that of the instance, else that of its spec."""
    max_return = getattr(env, "max_return", None)
    return env_spec.max_reward * env_spec.turns if max_return is None else float(max_return)


def max_reward(run: RunFolder) -> float | None:
    """Upper bound of the episode return; None if unknown, or if a keyword has raised it."""
    if run.config is None:
        return None
    env = run.config.env
    max_return = _max_return(env.id, json.dumps(env.model_extra, sort_keys=True, default=str))
    seen = [*run.series("reward/mean")[1], *(number(line, "mean") or 0.0 for line in run.evals)]
    return max_return if max_return is not None and all(value <= max_return + 1e-9 for value in seen) else None


@functools.lru_cache(maxsize=64)
def _max_return(env: str, keywords: str) -> float | None:
    """Upper bound of an environment's return with these keywords (JSON), cached for all runs.

    It uses the built-in tasks: those of a run may be gone, or on another machine.
    """
    try:
        env_spec = spec(env)
        max_return = most_possible(make(env, **env_spec.task_keywords("sample") | json.loads(keywords)), env_spec)
        return max_return if math.isfinite(max_return) else None  # a reward model's scores are unbounded
    except (PalaverError, TypeError, ValueError):
        return None


def key_figures(run: RunFolder) -> list[tuple[str, str]]:
    """Name and printed value: steps, time, tokens, speed. What was not recorded is left out."""
    figures = [("steps", f"{run.step:,}" + (f" of {run.config.train.steps:,}" if run.config else ""))]
    figures += [
        (name, time)
        for name, time in (("wall time", last_time(run, "wall_s")), ("CPU time", last_time(run, "cpu_s")))
        if time
    ]
    tokens, seconds = sampled_tokens(run)
    if tokens and seconds:
        figures += [("tokens sampled", f"{tokens:,.0f}"), ("tokens per second", f"{tokens / seconds:,.0f}")]
    for agent in run.agents:
        lengths = run.series(f"{agent}/tokens")[1]
        if lengths:
            figures.append((f"{agent}: tokens per answer", f"{lengths[0]:.0f} → {lengths[-1]:.0f}"))
    return figures


def last_time(run: RunFolder, key: str) -> str:
    """Time of the whole run, resumes included; "" if it was not recorded.

    `key` is `wall_s`, or `cpu_s` for that of the main process.
    """
    times = [value for line in (*run.train, *run.evals) if (value := number(line, key)) is not None]
    return duration(max(times)) if times else ""


def sampled_tokens(run: RunFolder) -> tuple[float, float]:
    """Tokens sampled in training, and the seconds of the steps they were sampled in."""
    tokens = seconds = 0.0
    for line in run.train:
        rate = number(line, "tokens_per_s")
        took = sum(number(line, key) or 0.0 for key in ("time/rollout_s", "time/update_s"))
        if rate is not None:
            tokens, seconds = tokens + rate * took, seconds + took
    return tokens, seconds


def comparison(run: RunFolder) -> list[tuple[str, list[SummaryRow]]]:
    """Tables of before and after: components, metrics, pass@k, and agents against an opponent.

    The components are those of the reward; the metrics are not rewarded.
    """
    evaluation = score(run)
    tables = []
    titles = {"Reward components": "components", "Measurements": "metrics", "Tasks solved": "passes"}
    for title in (*titles, "Against the opponent"):
        before, after = (
            numbers(
                line.get(titles[title])
                if title in titles
                else {key: line[key] for key in line if key.endswith(("/win_rate", "/return"))}
            )
            for line in (point.line if point else {} for point in (evaluation.before, evaluation.after))
        )
        rows = [SummaryRow(name, before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])]
        if rows:
            tables.append((title, rows))
    return tables


def reproduce(run: RunFolder) -> list[str]:
    """Commands that reproduce the run: the original one, and one with the saved config."""
    commands = []
    recipe, overrides = run.launch.get("recipe"), run.launch.get("overrides")
    if isinstance(recipe, str) and isinstance(overrides, list):
        commands.append(shlex.join(["palaver", "train", recipe, *map(str, overrides)]))
    if run.config_text:
        commands.append(shlex.join(["palaver", "train", str(run.folder / "config.yaml"), "--out", "runs/again"]))
    return commands


def made_with(run: RunFolder) -> str:
    """The versions and the machine as recorded by the command line; "" if none."""
    launch, libraries = run.launch, run.launch.get("libraries")
    parts = [
        f"{title} {launch[key]}"
        for title, key in (("Palaver", "palaver"), ("commit", "commit"), ("Python", "python"), ("on", "platform"))
        if launch.get(key)
    ]
    if isinstance(libraries, Mapping):
        parts += [f"{name} {version}" for name, version in libraries.items()]
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Format seconds.

    >>> duration(4.2), duration(135), duration(7260)
    ('4.2 s', '2 min 15 s', '2 h 01 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    return f"{minutes} min {remaining_seconds:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


UNKNOWN = "not noted"


def complete(launch: Mapping[str, Any]) -> bool:
    """Return whether a run records its commit, version, and the hash of its initial tiny model.

    A run that did not start from a tiny model records that there is none.
    """
    return bool(launch.get("commit") and launch.get("palaver") and "warm_starts" in launch)


def origin(launches: Iterable[Mapping[str, Any]]) -> str:
    """Commits, versions and warm starts of some runs, each once.

    >>> origin([{"commit": "c0ffee", "palaver": "0.1.0", "warm_starts": {"a": {"model": "m", "hash": "abc"}}}])
    'Palaver 0.1.0, commit c0ffee, warm start m (abc)'
    """
    known = list(launches)
    starts = (start for launch in known for start in launch.get("warm_starts", {}).values())
    named = [f"{start['model']} ({start['hash']})" for start in starts] or [UNKNOWN]
    return ", ".join(
        f"{what} {' and '.join(dict.fromkeys(values))}"
        for what, values in (
            ("Palaver", [str(launch.get("palaver") or UNKNOWN) for launch in known]),
            ("commit", [str(launch.get("commit") or UNKNOWN) for launch in known]),
            ("warm start", named),
        )
    )
