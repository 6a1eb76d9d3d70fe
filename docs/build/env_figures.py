"""Figures of the environments' pages: results of their scripted teams in the first turn of the first task.

`python -m docs.build.env_figures` redraws them into `docs/figures`; arguments select environments.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from docs.build.env_pages import pictures
from palaver.agents.make_policy import make_policy
from palaver.benchmarks.reports.frames import png, replay
from palaver.core import Sampling
from palaver.registry import Spec, spec, specs
from palaver.trainers.rollout.episodes import SamplingPlan, rollout, text_env

FOLDER = Path(__file__).resolve().parents[1] / "figures"


def picture(env_spec: Spec, team: str) -> NDArray[np.uint8]:
    """Frame of an environment with `rgb_array` after a scripted team's first turn of the first task."""
    env = text_env(env_spec.id, {})
    policy = make_policy(f"scripted:{team}", scripted=env_spec.scripted)
    players = dict.fromkeys(env.possible_agents, policy)
    how = dict.fromkeys(env.possible_agents, Sampling())
    (episode,) = rollout(env, players, [env.tasks[0].id], SamplingPlan(), sampling=how, seed=0)
    return replay(env, episode)[0][1]


def main(names: list[str]) -> int:
    """Draw the figures of the named environments, of all without names; returns the exit code."""
    for env_spec in [spec(name) for name in names] or specs().values():
        for team, file in pictures(env_spec).items():
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / file).write_bytes(png(picture(env_spec, team)))
            print(FOLDER / file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
