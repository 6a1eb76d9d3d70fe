"""Config of a run: typed sections with defaults (`loading.py` reads YAML and overrides).

Every section refuses unknown keys and suggests the nearest known one. The complete config of a run is saved as
`config.yaml` in its folder and is itself a recipe.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from palaver.core import Sampling
from palaver.registry import spec
from palaver.trainers.config.defaults import fill_section, fill_sections
from palaver.trainers.config.kl import KLConfig
from palaver.trainers.config.league import LeagueConfig
from palaver.trainers.config.mixer import MixerConfig
from palaver.trainers.config.placement import PlacementConfig
from palaver.trainers.config.preferences import ComparedConfig
from palaver.trainers.config.team import TeamConfig
from palaver.trainers.config.vllm import VllmConfig
from palaver.utils.config import Section

EVAL_SEED = 1_000_003  # far from the small seeds that people give to training


class EnvConfig(BaseModel):
    """The environment; any further key is a keyword of that environment (`env.length=[32,64]`)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    id: str = "arxiv-v0"
    tasks: str = Field("sample", description="`sample`, a file, or `hf:NAME:SPLIT`; a slice may follow: `sample[:48]`")

    def keywords(self, tasks: str | None = None) -> dict[str, Any]:
        """Keyword arguments for `palaver.make`; `tasks`, if given, replaces the config's own.

        The spec of the environment names the keyword of tasks: `tasks`, or `teams` of pokemon-v1.

        Raises:
            ConfigError: there is no such environment.
        """
        return spec(self.id).task_keywords(tasks or self.tasks) | (self.model_extra or {})


class PolicyConfig(Section):
    """Model of an agent, and its sampling parameters."""

    model: str = Field("tiny", description="`tiny`, or any causal LM of transformers by name or folder")
    dtype: Literal["fp32", "bf16"] = Field("fp32", description="bf16 computes in bfloat16 under fp32 master weights")
    chat: Literal["auto", "template", "plain"] = Field(
        "auto", description="auto: the tokenizer's template if it has one"
    )
    engine: Literal["auto", "palaver", "transformers", "vllm"] = Field(
        "auto", description="who generates; auto: palaver where it can serve the model, else transformers"
    )
    demonstrations: str = Field("", description="`module:function` of the tiny model's texts; the environment's own")
    from_scratch: bool = Field(False, description="teach the tiny model on this machine, leave the shipped one aside")
    force: bool = Field(False, description="let the tiny model run on real data, which it cannot read well")
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    score_truncated: bool = Field(
        False, description="train with top_p < 1 or top_k > 0, on log-probs of the truncated distribution; one pass"
    )
    max_tokens: int = Field(256, ge=1)
    max_prompt_tokens: int = Field(4096, ge=1, description="a longer opening is refused at the start")
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()

    def sampling(self, greedy: bool = False) -> Sampling:
        """Sampling parameters; with `greedy=True` temperature 0."""
        temperature = 0.0 if greedy else self.temperature
        return Sampling(temperature, self.top_p, self.top_k, self.max_tokens, self.stop)


Level = Literal["token", "turn", "sequence"]
Turns = Literal["tree", "independent", "best", "by_agent", "counterfactual"]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class AlgorithmConfig(Section):
    """Algorithm and its settings; a name brings its paper's settings (`defaults.py`)."""

    name: str = "magrpo"
    credit: Literal["auto", "team", "own", "both"] = Field(
        "auto", description="reward an agent is credited with: the team's mean, its own, their sum; auto: the row's"
    )
    surrogate: Literal["auto", "reinforce", "clip", "cispo"] = Field(
        "auto", description="loss of a token: -A log pi, PPO's clipped ratio, or CISPO's weight; auto: the row's"
    )
    group_size: int = Field(4, ge=1, description="G: joint actions sampled for one task and compared")
    joint: Literal["aligned", "cross"] = Field(
        "aligned", description="pair candidates by index, or all G^N combinations"
    )
    turns: Turns = Field(
        "tree",
        description="branch G ways every turn; only at the first; every turn from the best sibling; from each agent's "
        "best, agent by agent; or compare the alternatives of one message at a time (C3)",
    )
    group_by: Literal["prompt", "turn", "agent"] = Field(
        "prompt",
        description="compare answers to one prompt, an agent's at one turn of a task whatever their prompts, or all of "
        "an agent's to one task (Dr. MAS)",
    )
    discount: float = Field(1.0, ge=0, le=1, description="gamma, per turn")
    turn_weights: Literal["balanced", "rows"] = Field(
        "balanced",
        description="balanced: each turn weighs 1, as in the gradient of the return; rows: all completions weigh alike",
    )
    normalize: Literal["none", "std", "batch", "whiten"] = Field(
        "none", description="what divides the advantage; whiten also shifts it, per agent over the batch"
    )
    std: Literal["population", "unbiased"] = Field("population", description="squares over G, or over G-1")
    aggregate: Literal["sum", "mean", "token", "fixed"] = Field(
        "sum",
        description="log-probs of a completion summed (paper), averaged per completion, per token of the batch, or "
        "summed over policy.max_tokens (Dr. GRPO)",
    )
    resample: int = Field(
        0, ge=0, description="rounds in which tasks whose samples all return the same are replaced by others (DAPO)"
    )
    overlong: int = Field(
        0, ge=0, description="last tokens before policy.max_tokens over which a penalty of length rises to 1 (DAPO)"
    )
    stop_above: float | None = Field(None, description="end an episode when the siblings' mean reward is above this")
    gae_lambda: float = Field(
        0.95, ge=0, le=1, description="lambda of the critic's returns: per turn, per token with values of tokens"
    )
    epochs: int = Field(1, ge=1, description="passes over the rollouts of a step")
    minibatches: int = Field(1, ge=1, description="optimiser steps a pass")
    ratio: Level = Field(
        "token", description="what is one action of the ratio: a token, or a completion by mean or sum"
    )
    clip: tuple[Positive, Positive] = Field((0.2, 0.2), description="how far the ratio may fall and rise")
    dual_clip: float | None = Field(
        None, gt=1, description="largest loss of a token of negative advantage, in advantages"
    )
    old: Literal["sampler", "learner"] = Field(
        "sampler",
        description="what the ratio is measured from: log-probs at sampling, or those before the update, with a weight "
        "from the one to the other (decoupled PPO)",
    )
    truncate: float | None = Field(
        None, gt=0, description="largest correction for older samples; null corrects nothing"
    )
    mask: tuple[NonNegative, Positive] | None = Field(
        None, description="bounds of the importance weight before the update; tokens outside are not trained on"
    )
    correction: Level | None = Field(
        None, description="what one weight of truncate and mask is of, as in ratio; null: what ratio says"
    )
    target_kl: float | None = Field(None, gt=0, description="ends the passes of a step above this approximate KL")
    entropy: float = Field(0.0, ge=0, description="weight of the entropy bonus of the next token")
    order: Literal["random", "fixed"] = Field("random", description="of agents that move one after the other (HAPPO)")
    factor: Literal["sum", "mean"] = Field(
        "sum", description="log ratio of a completion in HAPPO's factor: over its tokens; the theorem is about the sum"
    )
    factor_clamp: float = Field(2.0, gt=0, description="largest |log| of HAPPO's factor; see factor_clamped")
    decay: float = Field(0.95, ge=0, lt=1, description="of a moving baseline (RAE)")
    beta: float = Field(1.0, ge=0, description="weight of the other agents' advantages (adalign)")
    beta_schedule: Literal["constant", "linear"] = Field(
        "constant", description="linear: beta falls to 0 over the steps of the run"
    )
    mixer: MixerConfig = MixerConfig()
    pairs: ComparedConfig = ComparedConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        return fill_section(values.get("name"), "algorithm", values) if isinstance(values, dict) else values


Decay = Annotated[float, Field(ge=0, lt=1)]


class CriticConfig(Section):
    """Critics of actor-critic algorithms; ignored by other algorithms."""

    model: Literal["separate", "shared"] = Field("separate", description="a trunk of its own, or the policy's")
    devices: dict[str, str] = Field(
        {}, description="devices of critics as named by PyTorch, by agent, or `joint`; others are with their policies"
    )
    level: Literal["auto", "completion", "token"] = Field(
        "auto", description="one value of a completion, or one before each of its tokens; auto: the row's"
    )
    lr: float = Field(1e-5, gt=0, description="learning rate of the critic (of its head where the trunk is shared)")
    coef: float = Field(0.5, ge=0, description="weight of the value loss where critic and policy share a trunk")
    epochs: int = Field(1, ge=1, description="passes over the rollouts of a step")
    minibatches: int = Field(1, ge=1, description="optimiser steps a pass")
    clip: float | None = Field(None, gt=0, description="how far a value may move in one step's passes")
    huber: float | None = Field(None, gt=0, description="where the squared error becomes linear")
    normalize: bool = Field(False, description="predict returns less their running mean, over their spread")
    beta: float = Field(0.99999, ge=0, lt=1, description="how slowly that mean and spread move")


class OptimConfig(Section):
    """AdamW on fp32 master weights."""

    lr: float = Field(5e-6, gt=0, description="learning rate after warm-up")
    betas: tuple[Decay, Decay] = Field((0.9, 0.999), description="decay of the moments")
    weight_decay: float = Field(0.0, ge=0, description="decoupled, times the learning rate")
    max_grad_norm: float = Field(1.0, ge=0, description="0 turns clipping off")
    warmup: int = Field(0, ge=0, description="steps of linear warm-up")
    schedule: Literal["constant", "linear", "cosine"] = "constant"


class TrainConfig(Section):
    """Number of steps, batch sizes and checkpoints."""

    steps: int = Field(100, ge=1)
    epochs: float | None = Field(
        None,
        gt=0,
        description="passes over env.tasks, which set train.steps at the start of the run; null: steps is as set",
    )
    rollout_lead: int = Field(
        0, ge=0, le=1, description="updates between the weights that sample a rollout and those that learn from it"
    )
    prompts_per_step: int = Field(1, ge=1, description="B: tasks rolled out for one update")
    micro_tokens: int = Field(
        0,
        ge=0,
        description="most padded tokens in one backward pass; 0: 2,048 on a CPU, else 16,384",
    )
    gradient_checkpointing: bool = False
    compile: bool = Field(
        False,
        description="fuse the operations of each layer of trained models (torch.compile); needs a C++ compiler. "
        "Kernels depend on the batches seen since the start: a resumed run equals an uninterrupted one to rounding",
    )
    checkpoint_every: int = Field(50, ge=1)
    keep: int = Field(2, ge=1, description="checkpoints kept")
    workers: int = Field(1, ge=1, description="threads that step environments")

    def pass_tokens(self, device: str) -> int:
        """Maximum padded tokens of one backward pass on this device."""
        return self.micro_tokens or (2048 if device == "cpu" else 16384)


class EvalConfig(Section):
    """Evaluation on fixed tasks with fixed seeds."""

    tasks: str | None = Field(None, description="held-out tasks; none: the training tasks")
    n: int = Field(16, ge=0, description="tasks evaluated; 0 turns evaluation off")
    every: int = Field(0, ge=0, description="steps between evaluations; 0: only before and after")
    samples: int = Field(1, ge=1, description="episodes per task")
    greedy: bool = False
    seed: int = EVAL_SEED
    opponent: str | None = Field(
        None,
        description="games whose agents compete: a policy as --team names it that each trained agent also plays",
    )


class LogConfig(Section):
    """Loggers in addition to `metrics.jsonl`."""

    tensorboard: bool = True
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    project: str = "palaver"
    episodes: bool = Field(True, description="write episodes/*.jsonl")
    tokens: bool = Field(False, description="with token ids and log-probabilities")
    checkpoints: bool = Field(False, description="on the boards: W&B gets each as an artifact")


class TuningConfig(Section):
    """Seeds and tasks that the settings were tuned on; results on them are not reported."""

    seeds: tuple[int, ...] = Field((), description="seeds of the runs that the settings were chosen by")
    tasks: tuple[str, ...] = Field((), description="tasks that those runs were compared on, as in env.tasks")


class RunConfig(Section):
    """Config of a run."""

    env: EnvConfig = EnvConfig()
    policy: PolicyConfig = PolicyConfig()
    vllm: VllmConfig = VllmConfig()
    team: TeamConfig = TeamConfig()
    league: LeagueConfig = LeagueConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    kl: KLConfig = KLConfig()
    critic: CriticConfig = CriticConfig()
    optim: OptimConfig = OptimConfig()
    train: TrainConfig = TrainConfig()
    eval: EvalConfig = EvalConfig()
    log: LogConfig = LogConfig()
    tuning: TuningConfig = TuningConfig()
    placement: PlacementConfig = PlacementConfig()
    seed: int = 0
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, mps")
    threads: int = Field(0, ge=0, description="torch threads; 0 leaves the default")
    out: str = Field("", description="the run folder; empty: runs/RECIPE-TIME")

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        return fill_sections(values)

    def agent(self, agent: str) -> PolicyConfig:
        """Policy section of one agent, with the agent's own settings."""
        overrides = self.team.agents.get(agent)
        changes = overrides.model_dump(exclude={"device"}, exclude_none=True) if overrides else {}
        return self.policy.model_copy(update=changes)
