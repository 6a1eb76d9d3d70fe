"""Train the demo's recipes from many seeds.

    python -m palaver.benchmarks.experiments.demo_seeds ACT --seeds 0-19 --out FILE

One JSON line a run: held-out score before and after, CPU seconds, commit, instruction set, hash of the warm starts.
Runs that are in the file already are skipped, so the command may be stopped and restarted, or run several times at once
for different seeds. torch chooses its instruction set when it is loaded; variables choose another:

    ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 python -m palaver.benchmarks.experiments.demo_seeds coding ...

Without --seeds it prints the table of the act's lines in the file, as docs/demo.md has it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from palaver.core import PalaverError
from palaver.markdown import markdown_table

if TYPE_CHECKING:  # `palaver demo` reads ACTS before anything heavy may be imported
    from palaver.trainers.config.run import RunConfig


@dataclass(frozen=True, slots=True)
class Act:
    """One act of `palaver demo`.

    Attributes:
        recipe: of its runs.
        bar: the score that 28 of 30 runs should reach.
        floor: the score that every run should reach.
        metrics: of the last evaluation, kept in a line.
        overrides: what the demo changes in the recipe.
    """

    recipe: str
    bar: float
    floor: float
    metrics: tuple[str, ...]
    overrides: tuple[str, ...] = ()


ACTS: Mapping[str, Act] = MappingProxyType(
    {
        "writing": Act(
            "arxiv-magrpo",
            1.9,
            1.7,
            ("repeated_sentence_share", "off_topic_share", "ill_formed_share"),
            ("train.steps=110", "optim.lr=1.2e-3"),  # in less time
        ),
        "coding": Act("coding-mini-magrpo", 54, 50, ("aux_map", "aux_test", "aux_list")),
    }
)


def greedy_solved(folder: Path, config: RunConfig) -> str:
    """Number of held-out problems that a trained coding team solves greedily, as `58 of 60`."""
    from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, as_trained, measure
    from palaver.utils.stats.pass_at_k import SOLVED

    team = f"run:{folder}"
    keywords, sampling, _ = as_trained(team, config.env.id)
    greedy = replace(sampling, temperature=0.0)
    result, _ = measure(EvaluationConfig(config.env.id, keywords, team, n=config.eval.n, sampling=greedy))
    return f"{round(result.metrics[SOLVED] * result.n)} of {result.n}"


def train_recipe(recipe: str, overrides: Sequence[str], seed: int, folder: Path) -> tuple[Mapping[str, Any], RunConfig]:
    """Train one seed of a recipe in a new folder; return its provenance and its config.

    Raises:
        KeyboardInterrupt: the run was interrupted.
    """
    from palaver.trainers.config.loading import load
    from palaver.trainers.run.files import ended
    from palaver.trainers.train import train
    from palaver.utils.provenance import provenance

    about, config = provenance(), load(recipe, [*overrides, f"seed={seed}", "log.tensorboard=false"])
    if not ended(train(config, folder, launch=about)):
        raise KeyboardInterrupt
    return about, config


def run(act: str, seed: int, folder: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Train one seed of an act in a new folder and return its line of the file.

    Raises:
        KeyboardInterrupt: the run was interrupted and has no score.
    """
    from palaver.trainers.run.files import LAUNCH, METRICS
    from palaver.trainers.run.logging import read_metrics

    about, config = train_recipe(ACTS[act].recipe, [*ACTS[act].overrides, *overrides], seed, folder)
    measured = [line for line in read_metrics(folder / METRICS) if line["kind"] == "eval"]
    first, last = measured[0], measured[-1]
    starts = json.loads((folder / LAUNCH).read_text(encoding="utf-8"))["warm_starts"]
    line = {
        "act": act,
        "seed": seed,
        **instruction_set(),
        "before": _score(first),
        "after": _score(last),
        "cpu_s": round(last["cpu_s"], 1),
        "commit": about["commit"],
        "torch": about["libraries"]["torch"],
        "warm_start": sorted({start["hash"] for start in starts.values()}),
        "overrides": list(overrides),
        "metrics": {name: round(last["metrics"][name], 4) for name in ACTS[act].metrics},
    }
    if act == "coding":
        line["greedy"] = int(greedy_solved(folder, config).split()[0])
    return line


def instruction_set() -> dict[str, str]:
    """Instruction sets of torch and oneDNN.

    oneDNN does not report its own, so that one is as set by the environment variable.
    """
    import os

    import torch

    return {"isa": torch.backends.cpu.get_cpu_capability(), "onednn": os.environ.get("ONEDNN_MAX_CPU_ISA", "all")}


def _score(line: Mapping[str, Any]) -> float:
    """Number of problems solved if the environment reports it, otherwise the mean reward."""
    from palaver.utils.stats.pass_at_k import SOLVED

    mean, solved = float(line["mean"]), line["metrics"].get(SOLVED)
    return round(mean, 4) if solved is None else round(solved * line["n"])


def table(act: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """The runs of an act in Markdown, a row for each instruction set, the most runs first."""
    bar, floor, metrics = ACTS[act].bar, ACTS[act].floor, ACTS[act].metrics
    head = ["instruction set", "seeds", "before", "mean after", "lowest", "highest"]
    head += [f"at least {bar:g}", f"below {floor:g}", *(["lowest greedy"] if act == "coding" else [])]
    head += [name.removesuffix("_share").replace("_", " ") for name in metrics] + ["CPU seconds"]
    rows = []
    for isa, runs in Counter(line["isa"] for line in lines if line["act"] == act).most_common():
        chosen = [line for line in lines if (line["act"], line["isa"]) == (act, isa)]
        after, seeds = [line["after"] for line in chosen], [line["seed"] for line in chosen]
        greedy = [str(min(line["greedy"] for line in chosen))] if act == "coding" else []
        rows.append(
            [
                isa,
                f"{min(seeds)} to {max(seeds)}",
                *(f"{fmean(line[key] for line in chosen):.3g}" for key in ("before", "after")),
                f"{min(after):.4g}",
                f"{max(after):.4g}",
                f"{sum(a >= bar for a in after)} of {runs}",
                str(sum(a < floor for a in after)),
                *greedy,
                *(f"{fmean(line['metrics'][name] for line in chosen):.3f}" for name in metrics),
                f"{fmean(line['cpu_s'] for line in chosen):.0f}",
            ]
        )
    return markdown_table(head, rows)


def read(file: Path) -> list[dict[str, Any]]:
    """The lines of a file, none where there is no such file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def keep_run(
    file: Path, train: Callable[..., Mapping[str, Any]], kind: str, seed: int, overrides: Sequence[str]
) -> None:
    """Add the line of a run to a file, and print it.

    Args:
        file: made if there is none, in a folder that exists.
        train: `run`, or its like: (kind, seed, new folder, overrides) -> line of the run. The folder is not kept.
        kind: act or arm.
        seed: of the run.
        overrides: further changes to the recipe.
    """
    with tempfile.TemporaryDirectory() as scratch:
        line = json.dumps(train(kind, seed, Path(scratch) / "run", overrides))
    with file.open("a", encoding="utf-8") as lines:
        lines.write(line + "\n")
    print(line, flush=True)


def seeds_of(text: str) -> list[int]:
    """The seeds of `3` or `0-19`.

    >>> seeds_of("2-4")
    [2, 3, 4]
    """
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, 2 after a mistake, 130 if interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("act", choices=sorted(ACTS))
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="changes to the act, to try others")
    parser.add_argument("--seeds", type=seeds_of, help="one seed, or FIRST-LAST; without it: print the table")
    parser.add_argument("--out", type=Path, required=True, help="the file; new lines are added at its end")
    given = parser.parse_intermixed_args(arguments)
    try:
        lines = read(given.out)
        if given.seeds is None:
            print(table(given.act, lines))
            return 0
        done = {_which(line) for line in lines}
        for seed in given.seeds:
            wanted = {"act": given.act, "seed": seed, **instruction_set(), "overrides": given.overrides}
            if _which(wanted) in done:
                continue
            keep_run(given.out, run, given.act, seed, given.overrides)
    except (PalaverError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _which(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return (line["act"], line["seed"], line["isa"], line["onednn"], tuple(line["overrides"]))


if __name__ == "__main__":
    sys.exit(main())
