"""Teams: the agents' policies, for training (from a config) and evaluation (from a string)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import LoraOptions, ModelOptions
from palaver.agents.make_policy import PLAIN, make_policy, model_source, parse_policy, parse_team_names
from palaver.core import PolicyError, need
from palaver.envs.base.tasks import is_generated, is_sample
from palaver.registry import Spec, spec
from palaver.trainers.config.loading import parse_file
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.files import CONFIG, refuse_no_run

if TYPE_CHECKING:  # a team without models needs no torch
    from palaver.agents.llm.policies.llm_policy import LLMPolicy
    from palaver.agents.llm.policies.lora_policy import AdapterPolicy


def trainable_team(
    config: RunConfig, spec: Spec, agents: Sequence[str], device: str, start: Path | None = None
) -> dict[str, LLMPolicy]:
    """Agent -> policy for every trained agent; agents that share weights have the same object.

    Args:
        config: config of the run.
        spec: spec of its environment.
        agents: agents of the environment.
        device: torch device.
        start: a checkpoint to load the weights from in place of `policy.model`.

    Raises:
        PolicyError: the model does not exist or cannot be trained.
    """
    trained = config.team.trained(agents)
    if config.team.kind == "lora":
        return dict(_adapted_team(config, spec, trained, model_options(config, device), start))
    policies = {}
    names = {agent: config.team.policy_of(agent) for agent in trained}
    for name in dict.fromkeys(names.values()):
        wanted = config.agent(name)
        model = str(start / "policies" / name) if start else wanted.model
        texts = wanted.demonstrations or spec.demonstrations
        policies[name] = _trainable(model, replace(spec, demonstrations=texts), model_options(config, device, name))
        policies[name].name = name
    return {agent: policies[name] for agent, name in names.items()}


def _adapted_team(
    config: RunConfig, spec: Spec, names: Sequence[str], options: ModelOptions, start: Path | None
) -> dict[str, AdapterPolicy]:
    from palaver.agents.llm.policies.lora_policy import adapted, load_adapters

    if start:
        return load_adapters({name: str(start / "policies" / name) for name in names}, options)
    texts = config.policy.demonstrations or spec.demonstrations
    source = model_source(_with_weights(config.policy.model), texts, config.policy.from_scratch)
    shape = LoraOptions(config.team.lora.rank, config.team.lora.alpha, config.team.lora.targets)
    return adapted(source, names, options, shape, seed=config.seed)


def warm_starts(config: RunConfig, spec: Spec, agents: Sequence[str]) -> dict[str, dict[str, str]]:
    """Trained agent -> name and hash of the tiny model it starts from, for agents that do."""
    from palaver.agents.tiny.cache import fingerprint

    starts = {}
    for agent in config.team.trained(agents):
        if (policy := config.agent(agent)).model == "tiny":
            folder = Path(model_source("tiny", policy.demonstrations or spec.demonstrations, policy.from_scratch))
            starts[agent] = {"model": folder.name, "hash": fingerprint(folder)}
    return starts


def frozen_team(
    config: RunConfig,
    spec: Spec,
    agents: Sequence[str],
    options: ModelOptions,
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Policy]:
    """Agent -> stored partner, for every agent that is not trained; equal ones share one copy.

    Raises:
        PolicyError: it does not exist, or a run has no policy for the agent.
        CheckpointError: there is no such run, or no valid checkpoint in it.
    """
    named = {agent: config.team.frozen[agent] for agent in agents if agent in config.team.frozen}
    return _load(named, spec, options, note)


def model_options(config: RunConfig, device: str, agent: str = "") -> ModelOptions:
    """Model options of an agent, from the policy section with the agent's own settings."""
    policy, overrides = config.agent(agent), config.team.agents.get(agent)
    device = overrides.device if overrides and overrides.device else device
    return ModelOptions(
        policy.dtype,
        device,
        policy.chat,
        policy.engine,
        policy.max_prompt_tokens,
        policy.from_scratch,
        config.vllm.share,
    )


def reference_model(config: RunConfig, team: Iterable[LLMPolicy], device: str) -> Any:
    """Load the model of `kl.reference: model:NAME_OR_FOLDER`, frozen and in evaluation mode.

    All policies share it. None if the reference is of another kind, or `kl.coef` is 0.

    Raises:
        PolicyError: it cannot be loaded, or its tokens are not those of the policies.
    """
    kind, source = config.kl.named
    if config.kl.coef == 0 or kind != "model":
        return None
    from palaver.agents.llm.model.load import load_pretrained, pick_device

    name = source.removeprefix("hf:")
    model, tokenizer = load_pretrained(name, pick_device(device))
    known, size = tokenizer.get_vocab(), _vocabulary(model)
    for policy in team:
        if policy.tokenizer.get_vocab() != known or _vocabulary(policy.model) > size:
            raise PolicyError(
                f"kl.reference: {name!r} has other tokens than {config.policy.model!r}, so it cannot score its texts; "
                "take a model with the same tokenizer"
            )
    return model.eval().requires_grad_(False)


def _vocabulary(model: Any) -> int:
    size: int = model.config.get_text_config().vocab_size
    return size


def parse_team(
    text: str,
    spec: Spec,
    agents: Sequence[str],
    options: ModelOptions,
    source: str,
    force: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Policy]:
    """Parse a team: `NAME` for all agents, or `agent=NAME,agent=NAME`.

    Agents with the same model name share one copy of it, for it is not trained. Agents of a run (`run:FOLDER`) have
    its policies for them; the team also has the roles of the run's other policies that answer questions for these
    agents (`team.inference`).

    Args:
        text: the user's input.
        spec: spec of the environment.
        agents: its agents.
        options: how models are loaded.
        source: source of the tasks, which the tiny model may not be able to read.
        force: allow the tiny model for any source.
        note: called with each message for the user.

    Raises:
        PolicyError: an unknown agent, one without a policy, a policy that does not exist, a run of other agents.
        CheckpointError: no such run, or one without a valid checkpoint.
        ConfigError: the run's config cannot be read.
    """
    named = parse_team_names(text, agents)
    if "tiny" in named.values():
        refuse_tiny(source, force)
    for name in dict.fromkeys(named.values()):
        if (policy := parse_policy(name)).kind == "run":
            refuse_no_run(Path(policy.source))
            members = [agent for agent, own in named.items() if own == name]
            named |= dict.fromkeys(parse_file(Path(policy.source) / CONFIG).team.roster(members), name)
    return _load(named, spec, options, note)


def _load(
    named: Mapping[str, str], spec: Spec, options: ModelOptions, note: Callable[[str], None]
) -> dict[str, Policy]:
    """Load the policies of agents and roles by their names, each once, in their order."""
    team: dict[str, Policy] = {}
    for name in dict.fromkeys(named.values()):
        members = [agent for agent, own in named.items() if own == name]
        policy = parse_policy(name)
        if policy.kind == "run":
            team |= load_run(Path(policy.source), members, options, note)
        else:
            team |= dict.fromkeys(members, _make(name, spec, options))
    return {agent: team[agent] for agent in named}


def load_run(
    folder: Path, agents: Sequence[str], options: ModelOptions, note: Callable[[str], None] = lambda _: None
) -> dict[str, Policy]:
    """Load the policies of a run's newest valid checkpoint, for the agents they last acted for.

    Options are those of the run but for device and dtype; agents that were not trained have their stored partners.

    Raises:
        CheckpointError: there is no such run, or no valid checkpoint in it.
        ConfigError: its config cannot be read.
        PolicyError: it was trained for other agents.
    """
    refuse_no_run(folder)
    need(f"run:{folder}", "train", error=PolicyError)
    from palaver.trainers.run import checkpoint

    config = parse_file(folder / CONFIG)
    checkpoint_folder, complaints = checkpoint.newest(folder)
    for complaint in complaints:
        note(complaint)
    if not (checkpoint_folder / "policies").is_dir():
        raise PolicyError(
            f"the run {str(folder)!r} learnt values of legal actions and has no policies that answer conversations; "
            "palaver.trainers.value_decomposition.players.load_players gives its players"
        )
    names = {entry.name for entry in (checkpoint_folder / "policies").iterdir()}
    homes = checkpoint.agents_of(checkpoint_folder)
    team: dict[str, Policy] = {}
    loaded: dict[str, LLMPolicy] = {}
    for agent in agents:
        home = homes.get(agent, agent)  # the agent that this agent's last policy began with
        policy_config = config.agent(home)
        how = replace(
            options,
            chat=policy_config.chat,
            engine=policy_config.engine,
            max_prompt_tokens=policy_config.max_prompt_tokens,
            vllm_share=config.vllm.share,
        )
        if home in config.team.frozen:
            team[agent] = frozen_team(config, spec(config.env.id), [home], how, note)[home]
            continue
        name = checkpoint.stored_name(home, names)
        if name not in names:
            raise PolicyError(f"the run {str(folder)!r} has no policy for the agent {agent!r}; it has {sorted(names)}")
        if name not in loaded:
            loaded |= _stored(checkpoint_folder, names if config.team.kind == "lora" else {name}, how)
        loaded[name].name = f"run:{folder.name}/{name}@{checkpoint.step_of(checkpoint_folder)}"
        team[agent] = loaded[name]
    return team


def _stored(checkpoint: Path, names: Collection[str], options: ModelOptions) -> dict[str, LLMPolicy]:
    """Load policies of a checkpoint by name; those that are adapters share a base."""
    from palaver.agents.llm.model.load import is_adapter
    from palaver.agents.llm.policies.llm_policy import LLMPolicy
    from palaver.agents.llm.policies.lora_policy import load_adapters

    folders = {name: str(checkpoint / "policies" / name) for name in sorted(names)}
    if all(map(is_adapter, folders.values())):
        return dict(load_adapters(folders, options))
    return {name: LLMPolicy.load(folder, options) for name, folder in folders.items()}


def refuse_tiny(source: str, force: bool) -> None:
    """Refuse the tiny model for tasks that it cannot read.

    Raises:
        PolicyError: the tasks are read from a file or a data set, and `force` is not set.
    """
    if source and not (is_sample(source) or is_generated(source) or force):
        raise PolicyError(
            f"the tiny model knows only the texts it was built from and cannot read {source!r}; "
            "name a model with policy.model=NAME (or --team NAME), or insist with policy.force=true in training, "
            "model.force=true elsewhere"
        )


def _make(name: str, spec: Spec, options: ModelOptions) -> Policy:
    return make_policy(name, scripted=spec.scripted, demonstrations=spec.demonstrations, options=options)


def _trainable(name: str, spec: Spec, options: ModelOptions) -> LLMPolicy:
    from palaver.agents.llm.policies.llm_policy import LLMPolicy

    policy = _make(_with_weights(name), spec, options)
    assert isinstance(policy, LLMPolicy)
    return policy


def _with_weights(name: str) -> str:
    if parse_policy(name).kind in (*PLAIN, "scripted", "openai", "plugin"):
        raise PolicyError(f"{name!r} has no weights to train; set policy.model to `tiny` or to a causal language model")
    return name
