"""One training update: advantages of a batch, then updates of policies and critics.

`estimate_advantages` fills in returns and advantages; `update` updates policies and critics. All choices come from the
fields of the `Algorithm`; no algorithm is known by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from palaver.agents.base.policy import Policy
from palaver.core import stable_seed
from palaver.trainers.algorithms.base import Algorithm, has_token_values
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives import kl
from palaver.trainers.objectives.token_values import Ids, TokenValues, laid_out, token_reads
from palaver.trainers.preferences.compared import Pairs, compare, describe, weighed
from palaver.trainers.rollout.batch import Batch, add_advantages, by_step, credited_rewards, joint_returns, sampled
from palaver.trainers.rollout.joint_prompt import joint_ids
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.bootstrap import bootstrap
from palaver.trainers.update.critic import Critic, CriticStats, Samples, critic_stats
from palaver.trainers.update.joint_tokens import joint_prompts, refuse_other_tokens
from palaver.trainers.update.moving_baseline import MovingBaseline
from palaver.trainers.update.policy_update import PolicyUpdater, UpdateInput, UpdateStats, padded_rows
from palaver.trainers.update.sequential_weight import at_clamp, joint_factor, joint_log_ratio
from palaver.trainers.value_decomposition.sentences import CompletionMixer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AdvantageBatch:
    """The batch of one step with advantages and all other inputs of the update.

    Attributes:
        batch: the batch with returns and advantages.
        value: (R,) critic values before the first token; None without critics.
        bootstrap: (J, N) critic values of the states after cuts, 0 elsewhere; None where nothing was cut.
        joint: inputs of a joint critic: the joint conversations (J), or with values of tokens the input before the
            first token of each row (R).
        reference: row -> (T,) log-probs under the reference; empty without.
        log_ratio: row -> (T,) log pi - log pi_ref; empty without a reference.
        kl_penalty: (R,) KL penalty of each completion, in units of reward; None without a reference.
        kl_cost: (R,) the same if it was subtracted from the rewards, before the returns; else None.
        pairs: preference pairs of joint steps, for algorithms that compare them; else None.
        tokens: values and costs of tokens, for critics at the level of tokens; else None.
        means: agent -> moving mean of returns after these episodes; empty without a moving baseline.
    """

    batch: Batch
    value: Tensor | None = None
    joint: Sequence[Ids] = ()
    reference: Mapping[int, Tensor] = field(default_factory=dict)
    log_ratio: Mapping[int, Tensor] = field(default_factory=dict)
    kl_penalty: Tensor | None = None
    kl_cost: Tensor | None = None
    pairs: Pairs | None = None
    bootstrap: Tensor | None = None
    tokens: TokenValues | None = None
    means: Mapping[str, float] = field(default_factory=dict)


class Updater:
    """Updater of the policies, critics, baselines and references of a run.

    Args:
        algorithm: definition of the algorithm.
        config: config of the run.
        learners: one per distinct policy.
        distributed: device and processes.
    """

    def __init__(
        self, algorithm: Algorithm, config: RunConfig, learners: Sequence[PolicyUpdater], distributed: Distributed
    ) -> None:
        self.algorithm, self.config, self.learners, self.distributed = algorithm, config, list(learners), distributed
        self.by_token = has_token_values(algorithm, config.critic)
        self.critics: dict[str, Critic] = {}
        self.moving_baseline: MovingBaseline | None = None
        if algorithm.critic == "own":
            policies = [learner.policy for learner in self.learners]
            self.critics = {policy.name: Critic(policy, policy.name, config, distributed) for policy in policies}
        elif algorithm.critic == "joint":
            if self.by_token:
                refuse_other_tokens(self.learners[0].policy, [learner.policy for learner in self.learners])
            self.critics = {"joint": Critic(self.learners[0].policy, "joint", config, distributed)}
        elif algorithm.critic == "agent":
            self.moving_baseline = MovingBaseline(config.algorithm.decay)
        self.mixer: CompletionMixer | None = None
        if algorithm.mixer != "none":
            self.mixer = CompletionMixer(algorithm.mixer, config, self.agents, self.learners[0].policy, distributed)

    @property
    def agents(self) -> list[str]:
        """The agents that are trained."""
        return [agent for learner in self.learners for agent in learner.agents]

    def assign(self, team: Mapping[str, Policy]) -> None:
        """Assign each policy to its agents in `team`, and sort the learners by agent.

        A policy keeps its optimiser, critic and reference; moving means belong to agents.
        """
        agents = list(team)
        for learner in self.learners:
            learner.agents = tuple(agent for agent in agents if team[agent] is learner.policy)
        self.learners.sort(key=lambda learner: agents.index(learner.agents[0]))

    def estimate_advantages(self, batch: Batch) -> AdvantageBatch:
        """Fill the table with returns and advantages.

        Raises:
            NumericalError: the loss of a mixer, which is updated first, is not finite.
        """
        config, total = self.config, self.distributed.all_sum
        joint: Sequence[Ids] = []
        if "joint" in self.critics:
            joint = (joint_prompts if self.by_token else joint_ids)(batch, self.critics["joint"].body)
        value, tokens = self._estimate_values(batch, joint)
        discounted = bool(config.algorithm.discount)  # else a return is the reward of its turn
        bootstrap_values = bootstrap(batch, self.critics, self.learners, self.by_token) if discounted else None
        reference, k = self._reference_log_ratios(batch)
        kl_penalty = None
        if k:
            coefs = torch.tensor(self._coefs(batch), dtype=torch.float64)[batch.agent]
            penalties = [self._penalty(k[row]) for row in range(len(batch))]
            kl_penalty = coefs * torch.tensor([float(penalty.sum()) for penalty in penalties], dtype=torch.float64)
            if tokens is not None and config.kl.place == "reward":
                tokens = replace(tokens, kl_cost=coefs[:, None] * padded_rows(penalties, tokens.value))
        cost = kl_penalty if config.kl.place == "reward" else None
        means = dict[str, float]()
        if self.moving_baseline is not None:
            due = credited_rewards(batch, self.algorithm, cost)
            value, means = self.moving_baseline.estimate(batch, due, config.algorithm.discount, self.distributed)
        filled = add_advantages(batch, self.algorithm, config.algorithm, value, cost, total, bootstrap_values, tokens)
        if self.mixer is not None:
            filled = self.mixer.estimate_advantages(filled, cost)
        pairs = compare(filled, k, config, total) if self.algorithm.pairs else None
        return self._with_pair_weights(
            AdvantageBatch(filled, value, joint, reference, k, kl_penalty, cost, pairs, bootstrap_values, tokens, means)
        )

    def update(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Update every policy, then every critic, and return the metrics by name.

        Raises:
            NumericalError: a loss or gradient is not finite.
        """
        batch = estimated.batch
        extra, weight = self._extra(estimated), self._weights(batch)
        log_ratio = torch.zeros(len(batch.steps), dtype=torch.float64)  # log ratio of joint steps so far
        metrics: dict[str, Any] = {}

        def teach(learner: PolicyUpdater) -> dict[str, Any]:
            inputs, factor = self._with_pair_weights(estimated, log_ratio), self._factor(batch, log_ratio)
            return self._update_policy(learner, inputs, step, extra, factor, weight)

        if self.algorithm.order == "together":
            for learner_metrics in self._map_learners(teach):
                metrics |= learner_metrics
        else:
            for learner in self._order(step):
                metrics |= teach(learner) | self._clamped(learner, batch, log_ratio)
                log_ratio = log_ratio + self._log_ratio_after(learner, batch, batch.rows_of(learner.agents))
        for learner in self.learners if self.config.kl.coef > 0 else ():
            metrics |= self._update_reference(learner, estimated, step)
        for name, critic in self.critics.items():
            if not critic.shared:
                metrics |= _named(f"critic/{name}", critic.update(self._samples(name, estimated), step))
        if self.moving_baseline is not None:
            self.moving_baseline.means = dict(estimated.means)
        if estimated.pairs is not None:
            metrics |= describe(estimated.pairs, self.config.kl.coef, self.distributed.all_sum)
        return metrics | (self.mixer.metrics() if self.mixer is not None else {})

    def _with_pair_weights(self, estimated: AdvantageBatch, log_ratio: Tensor | None = None) -> AdvantageBatch:
        """Set each row's advantage to its gradient weight in the pair loss, if there are pairs.

        `log_ratio` (J,) is the log ratio of the joint steps since they were compared: log pi_now - log pi_old.
        """
        if estimated.pairs is None:
            return estimated
        parts = [estimated.batch.rows_of(learner.agents) for learner in self.learners]
        counts = self.distributed.all_sum(*map(float, map(len, parts)))
        moved = torch.zeros(len(estimated.batch.steps), dtype=torch.float64) if log_ratio is None else log_ratio
        batch = weighed(estimated.batch, estimated.pairs, parts, moved, self.config.kl.coef, counts)
        return replace(estimated, batch=batch)

    def _update_policy(
        self, learner: PolicyUpdater, estimated: AdvantageBatch, step: int, extra: Mapping[int, Tensor],
        factor: Tensor | None, weight: Tensor | None,
    ) -> dict[str, Any]:  # fmt: skip
        """Update one policy and the critic that shares its trunk, and return their metrics."""
        rows = estimated.batch.rows_of(learner.agents)
        critic = self.critics.get(learner.policy.name)
        shared = critic if critic is not None and critic.shared else None
        if shared is not None:
            shared.take_in(self._completion_samples(estimated, rows))
        steps: list[tuple[float, float]] = []
        work = UpdateInput(
            estimated.batch, rows, self.algorithm.loss, step, factor=factor, extra=extra,
            weight=None if weight is None else weight / len(learner.agents),
            reference={} if estimated.pairs else estimated.reference,
            also=None if shared is None else self._critic_loss_hook(shared, estimated, steps),
        )  # fmt: skip
        metrics = self._policy_metrics(learner, learner.update(work), estimated, rows)
        if shared is not None:
            losses, norm = [loss for loss, _ in steps], steps[-1][1] if steps else 0.0
            stats = critic_stats(self._completion_samples(estimated, rows), losses, norm)
            metrics |= _named(f"critic/{shared.name}", stats)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """State of critics, baselines, references and mixer; policies are saved separately."""
        critics = {name: critic.state_dict() for name, critic in self.critics.items()}
        pulls = {learner.policy.name: learner.pull_state() for learner in self.learners}
        means = self.moving_baseline.means if self.moving_baseline else {}
        state = {"critics": critics, "moving": means, "pulls": pulls}
        return state | ({"mixing": self.mixer.state_dict()} if self.mixer is not None else {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name, critic in self.critics.items():
            critic.load_state_dict(state["critics"][name])
        if self.moving_baseline is not None:
            self.moving_baseline.means = dict(state["moving"])
        if self.mixer is not None:
            self.mixer.load_state_dict(state["mixing"])
        for learner in self.learners:
            learner.load_pull(state.get("pulls", {}).get(learner.policy.name))

    def _reference_log_ratios(self, batch: Batch) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """Row -> (T,) reference log-probs, and log pi - log pi_ref; empty if `kl.coef` is 0."""

        def score(learner: PolicyUpdater) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
            rows = batch.rows_of(learner.agents)
            ref_logps = learner.reference_log_probs(batch, rows)
            logps = sampled(batch, rows)
            if self.config.kl.source == "learner":
                with learner.policy.active() as model:
                    logps = learner.log_probs(model, batch, rows)
            return ref_logps, {row: logps[row].to(ref_logps[row]) - ref_logps[row] for row in rows}

        reference: dict[int, Tensor] = {}
        k: dict[int, Tensor] = {}
        if self.config.kl.coef > 0:
            for ref_logps, log_ratios in self._map_learners(score):
                reference, k = reference | ref_logps, k | log_ratios
        return reference, k

    def _map_learners(self, function: Callable[[PolicyUpdater], T]) -> list[T]:
        """Apply `function` to every learner; in threads, unless some share one model."""
        hosts = {id(learner.policy.shared_engine) for learner in self.learners}
        if len(hosts) < len(self.learners):
            return [function(learner) for learner in self.learners]
        return self.distributed.at_once(function, self.learners)

    def _estimate_values(self, batch: Batch, joint: Sequence[Ids]) -> tuple[Tensor | None, TokenValues | None]:
        """(R,) critic values before each completion, and values of tokens if critics have them."""
        if not self.critics:
            return None, None
        value = torch.full((len(batch),), torch.nan, dtype=torch.float64)
        if "joint" in self.critics and not self.by_token:
            value[batch.member_row] = self.critics["joint"].values(joint)[batch.member_step]
            return value, None
        order, counts, flat = list[int](), list[int](), list[Tensor]()
        for name, critic in self.critics.items():
            rows = self._rows(name, batch)
            ids, value_counts = self._reads(batch, rows, joint)
            order, counts, flat = order + rows, counts + value_counts, [*flat, critic.values(ids, value_counts)]
        length = torch.tensor(counts)[torch.tensor(order).argsort()]
        known = torch.zeros(len(batch), max(counts), dtype=torch.float64)
        known[order] = laid_out(torch.cat(flat), torch.tensor(counts))
        return known[:, 0], TokenValues(known, torch.zeros_like(known), length) if self.by_token else None

    def _rows(self, name: str, batch: Batch) -> list[int]:
        """Rows that a critic has values of."""
        learners = [learner for learner in self.learners if name in ("joint", learner.policy.name)]
        return batch.rows_of([agent for learner in learners for agent in learner.agents])

    def _reads(self, batch: Batch, rows: Sequence[int], joint: Sequence[Ids]) -> tuple[list[Ids], list[int]]:
        """Input sequences of a critic for some rows, and the number of values of each."""
        completions = [batch.completions[row] for row in rows]
        prompts = [completion.prompt_ids for completion in completions]
        if "joint" in self.critics:
            prompts = [joint[row] for row in rows]
        if not self.by_token:
            return prompts, [1] * len(rows)
        return token_reads(prompts, [completion.token_ids for completion in completions])

    def _samples(self, name: str, estimated: AdvantageBatch) -> Samples:
        """Training data of a critic: completions; joint steps if joint without values of tokens."""
        if name != "joint" or self.by_token:
            return self._completion_samples(estimated, self._rows(name, estimated.batch))
        batch, value = estimated.batch, estimated.value
        assert value is not None
        a, cost = self.config.algorithm, estimated.kl_cost
        target = joint_returns(batch, self.algorithm, a, value, cost, estimated.bootstrap)
        acted = ~by_step(batch, value).isnan()
        mean = torch.where(acted, target, 0.0).sum(dim=1) / acted.sum(dim=1).clamp(min=1)
        some = acted.any(dim=1).nonzero()[:, 0].tolist()
        old = by_step(batch, value).nanmean(dim=1)
        return Samples([estimated.joint[index] for index in some], mean[some], old[some])

    def _completion_samples(self, estimated: AdvantageBatch, rows: Sequence[int]) -> Samples:
        batch, value, tokens = estimated.batch, estimated.value, estimated.tokens
        assert value is not None
        ids, counts = self._reads(batch, rows, estimated.joint)
        if tokens is None or batch.token_returns is None:
            return Samples(ids, batch.returns[list(rows)], value[list(rows)], counts)
        mask = tokens.mask[list(rows)]
        return Samples(ids, batch.token_returns[list(rows)][mask], tokens.value[list(rows)][mask], counts)

    def _critic_loss_hook(self, critic: Critic, estimated: AdvantageBatch, steps: list[tuple[float, float]]) -> Any:
        """Function that adds rows' value loss to the trunk's gradient, and its report to `steps`."""

        def also(rows: Sequence[int]) -> None:
            loss = critic.backward(self._completion_samples(estimated, rows))
            steps.append((loss, critic.step()))

        return also

    def _weights(self, batch: Batch) -> Tensor | None:
        """(R,) weight of each row in the mean over tasks; None if all rows have equal weight."""
        if self.algorithm.pairs or self.config.algorithm.turn_weights == "rows":
            return None
        return batch.weight / max(1.0, self.distributed.all_sum(float(batch.tasks))[0])

    def _order(self, step: int) -> list[PolicyUpdater]:
        a = self.config.algorithm
        if self.algorithm.order == "together" or a.order == "fixed":
            return self.learners
        generator = torch.Generator().manual_seed(stable_seed(self.config.seed, "order of agents", step))
        return [self.learners[index] for index in torch.randperm(len(self.learners), generator=generator).tolist()]

    def _factor(self, batch: Batch, log_ratio: Tensor) -> Tensor | None:
        """(R,) HAPPO's factor M of each completion, the mean likelihood ratio of its joint steps."""
        if self.algorithm.order == "together" or self.algorithm.pairs:
            return None
        return joint_factor(log_ratio, batch, self.config.algorithm.factor_clamp)

    def _clamped(self, learner: PolicyUpdater, batch: Batch, log_ratio: Tensor) -> dict[str, float]:
        """Fraction of a policy's rows whose factor is clamped; empty without a factor."""
        if self.algorithm.pairs:
            return {}
        rows = batch.rows_of(learner.agents)
        count = at_clamp(log_ratio, batch, rows, self.config.algorithm.factor_clamp)
        held, n = self.distributed.all_sum(count, len(rows))
        return {f"{agent}/factor_clamped": held / max(1.0, n) for agent in learner.agents}

    def _log_ratio_after(self, learner: PolicyUpdater, batch: Batch, rows: Sequence[int]) -> Tensor:
        """(J,) log ratio of this policy after its update, summed over its part of each joint step."""
        with learner.policy.active() as model:
            after = learner.log_probs(model, batch, rows)
        summed = self.algorithm.pairs or self.config.algorithm.factor == "sum"
        return joint_log_ratio(sampled(batch, rows), after, batch, summed)

    def _penalty(self, k: Tensor) -> Tensor:
        mask = torch.ones_like(k, dtype=torch.bool)
        return kl.penalty(k[None], torch.zeros_like(k)[None], mask[None], self.config.kl)[0]

    def _extra(self, estimated: AdvantageBatch) -> dict[int, Tensor]:
        if self.config.kl.place != "advantage" or not estimated.log_ratio:
            return {}
        agent_of = dict(enumerate(estimated.batch.agent.tolist()))
        k = {row: self._penalty(log_ratio) for row, log_ratio in estimated.log_ratio.items()}
        return kl.token_terms(k, agent_of, self.config.kl, self._coefs(estimated.batch), self.distributed.all_sum)

    def _coefs(self, batch: Batch) -> list[float]:
        """KL coefficient of each agent of the table."""
        coef_of = {agent: learner.coef for learner in self.learners for agent in learner.agents}
        return [coef_of.get(agent, 0.0) for agent in batch.agents]

    def _update_reference(self, learner: PolicyUpdater, estimated: AdvantageBatch, step: int) -> dict[str, float]:
        """Advance a reference and adapt its KL coefficient; return the old coefficient and the KL."""
        far = [float(estimated.log_ratio[row].double().sum()) for row in estimated.batch.rows_of(learner.agents)]
        total, n = self.distributed.all_sum(sum(far), len(far))
        mean_kl, coef, target = total / max(1.0, n), learner.coef, self.config.kl.target
        if target is not None:
            learner.coef = kl.adapted(coef, mean_kl, n, target, self.config.kl.horizon)
        if learner.reference is not None:
            learner.reference.advance(step)
        metrics = {"kl_coef": coef, "k1_text": mean_kl}
        return {f"{agent}/{name}": value for agent in learner.agents for name, value in metrics.items()}

    def _policy_metrics(
        self, learner: PolicyUpdater, stats: UpdateStats, estimated: AdvantageBatch, rows: Sequence[int]
    ) -> dict[str, Any]:
        k = {row: estimated.log_ratio[row] for row in rows if row in estimated.log_ratio}
        metrics = asdict(stats) | kl.describe(k, estimated.batch.advantage, self.config.kl)
        return {f"{agent}/{name}": value for agent in learner.agents for name, value in metrics.items()}


def _named(prefix: str, stats: CriticStats) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in asdict(stats).items()}
