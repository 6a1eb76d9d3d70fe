"""Checks of updates by samples of other weights than the present ones."""

from __future__ import annotations

import os

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.losses import reinforce

Check = tuple[object, str]  # whether settings contradict each other, and what to do


def correction_checks(config: RunConfig, algorithm: Algorithm) -> list[Check]:
    """Corrections of samples of another policy than the one before the update."""
    a = config.algorithm
    low, high = a.mask or (0.0, 2.0)
    return [
        (
            algorithm.loss is reinforce and a.old == "learner" and max(a.epochs, a.minibatches) > 1,
            f"algorithm.old=learner corrects up to the start of the update, and {algorithm.name} has no ratio for the "
            "steps that follow: set algorithm.old=sampler, algorithm.surrogate to clip or cispo, or "
            "algorithm.epochs and algorithm.minibatches to 1",
        ),
        (
            algorithm.pairs and (a.old == "learner" or a.mask is not None),
            f"{algorithm.name} compares whole texts by a loss of its own, which has no importance weight: set "
            "algorithm.old=sampler and algorithm.mask=null",
        ),
        (
            not low < 1 < high,
            f"algorithm.mask=[{low:g}, {high:g}] drops fresh samples, whose weight is 1: set a first bound below 1 and "
            "a second above it, as algorithm.mask=[0.5, 5]",
        ),
    ]


def lead_checks(config: RunConfig, algorithm: Algorithm) -> list[Check]:
    """Rollouts that are drawn before the update before theirs."""
    a, lead = config.algorithm, f"train.rollout_lead={config.train.rollout_lead}"
    return [
        (
            algorithm.mixer != "none" and a.mixer.actions == "legal",
            f"{lead} is of policies that learn from the samples of a step, and values of legal actions learn from a "
            "replay: set train.rollout_lead=0",
        ),
        (
            algorithm.pairs,
            f"{algorithm.name} weighs each pair by the weights that sampled it, as if they were the present ones: set "
            "train.rollout_lead=0",
        ),
        (
            algorithm.loss is reinforce and a.truncate is None,
            f"{algorithm.name} takes all samples for fresh, and with {lead} they are one update behind: set "
            "algorithm.truncate=2, or algorithm.surrogate to clip or cispo",
        ),
        (
            a.old == "learner" and a.truncate is None,
            f"algorithm.old=learner measures the ratio from the weights before the update, and without a weight from "
            f"the sampler to those the samples of {lead} count as fresh: set algorithm.truncate=2, or "
            "algorithm.old=sampler",
        ),
        (
            a.old == "sampler" and max(a.epochs, a.minibatches) > 1,
            f"with {lead} the ratio begins away from 1, so that algorithm.clip bounds the first of several "
            "algorithm.epochs or algorithm.minibatches more than the others: set algorithm.old=learner and "
            "algorithm.truncate=2, or both to 1",
        ),
        (
            any(each.sampling().truncated for each in [config.policy, *map(config.agent, config.team.agents)]),
            f"{lead} scores texts with later weights than those that sampled, whose part of the vocabulary under "
            "top_p or top_k is another: set top_p=1 and top_k=0, or train.rollout_lead=0",
        ),
        (
            int(os.environ.get("WORLD_SIZE", "1")) > 1,
            f"{lead} keeps the rollouts of one process in the checkpoint, and this run has several: set "
            "train.rollout_lead=0, or start one process",
        ),
    ]
