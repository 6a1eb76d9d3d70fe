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
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.bootstrap import bootstrap
from palaver.trainers.update.critic import Critic, CriticStats, Samples, critic_stats, joint_ids
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
        self, algorithm: Algorithm, config: RunConfig, learners: Sequence[PolicyUpdater], world: Distributed
    ) -> None:
        self.algorithm, self.config, self.learners, self.distributed = algorithm, config, list(learners), world
        self.by_token = has_token_values(algorithm, config.critic)
        self.critics: dict[str, Critic] = {}
        self.moving_baseline: MovingBaseline | None = None
        if algorithm.critic == "own":
            self.critics = {
                each.policy.name: Critic(each.policy, each.policy.name, config, world) for each in self.learners
            }
        elif algorithm.critic == "joint":
            if self.by_token:
                refuse_other_tokens(self.learners[0].policy, [each.policy for each in self.learners])
            self.critics = {"joint": Critic(self.learners[0].policy, "joint", config, world)}
        elif algorithm.critic == "agent":
            self.moving_baseline = MovingBaseline(config.algorithm.decay)
        self.mixer: CompletionMixer | None = None
        if algorithm.mixer != "none":
            self.mixer = CompletionMixer(algorithm.mixer, config, self.agents, self.learners[0].policy, world)

    @property
    def agents(self) -> list[str]:
        """The agents that are trained."""
        return [agent for learner in self.learners for agent in learner.agents]

    def assign(self, team: Mapping[str, Policy]) -> None:
        """Assign each policy to its agents in `team`, and sort the learners by agent.

        A policy keeps its optimiser, critic and reference; moving means belong to agents.
        """
        seats = list(team)
        for learner in self.learners:
            learner.agents = tuple(seat for seat in seats if team[seat] is learner.policy)
        self.learners.sort(key=lambda learner: seats.index(learner.agents[0]))

    def estimate_advantages(self, table: Batch) -> AdvantageBatch:
        """Fill the table with returns and advantages.

        Raises:
            NumericalError: the loss of a mixer, which is updated first, is not finite.
        """
        config = self.config
        joint: Sequence[Ids] = []
        if "joint" in self.critics:
            joint = (joint_prompts if self.by_token else joint_ids)(table, self.critics["joint"].body)
        value, tokens = self._estimate_values(table, joint)
        boot = None
        if config.algorithm.discount:  # else nothing beyond a turn counts
            boot = bootstrap(table, self.critics, self.learners, self.by_token)
        reference, k = self._reference_log_ratios(table)
        pull = None
        if k:
            coefs = torch.tensor(self._coefs(table), dtype=torch.float64)[table.agent]
            each = [self._penalty(k[row]) for row in range(len(table))]
            pull = coefs * torch.tensor([float(one.sum()) for one in each], dtype=torch.float64)
            if tokens is not None and config.kl.place == "reward":
                tokens = replace(tokens, kl_cost=coefs[:, None] * padded_rows(each, tokens.value))
        cost = pull if config.kl.place == "reward" else None
        means = dict[str, float]()
        if self.moving_baseline is not None:
            due = credited_rewards(table, self.algorithm, cost)
            value, means = self.moving_baseline.estimate(table, due, config.algorithm.discount, self.distributed)
        filled = add_advantages(
            table, self.algorithm, config.algorithm, value, cost, self.distributed.all_sum, boot, tokens
        )
        if self.mixer is not None:
            filled = self.mixer.estimate_advantages(filled, cost)
        pairs = compare(filled, k, config, self.distributed.all_sum) if self.algorithm.pairs else None
        return self._with_pair_weights(
            AdvantageBatch(filled, value, joint, reference, k, pull, cost, pairs, boot, tokens, means)
        )

    def update(self, judged: AdvantageBatch, step: int) -> dict[str, Any]:
        """Update every policy, then every critic, and return the metrics by name.

        Raises:
            NumericalError: a loss or gradient is not finite.
        """
        table = judged.batch
        extra = self._extra(judged)
        ahead = torch.zeros(len(table.steps), dtype=torch.float64)  # log ratio of joint steps so far
        shown: dict[str, Any] = {}

        weight = self._weights(table)

        def teach(learner: PolicyUpdater) -> dict[str, Any]:
            return self._update_policy(
                learner, self._with_pair_weights(judged, ahead), step, extra, self._factor(table, ahead), weight
            )

        if self.algorithm.order == "together":
            for found in self._map_learners(teach):
                shown |= found
        else:
            for learner in self._order(step):
                shown |= teach(learner) | self._clamped(learner, table, ahead)
                ahead = ahead + self._log_ratio_after(learner, table, table.rows_of(learner.agents))
        for learner in self.learners if self.config.kl.coef > 0 else ():
            shown |= self._update_reference(learner, judged, step)
        for name, critic in self.critics.items():
            if not critic.shared:
                shown |= _named(f"critic/{name}", critic.update(self._samples(name, judged), step))
        if self.moving_baseline is not None:
            self.moving_baseline.means = dict(judged.means)
        if judged.pairs is not None:
            shown |= describe(judged.pairs, self.config.kl.coef, self.distributed.all_sum)
        return shown | (self.mixer.metrics() if self.mixer is not None else {})

    def _with_pair_weights(self, judged: AdvantageBatch, ahead: Tensor | None = None) -> AdvantageBatch:
        """Set each row's advantage to its gradient weight in the pair loss, if there are pairs.

        `ahead` (J,) is the log ratio of the joint steps since they were compared: log pi_now - log pi_old.
        """
        if judged.pairs is None:
            return judged
        parts = [judged.batch.rows_of(learner.agents) for learner in self.learners]
        counts = self.distributed.all_sum(*map(float, map(len, parts)))
        moved = torch.zeros(len(judged.batch.steps), dtype=torch.float64) if ahead is None else ahead
        table = weighed(judged.batch, judged.pairs, parts, moved, self.config.kl.coef, counts)
        return replace(judged, batch=table)

    def _update_policy(
        self, learner: PolicyUpdater, judged: AdvantageBatch, step: int, extra: Mapping[int, Tensor],
        factor: Tensor | None, weight: Tensor | None,
    ) -> dict[str, Any]:  # fmt: skip
        """Update one policy and the critic that shares its trunk, and return their metrics."""
        rows = judged.batch.rows_of(learner.agents)
        critic = self.critics.get(learner.policy.name)
        shared = critic if critic is not None and critic.shared else None
        if shared is not None:
            shared.take_in(self._own(judged, rows))
        steps: list[tuple[float, float]] = []
        work = UpdateInput(
            judged.batch, rows, self.algorithm.loss, step, factor=factor, extra=extra,
            weight=None if weight is None else weight / len(learner.agents),
            reference={} if judged.pairs else judged.reference,
            also=None if shared is None else self._critic_loss_hook(shared, judged, steps),
        )  # fmt: skip
        shown = self._policy_metrics(learner, learner.update(work), judged, rows)
        if shared is not None:
            found = critic_stats(self._own(judged, rows), [loss for loss, _ in steps], steps[-1][1] if steps else 0.0)
            shown |= _named(f"critic/{shared.name}", found)
        return shown

    def state_dict(self) -> dict[str, Any]:
        """State of critics, baselines, references and mixer; policies are saved separately."""
        critics = {name: critic.state_dict() for name, critic in self.critics.items()}
        pulls = {learner.policy.name: learner.pull_state() for learner in self.learners}
        kept = {
            "critics": critics,
            "moving": self.moving_baseline.means if self.moving_baseline else {},
            "pulls": pulls,
        }
        return kept | ({"mixing": self.mixer.state_dict()} if self.mixer is not None else {})

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

    def _reference_log_ratios(self, table: Batch) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """Row -> (T,) reference log-probs, and log pi - log pi_ref; empty if `kl.coef` is 0."""

        def score(learner: PolicyUpdater) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
            rows = table.rows_of(learner.agents)
            there = learner.reference_log_probs(table, rows)
            here = sampled(table, rows)
            if self.config.kl.source == "learner":
                with learner.policy.active() as model:
                    here = learner.log_probs(model, table, rows)
            return there, {row: here[row].to(there[row]) - there[row] for row in rows}

        reference: dict[int, Tensor] = {}
        k: dict[int, Tensor] = {}
        if self.config.kl.coef > 0:
            for there, apart in self._map_learners(score):
                reference, k = reference | there, k | apart
        return reference, k

    def _map_learners(self, function: Callable[[PolicyUpdater], T]) -> list[T]:
        """Apply `function` to every learner; in threads, unless some share one model."""
        hosts = {id(learner.policy.shared_engine) for learner in self.learners}
        if len(hosts) < len(self.learners):
            return [function(learner) for learner in self.learners]
        return self.distributed.at_once(function, self.learners)

    def _estimate_values(self, table: Batch, joint: Sequence[Ids]) -> tuple[Tensor | None, TokenValues | None]:
        """(R,) critic values before each completion, and values of tokens if critics have them."""
        if not self.critics:
            return None, None
        value = torch.full((len(table),), torch.nan, dtype=torch.float64)
        if "joint" in self.critics and not self.by_token:
            value[table.member_row] = self.critics["joint"].values(joint)[table.member_step]
            return value, None
        order, counts, flat = list[int](), list[int](), list[Tensor]()
        for name, critic in self.critics.items():
            rows = self._rows(name, table)
            ids, each = self._reads(table, rows, joint)
            order, counts, flat = order + rows, counts + each, [*flat, critic.values(ids, each)]
        length = torch.tensor(counts)[torch.tensor(order).argsort()]
        known = torch.zeros(len(table), max(counts), dtype=torch.float64)
        known[order] = laid_out(torch.cat(flat), torch.tensor(counts))
        return known[:, 0], TokenValues(known, torch.zeros_like(known), length) if self.by_token else None

    def _rows(self, name: str, table: Batch) -> list[int]:
        """Rows that a critic has values of."""
        return table.rows_of([a for each in self.learners if name in ("joint", each.policy.name) for a in each.agents])

    def _reads(self, table: Batch, rows: Sequence[int], joint: Sequence[Ids]) -> tuple[list[Ids], list[int]]:
        """Input sequences of a critic for some rows, and the number of values of each."""
        said = [table.completions[row] for row in rows]
        prompts = [joint[row] for row in rows] if "joint" in self.critics else [each.prompt_ids for each in said]
        return token_reads(prompts, [each.token_ids for each in said]) if self.by_token else (prompts, [1] * len(rows))

    def _samples(self, name: str, judged: AdvantageBatch) -> Samples:
        """Training data of a critic: its policy's completions; of a joint critic each joint step.

        With values of tokens a joint critic is trained on every completion, too.
        """
        if name != "joint" or self.by_token:
            return self._own(judged, self._rows(name, judged.batch))
        table, value = judged.batch, judged.value
        assert value is not None
        target = joint_returns(table, self.algorithm, self.config.algorithm, value, judged.kl_cost, judged.bootstrap)
        acted = ~by_step(table, value).isnan()
        mean = torch.where(acted, target, 0.0).sum(dim=1) / acted.sum(dim=1).clamp(min=1)
        some = acted.any(dim=1).nonzero()[:, 0].tolist()
        old = by_step(table, value).nanmean(dim=1)
        return Samples([judged.joint[number] for number in some], mean[some], old[some])

    def _own(self, judged: AdvantageBatch, rows: Sequence[int]) -> Samples:
        table, value, tokens = judged.batch, judged.value, judged.tokens
        assert value is not None
        ids, counts = self._reads(table, rows, judged.joint)
        if tokens is None or table.token_returns is None:
            return Samples(ids, table.returns[list(rows)], value[list(rows)], counts)
        mask = tokens.mask[list(rows)]
        return Samples(ids, table.token_returns[list(rows)][mask], tokens.value[list(rows)][mask], counts)

    def _critic_loss_hook(self, critic: Critic, judged: AdvantageBatch, steps: list[tuple[float, float]]) -> Any:
        """Return a function that adds the value loss of rows to the gradient of the shared trunk.

        Each call appends the loss and the norm of the head's gradient to `steps`.
        """

        def also(rows: Sequence[int]) -> None:
            loss = critic.backward(self._own(judged, rows))
            steps.append((loss, critic.step()))

        return also

    def _weights(self, table: Batch) -> Tensor | None:
        """(R,) weight of each row in the mean over tasks; None if all rows have equal weight."""
        if self.algorithm.pairs or self.config.algorithm.turn_weights == "rows":
            return None
        return table.weight / max(1.0, self.distributed.all_sum(float(table.tasks))[0])

    def _order(self, step: int) -> list[PolicyUpdater]:
        a = self.config.algorithm
        if self.algorithm.order == "together" or a.order == "fixed":
            return self.learners
        generator = torch.Generator().manual_seed(stable_seed(self.config.seed, "order of agents", step))
        return [self.learners[place] for place in torch.randperm(len(self.learners), generator=generator).tolist()]

    def _factor(self, table: Batch, ahead: Tensor) -> Tensor | None:
        """(R,) HAPPO's factor M of each completion, the mean likelihood ratio of its joint steps."""
        if self.algorithm.order == "together" or self.algorithm.pairs:
            return None
        return joint_factor(ahead, table, self.config.algorithm.factor_clamp)

    def _clamped(self, learner: PolicyUpdater, table: Batch, ahead: Tensor) -> dict[str, float]:
        """Fraction of a policy's rows whose factor is clamped; empty without a factor."""
        if self.algorithm.pairs:
            return {}
        rows = table.rows_of(learner.agents)
        held, n = self.distributed.all_sum(at_clamp(ahead, table, rows, self.config.algorithm.factor_clamp), len(rows))
        return {f"{agent}/factor_clamped": held / max(1.0, n) for agent in learner.agents}

    def _log_ratio_after(self, learner: PolicyUpdater, table: Batch, rows: Sequence[int]) -> Tensor:
        """(J,) log ratio of this policy after its update, summed over its part of each joint step."""
        with learner.policy.active() as model:
            after = learner.log_probs(model, table, rows)
        summed = self.algorithm.pairs or self.config.algorithm.factor == "sum"
        return joint_log_ratio(sampled(table, rows), after, table, summed)

    def _penalty(self, k: Tensor) -> Tensor:
        mask = torch.ones_like(k, dtype=torch.bool)
        return kl.penalty(k[None], torch.zeros_like(k)[None], mask[None], self.config.kl)[0]

    def _extra(self, judged: AdvantageBatch) -> dict[int, Tensor]:
        if self.config.kl.place != "advantage" or not judged.log_ratio:
            return {}
        part = dict(enumerate(judged.batch.agent.tolist()))
        k = {row: self._penalty(each) for row, each in judged.log_ratio.items()}
        return kl.token_terms(k, part, self.config.kl, self._coefs(judged.batch), self.distributed.all_sum)

    def _coefs(self, table: Batch) -> list[float]:
        """KL coefficient of each agent of the table."""
        found = {agent: learner.coef for learner in self.learners for agent in learner.agents}
        return [found.get(agent, 0.0) for agent in table.agents]

    def _update_reference(self, learner: PolicyUpdater, judged: AdvantageBatch, step: int) -> dict[str, float]:
        """Advance a reference and adapt its KL coefficient; return the old coefficient and the KL."""
        far = [float(judged.log_ratio[row].double().sum()) for row in judged.batch.rows_of(learner.agents)]
        total, n = self.distributed.all_sum(sum(far), len(far))
        apart, coef, target = total / max(1.0, n), learner.coef, self.config.kl.target
        if target is not None:
            learner.coef = kl.adapted(coef, apart, n, target, self.config.kl.horizon)
        if learner.reference is not None:
            learner.reference.advance(step)
        found = {"kl_coef": coef, "k1_text": apart}
        return {f"{agent}/{name}": value for agent in learner.agents for name, value in found.items()}

    def _policy_metrics(
        self, learner: PolicyUpdater, stats: UpdateStats, judged: AdvantageBatch, rows: Sequence[int]
    ) -> dict[str, Any]:
        k = {row: judged.log_ratio[row] for row in rows if row in judged.log_ratio}
        more = kl.describe(k, judged.batch.advantage, self.config.kl)
        return {f"{agent}/{name}": value for agent in learner.agents for name, value in (asdict(stats) | more).items()}


def _named(prefix: str, stats: CriticStats) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in asdict(stats).items()}
