"""Value decomposition over sentences: advantages from a mixer for the policy-gradient loop.

The G candidates that an agent sampled at one node are its actions there, so that max and argmax exist. Every joint step
is added to the replay; values and mixer are trained on it; then they give the advantage of every answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import stable_seed
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.advantages import group_mean_baseline, normalize
from palaver.trainers.rollout.batch import Batch, by_step
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.value_decomposition.credits import confidence_gain, counterfactual
from palaver.trainers.value_decomposition.encoders import encoder
from palaver.trainers.value_decomposition.factored import FactoredValues, MixStats, Shape
from palaver.trainers.value_decomposition.mixers import Kind
from palaver.trainers.value_decomposition.replay import Replay, stacked
from palaver.trainers.value_decomposition.scenes import Acts, acts, transitions


class CompletionMixer:
    """Values, mixer, replay and encoder of a run over sentences.

    Args:
        kind: kind of the mixer.
        config: config of the run.
        agents: the trained agents; values belong to agents.
        body: policy whose hidden states are read by the encoder `policy`.
        distributed: device and processes. All processes have the whole replay and make the same updates.
    """

    def __init__(
        self, kind: Kind, config: RunConfig, agents: Sequence[str], body: LLMPolicy, distributed: Distributed
    ) -> None:
        self.config, self.settings = config, config.algorithm.mixer
        self.agents, self.distributed = tuple(agents), distributed
        self.encoder = encoder(config, distributed.device, body)
        shape = Shape(len(agents), self.encoder.action, self.encoder.state, linear=self.encoder.one_hot, shared=False)
        self.values = FactoredValues(self.settings, kind, shape, config.seed)
        self.replay = Replay(self.settings.buffer)
        self.steps = 0
        self.stats = MixStats()

    def estimate_advantages(self, batch: Batch, cost: Tensor | None) -> Batch:
        """Train on a filled table, then replace its advantages with the mixer's.

        In the first `algorithm.mixer.start` steps, and until the replay holds a batch, the advantages stay those of the
        plain return of the team.

        Raises:
            NumericalError: the loss of the values is not finite.
        """
        decisions, a = acts(batch, self.agents, self.encoder), self.config.algorithm
        reward = batch.reward if cost is None else batch.reward - by_step(batch, cost).nan_to_num()
        self.replay.add(self.distributed.gather(transitions(batch, decisions, reward.mean(dim=1), a.discount)))
        self.steps += 1
        self.stats = self.values.learn(self.replay, stable_seed(self.config.seed, "mixer replay", self.steps))
        advantage = batch.advantage
        if self.steps > self.settings.start and self.values.updates:
            assert a.normalize != "whiten"  # refused with a mixer
            advantage = self._credit(batch, decisions)
            advantage = normalize(advantage, advantage, batch.group, a.normalize, a.std, self.distributed.all_sum)
        if self.settings.confidence:
            nll = torch.tensor(
                [
                    -sum(completion.sample_logprobs) / max(1, len(completion.sample_logprobs))
                    for completion in batch.completions
                ],
                dtype=torch.float64,
            )
            advantage = confidence_gain(advantage, nll, batch.group, self.settings.confidence)
        return replace(batch, advantage=advantage)

    def metrics(self) -> dict[str, float]:
        """Metrics of the last update of the values, by name."""
        return {f"mixer/{name}": value for name, value in asdict(self.stats).items()}

    def state_dict(self) -> dict[str, Any]:
        """State that the next step depends on."""
        return {
            "values": self.values.state_dict(),
            "replay": self.replay.state_dict(),
            "encoder": self.encoder.state_dict(),
            "steps": self.steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.values.load_state_dict(state["values"])
        self.replay.load_state_dict(state["replay"])
        self.encoder.load_state_dict(state["encoder"])
        self.steps = state["steps"]

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
