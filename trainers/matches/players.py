"""Players of matches: names of `palaver evaluate --team`, and players of an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from palaver.agents.base.policy import Policy
from palaver.agents.make_policy import BATCHED, PLAIN, parse_policy
from palaver.core import PolicyError, did_you_mean, load_attribute
from palaver.envs.base.env import TextEnv
from palaver.trainers.matches.batched_players import Nets, Texts, load
from palaver.trainers.matches.config import TournamentConfig, provided
from palaver.trainers.rollout.team import parse_team
from palaver.trainers.run.files import refuse_no_run

Choose = Callable[[str, Mapping[str, Any]], str]  # (observation, info) -> action
Begin = Callable[[TextEnv, str, int], Choose]  # (environment of the game, agent, seed) -> a player of one game


@dataclass(frozen=True)
class Player:
    """A player: policies by agent, a function of the environment's own, or a batched player."""

    label: str
    policies: Mapping[str, Policy] = field(default_factory=dict)
    begin: Begin | None = None
    batched: Nets | Texts | None = None


def load_players(
    setting: TournamentConfig, env: TextEnv, note: Callable[[str], None] = lambda _: None
) -> dict[str, Player]:
    """Load every player of the setting; those of one name share one copy.

    Raises:
        PolicyError: there is no such player, or it cannot be loaded.
        CheckpointError: no such run, or one without a valid checkpoint.
    """
    for name in setting.players.values():
        check(setting, name)
    players: dict[str, Player] = {}
    for name in setting.players.values():
        if name not in players:
            players[name] = _make(setting, name, env, note)
    return {label: replace(players[name], label=label) for label, name in setting.players.items()}


def check(setting: TournamentConfig, name: str) -> None:
    """Refuse an unknown name, before anything is loaded.

    A bare name must be one that the environment provides, a plain policy, or a folder; a model of the hub is `hf:NAME`.

    Raises:
        PolicyError: it is none of these.
        CheckpointError: there is no such run or net.
    """
    policy, known = parse_policy(name), provided(setting.spec)
    if policy.kind == "human":
        raise PolicyError("a person cannot play in the arena; use: palaver play")
    if policy.kind == "net":
        from palaver.agents.battle_net.files import locate

        locate(policy.source)
    elif policy.kind == "run":
        refuse_no_run(Path(policy.source))
    elif policy.kind == "recipe" or not (policy.kind or name in known or Path(name).is_dir()):
        hint = did_you_mean(name, [*known, *PLAIN, "tiny"])
        raise PolicyError(
            f"there is no player {name!r} in {setting.spec.id}.{hint} A model is given as hf:NAME or openai:MODEL@URL"
        )


def identity(name: str) -> str:
    """Identity of a player: its name, with the checkpoint of a run or the weights of a net.

    Games of a player are counted together only if it is equal.
    """
    policy = parse_policy(name)
    if policy.kind == "net":
        from palaver.agents.battle_net import files

        return f"{name}#{files.identity(policy.source)}"
    if policy.kind == "run":
        from palaver.trainers.run import checkpoint

        return f"{name}@{checkpoint.newest(Path(policy.source))[0].name}"
    return name


def _make(setting: TournamentConfig, name: str, env: TextEnv, note: Callable[[str], None]) -> Player:
    env_spec = setting.spec
    if name in env_spec.players:
        begin: Begin = load_attribute(env_spec.players[name], "the player ", PolicyError)
        return Player(name, begin=begin)
    if parse_policy(name).kind in BATCHED:
        return Player(name, batched=load(name, setting.options))
    text = f"scripted:{name}" if name in env_spec.scripted else name
    policies = parse_team(text, env_spec, env.possible_agents, setting.options, env.source, setting.force, note)
    return Player(name, policies=policies)
