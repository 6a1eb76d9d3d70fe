"""Policy-gradient loop: rollout, batch, advantages, update; evaluation and checkpoints.

No algorithm is known by name. Every random draw is keyed by the run's seed and the step, so that a run resumed at step
k continues exactly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from palaver.agents.base.policy import Policy
from palaver.core import Sampling, stable_seed
from palaver.envs.base.wrappers import rewarded
from palaver.episodes import Episode, only_scored
from palaver.trainers.league.guesses import belief_metrics
from palaver.trainers.preferences.offline import PairReader
from palaver.trainers.rollout.batch import Batch, make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.rollout.evaluation import evaluate, summarize
from palaver.trainers.rollout.metrics import describe, expected_returns
from palaver.trainers.rollout.opponent import against
from palaver.trainers.rollout.overlong import mean_overlong, overlong
from palaver.trainers.rollout.tasks import ResampledEpisodes, batch_of_tasks, resampled, sampled, spares, varies
from palaver.trainers.run import checkpoint
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.loop import BaseLoop
from palaver.trainers.update.engine_drift import bound, check_engine
from palaver.trainers.update.learner import Learner
from palaver.trainers.update.rollout_lead import Overlap, StepRollout, meanwhile, to_plain
from palaver.trainers.update.updater import Updater
from palaver.utils.run_folder import replace_text


@dataclass(frozen=True, slots=True)
class PolicyGradientLoop(BaseLoop):
    """Policy-gradient training loop.

    Attributes:
        team: the agents' policies at the start.
        updater: updater of the policies.
        pairs: source of episodes in place of rollouts, if any.
        opponent: policies of evaluations against a fixed opponent, by agent; empty if there are none.
        pending: rollouts that wait for their update, by step; at the start those of the checkpoint.
    """

    team: Mapping[str, Policy]
    updater: Updater
    pairs: PairReader | None = None
    opponent: Mapping[str, Policy] = field(default_factory=dict)
    pending: dict[int, StepRollout] = field(default_factory=dict)

    def step(self, step: int) -> dict[str, Any]:
        """Make one update of every policy and return the metrics of the step."""
        config, began = self.session.config, time.perf_counter()
        torch.manual_seed(stable_seed(config.seed, "torch", step))
        rollout = self.next_rollout(step)
        drawn, episodes, batch = rollout.drawn, rollout.episodes, rollout.batch
        rolled = time.perf_counter()
        everyone = self.session.distributed.gather([*drawn.episodes, *drawn.replaced])
        behind = self.updater.staleness(batch)
        ahead = self.session.config.train.rollout_lead and self.overlaps(step)
        with meanwhile(self.draw, step + 1, self.pending) if ahead else nullcontext(Overlap()) as overlap:
            estimated = self.updater.estimate_advantages(batch)
            try:
                learned = self.updater.update(estimated, step)
            except NumericalError as error:
                raise self.save_failed_rows(error, estimated.batch, episodes, step) from error
        self.updater.send_weights()
        batch, done, waited = estimated.batch, time.perf_counter(), rolled - began + overlap.waited
        if self.session.run_logger:
            self.session.run_logger.episodes("train", step, everyone)
        completions, tokens = self.session.distributed.all_sum(
            *sampled([*drawn.episodes, *drawn.replaced], self.updater.agents)
        )
        return {
            **self.session.clock.read(),
            **describe(everyone),
            **self.describe_table(batch),
            **self.describe_draws(drawn),
            **({} if batch.overlong is None else {"overlong": mean_overlong(batch, self.session.distributed.all_sum)}),
            **self.describe_scoring(),
            **expected_returns(
                episodes, batch, config.algorithm.discount, estimated.kl.penalty, self.session.distributed.all_sum
            ),
            **learned,
            **rollout.drifts,
            **({f"{agent}/staleness": age for agent, age in behind.items()} if config.train.rollout_lead else {}),
            **({"team/shift": config.team.shift(list(self.team), step)} if config.team.swap_every else {}),
            "completions": completions,
            "sampled_tokens": tokens,
            "tokens_per_s": tokens / (done - began),
            "time/rollout_s": waited,
            "time/update_s": done - began - waited,
            **({"time/overlap_s": overlap.drawing - overlap.waited} if overlap.drawing else {}),
        }

    def next_rollout(self, step: int) -> StepRollout:
        """Rollout of a step, after those up to `train.rollout_lead` ahead that do not overlap."""
        train = self.session.config.train
        lead = 0 if train.rollout_lead and self.overlaps(step) else train.rollout_lead
        for ahead in range(step, min(step + lead, train.steps) + 1):
            if ahead not in self.pending:
                self.updater.assign(self.seated(ahead))
                self.pending[ahead] = self.draw(ahead)
        if train.rollout_lead:
            self.updater.assign(self.seated(step))
        return self.pending.pop(step)

    def overlaps(self, step: int) -> bool:
        """Return whether a rollout that leads is drawn while update `step` runs, by the same team."""
        config = self.session.config
        if not config.placement.apart or step == config.train.steps:
            return False
        return step + 1 not in self.pending and self.seating(step) == self.seating(step + 1)

    def draw(self, step: int) -> StepRollout:
        """Roll out a step and make its batch; the updater is assigned already, and not changed.

        Raises:
            NumericalError: an engine with a copy of the weights computes with others.
        """
        config, team = self.session.config, self.seated(step)
        drawn = ResampledEpisodes(self.pairs.episodes(step, team), [], 0) if self.pairs else self.rolled(step, team)
        episodes = only_scored(drawn.episodes, f"in step {step}")
        batch, cache = make_batch(episodes, self.updater.agents), config.algorithm.overlong
        if cache:
            limits = {agent: sampling.max_tokens for agent, sampling in self.sampling(step).items()}
            batch = replace(batch, overlong=overlong(batch, limits, cache))
        engines = [(each, config.agent(each.policy.name).engine) for each in self.updater.learners if not self.pairs]
        copies = [learner for learner, engine in engines if engine == "vllm"]
        batch, drifts = self.checked(copies, batch, episodes, step) if copies else (batch, {})
        return StepRollout(drawn, episodes, batch, drifts)

    def rolled(self, step: int, team: Mapping[str, Policy]) -> ResampledEpisodes:
        """Roll out this process's shard of the episodes of a step."""
        config, a = self.session.config, self.session.config.algorithm
        every, size = [task.id for task in self.env.tasks], config.train.prompts_per_step
        tasks = batch_of_tasks(every, size, config.seed, step)

        return resampled(
            self.session.distributed.shard(list(enumerate(tasks))),
            spares(every, tasks, config.seed, step),
            size,
            a.resample,
            lambda mine, again: self.play(step, mine, team, step, *[again] * (again > 0)),
            lambda episodes: varies(episodes, self.updater.algorithm, a, self.updater.agents),
        )

    def play(
        self,
        step: int,
        placed: Sequence[tuple[int, str]],
        team: Mapping[str, Policy] | Sequence[Mapping[str, Policy]],
        *key: str | int,
    ) -> list[Episode]:
        """Roll out tasks in their places of a step, by one team or one each; `key` seeds draws."""
        config, a = self.session.config, self.session.config.algorithm
        return rollout(
            self.env,
            team,
            [task for _, task in placed],
            SamplingPlan(a.group_size, a.joint, a.turns, a.stop_above, self.updater.estimator.look_ahead),
            sampling=self.sampling(step),
            seed=stable_seed(config.seed, "rollout", *key),
            workers=config.train.workers,
            places=[place for place, _ in placed],
        )

    def checked(
        self, learners: Sequence[Learner], batch: Batch, episodes: Sequence[Episode], step: int
    ) -> tuple[Batch, dict[str, float]]:
        """Check that engines with a copy of weights generated with the trained ones.

        Returns:
            The batch, its log-probs at sampling completed, and the drift of each agent (`engine_drift.py`).

        Raises:
            NumericalError: an engine did not; the rows are saved.
        """
        drifts: dict[str, float] = {}
        for learner in learners:
            try:
                scorer = learner.sampler if self.session.config.train.rollout_lead else learner
                batch, drift = check_engine(batch, learner, bound(self.session.config), scorer)
            except NumericalError as error:
                raise self.save_failed_rows(error, batch, episodes, step) from error
            drifts |= {f"{agent}/engine_drift": drift for agent in learner.agents}
        return batch, drifts

    def save_failed_rows(
        self, error: NumericalError, batch: Batch, episodes: Sequence[Episode], step: int
    ) -> NumericalError:
        """Save the rows at fault; return an error that names their file."""
        if not error.rows:
            return error
        rank = self.session.distributed.rank
        path = self.session.folder / f"not-finite-{step:06d}{f'-{rank}' if rank else ''}.json"
        rows = [
            {
                "agent": batch.agents[int(batch.agent[row])],
                "advantage": float(batch.advantage[row]),
                "task": episodes[int(batch.episode[row])].task,
                "text": batch.completions[row].text,
                "token_ids": batch.completions[row].token_ids,
                "logprobs": batch.completions[row].logprobs,
            }
            for row in error.rows
        ]
        replace_text(path, json.dumps(rows, indent=1))
        return NumericalError(f"{error} at step {step}; its rows are in {str(path)!r}", error.rows)

    def evaluation(self, step: int) -> tuple[list[Episode], dict[str, Any]]:
        """Episodes on the tasks of evaluations, and results: also against an opponent, and Bayes.

        Each process plays its share of the tasks; all have the episodes of all, in the order of the tasks.
        """
        config = self.session.config.eval
        tasks, team = [task.id for task in self.eval_env.tasks[: config.n]], self.seated(step)
        trained = [agent for agent, home in self.seating(step).items() if home not in self.session.config.team.frozen]
        distributed, sampling = self.session.distributed, self.sampling(step, config.greedy)
        place_of = {task: place for place, task in enumerate(tasks)}

        def play(players: Mapping[str, Policy]) -> list[Episode]:
            mine = distributed.shard(list(enumerate(tasks)))
            episodes = evaluate(
                self.eval_env,
                players,
                [task for _, task in mine],
                samples=config.samples,
                sampling=sampling,
                seed=config.seed,
                workers=self.session.config.train.workers,
                places=[place for place, _ in mine],
            )
            return sorted(distributed.gather(episodes), key=lambda episode: place_of[episode.task])

        episodes = play(team)
        rivals = against(team, self.opponent, trained, play)
        stated = belief_metrics(self.eval_env, team, self.sampling(step), config.samples, sampling)
        return episodes, {**summarize(episodes).to_dict(), "greedy": config.greedy, **rivals, **stated}

    def save(self, step: int) -> None:
        """Write a checkpoint, on the main process; sharded weights are gathered by all."""
        for learner in self.updater.learners:
            learner.collect()
        BaseLoop.save(self, step)

    def write_checkpoint(self, step: int) -> None:
        """Write policies, optimisers, and the state of the updater."""
        policies = {learner.policy.name: learner.policy for learner in self.saved_learners}
        optimizers = {learner.policy.name: learner.save_optimizer for learner in self.saved_learners}
        keep, state = self.session.config.train.keep, self.saved_state()
        rollouts = to_plain(self.pending)
        checkpoint.save(self.session.folder, step, policies, optimizers, state, keep, self.seating(step), rollouts)

    @property
    def saved_learners(self) -> Sequence[Learner]:
        """Learners whose policies and optimisers a checkpoint has."""
        return self.updater.learners

    def saved_state(self) -> dict[str, Any]:
        """Other state of a checkpoint that the next step depends on."""
        return self.updater.state_dict()

    def seated(self, step: int) -> dict[str, Policy]:
        """Agent -> its policy in update `step` and until the next."""
        return {agent: self.team[home] for agent, home in self.seating(step).items()}

    def seating(self, step: int) -> dict[str, str]:
        """Agent -> the agent that its policy in update `step` was first assigned to."""
        return self.session.config.team.seating(list(self.team), step)

    def sampling(self, step: int, greedy: bool = False) -> dict[str, Sampling]:
        """Agent -> sampling parameters of its policy."""
        config = self.session.config
        return {agent: config.agent(home).sampling(greedy) for agent, home in self.seating(step).items()}

    def describe_scoring(self) -> dict[str, float]:
        """Metrics of this process's judge or reward model since the last step, evaluations included."""
        judged = rewarded(self.env)
        measurements = judged.measured() if judged is not None else {}
        return {f"judge/{name}": value for name, value in measurements.items()}

    def describe_draws(self, drawn: ResampledEpisodes) -> dict[str, float]:
        """Mean number of replacements per task; empty without dynamic sampling."""
        config = self.session.config
        if not config.algorithm.resample:
            return {}
        return {"groups/resampled": self.session.distributed.all_sum(drawn.again)[0] / config.train.prompts_per_step}

    def describe_table(self, batch: Batch) -> dict[str, float]:
        """Metrics of the table: mean root return, share of groups without an advantage."""
        groups = int(batch.group.max()) + 1
        alive = len({int(batch.group[row]) for row in range(len(batch)) if batch.teaches(row)})
        value, zero, total = self.session.distributed.all_sum(float(batch.root_return.sum()), groups - alive, groups)
        return {
            "return/target": value / self.session.distributed.all_sum(len(batch.root_return))[0],
            "groups/zero_advantage": zero / total,
        }
