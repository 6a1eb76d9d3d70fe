"""Teams: who fills the seats, for training (from a config) and for evaluation (from a line of text)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from palaver.agents.factory import make_policy
from palaver.agents.llm.options import ModelOptions
from palaver.agents.policy import Policy
from palaver.core import PolicyError, Sampling, nearest
from palaver.registry import Spec
from palaver.trainers.config import RunConfig, parse_file

if TYPE_CHECKING:  # a team without models needs no torch
    from palaver.agents.llm.policy import LLMPolicy


def trainable_team(
    config: RunConfig, spec: Spec, agents: Sequence[str], source: str, device: str
) -> dict[str, LLMPolicy]:
    """Agent -> the model to be trained; the same object under several agents where they share weights.

    Raises:
        PolicyError: the model does not exist, cannot be trained, or is the tiny one on data it cannot read.
    """
    options = model_options(config, device)
    if config.team.kind == "shared":
        policy = _trainable(config.policy.model, spec, options, source, config.policy.force)
        policy.name = "shared"
        return dict.fromkeys(agents, policy)
    team = {}
    for agent in agents:
        team[agent] = _trainable(config.policy.model, spec, options, source, config.policy.force)
        team[agent].name = agent
    return team


def model_options(config: RunConfig, device: str) -> ModelOptions:
    """The policy section as the agents' wing takes it."""
    policy = config.policy
    return ModelOptions(policy.dtype, device, policy.chat, policy.engine, policy.max_prompt_tokens)


def parse_team(
    text: str, spec: Spec, agents: Sequence[str], options: ModelOptions, source: str, force: bool = False
) -> dict[str, Policy]:
    """Agent -> policy from `NAME` for all seats, `agent=NAME,agent=NAME`, or `run:FOLDER` for a trained team.

    Seats given the same model name share one copy of it, for it is not trained.

    Raises:
        PolicyError: an unknown seat, a seat left empty, a policy that does not exist, a run without a checkpoint.
    """
    if text.startswith("run:"):
        return dict(load_run(Path(text.removeprefix("run:")), agents, options))
    named = _seats(text, agents)
    made: dict[str, Policy] = {}
    for name in named.values():
        if name not in made:
            made[name] = _make(name, spec, options, source, force)
    return {agent: made[name] for agent, name in named.items()}


def run_sampling(folder: Path) -> Sampling:
    """How the policies of a stored run sample."""
    return parse_file(folder / "config.yaml").policy.sampling()


def load_run(folder: Path, agents: Sequence[str], options: ModelOptions) -> dict[str, LLMPolicy]:
    """The policies of a run's newest sound checkpoint.

    Raises:
        CheckpointError: there is none.
        PolicyError: it was trained for other seats.
    """
    from palaver.agents.llm.policy import LLMPolicy
    from palaver.trainers import checkpoint

    config = parse_file(folder / "config.yaml")
    options = replace(options, chat=config.policy.chat)
    found, _ = checkpoint.newest(folder)
    names = {entry.name for entry in (found / "policies").iterdir()}
    team: dict[str, LLMPolicy] = {}
    loaded: dict[str, LLMPolicy] = {}
    for agent in agents:
        name = agent if agent in names else "shared"
        if name not in names:
            raise PolicyError(f"the run {str(folder)!r} has no policy for the seat {agent!r}; it has {sorted(names)}")
        if name not in loaded:
            loaded[name] = LLMPolicy.load(str(found / "policies" / name), options)
            loaded[name].name = f"run:{folder.name}/{name}"
        team[agent] = loaded[name]
    return team


def _seats(text: str, agents: Sequence[str]) -> dict[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if (len(parts) == 1 and not parts[0].partition("=")[0].isidentifier()) or "=" not in text:
        return dict.fromkeys(agents, parts[0])
    named = {}
    for part in parts:
        agent, equals, name = part.partition("=")
        if not equals or not name:
            raise PolicyError(f"a team is written seat=policy,seat=policy or one policy for all; got {part!r}")
        if agent not in agents:
            raise PolicyError(f"there is no seat {agent!r} in this environment.{nearest(agent, agents)}")
        named[agent] = name
    empty = [agent for agent in agents if agent not in named]
    if empty:
        raise PolicyError(f"the team leaves the seat {empty[0]!r} empty; add {empty[0]}=POLICY")
    return {agent: named[agent] for agent in agents}


def _make(name: str, spec: Spec, options: ModelOptions, source: str, force: bool) -> Policy:
    if name in ("tiny", "hf:tiny") and not source.startswith("sample") and not force:
        raise PolicyError(
            f"the tiny model knows only the texts it was built from and cannot read {source!r}; "
            "name a model with policy.model=NAME (or --team NAME), or insist with policy.force=true (or --force)"
        )
    scripted: Mapping[str, str] = spec.scripted
    return make_policy(name, scripted=scripted, demonstrations=spec.demonstrations, options=options)


def _trainable(name: str, spec: Spec, options: ModelOptions, source: str, force: bool) -> LLMPolicy:
    from palaver.agents.llm.policy import LLMPolicy

    policy = _make(name, spec, options, source, force)
    if not isinstance(policy, LLMPolicy):
        raise PolicyError(f"{name!r} has no weights to train; set policy.model to `tiny` or to a causal language model")
    return policy
