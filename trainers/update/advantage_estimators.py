"""Advantage estimators: one class for each kind of estimate, chosen once by the algorithm.

    AdvantageEstimator       returns less a baseline of the group
    PairEstimator            gradient weights of a loss over pairs of joint actions (MADPO)
    MixerEstimator           credit from factored action values (VDN, QMIX)

Those with critics are in `value_estimator.py`, that with moving means in `moving_baseline.py`. Axes: J joint steps,
N agents, R rows, T tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from palaver.core import stable_seed
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.preferences import choose
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.advantages import group_mean_baseline, normalize, shared_reward, tree_returns
from palaver.trainers.objectives.token_values import Ids, TokenValues
from palaver.trainers.preferences.dpo import dpo_loss, dpo_slope, row_weights, step_log_ratios
from palaver.trainers.rollout.batch import Batch, add_advantages, by_step
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.critic import Samples
from palaver.trainers.update.learner import Learner, ValueModel
from palaver.trainers.update.sequential_weight import joint_factor
from palaver.trainers.value_decomposition.encoders import Encoder, encoder
from palaver.trainers.value_decomposition.factored import FactoredValues, MixStats, Shape
from palaver.trainers.value_decomposition.replay import Replay, stacked
from palaver.trainers.value_decomposition.scenes import Acts, acts, transitions
from palaver.trainers.value_decomposition.targets import counterfactual


@dataclass(frozen=True, slots=True)
class KLTerms:
    """Divergence of a batch from the references; empty without a KL penalty.

    Attributes:
        reference: row -> (T,) log-probs under the reference.
        log_ratio: row -> (T,) log pi - log pi_ref.
        tokens: (R) KL penalty of each token, (T,), without its coefficient.
        coef: (R,) coefficient of each row.
        advantage: row -> (T,) terms to be added to the advantages of tokens.
    """

    reference: Mapping[int, Tensor] = field(default_factory=dict)
    log_ratio: Mapping[int, Tensor] = field(default_factory=dict)
    tokens: Sequence[Tensor] = ()
    coef: Tensor = field(default_factory=lambda: torch.zeros(0))
    advantage: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def penalty(self) -> Tensor | None:
        """(R,) KL penalty of each completion, in units of reward; None without a reference."""
        if not self.tokens:
            return None
        return self.coef * torch.tensor([float(penalty.sum()) for penalty in self.tokens], dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Preference pairs of the joint steps of one batch.

    Attributes:
        better: (P,) index of a joint step.
        worse: (P,) likewise.
        margin: (P,) h of each pair before the update.
        total: pairs of all processes together.
    """

    better: Tensor
    worse: Tensor
    margin: Tensor
    total: float


@dataclass(frozen=True, slots=True)
class AdvantageBatch:
    """The batch of one step with advantages and all other inputs of the update.

    Attributes:
        batch: the batch with returns and advantages.
        kl: divergence from the references.
        weight: (R,) weight of each row in the mean over tasks; None if all rows have equal weight.
        value: (R,) expected return before the first token; None without critics or moving means.
        inputs: inputs of critics: those of a joint critic without values of tokens by joint step (J), others by row.
        bootstrap: (J, N) critic values of the states after cuts, 0 elsewhere; None where nothing was cut.
        tokens: values and costs of tokens, for critics at the level of tokens; else None.
        means: agent -> moving mean of returns after these episodes; empty without moving means.
        pairs: preference pairs of joint steps, for algorithms that compare them; else None.
    """

    batch: Batch
    kl: KLTerms
    weight: Tensor | None = None
    value: Tensor | None = None
    inputs: Sequence[Ids] = ()
    bootstrap: Tensor | None = None
    tokens: TokenValues | None = None
    means: Mapping[str, float] = field(default_factory=dict)
    pairs: Pairs | None = None


class AdvantageEstimator:
    """Estimator of returns less a baseline of the group, and the base of all others.

    Args:
        algorithm: definition of the algorithm.
        config: config of the run.
        learners: one per distinct policy.
        distributed: device and processes.

    Attributes:
        critics: name -> critic.
        look_ahead: agents whose answers are sampled after a cut too.
        held: number of weights that it holds and does not train.
    """

    look_ahead: tuple[str, ...] = ()
    held = 0

    def __init__(
        self, algorithm: Algorithm, config: RunConfig, learners: Sequence[Learner], distributed: Distributed
    ) -> None:
        self.algorithm, self.config, self.learners, self.distributed = algorithm, config, learners, distributed
        self.critics: dict[str, ValueModel] = {}

    def estimate(self, batch: Batch, kl: KLTerms) -> AdvantageBatch:
        """Fill a batch with returns and advantages.

        Raises:
            NumericalError: the loss of a mixer, which is updated first, is not finite.
        """
        return self.filled(batch, kl)

    def filled(
        self,
        batch: Batch,
        kl: KLTerms,
        value: Tensor | None = None,
        inputs: Sequence[Ids] = (),
        bootstrap: Tensor | None = None,
        tokens: TokenValues | None = None,
    ) -> AdvantageBatch:
        """Fill a batch with returns and advantages, from what is known of its values."""
        cost, weight, total = self.cost(kl), self.row_weights(batch), self.distributed.all_sum
        batch = add_advantages(batch, self.algorithm, self.config.algorithm, value, cost, total, bootstrap, tokens)
        return AdvantageBatch(batch, kl, weight, value, inputs, bootstrap, tokens)

    def cost(self, kl: KLTerms) -> Tensor | None:
        """(R,) KL penalty of each completion if it is subtracted from the rewards, else None."""
        return kl.penalty if self.config.kl.place == "reward" else None

    def row_weights(self, batch: Batch) -> Tensor | None:
        """(R,) weight of each row in the mean over tasks; None if all rows have equal weight."""
        if self.config.algorithm.turn_weights == "rows":
            return None
        return batch.weight / max(1.0, self.distributed.all_sum(float(batch.tasks))[0])

    def in_sequence(self, estimated: AdvantageBatch, log_ratio: Tensor) -> tuple[AdvantageBatch, Tensor | None]:
        """Inputs of a policy that is updated after others, and the factor (R,) of its rows.

        Args:
            estimated: estimate before any update.
            log_ratio: (J,) log ratio of the joint steps under the policies updated since: log pi_now - log pi_old.
        """
        return estimated, joint_factor(log_ratio, estimated.batch, self.config.algorithm.factor_clamp)

    def trunk_samples(self, estimated: AdvantageBatch, learner: Learner) -> Samples | None:
        """Training data of the critic that shares this policy's trunk; None if there is none."""
        del estimated, learner
        return None

    def update(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Update what the next estimates depend on, after the policies, and return metrics by name.

        Raises:
            NumericalError: a loss or gradient of a critic is not finite.
        """
        del estimated, step
        return {}

    def state_dict(self) -> dict[str, Any]:
        """State that the next step depends on."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""


class PairEstimator(AdvantageEstimator):
    """Estimator of the gradient weights of a loss over pairs of joint actions."""

    def estimate(self, batch: Batch, kl: KLTerms) -> AdvantageBatch:
        """Fill a batch with the weights of its pairs; the KL penalty is a part of their loss."""
        filled = self.filled(batch, kl).batch
        estimated = AdvantageBatch(filled, replace(kl, reference={}), pairs=self._pairs(filled, kl.log_ratio))
        return self.in_sequence(estimated, torch.zeros(len(batch.steps), dtype=torch.float64))[0]

    def in_sequence(self, estimated: AdvantageBatch, log_ratio: Tensor) -> tuple[AdvantageBatch, Tensor | None]:
        """Set each row's advantage to its gradient weight at the margins of now.

        A policy's loss is a mean over its rows, and MADPO's one over pairs; so each weight is that of `row_weights`
        times the rows of its policy over the pairs of all processes.
        """
        batch, pairs = estimated.batch, estimated.pairs
        assert pairs is not None
        policies = [batch.rows_of(learner.agents) for learner in self.learners]
        counts = self.distributed.all_sum(*map(float, map(len, policies)))
        slope = dpo_slope(pairs.margin + log_ratio[pairs.better] - log_ratio[pairs.worse], self.config.kl.coef)
        weight = row_weights(slope, pairs.better, pairs.worse, batch.member_row, batch.member_step, len(batch))
        scaled = torch.zeros_like(weight)
        for rows, count in zip(policies, counts, strict=True):
            scaled[rows] = weight[rows] * count / max(1.0, pairs.total)
        return replace(estimated, batch=replace(batch, advantage=scaled)), None

    def update(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Metrics of the pairs before the update: count, loss, accuracy, and mean margin h."""
        del step
        pairs = estimated.pairs
        assert pairs is not None
        loss = dpo_loss(pairs.margin, self.config.kl.coef)
        sums = [float(values.sum()) for values in (loss, (pairs.margin > 0).double(), pairs.margin)]
        means = [value / max(1.0, pairs.total) for value in self.distributed.all_sum(*sums)]
        return dict(
            zip(("pairs/count", "pairs/loss", "pairs/accuracy", "pairs/margin"), (pairs.total, *means), strict=True)
        )

    def _pairs(self, batch: Batch, log_ratio: Mapping[int, Tensor]) -> Pairs:
        """Select the pairs of a batch: joint actions of one group by team return, without ties."""
        discount = self.config.algorithm.discount
        returns = tree_returns(shared_reward(batch.reward), batch.parent, batch.step_turn, discount)[:, 0].tolist()
        members: dict[str, list[int]] = defaultdict(list)
        for index, turn in enumerate(batch.steps):
            members[turn.group].append(index)
        pairs = []
        for group, steps in members.items():
            seed = stable_seed(self.config.seed, "pairs", group, len(steps))
            chosen = choose([returns[step] for step in steps], self.config.algorithm.pairs, seed)
            pairs += [(steps[better], steps[worse]) for better, worse in chosen]
        better, worse = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
        of_row = torch.zeros(len(batch), dtype=torch.float64)
        for row, values in log_ratio.items():
            of_row[row] = values.double().sum()
        of_step = step_log_ratios(of_row, batch.member_row, batch.member_step, len(batch.steps))
        total = self.distributed.all_sum(float(len(pairs)))[0]
        return Pairs(better, worse, of_step[better] - of_step[worse], total)


class MixerEstimator(AdvantageEstimator):
    """Estimator of the credit of each answer from values that a mixer joins to one of the team.

    The G candidates that an agent sampled at one node are its actions there, so that max and argmax exist. Every joint
    step is added to the replay; values and mixer are trained on it; then they give the advantage of every answer. All
    processes have the whole replay and make the same updates.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.settings = self.config.algorithm.mixer
        self.look_ahead = tuple(agent for learner in self.learners for agent in learner.agents)
        if self.settings.reads == "policy":
            self.encoder: Encoder = self.learners[0].make_features()
        else:
            self.encoder = encoder(self.config, self.distributed.device)
        self.held = self.encoder.held
        action, state, linear = self.encoder.action, self.encoder.state, self.encoder.one_hot
        shape = Shape(len(self.look_ahead), action, state, linear=linear, shared=False)
        assert self.algorithm.mixer != "none"
        self.values = FactoredValues(self.settings, self.algorithm.mixer, shape, self.config.seed)
        self.replay = Replay(self.settings.buffer)
        self.steps = 0
        self.stats = MixStats()

    def estimate(self, batch: Batch, kl: KLTerms) -> AdvantageBatch:
        """Train the values on a batch, then fill it with the mixer's advantages.

        In the first `algorithm.mixer.start` steps, and until the replay holds a batch, the advantages stay those of the
        plain return of the team.

        Raises:
            NumericalError: the loss of the values is not finite.
        """
        estimated, a, cost = self.filled(batch, kl), self.config.algorithm, self.cost(kl)
        batch = estimated.batch
        decisions = acts(batch, self.look_ahead, self.encoder)
        reward = batch.reward if cost is None else batch.reward - by_step(batch, cost).nan_to_num()
        self.replay.add(self.distributed.gather(transitions(batch, decisions, reward.mean(dim=1), a.discount)))
        self.steps += 1
        self.stats = self.values.learn(self.replay, stable_seed(self.config.seed, "mixer replay", self.steps))
        advantage = batch.advantage
        if self.steps > self.settings.start and self.values.updates:
            assert a.normalize != "whiten"  # refused with a mixer
            advantage = self._credit(batch, decisions)
            advantage = normalize(advantage, advantage, batch.group, a.normalize, a.std, self.distributed.all_sum)
        return replace(estimated, batch=replace(batch, advantage=advantage))

    def update(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Metrics of the last update of the values."""
        del estimated, step
        return {f"mixer/{name}": value for name, value in asdict(self.stats).items()}

    def state_dict(self) -> dict[str, Any]:
        """State of values, replay and encoder."""
        parts = [self.values.state_dict(), self.replay.state_dict(), self.encoder.state_dict(), self.steps]
        return {"mixing": dict(zip(("values", "replay", "encoder", "steps"), parts, strict=True))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.values.load_state_dict(state["mixing"]["values"])
        self.replay.load_state_dict(state["mixing"]["replay"])
        self.encoder.load_state_dict(state["mixing"]["encoder"])
        self.steps = state["mixing"]["steps"]

    def _credit(self, batch: Batch, decisions: Acts) -> Tensor:
        """(R,) credit of each answer, mean over the joint actions that it took part in."""
        steps = list(decisions.scene_keys)
        scene = stacked([decisions.scenes[decisions.scene_keys[step]] for step in steps])
        chosen = torch.stack([decisions.chosen[step] for step in steps])
        q = self.values.values(scene.candidates)
        if self.settings.credit == "counterfactual":
            given = counterfactual(q, scene.allowed, chosen, scene.state, self.values.total)
        else:
            given = q.gather(-1, chosen[..., None])[..., 0]
        total, count = (torch.zeros(len(batch), dtype=torch.float64) for _ in range(2))
        for index, step in enumerate(steps):
            for agent, row in decisions.rows[step].items():
                total[row] += float(given[index, agent])
                count[row] += 1
        mean = total / count
        return mean if self.settings.credit == "counterfactual" else group_mean_baseline(mean, batch.group)
