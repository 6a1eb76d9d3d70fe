"""One training update: advantages of a batch, then updates of policies and critics.

`estimate_advantages` fills in returns and advantages; `update` updates the policies, jointly or one after the other,
and then what the estimator holds. The algorithm chooses the estimator and the order; no algorithm is known by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, TypeVar

import torch
from torch import Tensor

from palaver.agents.base.policy import Policy, place_of
from palaver.core import PolicyError, stable_seed
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives import kl
from palaver.trainers.rollout.batch import Batch, sampled
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.advantage_alignment import AlignedEstimator
from palaver.trainers.update.advantage_estimators import (
    AdvantageBatch,
    AdvantageEstimator,
    KLTerms,
    MixerEstimator,
    PairEstimator,
)
from palaver.trainers.update.learner import Learner
from palaver.trainers.update.moving_baseline import MovingBaseline
from palaver.trainers.update.sequential_weight import at_clamp, joint_log_ratio
from palaver.trainers.update.update_records import UpdateInput
from palaver.trainers.update.value_estimator import ValueEstimator

T = TypeVar("T")

ESTIMATORS: dict[str, type[AdvantageEstimator]] = {
    "none": AdvantageEstimator,
    "agent": MovingBaseline,
    "own": ValueEstimator,
    "joint": ValueEstimator,
    "pairs": PairEstimator,
    "aligned": AlignedEstimator,
    "mixer": MixerEstimator,
}


class Updater:
    """Updater of the policies, critics, baselines and references of a run.

    Args:
        algorithm: definition of the algorithm.
        config: config of the run.
        learners: one per distinct policy.
        distributed: device and processes.

    Attributes:
        agents: those that are trained.
        independent: no two policies share a model, so that they may be updated at the same time.
        places: policy -> GPU or worker that computes for it; "" is the CPU of this process.
    """

    def __init__(
        self, algorithm: Algorithm, config: RunConfig, learners: Sequence[Learner], distributed: Distributed
    ) -> None:
        self.algorithm, self.config, self.learners, self.distributed = algorithm, config, list(learners), distributed
        self.estimator = ESTIMATORS[algorithm.estimator](algorithm, config, self.learners, distributed)
        self.agents = _agents(self.learners)
        hosts = {id(learner.policy.shared_engine) for learner in self.learners}
        self.independent = len(hosts) == len(self.learners)
        self.places = {learner.policy.name: place_of(learner.policy) for learner in self.learners}
        self._update_policies = {"together": self._together, "sequence": self._in_sequence}[algorithm.order]

    def assign(self, team: Mapping[str, Policy]) -> None:
        """Assign each policy to its agents in `team`, and sort the learners by agent.

        A policy keeps its optimiser, critic and reference; moving means belong to agents.
        """
        agents = list(team)
        for learner in self.learners:
            learner.agents = tuple(agent for agent in agents if team[agent] is learner.policy)
        self.learners.sort(key=lambda learner: agents.index(learner.agents[0]))
        self.agents = _agents(self.learners)

    def staleness(self, batch: Batch) -> dict[str, float]:
        """Agent -> most updates of its policy since a completion of the batch was sampled.

        Raises:
            PolicyError: more than `train.rollout_lead`, or a completion is of weights that are yet to come.
        """
        behind, lead = dict[str, float](), self.config.train.rollout_lead
        rows = list(zip(batch.agent.tolist(), batch.completions, strict=True))
        for learner in self.learners:
            version, own = learner.policy.version, {batch.agents.index(agent) for agent in learner.agents}
            ages = [version - completion.version for agent, completion in rows if agent in own]
            if ages and not 0 <= min(ages) <= max(ages) <= lead:
                raise PolicyError(
                    f"completions of {learner.policy.name!r} are {min(ages)} to {max(ages)} updates behind its "
                    f"weights, and train.rollout_lead={lead} allows 0 to {lead}: the weights that sample are not those "
                    "that are trained; go on from the latest checkpoint with palaver train --resume"
                )
            behind |= {agent: float(max(ages, default=0)) for agent in learner.agents}
        return behind

    def estimate_advantages(self, batch: Batch) -> AdvantageBatch:
        """Fill the table with returns and advantages.

        Raises:
            NumericalError: the loss of a mixer, which is updated first, is not finite.
        """
        return self.estimator.estimate(batch, self._kl_terms(batch))

    def update(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Update every policy, then every critic, and return the metrics by name.

        Raises:
            NumericalError: a loss or gradient is not finite.
        """
        metrics = self._update_policies(estimated, step)
        for learner in self.learners if self.config.kl.coef > 0 else ():
            metrics |= self._update_reference(learner, estimated, step)
        return metrics | self.estimator.update(estimated, step)

    def send_weights(self) -> None:
        """Send the present weights to the policies' samplers, where these are apart."""
        if self.config.placement.apart:
            self._map_learners(lambda learner: learner.send_weights())

    def _together(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Update all policies from the same estimate."""
        metrics: dict[str, Any] = {}
        for learner_metrics in self._map_learners(lambda learner: self._update_policy(learner, estimated, step)):
            metrics |= learner_metrics
        return metrics

    def _in_sequence(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Update one policy after the other, each with the likelihood ratio of those before."""
        batch, clamp, metrics = estimated.batch, self.config.algorithm.factor_clamp, dict[str, Any]()
        log_ratio = torch.zeros(len(batch.steps), dtype=torch.float64)  # of joint steps so far
        for learner in self._order(step):
            rows = batch.rows_of(learner.agents)
            inputs, factor = self.estimator.in_sequence(estimated, log_ratio)
            before = self._log_probs_before(learner, batch, rows)
            metrics |= self._update_policy(learner, inputs, step, factor)
            if factor is not None:
                held, n = self.distributed.all_sum(at_clamp(log_ratio, batch, rows, clamp), len(rows))
                metrics |= {f"{agent}/factor_clamped": held / max(1.0, n) for agent in learner.agents}
            summed = factor is None or self.config.algorithm.factor == "sum"
            log_ratio = log_ratio + self._log_ratio_after(learner, batch, rows, summed, before)
        return metrics

    def _order(self, step: int) -> list[Learner]:
        """Policies in the order of their updates in a sequence."""
        if self.config.algorithm.order == "fixed":
            return self.learners
        generator = torch.Generator().manual_seed(stable_seed(self.config.seed, "order of agents", step))
        return [self.learners[index] for index in torch.randperm(len(self.learners), generator=generator).tolist()]

    def _log_probs_before(self, learner: Learner, batch: Batch, rows: Sequence[int]) -> dict[int, Tensor]:
        """Row -> (T,) log-probs that ratios of the next update are measured from (`algorithm.old`)."""
        if self.config.algorithm.old == "sampler":
            return sampled(batch, rows)
        return learner.log_probs(batch, rows)

    def _log_ratio_after(
        self,
        learner: Learner,
        batch: Batch,
        rows: Sequence[int],
        summed: bool = True,
        before: Mapping[int, Tensor] | None = None,
    ) -> Tensor:
        """(J,) log ratio of this policy after its update, summed over its part of each joint step.

        `before` are the log-probs before the update; None: those at sampling.
        """
        old = sampled(batch, rows) if before is None else before
        return joint_log_ratio(old, learner.log_probs(batch, rows), batch, summed)

    def _update_policy(
        self, learner: Learner, estimated: AdvantageBatch, step: int, factor: Tensor | None = None
    ) -> dict[str, Any]:
        """Update one policy and the critic that shares its trunk, and return their metrics."""
        batch, rows, terms = estimated.batch, estimated.batch.rows_of(learner.agents), estimated.kl
        weight = None if estimated.weight is None else estimated.weight / len(learner.agents)
        trunk = self.estimator.trunk_samples(estimated, learner)
        inputs = UpdateInput(
            batch, rows, self.algorithm.loss, step, weight, factor, terms.advantage, terms.reference, trunk
        )
        metrics = {name: value for name, value in asdict(learner.update(inputs)).items() if value is not None}
        log_ratio = {row: terms.log_ratio[row] for row in rows if row in terms.log_ratio}
        metrics |= kl.describe(log_ratio, batch.advantage, self.config.kl)
        return {f"{agent}/{name}": value for agent in learner.agents for name, value in metrics.items()}

    def state_dict(self) -> dict[str, Any]:
        """State of critics, baselines, references and mixer; policies are saved separately."""
        pulls = {learner.policy.name: learner.pull_state() for learner in self.learners}
        return {"critics": {}, "moving": {}, "pulls": pulls} | self.estimator.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.estimator.load_state_dict(state)
        for learner in self.learners:
            learner.load_pull(state.get("pulls", {}).get(learner.policy.name))

    def _map_learners(self, function: Callable[[Learner], T]) -> list[T]:
        """Apply `function` to every learner.

        At the same time where no two share a model: those in other processes and on different GPUs, and those of the
        CPU if cores are idle. Learners of one GPU follow each other. Each thread computes with as many torch threads as
        this one, so that results equal those of a plain loop.
        """
        places, threads = [self.places[learner.policy.name] for learner in self.learners], torch.get_num_threads()
        spare = max(1, self.distributed.cores // threads) if self.distributed.device == "cpu" else 1
        others = {place: [i for i, at in enumerate(places) if at == place] for place in places if place}
        here = [[i] for i, place in enumerate(places) if not place]
        workers = len(others) + min(spare, len(here))
        if workers < 2 or not self.independent or self.distributed.size > 1:
            return [function(learner) for learner in self.learners]
        results: dict[int, T] = {}

        def run(lane: Sequence[int]) -> None:
            for i in lane:
                results[i] = function(self.learners[i])

        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
            list(pool.map(run, [*others.values(), *here]))  # raises what a thread has raised
        return [results[i] for i in range(len(self.learners))]

    def _kl_terms(self, batch: Batch) -> KLTerms:
        """Divergence of a batch from the references; empty if `kl.coef` is 0."""
        config = self.config.kl
        if config.coef == 0:
            return KLTerms()
        reference: dict[int, Tensor] = {}
        log_ratio: dict[int, Tensor] = {}
        for ref_logps, log_ratios in self._map_learners(lambda learner: self._log_ratios(learner, batch)):
            reference, log_ratio = reference | ref_logps, log_ratio | log_ratios
        ratios = [log_ratio[row] for row in sorted(log_ratio)]
        tokens = [kl.penalty(r, torch.zeros_like(r), torch.ones_like(r, dtype=torch.bool), config) for r in ratios]
        coef_of = {agent: learner.coef for learner in self.learners for agent in learner.agents}
        coefs = [coef_of.get(agent, 0.0) for agent in batch.agents]
        advantage: Mapping[int, Tensor] = {}
        if config.place == "advantage":
            agent_of = dict(enumerate(batch.agent.tolist()))
            advantage = kl.token_terms(dict(enumerate(tokens)), agent_of, coefs, self.distributed.all_sum)
        return KLTerms(reference, log_ratio, tokens, torch.tensor(coefs, dtype=torch.float64)[batch.agent], advantage)

    def _log_ratios(self, learner: Learner, batch: Batch) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """Row -> (T,) log-probs under the reference of this policy, and log pi - log pi_ref."""
        rows = batch.rows_of(learner.agents)
        logps = sampled(batch, rows)
        reference = learner.reference_log_probs(batch, rows)
        return reference, {row: logps[row].to(reference[row]) - reference[row] for row in rows}

    def _update_reference(self, learner: Learner, estimated: AdvantageBatch, step: int) -> dict[str, float]:
        """Advance a reference and adapt its KL coefficient; return the old coefficient and the KL."""
        log_ratio = estimated.kl.log_ratio
        far = [float(log_ratio[row].double().sum()) for row in estimated.batch.rows_of(learner.agents)]
        total, n = self.distributed.all_sum(sum(far), len(far))
        mean_kl, coef, target = total / max(1.0, n), learner.coef, self.config.kl.target
        metrics = {"kl_coef": coef, "k1_text": mean_kl}
        if target is not None:
            coef = kl.adapted(coef, mean_kl, n, target, self.config.kl.horizon)
        elif self.config.kl.schedule == "linear":
            coef = self.config.kl.coef * (1 - step / self.config.train.steps)
        learner.follow(step, coef)
        return {f"{agent}/{name}": value for agent in learner.agents for name, value in metrics.items()}


def _agents(learners: Sequence[Learner]) -> list[str]:
    return [agent for learner in learners for agent in learner.agents]
