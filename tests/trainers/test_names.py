"""Algorithms that differ by name alone train different parameters, but for listed pairs."""

from __future__ import annotations

import string
import zlib
from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any

import pytest
import torch

from palaver.envs.base.env import StepResult
from palaver.trainers.algorithms.base import ALGORITHMS, chosen
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.updater import Updater
from tests.trainers.learning import config, learners, played, policy
from tests.trainers.toys import Lengths

# with a group of G: MARLOO's advantages are G/(G-1) times MAGRPO's, and Adam divides a constant factor out
SAME = {
    ("magrpo", "marloo"): "A_MARLOO = G/(G-1) A_MAGRPO, which Adam's division takes away up to its epsilon",
    ("magrpo", "dr-grpo"): "with one update of a rollout the ratio is 1 and no clip acts: MAGRPO's gradient over M",
    ("marloo", "dr-grpo"): "by the two above",
}
# with one update of a rollout every ratio is 1, and d rho = d log pi whatever the level and the clip of rho
SAME_ONCE = {
    ("grpo", "gspo"): "the mean over a text of d log pi is that of d rho of each token",
    ("dapo", "cispo"): "the gradient of rho A is A d log pi, that of the weight 1 times A log pi",
}
MIXER = {"start": 0, "batch": 4, "updates": 2, "encoder": "words", "features": 16, "hidden": 8}
ONE_PASS = {"epochs": 1, "minibatches": 1}


class Hashed(Lengths):
    """Two turns that give each agent a reward of its own, between 0 and 10, for every text.

    With rewards of 1 a part of the gradients is near Adam's epsilon, so that distances depend on the instruction set.
    """

    def __init__(self) -> None:
        super().__init__(turns=2)

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        rewards = {seat: {"own": 10 * zlib.crc32(f"{seat}{text}".encode()) / 2**32} for seat, text in actions.items()}
        return StepResult(rewards, dict.fromkeys(self.agents, "next"), terminated=self.turn + 1 >= self.turns)


def trained(name: str, passes: Mapping[str, int]) -> torch.Tensor:
    """All parameters of both policies after two steps, less those before; texts of 1 to 4 tokens."""
    algorithm: dict[str, Any] = {"name": name, "group_size": 3, "mixer": MIXER, **passes}
    limit = {"max_tokens": 4}
    settings = config(
        policy=limit, algorithm=algorithm, critic={"lr": 3e-2, **passes}, optim={"lr": 1e-3, "max_grad_norm": 0}
    )
    team = {"a": policy(0), "b": policy(1)}
    before = torch.cat([p.detach().flatten().clone() for each in team.values() for p in each.model.parameters()])
    study = Updater(chosen(settings.algorithm), settings, learners(team, settings), Distributed("cpu", "fp32"))
    for step in (1, 2):
        study.update(
            study.estimate_advantages(played(team, settings, env=Hashed(), stop=tuple(string.printable), **limit)), step
        )
    return torch.cat([p.detach().flatten() for each in team.values() for p in each.model.parameters()]) - before


def distances(names: Collection[str], passes: Mapping[str, int]) -> dict[tuple[str, str], float]:
    """Pair -> norm of the difference of what two algorithms did to the parameters, over the larger of the two norms."""
    moved = {name: trained(name, passes) for name in names}
    assert all(float(each.norm()) > 0 for each in moved.values())
    return {
        (one, other): float((moved[one] - moved[other]).norm() / max(moved[one].norm(), moved[other].norm()))
        for one, other in combinations(names, 2)
    }


def check(names: Collection[str], passes: Mapping[str, int]) -> None:
    """Equal prompts, group size, learning rates and seeds: 0.01 is five times the bound of a pair in `SAME`."""
    same = SAME | (SAME_ONCE if passes else {})
    for pair, distance in distances(names, passes).items():
        assert (distance < 0.002) if pair in same else (distance > 0.01), (pair, distance)


def test_names_that_once_trained_alike_differ_after_two_steps_of_one_pass():
    check(["iac", "ippo", "cory"], ONE_PASS)


def test_rows_after_grpo_differ_once_a_rollout_is_used_several_times():
    check(["grpo", "dr-grpo", "dapo", "gspo", "cispo"], {})


@pytest.mark.slow
@pytest.mark.parametrize("passes", [ONE_PASS, {}], ids=["one pass", "as named"])
def test_two_names_train_different_parameters_in_two_steps(passes):
    check(ALGORITHMS, passes)
