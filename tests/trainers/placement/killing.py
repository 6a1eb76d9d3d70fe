"""Actors of Ray that are killed, at a place of a run."""

from __future__ import annotations

import importlib
import os
import signal
from typing import Any

import pytest

from palaver.trainers.policy_gradient import PolicyGradientLoop


def kill(host: Any) -> None:
    """Kill the actor of a worker, and wait until Ray knows."""
    ray = importlib.import_module("ray")
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(host.actor.__ray_call__.remote(lambda _: os.kill(os.getpid(), signal.SIGKILL)))


def kill_sampler_of_shared(monkeypatch: Any, at: int) -> list[int]:
    """Kill the sampler of a shared team once, in the rollout of step `at`; the list has that step afterwards."""
    roll, killed = PolicyGradientLoop.rolled, list[int]()

    def interrupted(self: Any, step: int, team: Any) -> Any:
        if step == at and not killed:
            sampler = self.updater.learners[0].policy.shared_engine
            assert sampler.name == "sampler of shared"
            kill(sampler)
            killed.append(step)
        return roll(self, step, team)

    monkeypatch.setattr(PolicyGradientLoop, "rolled", interrupted)
    return killed
