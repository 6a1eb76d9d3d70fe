"""`palaver judge`: audit of a judge, and single queries."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from palaver.cli import options
from palaver.cli.output import console, count, errors, facts, say, table
from palaver.core import ConfigError, need
from palaver.text import one_line
from palaver.trainers.run.files import fresh
from palaver.utils.config import parse_overrides
from palaver.utils.progress import Bar

if TYPE_CHECKING:
    from palaver.benchmarks.judge_audit.run import Audit
    from palaver.scoring import Cost

HELP = """Audit a judge, or query it.

[bold]Examples[/bold]

[cyan]palaver judge audit scripted:slot-biased[/cyan]  [dim]# a judge with a known fault, on generated sums[/dim]

[cyan]palaver judge audit judge:openai:MODEL --data LLMBar__Natural.json -n 50[/cyan]

[cyan]palaver judge audit recorded:Natural__evaluators__GPT-4_Vanilla_NoRules.json --data LLMBar__Natural.json[/cyan]
"""
JUDGE_HELP = (
    "[bold]judge:SPEC[/bold], [bold]rm:PATH[/bold] or another reward by name; [bold]openai:MODEL[/bold] or "
    "[bold]hf:MODEL[/bold] for judge:…; [bold]recorded:FILE[/bold] (LLMBar's evaluators); [bold]scripted:KIND[/bold] "
    "(fair, slot-biased, length-loving, injectable, gullible, flaky, refusing, slow)."
)
DATA_HELP = (
    "A file in LLMBar's form, or rows prompt first second label, or prompt answer grade; sample are sums made from a "
    "seed. May be given several times."
)

app = options.group(help=HELP)


@app.command("audit")
def audit(
    judge: Annotated[str, typer.Argument(metavar="JUDGE", help=JUDGE_HELP)],
    data: Annotated[list[str] | None, typer.Option("--data", help=DATA_HELP, show_default="sample")] = None,
    n: Annotated[int, typer.Option("--n", "-n", min=0, help="Rows drawn by the seed; 0 takes all.")] = 0,
    seed: options.Seed = 0,
    by: Annotated[str, typer.Option(help="Mode of comparison: pairs, scores, auto.")] = "auto",
    repeats: Annotated[int, typer.Option(min=1, help="Queries of each of 20 pairs; 1 for no repeats.")] = 3,
    probes: Annotated[int, typer.Option(min=0, help="Pairs that each probe is tried on; 0 for none.")] = 4,
    timed: Annotated[int, typer.Option(min=0, help="Pairs queried one at a time, for the latency.")] = 10,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", metavar="KEY=VALUE", help="Another threshold, as slot=0.1.")
    ] = None,
    out: Annotated[Path | None, options.out_folder("Of the page and figures.", "runs/audit-TIME")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, and write no page unless --out is given.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the number of queries and stop.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="End with 1 if a fault is found.")] = False,
) -> None:
    """Measure a judge against human labels, try probes on it, and name its faults."""
    from palaver.benchmarks.judge_audit import run
    from palaver.benchmarks.judge_audit.ask import AuditPlan
    from palaver.benchmarks.judge_audit.data import read
    from palaver.benchmarks.judge_audit.faults import Thresholds
    from palaver.benchmarks.judge_audit.judges import audited
    from palaver.utils.provenance import provenance

    sources = data or ["sample"]
    limits = Thresholds().changed(parse_overrides(limit or []))
    rows = read(sources, n, seed)
    subject = audited(judge, rows, AuditPlan(repeats=repeats, probed=probes, timed=timed, seed=seed), by)
    work = run.prepare(rows, subject.plan, subject.make, subject.reward if rows.graded else None)
    if dry_run:
        say(
            f"{count(len(rows.pairs), 'pair')}, {count(len(rows.graded), 'graded answer')}: "
            f"{count(work.questions, 'question')} to the judge, a comparison being two calls"
        )
        return
    folder = out or (None if as_json else fresh("audit"))
    if folder:
        need("the page of an audit", "train", "jinja2", "matplotlib")
    about = {**provenance(), "command": shlex.join(["palaver", *sys.argv[1:]])}
    with Bar("questions", errors, work.questions, transient=True) as bar:
        result = run.audit(
            work,
            subject.name,
            sources,
            limits=limits,
            provenance=about,
            folder=folder,
            report=lambda steps: bar.update(bar.task, advance=steps),
        )
    _show(result, folder, as_json)
    if strict and result.faults:
        raise typer.Exit(1)


@app.command("ask")
def ask(
    judge: Annotated[str, typer.Argument(metavar="JUDGE", help="As for audit.")],
    prompt: Annotated[str, typer.Option(help="The prompt.")],
    answer: Annotated[list[str], typer.Option(help="The answer; a second one is compared with the first.")],
) -> None:
    """Score one answer, or compare two, with the judge's reason."""
    from palaver.benchmarks.judge_audit.ask import AuditPlan, case
    from palaver.benchmarks.judge_audit.data import read
    from palaver.benchmarks.judge_audit.judges import audited
    from palaver.scoring import AnswerPair

    if not 1 <= len(answer) <= 2:
        raise ConfigError(f"give --answer once to have it scored, twice to have both compared; got {len(answer)}")
    subject = audited(judge, read(["sample"]), AuditPlan())
    if len(answer) == 2:
        (preference,) = subject.make(0).compare([AnswerPair(prompt, answer[0], answer[1])])
        fields = _judgement_fields(
            "first is better", preference.first, preference.reason, preference.failure, preference.cost
        )
        fields |= {
            "first shown first": _format_number(preference.orders[0]),
            "second shown first": _format_number(preference.orders[1]),
        }
    elif subject.reward is None:
        raise ConfigError(f"{subject.name} cannot score single answers; give --answer twice")
    else:
        (verdict,) = subject.reward.score([case(prompt, answer[0])])
        fields = _judgement_fields("score", verdict.score, verdict.reason, verdict.failure, verdict.cost)
        fields |= {one_line(name, 40): _format_number(value) for name, value in verdict.criteria.items()}
    console.print(facts({name: value for name, value in fields.items() if value}))


def _judgement_fields(what: str, value: float | None, reason: str, failure: str, cost: Cost) -> dict[str, str]:
    spent = f"{cost.prompt_tokens + cost.completion_tokens:,} tokens, ${cost.dollars:.4f}" if cost.calls else ""
    return {
        what: _format_number(value),
        "failure": one_line(failure, 400),
        "reason": one_line(reason, 1000),
        "cost": spent,
    }


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _show(audit: Audit, folder: Path | None, as_json: bool) -> None:
    paths: list[Path] = []
    if folder:
        from palaver.benchmarks.judge_audit.page import write

        paths = write(audit, folder)
    if as_json:
        typer.echo(json.dumps(audit.to_dict(), indent=1))
        return
    console.print(measures(audit))
    console.print()
    if not audit.faults:
        say(Text("no fault found", style="green"))
    for fault in audit.faults:
        say(Text.assemble((one_line(fault.name, 40), "bold red"), f": {one_line(fault.line, 500)}"))
    console.print()
    if paths:
        say("\n".join(map(str, paths)))


def measures(audit: Audit) -> Table:
    """Table of the measures, with faults in red."""
    from palaver.benchmarks.judge_audit.page import formatted

    at_fault = {fault.measure for fault in audit.faults}
    right = ("value", "95 %", "n")
    grid = table("measure", *right, "of what", title=one_line(audit.judge, 100), right=right)
    for measure in audit.measures:
        style = "red" if measure.key in at_fault else ""
        value, ends = formatted(measure)
        grid.add_row(
            Text(measure.title, style=style or "bold"),
            Text(value, style=style),
            ends,
            f"{measure.n:,}",
            Text(measure.note, style="dim"),
        )
    return grid
