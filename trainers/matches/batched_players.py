"""Players that decide for all games in one call: battle nets, and models that score actions.

`net:FOLDER` and `text:FOLDER_OR_MODEL` take the best; `net:FOLDER@0.5` draws at that temperature.
`begin` returns a player's state of one game, `decide` an action for each game.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.make_policy import parse_policy
from palaver.core import PolicyError
from palaver.envs.base.env import TextEnv
from palaver.envs.pokemon.env import PokemonEnv

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
