"""Finished runs as the trainers write them, without a trainer."""

from __future__ import annotations

import json
from pathlib import Path

from palaver.trainers.config.loading import parse
from palaver.utils.config import dump

TASKS = ("s", "t")
TWICE = {"id": "pioneer-v0", "env": "arxiv-v0", "keywords": {"length": [32, 64]}}


def evaluation(step: int, returns: tuple[float, ...], by_task: bool) -> dict:
    told = {"by_task": dict(zip(TASKS, returns, strict=True))} if by_task else {}
    mean = sum(returns) / len(returns)
    return {"kind": "eval", "step": step, "mean": mean, "n": 4, "tasks": len(returns), "greedy": False, **told}


def make_run(
    runs: Path, name: str, algorithm: str = "magrpo", seed: int = 0, gain: float = 0.25, by_task: bool = True,
    counted: bool = True, evals: tuple[int, ...] = (0, 4), steps: int = 4, kind: str = "separate", **config,
) -> Path:  # fmt: skip
    """A finished run of four updates; its reward rises by `gain` an update, and so do both its tasks in all."""
    folder = runs / name
    folder.mkdir(parents=True)
    values = {
        "env": {"id": "arxiv-v0", "length": [32, 64]}, "algorithm": {"name": algorithm}, "seed": seed,
        "train": {"steps": 4}, "team": {"kind": kind}, "out": str(folder), **config,
    }  # fmt: skip
    (folder / "config.yaml").write_text(dump(parse(values)))
    lines = [evaluation(step, (0.25 + gain * step, 0.75 + gain * step), by_task) for step in evals if step == 0]
    for step in range(1, steps + 1):
        told = {"completions": 10} if counted else {"a/rows": 4, "b/rows": 6, "a/tokens": 3, "b/tokens": 3}
        lines.append({"kind": "train", "step": step, "wall_s": step * (1.0 + seed), "cpu_s": 2.0 * step,
                      "reward/mean": gain * step, **told})  # fmt: skip
    lines += [evaluation(step, (0.25 + gain * step, 0.75 + gain * step), by_task) for step in evals if step > 0]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
