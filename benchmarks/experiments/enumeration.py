"""Small game of two tabular policies with enumerable outcomes.

It gives exact gradients, and rollouts of any kind.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from palaver.core import Completion, stable_seed
from palaver.episodes import Episode, Turn
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.branches import Pick, aligned, counterfactual, crossed, frozen, swept

AGENTS = ("a", "b")
VOCABULARY = 2
Text = tuple[int, ...]
Joint = tuple[Text, ...]  # a text of each agent
History = tuple[Joint, ...]


@dataclass(frozen=True, slots=True)
class EnumerableGame:
    """Two-agent game in which both observe all earlier completions.

    Attributes:
        turns: of an episode.
        tokens: of a completion.
        ends: True if token 1 ends a completion, so that lengths differ.
        constant: True if every reward is 1.
        waits: True if the second agent acts in the first turn only.
        seed: of rewards, policies and values.
    """

    turns: int = 1
    tokens: int = 2
    ends: bool = False
    constant: bool = False
    waits: bool = False
    seed: int = 0

    def reward(self, agent: int, history: History) -> float:
        """The reward of an agent for the last turn, in [-1, 1)."""
        return 1.0 if self.constant else self.pseudo_random("reward", agent, history)

    def value(self, reader: str, read: object) -> float:
        """A fixed value function, in [-1, 1), independent of the rewards."""
        return self.pseudo_random("value", reader, read)

    def pseudo_random(self, *key: object) -> float:
        """Pseudo-random number in [-1, 1), a function of the key."""
        return (stable_seed(self.seed, *map(repr, key)) % 2**32) / 2**31 - 1

    @property
    def texts(self) -> list[Text]:
        """All completions."""
        sequences = itertools.product(range(VOCABULARY), repeat=self.tokens)
        return list(dict.fromkeys(text[: text.index(1) + 1] if self.ends and 1 in text else text for text in sequences))

    def acting(self, turn: int) -> list[int]:
        """The agents that act in a turn."""
        return list(range(1 if self.waits and turn else len(AGENTS)))

    def joints(self, turn: int) -> list[Joint]:
        """All joint actions of a turn; the text of an agent that does not act is empty."""
        texts = [self.texts if agent in self.acting(turn) else [()] for agent in range(len(AGENTS))]
        return list(itertools.product(*texts))

    def histories(self, turns: int) -> list[History]:
        """All sequences of `turns` joint actions."""
        return list(itertools.product(*(self.joints(turn) for turn in range(turns))))


def prompt(agent: int, history: History) -> Text:
    """The observations of an agent, as token ids."""
    return (10 + agent, *(20 + token for joint in history for text in joint for token in text))


class Tabular(nn.Module):
    """A language model with logits of its own for every context, in float64."""

    def __init__(self, game: EnumerableGame, agent: int) -> None:
        super().__init__()
        before = [history for turns in range(game.turns) for history in game.histories(turns)]
        prefixes = [p for n in range(game.tokens) for p in itertools.product(range(VOCABULARY), repeat=n)]
        keys = [(*prompt(agent, history), *prefix) for history in before for prefix in prefixes]
        self.row = {key: index for index, key in enumerate(keys)}
        logits = [[1.5 * game.pseudo_random("logit", agent, key, token) for token in range(VOCABULARY)] for key in keys]
        self.logits = nn.Parameter(torch.tensor(logits, dtype=torch.float64))

    def forward(self, input_ids: Tensor, use_cache: bool, logits_to_keep: Tensor) -> Any:
        """Logits at the kept positions; those of the first for an invalid context, as after padding."""
        del use_cache
        rows = [
            [self.row.get(tuple(ids[: index + 1]), 0) for index in logits_to_keep.tolist()]
            for ids in input_ids.tolist()
        ]
        return SimpleNamespace(logits=self.logits[torch.tensor(rows)])

    def get_output_embeddings(self) -> None:
        """Return None: the model has no separate head."""

    @property
    def base_model(self) -> Any:
        """The model itself."""
        return self

    def log_probs(self, context: Text, text: Text, temperature: float) -> list[Tensor]:
        """log pi of every token of a text."""
        return [
            (self.logits[self.row[(*context, *text[:n])]] / temperature).log_softmax(0)[token]
            for n, token in enumerate(text)
        ]


def exact(
    game: EnumerableGame, models: Sequence[Tabular], temperature: float, own_rewards: bool = False
) -> list[Tensor]:
    """Gradient of each agent's expected return for its own logits, from all trajectories.

    Args:
        game: that is played.
        models: of the agents.
        temperature: of the sampler.
        own_rewards: use the agent's own rewards, not the team's mean.
    """
    totals = [torch.zeros((), dtype=torch.float64) for _ in AGENTS]
    for history in game.histories(game.turns):
        logp = torch.zeros((), dtype=torch.float64)
        rewards = [0.0] * len(AGENTS)
        for turn in range(game.turns):
            for agent, model in enumerate(models):
                logp = logp + sum(model.log_probs(prompt(agent, history[:turn]), history[turn][agent], temperature))
                rewards[agent] += game.reward(agent, history[: turn + 1])
        mean = sum(rewards) / len(AGENTS)
        totals = [t + logp.exp() * (rewards[agent] if own_rewards else mean) for agent, t in enumerate(totals)]
    return [
        torch.autograd.grad(total, model.logits, retain_graph=True)[0]
        for total, model in zip(totals, models, strict=True)
    ]


@dataclass(slots=True)
class JointAction:
    """A joint action of an outcome.

    Attributes:
        pick: the candidates of the agents that act.
        texts: of each agent.
        children: joint actions of the next turn.
    """

    pick: Pick
    texts: Joint
    children: list[JointAction] = field(default_factory=list)


def outcomes(
    game: EnumerableGame, models: Sequence[Tabular], config: RunConfig, random: np.random.Generator | None = None
) -> Iterator[tuple[list[JointAction], float]]:
    """All outcomes of one task's rollout with their probabilities.

    With `random` there is a single, sampled outcome of weight 1.
    """
    a, temperature = config.algorithm, config.policy.temperature

    @cache
    def chances(agent: int, context: Text) -> list[float]:
        """Probabilities of all texts."""
        with torch.no_grad():
            logp = [sum(models[agent].log_probs(context, text, temperature)) for text in game.texts]
        return [math.exp(float(log_prob)) for log_prob in logp]

    def draws(history: History, aside: bool) -> Iterator[tuple[list[JointAction], float]]:
        width = 1 if aside or (a.turns == "independent" and history) else a.group_size
        acting = game.acting(len(history))
        given = [chances(agent, prompt(agent, history)) for agent in acting for _ in range(width)]
        numbers: Iterable[tuple[int, ...]] = itertools.product(range(len(game.texts)), repeat=len(given))
        if random is not None:
            numbers = [tuple(int(random.choice(len(probabilities), p=probabilities)) for probabilities in given)]
        for drawn in numbers:
            chance = (
                math.prod(probabilities[n] for probabilities, n in zip(given, drawn, strict=True))
                if random is None
                else 1.0
            )
            texts = [game.texts[n] for n in drawn]
            agent_texts = {AGENTS[n]: texts[n * width : (n + 1) * width] for n in acting}
            yield _nodes(game, history, agent_texts, config, aside), chance

    def grown(history: History, aside: bool = False) -> Iterator[tuple[list[JointAction], float]]:
        for nodes, chance in draws(history, aside):
            if len(history) + 1 == game.turns:
                yield nodes, chance
                continue
            going = _going(game, nodes, history, config)
            branches: list[list[tuple[list[JointAction], float]]] = [
                list(grown((*history, node.texts), node.pick.aside)) if node in going else [([], 1.0)] for node in nodes
            ]
            for picked in itertools.product(*branches):
                complete = [replace(node, children=below) for node, (below, _) in zip(nodes, picked, strict=True)]
                yield complete, chance * math.prod(probability for _, probability in picked)

    return grown(())


AgentTexts = Mapping[str, Sequence[Text]]  # candidates of the agents that act


def _nodes(
    game: EnumerableGame, history: History, agent_texts: AgentTexts, config: RunConfig, aside: bool
) -> list[JointAction]:
    """Joint actions of a branch, with candidates combined as in a rollout."""
    a, names = config.algorithm, list(agent_texts)
    width = len(agent_texts[names[0]])

    def nodes_of(picks: Sequence[Pick]) -> list[JointAction]:
        return [
            JointAction(p, tuple(agent_texts[n][p.index[n]] if n in agent_texts else () for n in AGENTS)) for p in picks
        ]

    if a.turns == "counterfactual":
        return nodes_of(frozen(names) if aside else counterfactual(names, width))
    if a.turns != "by_agent":
        return nodes_of(crossed(names, width) if a.joint == "cross" else aligned(names, width))
    nodes: list[JointAction] = []
    index: Mapping[str, int] = dict.fromkeys(names, 0)
    for position in range(len(names)):
        swept_nodes = nodes_of(swept(names, position, width, index))
        nodes, index = nodes + swept_nodes, _best(game, swept_nodes, history, [position]).pick.index
    return nodes


def _going(
    game: EnumerableGame, nodes: Sequence[JointAction], history: History, config: RunConfig
) -> list[JointAction]:
    """Joint actions that have a next turn."""
    if config.algorithm.turns == "best":
        return [_best(game, nodes, history, range(len(AGENTS)))]
    if config.algorithm.turns == "by_agent":
        last = nodes[-1].pick.compared[0]
        return [_best(game, [n for n in nodes if last in n.pick.compared], history, [AGENTS.index(last)])]
    return list(nodes)


def _best(game: EnumerableGame, nodes: Sequence[JointAction], history: History, agents: Sequence[int]) -> JointAction:
    """First joint action with the largest sum of these agents' rewards."""
    return max(nodes, key=lambda node: sum(game.reward(n, (*history, node.texts)) for n in agents))


def episodes_of(
    game: EnumerableGame, nodes: Sequence[JointAction], root: str, config: RunConfig, models: Sequence[Tabular]
) -> list[Episode]:
    """The episodes of an outcome, named as a rollout names them."""
    independent = config.algorithm.turns == "independent"
    episodes: list[Episode] = []

    def walk(nodes: Sequence[JointAction], above: str, turns: tuple[Turn, ...], history: History, branch: int) -> None:
        for index, node in enumerate(nodes):
            first = not turns
            extended = (*history, node.texts)
            completions = {
                AGENTS[n]: _completion(models[n], prompt(n, history), node.texts[n], config.policy.temperature)
                for n in game.acting(len(history))
            }
            choice = {
                agent: node.pick.index[agent] if first or not independent else branch for agent in node.pick.compared
            }
            rewards = {agent: game.reward(n, extended) for n, agent in enumerate(AGENTS)}
            turn = Turn(
                len(turns),
                f"{above}/{node.pick.label}",
                "" if first else above,
                f"{root}@{len(turns)}" if independent else above,
                choice,
                dict.fromkeys(completions, ""),
                completions,
                rewards,
                {agent: {"r": r} for agent, r in rewards.items()},
                aside=node.pick.aside,
            )
            if node.children:
                walk(node.children, turn.node, (*turns, turn), extended, index if first else branch)
            else:
                left = len(extended) < game.turns
                episodes.append(Episode("game", root, 0, (*turns, turn), "pruned" if left else "terminated"))

    walk(nodes, root, (), (), 0)
    return episodes


def _completion(model: Tabular, context: Text, text: Text, temperature: float) -> Completion:
    with torch.no_grad():
        logp = tuple(float(value) for value in model.log_probs(context, text, temperature))
    return Completion("".join(map(str, text)), context, text, logp, logp)
