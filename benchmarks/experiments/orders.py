"""Compare questions of first order alone with those of both orders, at about equal tokens.

    python -m palaver.benchmarks.experiments.orders --seeds 20-23 --out FILE

Trains the recipe `build-orders` three ways. One JSON line a run: what the learning builder guesses, and what is built,
in each evaluation. Runs that are in the file already are skipped. Without --seeds it prints the table of the file, as
docs/inference.md has it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from palaver.benchmarks.experiments.demo_seeds import keep_run, read, seeds_of, train_recipe
from palaver.core import PalaverError
from palaver.envs.base.inference_wrapper import COMPONENT
from palaver.markdown import markdown_table

RECIPE = "build-orders"
ONE = ("env.infer.order=1", "algorithm.group_size=18")  # 18 episodes of two turns, for 12 of three
ARMS: Mapping[str, tuple[str, ...]] = MappingProxyType({"none": (*ONE, "env.infer.alpha=0"), "first": ONE, "both": ()})
NAMES = MappingProxyType({"none": "no reward for guesses", "first": "first order", "both": "first and second order"})
HEADS = MappingProxyType(
    {
        "first": "F1 of the first order",
        "return": "return",
        "iou": "IoU",
        "twice": "built twice",
        "course": "return over training",
        "tokens": "sampled tokens",
        "cpu_s": "CPU seconds",
    }
)
MEASURED = ("first", "return", "iou", "twice", "course")


def run(arm: str, seed: int, folder: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Train one seed of an arm in a new folder and return its line of the file.

    Raises:
        KeyboardInterrupt: the run was interrupted.
    """
    from palaver.trainers.run.files import METRICS
    from palaver.trainers.run.logging import read_metrics

    about, _ = train_recipe(RECIPE, [*ARMS[arm], *overrides], seed, folder)
    lines = read_metrics(folder / METRICS)
    trained = [line for line in lines if line["kind"] == "train"]
    evaluated = [of_evaluation(line) for line in lines if line["kind"] == "eval"]
    return {
        "arm": arm,
        "seed": seed,
        "overrides": list(overrides),
        "updates": len(trained),
        "completions": sum(line["completions"] for line in trained),
        "tokens": sum(line["sampled_tokens"] for line in trained),
        "cpu_s": round(lines[-1]["cpu_s"], 1),
        "commit": about["commit"],
        **evaluated[-1],
        "course": fmean(each["return"] for each in evaluated[1:]),
        "evaluations": evaluated,
    }


def of_evaluation(line: Mapping[str, Any]) -> dict[str, float]:
    """Guesses of the builder that learns, and what is built; the return is without guesses."""
    parts, metrics = line["components"], line["metrics"]
    found = {
        "step": line["step"],
        "first": metrics[f"{COMPONENT}/accuracy/builder1"],
        "second": metrics.get(f"{COMPONENT}2/accuracy/builder1"),
        "return": sum(value for name, value in parts.items() if name != COMPONENT),
        "iou": metrics["iou"],
        "twice": metrics["by_several"],
    }
    return {name: round(value, 4) for name, value in found.items() if value is not None}


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Means over seeds of each arm, and of differences of paired seeds, with 95 % intervals."""
    head = ["", "seeds", *HEADS.values()]
    by_arm = {arm: {line["seed"]: line for line in lines if line["arm"] == arm} for arm in ARMS}
    rows = [
        [NAMES[arm], str(len(of)), *(_cell([line[key] for line in of.values()], key) for key in HEADS)]
        for arm, of in by_arm.items()
        if of
    ]
    for left, right in (("first", "none"), ("both", "first")):
        seeds = sorted(by_arm[left].keys() & by_arm[right].keys())
        if seeds:
            differences = {key: [by_arm[left][seed][key] - by_arm[right][seed][key] for seed in seeds] for key in HEADS}
            cells = [_cell(differences[key], key, "+") for key in HEADS]
            rows.append([f"{NAMES[left]}, less {NAMES[right]}", str(len(seeds)), *cells])
    return markdown_table(head, rows, ("---", *["---:"] * (len(head) - 1)))


def _cell(values: Sequence[float], key: str, sign: str = "") -> str:
    """Mean and interval; of what a run costs the mean alone."""
    from palaver.utils.stats.intervals import student

    if key not in MEASURED:
        return f"{fmean(values):{sign},.0f}"
    ends = student(values)
    interval = f" [{', '.join(f'{end:{sign}.3f}' for end in ends)}]" if ends else ""
    return f"{fmean(values):{sign}.3f}{interval}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, 2 after a mistake, 130 if interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="changes to the recipe, to try others")
    parser.add_argument("--arms", nargs="+", choices=sorted(ARMS), default=list(ARMS), help="all, if left out")
    parser.add_argument("--seeds", type=seeds_of, help="one seed, or FIRST-LAST; without it: print the table")
    parser.add_argument("--out", type=Path, required=True, help="the file; new lines are added at its end")
    given = parser.parse_intermixed_args(arguments)
    try:
        lines = read(given.out)
        if given.seeds is None:
            print(table(lines))
            return 0
        done = {(line["arm"], line["seed"], tuple(line["overrides"])) for line in lines}
        for seed, arm in ((seed, arm) for seed in given.seeds for arm in given.arms):
            if (arm, seed, tuple(given.overrides)) in done:
                continue
            given.out.parent.mkdir(parents=True, exist_ok=True)
            keep_run(given.out, run, arm, seed, given.overrides)
    except (PalaverError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
