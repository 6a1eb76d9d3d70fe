"""`rollout_func` of TRL's `GRPOTrainer`: whole episodes of one agent among partners.

    rollout = EpisodeRollout("arxiv-v0", "background", "scripted:reference")
    GRPOTrainer(model, episode_reward, args=..., train_dataset=rollout.dataset(), rollout_func=rollout)

A row of TRL is an episode: the prompt of the agent's first action, then all of its completions with the observations
between them. `env_mask` is 1 on the tokens that the model sampled and 0 on observations. Ids are never encoded again,
so that a token is trained under the context that it was sampled in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch

from palaver.agents.base.policy import Policy
from palaver.agents.llm.generation.engine import make_generator
from palaver.agents.llm.generation.requests import GenerationRequest
from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.model.inference_copy import evaluating
from palaver.agents.llm.model.load import load_pretrained
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.make_policy import model_source
from palaver.benchmarks.doors.partners import DEFAULT_PARTNERS, make_partners
from palaver.core import Completion, ConfigError, PolicyError, Sampling, refuse, stable_seed
from palaver.episodes import Episode
from palaver.registry import spec
from palaver.trainers.config.run import EVAL_SEED
from palaver.trainers.rollout.branches import Branch, first_joint, start
from palaver.trainers.rollout.episodes import EpisodeRunner, StepAll, complete, ready_env, record
from palaver.trainers.rollout.metrics import agent_returns

if TYPE_CHECKING:
    from datasets import Dataset

REWARD = "episode_reward"


@dataclass(slots=True)
class _Row:
    """Tokens of the agent in one episode."""

    seed: int
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    env_mask: list[int] = field(default_factory=list)

    @property
    def context(self) -> list[int]:
        """Ids that the next completion follows."""
        return self.prompt_ids + self.completion_ids

    def add(self, ids: Sequence[int], logprobs: Sequence[float], sampled: bool) -> None:
        """Append ids behind the prompt."""
        self.completion_ids += ids
        self.logprobs += logprobs
        self.env_mask += [int(sampled)] * len(ids)


class _Player:
    """The trainer's model as the agent's policy.

    Args:
        trainer: a `GRPOTrainer`.
        max_tokens: of one completion; None takes the trainer's `max_completion_length`.
        chat: see `ModelOptions`.

    Raises:
        ConfigError: the trainer's arguments have a sampling parameter that this rollout does not have.
    """

    def __init__(self, trainer: Any, max_tokens: int | None, chat: Literal["auto", "template", "plain"]) -> None:
        args = trainer.args
        refuse(
            [
                (args.use_vllm, "this rollout_func generates with the trainer's model; set use_vllm=False"),
                (args.min_p, "this rollout_func has no min_p; leave it out"),
                (args.repetition_penalty != 1, "this rollout_func has no repetition_penalty; leave it out"),
            ]
        )
        self.model = trainer.accelerator.unwrap_model(trainer.model)
        self.sampling = Sampling(
            args.temperature, args.top_p, args.top_k or 0, max_tokens or trainer.max_completion_length
        )
        half = next(self.model.parameters()).dtype == torch.bfloat16
        self.renderer = Renderer(trainer.processing_class, chat)
        options = ModelOptions("bf16" if half else "fp32", chat=chat)
        self._generator = make_generator(self.model, self.renderer, options, "the trained model")
        self._longest = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    def refresh(self) -> None:
        """Generate with the weights that the model has now."""
        self._generator.refresh()

    def act(self, agent: str, waiting: Sequence[tuple[Branch, _Row]]) -> list[Completion]:
        """Actions of an agent in several episodes; its tokens are added to the rows.

        An agent whose context is full is silent.

        Raises:
            PolicyError: its first prompt does not fit the context of the model.
        """
        live: list[tuple[int, _Row]] = []
        for index, (branch, row) in enumerate(waiting):
            asked = self._asked(branch, agent, row)
            if self._longest and len(row.context) + len(asked) + self.sampling.max_tokens > self._longest:
                if not row.completion_ids:
                    raise PolicyError(
                        f"the first prompt of {agent!r} has {len(asked)} tokens; with max_tokens="
                        f"{self.sampling.max_tokens} it does not fit the context of {self._longest} tokens"
                    )
                continue
            if row.prompt_ids:
                row.add(asked, [0.0] * len(asked), sampled=False)
            else:
                row.prompt_ids = asked
            live.append((index, row))
        rows = [
            GenerationRequest(n, stable_seed(row.seed, len(waiting[index][0].turns)), self.sampling)
            for n, (index, row) in enumerate(live)
        ]
        actions = [Completion("")] * len(waiting)
        with evaluating(self.model):
            samples = self._generator.generate([row.context for _, row in live], rows) if rows else []
        for (index, row), sample in zip(live, samples, strict=True):
            row.add(sample.token_ids, sample.sample_logprobs, sampled=True)
            actions[index] = Completion(self.renderer.text(sample.token_ids), finish=sample.finish)
        return actions

    def _asked(self, branch: Branch, agent: str, row: _Row) -> list[int]:
        conversation = branch.conversations[agent]
        if not row.prompt_ids:
            return self.renderer.ids(conversation)
        return self.renderer.continuation(conversation[-1].content, row.completion_ids[-1])


class EpisodeRollout:
    """`rollout_func` of `GRPOTrainer`, for one agent of an environment.

    The episodes of a task in one call have the same seed of environment and partners, so that they differ by the
    agent's completions. Sampling parameters are those of `GRPOConfig`. The agent is not offered tools of its own.

    Attributes:
        episodes: episodes of the last call.

    Args:
        id: environment.
        agent: the agent that is trained.
        partners: policies of the others, which are not trained: one name for all, `agent=NAME,agent=NAME`, or agent ->
            policy.
        reward: `agent` for the agent's own return, `team` for the mean over agents.
        max_tokens: most tokens of one completion; None takes `max_completion_length` of `GRPOConfig`.
        seed: of the environment, the partners and the completions.
        chat: if the tokenizer's chat template is used: `auto`, `template` or `plain`.
        keywords: of the environment.

    Raises:
        ConfigError: no such environment, agent, keyword or reward.
        PolicyError: a partner that does not exist.
        TaskError: the tasks cannot be read.
    """

    __name__ = "EpisodeRollout"

    def __init__(
        self,
        id: str,
        agent: str,
        partners: str | Mapping[str, Policy] = DEFAULT_PARTNERS,
        *,
        reward: Literal["agent", "team"] = "agent",
        max_tokens: int | None = None,
        seed: int = 0,
        chat: Literal["auto", "template", "plain"] = "auto",
        **keywords: Any,
    ) -> None:
        if reward not in ("agent", "team"):
            raise ConfigError(f"reward must be agent or team, got {reward!r}")
        self.env = ready_env(id, keywords)
        self._partners = make_partners(self.env, spec(id), agent, partners)
        self.agent, self.reward, self.seed = agent, reward, seed
        self._max_tokens, self._chat = max_tokens, chat
        self._player: tuple[Any, _Player] | None = None
        self._calls = 0
        self.episodes: list[Episode] = []

    def dataset(self) -> Dataset:
        """Rows for the trainer: the prompt of each is the id of a task."""
        from datasets import Dataset

        return Dataset.from_list([{"prompt": task.id} for task in self.env.tasks])

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Play one episode for each prompt.

        Returns:
            `prompt_ids`, `completion_ids`, `logprobs` (under the distribution drawn from; 0 on observations),
            `env_mask`, and `episode_reward`, None for an episode that could not be scored.

        Raises:
            TaskError: a prompt is not the id of a task.
            PolicyError: the agent acted in no turn of an episode, or its prompt does not fit the model.
        """
        player = self._player_of(trainer)
        key = (self.seed, trainer.state.global_step, self._calls)
        self._calls += 1
        process = trainer.accelerator.process_index
        rows = [_Row(stable_seed(*key, "completion", process, n)) for n in range(len(prompts))]
        self.episodes = self._play(player, prompts, rows, key)
        if silent := [task for task, row in zip(prompts, rows, strict=True) if not row.completion_ids]:
            raise PolicyError(f"{self.agent!r} acts in no turn of the task {silent[0]!r}, so it has nothing to learn")
        return {
            "prompt_ids": [row.prompt_ids for row in rows],
            "completion_ids": [row.completion_ids for row in rows],
            "logprobs": [row.logprobs for row in rows],
            "env_mask": [row.env_mask for row in rows],
            REWARD: [self._reward(episode) for episode in self.episodes],
        }

    def evaluate(self, trainer: Any, tasks: Sequence[str], samples: int = 1, seed: int = EVAL_SEED) -> list[float]:
        """Returns of the agent on tasks, with the model as it is now.

        Args:
            trainer: a `GRPOTrainer`.
            tasks: ids.
            samples: episodes of a task, with the same seed of environment and partners.
            seed: of every draw; that of the training does not matter.

        Returns:
            One return an episode, of those that could be scored.
        """
        player = self._player_of(trainer)
        prompts = [task for task in tasks for _ in range(samples)]
        rows = [_Row(stable_seed(seed, "completion", n)) for n in range(len(prompts))]
        episodes = self._play(player, prompts, rows, (seed,))
        return [reward for reward in map(self._reward, episodes) if reward is not None]

    def _player_of(self, trainer: Any) -> _Player:
        """The trainer's model, with its present weights."""
        if self._player is None or self._player[0] is not trainer:
            self._player = trainer, _Player(trainer, self._max_tokens, self._chat)
        self._player[1].refresh()
        return self._player[1]

    def _play(
        self, player: _Player, prompts: Sequence[str], rows: Sequence[_Row], key: tuple[int, ...]
    ) -> list[Episode]:
        def play_turn(live: list[Branch], step_together: StepAll) -> list[Branch]:
            answers = complete(live, self._partners.requests)
            acting = [n for n, branch in enumerate(live) if branch.can_act(self.agent)]
            own = player.act(self.agent, [(live[n], rows[int(live[n].root)]) for n in acting])
            for n, completion in zip(acting, own, strict=True):
                answers[n][self.agent] = [completion]
            return step_together([first_joint(*pair) for pair in zip(live, answers, strict=True)])

        def starts() -> Iterator[Branch]:
            for n, task in enumerate(prompts):
                yield start(self.env.fork(), task, stable_seed(*key, "task", task), str(n))

        names = {each: policy.name for each, policy in self._partners.team.items()} | {self.agent: "trained"}
        ends = EpisodeRunner(play_turn, compare=False).run_all(starts())
        return [record(branch, names) for branch in ends]

    def _reward(self, episode: Episode) -> float | None:
        if not episode.scored:
            return None
        if self.reward == "team":
            return episode.team_return()
        return agent_returns(episode)[self.agent]


def load_model(name: str, id: str) -> tuple[Any, Any]:
    """Load a model and its tokenizer for a trainer.

    Args:
        name: `tiny`, a folder, or a name of the hub.
        id: environment, whose texts the tiny model has learned.

    Raises:
        PolicyError: it does not exist, or there is no tiny model for this environment.
    """
    return load_pretrained(model_source(name, spec(id).demonstrations), torch.device("cpu"))


def episode_reward(
    completions: Sequence[Any],  # noqa: ARG001 - TRL passes it
    episode_reward: Sequence[float | None],
    **_: Any,
) -> list[float | None]:
    """Reward function for `GRPOTrainer`: the reward that `EpisodeRollout` has computed."""
    return list(episode_reward)
