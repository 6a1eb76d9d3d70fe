"""Stage 4: training steps of two agents, by kind of team, and memory over 20 steps."""

from __future__ import annotations

import gc
from typing import Any

from palaver.benchmarks.performance.gpu.record import Bound, StageRecord
from palaver.benchmarks.performance.gpu.workload import Workload
from palaver.core import Message
from palaver.trainers.policy_gradient import PolicyGradientLoop
from palaver.trainers.run.memory import estimate

PEER_S = 6.5  # published seconds a prompt of the peer, 1.7B, one card: 1.8 s an environment step, 3.6 steps a prompt
MOST_S = {1: Bound(0.85), 8: Bound(1.3)}  # of a step of so many prompts, separate models
TIMES_PEER = Bound(10, most=False)
MOST_LORA = Bound(1.4)  # memory, in that of one agent that trains a whole model
ESTIMATE = Bound(0.15)  # relative error
GROWTH = Bound(0.01)
STEPS = 20
CASES = (  # kind of team, prompts, and whether its layers are compiled
    ("one", 8, False),
    ("separate", 1, False),
    ("separate", 8, False),
    ("shared", 8, False),
    ("lora", 8, False),
    ("separate", 8, True),
)


def run(record: StageRecord, work: Workload) -> None:
    """Measure stage 4."""
    peaks: dict[str, int] = {}
    for kind, prompts, compiled in CASES:
        name = f"step, {kind}, B {prompts}{', compiled' if compiled else ''}"
        if not compiled or record.gpu_only(name):
            record.measure(
                name,
                lambda name=name, kind=kind, prompts=prompts, compiled=compiled: _step(  # type: ignore[misc]
                    record, work, name, kind, prompts, compiled, peaks
                ),
            )
    if record.gpu_only("memory of lora") and {"one", "lora"} <= peaks.keys():
        record.value("memory of lora", peaks["lora"] / peaks["one"], "x one", MOST_LORA, **peaks)
    record.measure("memory over steps", lambda: _growth(record, work))
    record.skip(
        "peer in turns", "its script is given to: palaver bench step setting=Qwen3-0.6B device=cuda peer_script="
    )


def _step(
    record: StageRecord, work: Workload, name: str, kind: str, prompts: int, compiled: bool, peaks: dict[str, int]
) -> None:
    """Seconds of a step of 256 tokens an answer and of its stages, after one not counted."""
    gc.collect()  # the loop before may live in a circle
    before = work.allocated()
    loop = work.loop(kind, prompts, 4, compile=compiled)
    steps = iter(range(1, 6))
    lines: list[dict[str, Any]] = []
    seconds: list[float] = []
    peak = work.peak(lambda: seconds.append(work.seconds(lambda: lines.append(loop.step(next(steps)))))) - before
    bound = MOST_S.get(prompts) if kind == "separate" else None
    stages = {stage: [round(line[f"time/{stage}_s"], 3) for line in lines] for stage in ("rollout", "update")}
    record.value(name, seconds[0], "s", bound, peak_bytes=peak, **stages)
    if record.gpu_only(f"{name}: memory against the estimate"):
        needed = _needed(loop, prompts)
        record.value(f"{name}: memory against the estimate", abs(peak / needed - 1), "", ESTIMATE, estimate=needed)
    if kind == "separate" and prompts == 8 and record.gpu_only(f"{name}: against the peer's published rate"):
        record.value(f"{name}: against the peer's published rate", PEER_S * prompts / seconds[0], "x", TIMES_PEER)
    if prompts == 8 and not compiled:
        peaks[kind] = peak


def _needed(loop: PolicyGradientLoop, prompts: int) -> int:
    """Bytes that a run of this loop is said to need."""
    config, learners = loop.session.config, loop.updater.learners
    opening = loop.env.fork().reset(seed=0, options={"task": 0})[0]
    longest = max(len(learners[0].policy.render((Message("user", text),))) for text in opening.values())
    rows = prompts * config.algorithm.group_size * max(len(learner.agents) for learner in learners)
    return estimate(config, [learner.facts() for learner in learners], longest, rows).total


def _growth(record: StageRecord, work: Workload) -> None:
    """Memory that torch holds after step 20, over that after step 3."""
    if not record.gpu_only("memory over steps"):
        return
    loop = work.loop("separate", 1, STEPS)
    held = []
    for step in range(1, STEPS + 1):
        loop.step(step)
        held.append(work.allocated())
    record.value("memory over steps", held[-1] / held[2] - 1, "", GROWTH, bytes=held)
