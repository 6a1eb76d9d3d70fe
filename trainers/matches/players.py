"""Players of matches: names of `palaver evaluate --team`, and players of an environment."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaver import plugins
from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.make_policy import BATCHED, PLAIN, parse_policy
from palaver.core import PolicyError, did_you_mean, load_attribute, need
from palaver.envs.base.env import TextEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.trainers.matches.config import TournamentConfig, provided
from palaver.trainers.rollout.team import parse_team
from palaver.trainers.run.files import refuse_no_run

if TYPE_CHECKING:
    from palaver.agents.battle_net.player import GameState, NetPlayer


@dataclass(frozen=True)
class PendingDecision:
    """An agent that may act: the result of `begin` for its game, its observation and info."""

    game: Any
    observation: str
    info: Mapping[str, Any]


def load(name: str, options: ModelOptions) -> Nets | Texts:
    """Load a batched player.

    Raises:
        PolicyError, CheckpointError: it cannot be loaded.
    """
    policy = parse_policy(name)
    if policy.kind == "net":
        from palaver.agents.battle_net.player import NetPlayer

        return Nets(name, NetPlayer.load(policy.source, policy.temperature))
    return Texts(name, policy.source, policy.temperature, options)


@dataclass
class _Side:
    game: GameState
    env: PokemonEnv
    agent: str


class Nets:
    """A battle net; its input is `env.seen`, whatever the observation is.

    Args:
        name: name of the player.
        player: the net's player.
    """

    def __init__(self, name: str, player: NetPlayer) -> None:
        self.name, self.player = name, player

    def begin(self, env: TextEnv, agent: str, seed: int) -> _Side:
        """Begin one side of a battle.

        Raises:
            PolicyError: another environment.
        """
        if not isinstance(env, PokemonEnv):
            raise PolicyError(f"{self.name} plays pokemon-v1 only")
        return _Side(self.player.begin(seed), env, agent)

    def decide(self, decisions: Sequence[PendingDecision]) -> list[str]:
        """Labels of the slots that the net chose, in one forward pass."""
        from palaver.agents.battle_net.player import TurnFeatures

        sides: list[_Side] = [decision.game for decision in decisions]
        seen = [side.env.seen(side.agent) for side in sides]
        chosen = self.player.decide(
            [
                TurnFeatures(side.game, features.words, features.numbers, [bool(label) for label in features.slots])
                for side, features in zip(sides, seen, strict=True)
            ]
        )
        return [features.slots[slot] for features, slot in zip(seen, chosen, strict=True)]


class Texts:
    """A language model that scores the legal actions, given the observation, in one pass.

    Args:
        name: name of the player.
        source: a model's name or folder, or the folder of a run that trained one.
        temperature: divides the scores; 0 takes the best.
        options: device and dtype.
    """

    def __init__(self, name: str, source: str, temperature: float, options: ModelOptions) -> None:
        import torch

        from palaver.agents.llm.model.chat_template import Renderer
        from palaver.agents.llm.model.load import load_pretrained, pick_device

        net_folder = Path(source, "net")
        dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
        where = str(net_folder) if (net_folder / "config.json").is_file() else source.removeprefix("hf:")
        self.name, self.temperature = name, temperature
        self.model, self.tokenizer = load_pretrained(where, pick_device(options.device), dtype)
        self._render = Renderer(self.tokenizer)

    def begin(self, env: TextEnv, agent: str, seed: int) -> random.Random:  # noqa: ARG002 - a crowd's signature
        """Return the random generator of one game.

        Raises:
            PolicyError: observations are numbers.
        """
        if isinstance(env, PokemonEnv) and env.observation != "text":
            raise PolicyError(f"{self.name} reads text; play with observation=text")
        return random.Random(seed)

    def decide(self, decisions: Sequence[PendingDecision]) -> list[str]:
        """Choose one of the legal actions for each game.

        Raises:
            PolicyError: the environment does not list them.
        """
        import torch

        from palaver.agents.llm.scoring.logprobs import choice_scores, pick, prompt_ids

        legal = [list(decision.info.get("legal_actions", ())) for decision in decisions]
        if not all(legal):
            raise PolicyError(f"{self.name} chooses from a list of legal actions, and this environment gives none")
        prompts = [prompt_ids(self._render, decision.observation) for decision in decisions]
        with torch.inference_mode():
            scores, _ = choice_scores(self.model, self.tokenizer, prompts, legal)
        rows = scores.float().cpu().tolist()
        return [
            actions[pick(row[: len(actions)], self.temperature, decision.game.getrandbits(62))]
            for actions, row, decision in zip(legal, rows, decisions, strict=True)
        ]


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
    policy, known = parse_policy(name), [*provided(setting.spec), *plugins.installed("players")]
    if policy.kind == "human":
        raise PolicyError("a person cannot play in the arena; use: palaver play")
    if policy.kind in (*BATCHED, "run", "hf", "tiny"):
        need(repr(name), "train", error=PolicyError)
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
    found = plugins.find("players", name, PolicyError)
    if inspect.isfunction(found) and len(inspect.signature(found).parameters) == 3:  # env, agent, seed
        return Player(name, begin=found)
    if parse_policy(name).kind in BATCHED:
        return Player(name, batched=load(name, setting.options))
    text = f"scripted:{name}" if name in env_spec.scripted else name
    policies = parse_team(text, env_spec, env.possible_agents, setting.options, env.source, setting.force, note)
    return Player(name, policies=policies)
