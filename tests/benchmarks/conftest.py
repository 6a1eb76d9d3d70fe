from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palaver.core import Completion
from palaver.episodes import Episode, Turn
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import dump

AGENTS = ("background", "method")


def episode(task: str, texts: tuple[str, str], components: dict[str, float], seed: int = 0) -> Episode:
    said = {a: Completion(t, (1,), (2, 3), (-0.1, -0.2), (-0.1, -0.2)) for a, t in zip(AGENTS, texts, strict=True)}
    turn = Turn(
        index=0, node="0", parent="", group=task, choice=dict.fromkeys(AGENTS, 0),
        observations={a: f"You write the {a}. Title: {task}" for a in AGENTS}, completions=said,
        rewards=dict.fromkeys(AGENTS, sum(components.values())), components=dict.fromkeys(AGENTS, components),
        metrics={"repeated_sentences": 0.0, "off_topic": 0.125},
    )  # fmt: skip
    return Episode("arxiv-v0", task, seed, (turn,), "terminated", dict.fromkeys(AGENTS, "tiny"))


def train_line(step: int, steps: int) -> dict[str, Any]:
    progress = step / steps
    line: dict[str, Any] = {
        "kind": "train", "step": step, "wall_s": 1.1 * step, "cpu_s": 2.0 * step,
        "reward/mean": 0.2 + 2.0 * progress + 0.1 * (step % 3), "reward/std": 0.5, "return/raw": 0.2 + 2 * progress,
        "component/structure": 0.1 + 0.9 * progress, "component/style": 0.1 + 1.1 * progress,
        "metric/off_topic": 0.125, "tokens_per_s": 900.0 + step, "groups/zero_advantage": 0.0,
        "time/rollout_s": 0.7, "time/update_s": 0.4,
    }  # fmt: skip
    for index, agent in enumerate(AGENTS):
        line |= {f"{agent}/tokens": 40 + 10 * index + step / 10, f"{agent}/loss": 0.1 - 0.01 * index,
                 f"{agent}/grad_norm": 1.0 + index, f"{agent}/kl": 0.001 * step, f"{agent}/lr": 2e-4}  # fmt: skip
    return line


def eval_line(step: int, mean: float) -> dict[str, Any]:
    return {
        "kind": "eval", "step": step, "wall_s": 1.0, "mean": mean, "low": mean - 0.1, "high": mean + 0.2, "n": 64,
        "components": {"structure": mean / 3, "style": 2 * mean / 3}, "metrics": {"off_topic": 0.125}, "greedy": False,
    }  # fmt: skip


Fabricate = Callable[..., Path]


@pytest.fixture
def fabricate(tmp_path: Path) -> Fabricate:
    """A run folder as the trainers write it, without a trainer."""

    def make(
        name: str = "arxiv-magrpo-20260101-120000", steps: int = 30, planned: int = 30,
        evals: tuple[int, ...] = (0, 30), text: str = "A sentence. However, another one.",
    ) -> Path:  # fmt: skip
        folder = tmp_path / name
        (folder / "episodes").mkdir(parents=True)
        config = RunConfig.model_validate({"train": {"steps": planned}, "env": {"id": "arxiv-v0", "length": [32, 64]}})
        (folder / "config.yaml").write_text(dump(config), encoding="utf-8")
        lines = [eval_line(step, 0.2 + 2.0 * step / planned) for step in evals]
        lines += [train_line(step, planned) for step in range(1, steps + 1)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        for step in evals:
            rows = [
                episode(f"a{index}", (f"step {step}: {text}", text), {"structure": 0.5, "style": 1.5 * step / planned})
                for index in range(5)
            ]
            path = folder / "episodes" / f"eval-{step:06d}.jsonl"
            path.write_text("".join(json.dumps(row.to_dict()) + "\n" for row in rows), encoding="utf-8")
        return folder

    return make
