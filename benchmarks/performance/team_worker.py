"""Worker process of the team benchmark: write its models, or measure one kind of team.

    python -m palaver.benchmarks.performance.team_worker JSON

The step is `palaver.trainers.policy_gradient.PolicyGradientLoop.step`, the one that `palaver train` runs; nothing is
written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from palaver.agents.llm.model.load import save_pretrained
from palaver.benchmarks.performance.teams import ONE, OTHER, OWN, SIZES, TARGET, WARMUP, Models, TeamMeasurement
from palaver.benchmarks.performance.training import toy
from palaver.benchmarks.performance.training.peer import PeakMemory
from palaver.benchmarks.performance.training.worker import SEED, Stopwatch, local_learners, loop_of
from palaver.registry import Spec
from palaver.trainers.config.loading import parse
from palaver.trainers.policy_gradient import PolicyGradientLoop
from palaver.trainers.rollout.team import trainable_team
from palaver.trainers.run.distributed import Distributed

SPEC = Spec("mean-length-v0", toy.MeanLength)


def measure(order: TeamMeasurement) -> dict[str, Any]:
    """Train and measure time and memory.

    Returns:
        `peak_bytes`: peak memory above that before the models were loaded, including loading and warm-up: resident
        memory, or on a GPU that allocated by torch; null if the system does not report it.
        `trained` and `held`: number of parameters with a gradient, and of all of the team's models.
        `steps`: of each counted step seconds on the clock and of CPU time (on a GPU the clock's again), of the
        rollout and of all the rest, the `update`; sampled tokens, and the share of rows that were trained.
    """
    torch.set_num_threads(order.threads)
    square = torch.ones(64, 64, device=order.device)
    torch.mm(square, square)  # libraries take memory at their first use
    world = Distributed(order.device, SIZES[order.size].dtype, cores=order.threads)
    watch = PeakMemory(order.device)
    before = watch.start() if watch.possible else 0
    loop = build(order, world)
    for step in range(1, WARMUP + 1):
        loop.step(step)
    stopwatch = Stopwatch(order.device)
    stopwatch.wrap(loop.updater, "estimate_advantages", "update")
    stopwatch.wrap(loop.updater, "update", "update")
    steps = [_step(order, loop, stopwatch, WARMUP + step) for step in range(1, order.steps + 1)]
    peak = watch.highest() - before if watch.possible else None
    learners = local_learners(loop)
    models = {id(learner.model): learner.model for learner in learners}
    return {
        "peak_bytes": peak,
        "trained": sum(p.numel() for learner in learners for p in learner.policy.parameters()),
        "held": sum(p.numel() for model in models.values() for p in model.parameters()),
        "steps": steps,
    }


def build(order: TeamMeasurement, world: Distributed) -> PolicyGradientLoop:
    """Make the loop of a team."""
    model_path, other_path = (str(Path(order.folder) / name) for name in (OWN, OTHER))
    mixed = order.agent_names[len(order.agent_names) // 2 :] if order.kind == "heterogeneous" else []
    config = parse(
        {
            "policy": {"model": model_path, "dtype": SIZES[order.size].dtype, "max_tokens": order.new_tokens},
            "team": {
                "kind": "separate" if order.kind == ONE else order.kind,
                "lora": {"rank": order.rank},
                "agents": {agent: {"model": other_path} for agent in mixed},
            },
            "algorithm": {"name": order.algorithm, "group_size": order.group},
            "kl": {"coef": order.kl},
            "optim": {"lr": 1e-5},
            "train": {
                "steps": WARMUP + order.steps,
                "prompts_per_step": order.prompts,
                "compile": order.compile,
            },
            "seed": SEED,
            "device": order.device,
        }
    )
    env = toy.MeanLength(order.agent_names, order.prompts * (WARMUP + order.steps), TARGET)
    team = trainable_team(config, SPEC, env.possible_agents, world.device)
    return loop_of(config, env, team, world)


def _step(order: TeamMeasurement, loop: PolicyGradientLoop, stopwatch: Stopwatch, step: int) -> dict[str, Any]:
    """Seconds of one step by stage, and the size of its work."""
    stopwatch.spent.clear()
    stopwatch.wall.clear()
    line = stopwatch.timed(loop.step, "step")(step)
    whole, later = ({"wall_s": stopwatch.wall[stage], "cpu_s": stopwatch.spent[stage]} for stage in ("step", "update"))
    answers = order.group * order.prompts
    learners = loop.updater.learners
    return {
        "step": whole,
        "rollout": {clock: whole[clock] - later[clock] for clock in whole},
        "update": later,
        "tokens": answers * sum(line[f"{agent}/tokens"] for agent in order.agent_names),
        "trained_share": sum(line[f"{learner.agents[0]}/rows"] for learner in learners)
        / (answers * len(order.agent_names)),
    }


MODEL_SEED = 11


def write(order: Models) -> dict[str, int]:
    """Write a Qwen3 and a Llama of the same shape, whose tokenizer has other ids.

    The Llama has no query and key norms.
    """
    shape, folder = SIZES[order.size], Path(order.folder)
    qwen = toy.model(shape, "cpu", MODEL_SEED)
    save_pretrained(qwen, toy.tokenizer(shape.vocab), folder / OWN)
    llama = LlamaForCausalLM(LlamaConfig(**shape.model(), attn_implementation="sdpa")).eval()
    save_pretrained(llama, toy.tokenizer(shape.vocab, backwards=True), folder / OTHER)
    return {OWN: qwen.num_parameters(), OTHER: llama.num_parameters()}


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    print(json.dumps(measure(TeamMeasurement(**order)) if "kind" in order else write(Models(**order))))
