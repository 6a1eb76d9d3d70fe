"""One of the processes of `test_shards.py`: runs, a resume, updates with uneven rows.

python sharded_script.py FOLDER: `FOLDER/*.yaml` are trained into `FOLDER/two-*`, `FOLDER/cut` is resumed, and the
statistics of the updates are written to `FOLDER/two.json`.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from palaver.trainers.config.loading import load
from palaver.trainers.objectives.losses import reinforce
from palaver.trainers.placement.in_process import make_learners
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.train import resume, train
from palaver.trainers.update.update_records import UpdateInput
from tests.trainers.learning import config, played, policy, scattered
from tests.trainers.toys import register_toy

HANG_S = 60  # of one part of the script; it is loaded by then


def updates(distributed: Distributed) -> list[dict[str, Any]]:
    """Statistics of updates whose second process has no rows, no gradient, one row, a fault.

    The rows of the first process weigh the same in each, so that one process has the same numbers.
    """
    run = config(placement={"shard": "fsdp2"}, train={"micro_tokens": 40}, optim={"lr": 1e-3})
    team = {"a": policy(0, name="a"), "b": policy(1, name="b")}
    batch = scattered(played(team, run), run)
    learner = make_learners(run, {"a": team["a"]}, distributed)[0]
    rows, zero = batch.rows_of(["a"]), replace(batch, advantage=torch.zeros_like(batch.advantage))
    weight = torch.full((len(batch),), 0.1, dtype=torch.float64)
    first = UpdateInput(batch, rows, reinforce, 1, weight)
    second = [replace(first, rows=[]), replace(first, batch=zero), replace(first, batch=zero, rows=rows[:1])]
    found = []
    for step, other in enumerate(second, start=1):
        found.append(asdict(learner.update(replace(first if distributed.is_main else other, step=step))))
    scores = learner.log_probs(batch, rows if distributed.is_main else rows[:2])
    assert len(scores) == (len(rows) if distributed.is_main else 2)
    broken = replace(
        batch, advantage=batch.advantage * (1 if distributed.is_main and distributed.size > 1 else torch.inf)
    )
    try:
        learner.update(replace(first, batch=broken, step=4))
    except NumericalError as error:
        found.append({"error": str(error)})
    return [*found, asdict(learner.update(replace(first if distributed.is_main else second[0], step=5)))]


def main(folder: Path) -> None:
    """Run every part; a part that hangs ends the process with a traceback."""
    register_toy()
    for recipe in sorted(folder.glob("*.yaml")):
        faulthandler.dump_traceback_later(5 * HANG_S, exit=True)
        train(load(str(recipe)), folder / f"two-{recipe.stem}")
    resume(folder / "cut")
    distributed = Distributed("cpu", "fp32")
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    statistics = updates(distributed)
    faulthandler.cancel_dump_traceback_later()
    if distributed.is_main:
        (folder / "two.json").write_text(json.dumps(statistics))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
