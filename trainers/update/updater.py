"""From a table of utterances to new weights: what was to be expected, who is answerable, who learns in which order.

`judge` fills the table with returns and advantages; `learn` updates policies and critics. It reads the algorithm's row
and knows no algorithm by name.
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
from palaver.trainers.rollout.batch import Table, answerable, by_step, fill, joint_returns, sampled
from palaver.trainers.run.distributed import World
from palaver.trainers.update.bootstrap import bootstrap
from palaver.trainers.update.critic import Critic, CriticStats, Samples, critic_stats, joint_ids
from palaver.trainers.update.joint_tokens import joint_prompts, refuse_other_tokens
from palaver.trainers.update.moving_baseline import Moving
from palaver.trainers.update.policy_update import Learner, Stats, Work, padded_rows
from palaver.trainers.update.sequential_weight import at_clamp, joint_factor, joint_log_ratio
from palaver.trainers.value_decomposition.sentences import Mixing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Judged:
    """A step's table with all that learning needs to know of it.

    Attributes:
        table: with returns and advantages.
        value: (R,) what the critics expected before the first token; None without.
        boot: (J, N) what they expected after cuts, 0 elsewhere; None where nothing was cut.
        joint: what a joint critic read: the joint conversations (J), or with values of tokens what came before the
            first of each row (R).
        reference: row -> (T,) log-probs under the reference; empty without.
        k: row -> (T,) log pi - log pi_ref; empty without a reference.
        pull: (R,) what the pull to the reference takes from what an utterance earns; None without a reference.
        cost: (R,) the same where it was taken from the rewards, before the returns; None elsewhere.
        pairs: of joint steps, where they are compared two by two; None elsewhere.
        tokens: values of tokens and the costs of each, where critics have them; None elsewhere.
        means: agent -> moving mean of returns after these episodes; empty without one.
    """

    table: Table
    value: Tensor | None = None
    joint: Sequence[Ids] = ()
    reference: Mapping[int, Tensor] = field(default_factory=dict)
    k: Mapping[int, Tensor] = field(default_factory=dict)
    pull: Tensor | None = None
    cost: Tensor | None = None
    pairs: Pairs | None = None
    boot: Tensor | None = None
    tokens: TokenValues | None = None
    means: Mapping[str, float] = field(default_factory=dict)


class Study:
    """What a run learns with.

    Args:
        algorithm: the row of choices.
        config: of the run.
        learners: one per distinct policy.
        world: device and processes.
    """

    def __init__(self, algorithm: Algorithm, config: RunConfig, learners: Sequence[Learner], world: World) -> None:
        self.algorithm, self.config, self.learners, self.world = algorithm, config, list(learners), world
        self.by_token = has_token_values(algorithm, config.critic)
        self.critics: dict[str, Critic] = {}
        self.moving: Moving | None = None
        if algorithm.critic == "own":
            self.critics = {
                each.policy.name: Critic(each.policy, each.policy.name, config, world) for each in self.learners
            }
        elif algorithm.critic == "joint":
            if self.by_token:
                refuse_other_tokens(self.learners[0].policy, [each.policy for each in self.learners])
            self.critics = {"joint": Critic(self.learners[0].policy, "joint", config, world)}
        elif algorithm.critic == "agent":
            self.moving = Moving(config.algorithm.decay)
        self.mixing: Mixing | None = None
        if algorithm.mixer != "none":
            self.mixing = Mixing(algorithm.mixer, config, self.agents, self.learners[0].policy, world)

    @property
    def agents(self) -> list[str]:
        """The seats that are trained."""
        return [agent for learner in self.learners for agent in learner.agents]

    def seat(self, team: Mapping[str, Policy]) -> None:
        """Let every policy answer for the seats that it fills in `team`, and stand in the order of the seats.

        Its optimiser, its critic and its reference stay with it; moving means belong to seats.
        """
        seats = list(team)
        for learner in self.learners:
            learner.agents = tuple(seat for seat in seats if team[seat] is learner.policy)
        self.learners.sort(key=lambda learner: seats.index(learner.agents[0]))

    def judge(self, table: Table) -> Judged:
        """Fill the table with returns and advantages.

        Raises:
            NumericalError: a mixer learns first, and its loss is not finite.
        """
        config = self.config
        joint: Sequence[Ids] = []
        if "joint" in self.critics:
            joint = (joint_prompts if self.by_token else joint_ids)(table, self.critics["joint"].body)
        value, tokens = self._expect(table, joint)
        boot = None
        if config.algorithm.discount:  # else nothing beyond a turn counts
            boot = bootstrap(table, self.critics, self.learners, self.by_token)
        reference, k = self._pull(table)
        pull = None
        if k:
            coefs = torch.tensor(self._coefs(table), dtype=torch.float64)[table.agent]
            each = [self._penalty(k[row]) for row in range(len(table))]
            pull = coefs * torch.tensor([float(one.sum()) for one in each], dtype=torch.float64)
            if tokens is not None and config.kl.place == "reward":
                tokens = replace(tokens, cost=coefs[:, None] * padded_rows(each, tokens.value))
        cost = pull if config.kl.place == "reward" else None
        means = dict[str, float]()
        if self.moving is not None:
            due = answerable(table, self.algorithm, cost)
            value, means = self.moving.judge(table, due, config.algorithm.discount, self.world)
        filled = fill(table, self.algorithm, config.algorithm, value, cost, self.world.total, boot, tokens)
        if self.mixing is not None:
            filled = self.mixing.judge(filled, cost)
        pairs = compare(filled, k, config, self.world.total) if self.algorithm.pairs else None
        return self._weigh(Judged(filled, value, joint, reference, k, pull, cost, pairs, boot, tokens, means))

    def learn(self, judged: Judged, step: int) -> dict[str, Any]:
        """Update every policy, then every critic; what they did, by name.

        Raises:
            NumericalError: a loss or gradient is not finite.
        """
        table = judged.table
        extra = self._extra(judged)
        ahead = torch.zeros(len(table.steps), dtype=torch.float64)  # log of how much likelier joint steps have become
        shown: dict[str, Any] = {}

        weight = self._weights(table)

        def teach(learner: Learner) -> dict[str, Any]:
            return self._teach(learner, self._weigh(judged, ahead), step, extra, self._factor(table, ahead), weight)

        if self.algorithm.order == "together":
            for found in self._at_once(teach):
                shown |= found
        else:
            for learner in self._order(step):
                shown |= teach(learner) | self._clamped(learner, table, ahead)
                ahead = ahead + self._moved(learner, table, table.rows_of(learner.agents))
        for learner in self.learners if self.config.kl.coef > 0 else ():
            shown |= self._follow(learner, judged, step)
        for name, critic in self.critics.items():
            if not critic.shared:
                shown |= _named(f"critic/{name}", critic.update(self._samples(name, judged), step))
        if self.moving is not None:
            self.moving.means = dict(judged.means)
        if judged.pairs is not None:
            shown |= describe(judged.pairs, self.config.kl.coef, self.world.total)
        return shown | (self.mixing.shown() if self.mixing is not None else {})

    def _weigh(self, judged: Judged, ahead: Tensor | None = None) -> Judged:
        """With what the pairs gain from each row for its advantage, where there are pairs.

        `ahead` (J,) is the log of how much likelier joint steps have become since they were compared.
        """
        if judged.pairs is None:
            return judged
        parts = [judged.table.rows_of(learner.agents) for learner in self.learners]
        counts = self.world.total(*map(float, map(len, parts)))
        moved = torch.zeros(len(judged.table.steps), dtype=torch.float64) if ahead is None else ahead
        table = weighed(judged.table, judged.pairs, parts, moved, self.config.kl.coef, counts)
        return replace(judged, table=table)

    def _teach(
        self, learner: Learner, judged: Judged, step: int, extra: Mapping[int, Tensor], factor: Tensor | None,
        weight: Tensor | None,
    ) -> dict[str, Any]:  # fmt: skip
        """Update one policy, and the critic that shares its trunk; what came of it."""
        rows = judged.table.rows_of(learner.agents)
        critic = self.critics.get(learner.policy.name)
        shared = critic if critic is not None and critic.shared else None
        if shared is not None:
            shared.take_in(self._own(judged, rows))
        steps: list[tuple[float, float]] = []
        work = Work(
            judged.table, rows, self.algorithm.loss, step, factor=factor, extra=extra,
            weight=None if weight is None else weight / len(learner.agents),
            reference={} if judged.pairs else judged.reference,
            also=None if shared is None else self._beside(shared, judged, steps),
        )  # fmt: skip
        shown = self._shown(learner, learner.update(work), judged, rows)
        if shared is not None:
            found = critic_stats(self._own(judged, rows), [loss for loss, _ in steps], steps[-1][1] if steps else 0.0)
            shown |= _named(f"critic/{shared.name}", found)
        return shown

    def state_dict(self) -> dict[str, Any]:
        """Everything beside the policies and their optimisers that the next step depends on."""
        critics = {name: critic.state_dict() for name, critic in self.critics.items()}
        pulls = {learner.policy.name: learner.pull_state() for learner in self.learners}
        kept = {"critics": critics, "moving": self.moving.means if self.moving else {}, "pulls": pulls}
        return kept | ({"mixing": self.mixing.state_dict()} if self.mixing is not None else {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`.

        Raises:
            CheckpointError: it was written before references were part of it.
        """
        for name, critic in self.critics.items():
            critic.load_state_dict(state["critics"][name])
        if self.moving is not None:
            self.moving.means = dict(state["moving"])
        if self.mixing is not None:
            self.mixing.load_state_dict(state["mixing"])
        for learner in self.learners:
            learner.load_pull(state.get("pulls", {}).get(learner.policy.name))

    def _pull(self, table: Table) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """Row -> (T,) log-probs under the reference, and log pi - log pi_ref; empty without a pull."""

        def score(learner: Learner) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
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
            for there, apart in self._at_once(score):
                reference, k = reference | there, k | apart
        return reference, k

    def _at_once(self, function: Callable[[Learner], T]) -> list[T]:
        """`function` of every learner; in threads, unless some compute with one model."""
        hosts = {id(learner.policy.host) for learner in self.learners}
        if len(hosts) < len(self.learners):
            return [function(learner) for learner in self.learners]
        return self.world.at_once(function, self.learners)

    def _expect(self, table: Table, joint: Sequence[Ids]) -> tuple[Tensor | None, TokenValues | None]:
        """(R,) the expected return before each utterance, and before each token where tokens have values."""
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

    def _rows(self, name: str, table: Table) -> list[int]:
        """The rows that a critic has values of."""
        return table.rows_of([a for each in self.learners if name in ("joint", each.policy.name) for a in each.agents])

    def _reads(self, table: Table, rows: Sequence[int], joint: Sequence[Ids]) -> tuple[list[Ids], list[int]]:
        """Sequences that critics read of some rows, and the number of values of each; see `Samples`."""
        said = [table.utterances[row] for row in rows]
        prompts = [joint[row] for row in rows] if "joint" in self.critics else [each.prompt_ids for each in said]
        return token_reads(prompts, [each.token_ids for each in said]) if self.by_token else (prompts, [1] * len(rows))

    def _samples(self, name: str, judged: Judged) -> Samples:
        """Training data of a critic: of an own one its policy's utterances, of a joint one each joint step once.

        With values of tokens a joint one learns from every utterance, too.
        """
        if name != "joint" or self.by_token:
            return self._own(judged, self._rows(name, judged.table))
        table, value = judged.table, judged.value
        assert value is not None
        target = joint_returns(table, self.algorithm, self.config.algorithm, value, judged.cost, judged.boot)
        acted = ~by_step(table, value).isnan()
        mean = torch.where(acted, target, 0.0).sum(dim=1) / acted.sum(dim=1).clamp(min=1)
        some = acted.any(dim=1).nonzero()[:, 0].tolist()
        old = by_step(table, value).nanmean(dim=1)
        return Samples([judged.joint[number] for number in some], mean[some], old[some])

    def _own(self, judged: Judged, rows: Sequence[int]) -> Samples:
        table, value, tokens = judged.table, judged.value, judged.tokens
        assert value is not None
        ids, counts = self._reads(table, rows, judged.joint)
        if tokens is None or table.token_returns is None:
            return Samples(ids, table.returns[list(rows)], value[list(rows)], counts)
        mask = tokens.mask[list(rows)]
        return Samples(ids, table.token_returns[list(rows)][mask], tokens.value[list(rows)][mask], counts)

    def _beside(self, critic: Critic, judged: Judged, steps: list[tuple[float, float]]) -> Any:
        """Adds the value loss of some rows to the gradient of the trunk they share with the policy.

        Each time its loss and the norm of the output's gradient are put on `steps`.
        """

        def also(rows: Sequence[int]) -> None:
            loss = critic.backward(self._own(judged, rows))
            steps.append((loss, critic.step()))

        return also

    def _weights(self, table: Table) -> Tensor | None:
        """(R,) weight of each row in the mean over tasks; None where all rows weigh alike."""
        if self.algorithm.pairs or self.config.algorithm.turn_weights == "rows":
            return None
        return table.weight / max(1.0, self.world.total(float(table.tasks))[0])

    def _order(self, step: int) -> list[Learner]:
        a = self.config.algorithm
        if self.algorithm.order == "together" or a.order == "fixed":
            return self.learners
        generator = torch.Generator().manual_seed(stable_seed(self.config.seed, "order of agents", step))
        return [self.learners[place] for place in torch.randperm(len(self.learners), generator=generator).tolist()]

    def _factor(self, table: Table, ahead: Tensor) -> Tensor | None:
        """(R,) M of each utterance: the mean over its joint steps of how much likelier those have become."""
        if self.algorithm.order == "together" or self.algorithm.pairs:
            return None
        return joint_factor(ahead, table, self.config.algorithm.factor_clamp)

    def _clamped(self, learner: Learner, table: Table, ahead: Tensor) -> dict[str, float]:
        """The share of a policy's rows whose factor is held by its clamp; nothing where there is no factor."""
        if self.algorithm.pairs:
            return {}
        rows = table.rows_of(learner.agents)
        held, n = self.world.total(at_clamp(ahead, table, rows, self.config.algorithm.factor_clamp), len(rows))
        return {f"{agent}/factor_clamped": held / max(1.0, n) for agent in learner.agents}

    def _moved(self, learner: Learner, table: Table, rows: Sequence[int]) -> Tensor:
        """(J,) log of how much likelier this policy has become to play its part in each joint step."""
        with learner.policy.active() as model:
            after = learner.log_probs(model, table, rows)
        summed = self.algorithm.pairs or self.config.algorithm.factor == "sum"
        return joint_log_ratio(sampled(table, rows), after, table, summed)

    def _penalty(self, k: Tensor) -> Tensor:
        mask = torch.ones_like(k, dtype=torch.bool)
        return kl.penalty(k[None], torch.zeros_like(k)[None], mask[None], self.config.kl)[0]

    def _extra(self, judged: Judged) -> dict[int, Tensor]:
        if self.config.kl.place != "advantage" or not judged.k:
            return {}
        part = dict(enumerate(judged.table.agent.tolist()))
        k = {row: self._penalty(each) for row, each in judged.k.items()}
        return kl.token_terms(k, part, self.config.kl, self._coefs(judged.table), self.world.total)

    def _coefs(self, table: Table) -> list[float]:
        """The weight of the pull on each agent of the table."""
        found = {agent: learner.coef for learner in self.learners for agent in learner.agents}
        return [found.get(agent, 0.0) for agent in table.agents]

    def _follow(self, learner: Learner, judged: Judged, step: int) -> dict[str, float]:
        """Let a policy's reference and the weight of the pull to it follow an update; what the weight was, and why."""
        far = [float(judged.k[row].double().sum()) for row in judged.table.rows_of(learner.agents)]
        total, n = self.world.total(sum(far), len(far))
        apart, coef, target = total / max(1.0, n), learner.coef, self.config.kl.target
        if target is not None:
            learner.coef = kl.adapted(coef, apart, n, target, self.config.kl.horizon)
        if learner.reference is not None:
            learner.reference.advance(step)
        found = {"kl_coef": coef, "k1_text": apart}
        return {f"{agent}/{name}": value for agent in learner.agents for name, value in found.items()}

    def _shown(self, learner: Learner, stats: Stats, judged: Judged, rows: Sequence[int]) -> dict[str, Any]:
        k = {row: judged.k[row] for row in rows if row in judged.k}
        more = kl.describe(k, judged.table.advantage, self.config.kl)
        return {f"{agent}/{name}": value for agent in learner.agents for name, value in (asdict(stats) | more).items()}


def _named(prefix: str, stats: CriticStats) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in asdict(stats).items()}
