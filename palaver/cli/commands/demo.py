"""`palaver demo`: train small teams in two acts and show what they learned."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.columns import Columns
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from palaver.benchmarks.experiments.demo_seeds import ACTS, greedy_solved
from palaver.benchmarks.reports import coding_conventions
from palaver.benchmarks.reports.coding_conventions import ProgramPair
from palaver.benchmarks.reports.run_folder import RunFolder, read
from palaver.benchmarks.reports.summary import score
from palaver.cli import folders, options
from palaver.cli.commands import train
from palaver.cli.folders import TrainJob
from palaver.cli.output import console, say, table
from palaver.core import PalaverError, need
from palaver.text import clean
from palaver.trainers.run.files import METRICS, RUNS
from palaver.utils.machine import usable_cores
from palaver.utils.workers import STALLED_S, WATCH_S, Silence, wait, wait_or_kill

PATIENCE_S = 120.0  # for a run that is stopping: it saves a checkpoint and writes its report


class BackgroundRun:
    """Background run; its output goes to `log`."""

    def __init__(self, job: TrainJob, log: Path) -> None:
        self.job, self.log = job, log
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "palaver", "train", job.recipe, *job.overrides, "--out", str(job.folder)]
        with log.open("w", encoding="utf-8") as stream:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)

    def finish(self) -> str:
        """Wait for the run and return `done` or `interrupted`; Ctrl-C ends the wait.

        Raises:
            PalaverError: it failed, or was stopped after writing neither to its log nor to its metrics for
                `STALLED_S` seconds.
        """
        silence = Silence([self.log, self.job.folder / METRICS])
        while (code := wait(self.process, WATCH_S)) is None:
            if silence.seconds() > STALLED_S:
                self.stop()
                raise PalaverError(
                    f"the run {str(self.job.folder)!r} wrote nothing for {STALLED_S:g} seconds and was stopped; "
                    f"resume with: palaver train --resume {self.job.folder}"
                )
        if code not in (0, 130):
            raise PalaverError(f"the run {str(self.job.folder)!r} failed with exit code {code}; see {str(self.log)!r}")
        return "interrupted" if code else "done"

    def stop(self) -> None:
        """Stop it gracefully if it still runs; it is killed after `PATIENCE_S` seconds."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            wait_or_kill(self.process, PATIENCE_S)


@contextmanager
def in_background(job: TrainJob | None, log: Path) -> Iterator[BackgroundRun | None]:
    """Context manager of the run of `job`, if there is one; it ends with the block."""
    run = BackgroundRun(job, log) if job else None
    try:
        yield run
    finally:
        if run:
            run.stop()


HELP = """Train small teams and show what they learned, in two acts.

[bold]First act[/bold]: two authors learn to write an introduction together (the recipe arxiv-magrpo).

[bold]Second act[/bold]: two agents write one small program without seeing each other, and come to agree on what the
helper is for (coding-mini-magrpo), and with another seed on something else.

[cyan]palaver demo[/cyan]  [dim]# both, about five minutes[/dim]

[cyan]palaver demo --act 2 seed=3[/cyan]
"""
WRITING, CODE = ACTS["writing"], ACTS["coding"]
PAIRS = 2  # of programs before and after training
ROWS = 6  # of the training table
BAR_WIDTH = 10  # characters
SEED_OFFSETS = (0, 3, 4)  # of the second act's runs; the last runs only if the conventions of the others agree


def demo(
    items: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides for every run.")] = None,
    out: Annotated[Path | None, options.out_folder("Of the runs.", "runs/demo-TIME")] = None,
    act: Annotated[int, typer.Option(min=0, max=2, help="1 or 2 plays that act alone; 0 both.")] = 0,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Teach the tiny models here, in place of the shipped ones.")
    ] = False,
) -> None:
    """Train small teams and show what they learned."""
    need("the demo", "train")
    folder = out or RUNS / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    overrides = [*(items or []), *(["policy.from_scratch=true"] if from_scratch else [])]
    code_overrides = [*CODE.overrides, *overrides]
    seed = folders.plan(CODE.recipe, code_overrides, False, folder / "code").config.seed
    code_jobs = [
        folders.plan(CODE.recipe, [*code_overrides, f"seed={code_seed}"], False, folder / f"code-seed-{code_seed}")
        for code_seed in (seed + offset for offset in SEED_OFFSETS)
    ]
    writing_job = folders.plan(WRITING.recipe, [*WRITING.overrides, *overrides], False, folder / "writing")
    first_act, second_act = act != 2, act != 1
    for job in ([writing_job] if first_act else []) + (code_jobs if second_act else []):
        train.check(job)  # of all jobs, so that a mistake shows before the first run
    background_job = code_jobs[1] if second_act and usable_cores() > 1 else None  # on another core
    with in_background(background_job, folder / "second-seed.log") as background_run:
        if first_act:
            _print_title("First act: two authors write one introduction")
            train.exit_if_interrupted(train.run(writing_job, train.finish), writing_job)
        if second_act:
            _run_second_act(code_jobs, background_run, folder)


def _run_second_act(jobs: Sequence[TrainJob], background_run: BackgroundRun | None, folder: Path) -> None:
    """Train one job after the other until one converges to other conventions than the first.

    Args:
        jobs: the same training with different seeds.
        background_run: run of `jobs[1]`, if it has been started.
        folder: of the comparison.
    """
    from palaver.benchmarks.reports.run_report.page import write

    _print_title("Second act: two agents agree on one helper")
    for index, job in enumerate(jobs):
        if index == 0:
            status = train.run(job, _report_and_show)
        elif index == 1 and background_run:
            status = background_run.finish()
        else:
            status = train.run(job, write)
        train.exit_if_interrupted(status, job)
        if index and _agreement(job) != _agreement(jobs[0]):
            break
    _compare(jobs[: index + 1], folder)


def _print_title(title: str) -> None:
    console.print()
    console.rule(Text(title, style="bold"), align="left")


def _report_and_show(folder: Path) -> None:
    """Write the report; print failing pairs, the curve, and the same problems after training."""
    from palaver.benchmarks.reports.run_report.page import CURVE, write

    run = read(folder)
    report = write(run)
    pairs = coding_conventions.failing_pairs(run, PAIRS)
    _print_heading(f"Before training: {len(pairs)} pairs that fail, the first ones, not chosen")
    console.print(_side_by_side(pairs))
    _print_heading("Training: reward, problems solved, and each agent's use of the helper")
    console.print(_curve(run))
    _print_heading("The same problems after training")
    console.print(_side_by_side(coding_conventions.pairs_after_training(run, pairs)))
    say(Text("report ", style="dim"), str(report))
    say(Text("curve  ", style="dim"), str(report.with_name(CURVE)))


def _agreement(job: TrainJob) -> list[str]:
    """Conventions that the agents of a run converged to."""

    return [use.split()[0] for use in coding_conventions.conventions_of(score(read(job.folder)).after).values()]


def _print_heading(text: str) -> None:
    console.print()
    say(Text(text, style="bold"))


def _side_by_side(pairs: Sequence[ProgramPair]) -> Columns:
    return Columns([_panel(pair) for pair in pairs], equal=True, expand=True)


def _panel(pair: ProgramPair) -> Panel:
    body = Text(f"{clean(pair.description)}\n\n", style="italic")
    for agent, code in pair.completions.items():
        body.append(f"{agent}\n", style="bold not italic").append(f"{clean(code, 600)}\n\n", style="not italic")
    mark = ("✓ ", "bold green not italic") if pair.solved else ("✗ ", "bold red not italic")
    body.append_text(Text.assemble(mark, (clean(pair.reason), "not italic")))
    return Panel(body, title=Text(pair.task), title_align="left", border_style="green" if pair.solved else "red")


def _curve(run: RunFolder) -> Table:
    """Table of moments of training, with a bar for each convention of each agent."""

    conventions = [
        (agent, convention) for agent in coding_conventions.AGENTS for convention in coding_conventions.CONVENTIONS
    ]
    columns = [f"{agent}: {convention}" for agent, convention in conventions]
    grid = table("step", "reward", "solved", *columns, right=("step", "reward", "solved"))
    for moment in coding_conventions.training_moments(run, ROWS):
        bars = [bar(moment.shares[agent][convention]) for agent, convention in conventions]
        grid.add_row(str(moment.step), f"{moment.reward:.2f}", f"{moment.solved:.0%}", *bars)
    return grid


def bar(share: float) -> Text:
    """Bar of ten characters for a share from 0 to 1.

    >>> bar(0.3).plain
    '███······· '
    """
    full = round(max(0.0, min(1.0, share)) * BAR_WIDTH)
    return Text("█" * full + "·" * (BAR_WIDTH - full) + " ", style="cyan" if full else "dim")


def _compare(jobs: Sequence[TrainJob], folder: Path) -> None:
    """Print the conventions of each seed, sampled and greedy, and write a page with them."""
    from palaver.benchmarks.reports.run_report.page import compare

    runs = [read(job.folder) for job in jobs]
    _print_heading("Seeds and their agreements: held-out problems solved, and the use of the helper")
    grid = table("seed", "before", "after", "after, greedy", "before: aux, main", "after: aux, main")
    for job, run in zip(jobs, runs, strict=True):
        result = score(run)
        uses = [
            ", ".join(coding_conventions.conventions_of(point).values()) or "–"
            for point in (result.before, result.after)
        ]
        solved = [coding_conventions.solved_of(point) for point in (result.before, result.after)]
        grid.add_row(str(job.config.seed), *solved, greedy_solved(job.folder, job.config), *uses)
    console.print(grid)
    console.print()
    say(Text("comparison ", style="dim"), str(compare(runs, folder)))
