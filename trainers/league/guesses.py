"""Distance of stated beliefs from Bayes' posterior under the partner's actual policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palaver.agents.base.policy import Policy, act_batched
from palaver.core import ConfigError, Message, Request, Sampling, stable_seed
from palaver.envs.base.inference_wrapper import InferenceWrapper
from palaver.envs.base.questions import InferenceQuestion, read_guess
from palaver.envs.base.wrappers import own_env
from palaver.envs.games.env import CardGameEnv
from palaver.envs.games.game import PLAYERS
from palaver.envs.games.solve import GameTree, Profile, beliefs, total_variation
from palaver.trainers.league.chances import team_chances


@dataclass(frozen=True)
class BeliefGap:
    """Total variation between stated beliefs and Bayes' posterior.

    Attributes:
        mean: over information sets, each weighted by the probability that the players reach it.
        maximum: over those that are reached at all.
        uniform: the mean of equal probabilities for all cards.
        unreadable: share of answers that name no card; they count as the largest distance, 1.
    """

    mean: float
    maximum: float
    uniform: float
    unreadable: float


def belief_gap(
    env: InferenceWrapper,
    team: Mapping[str, Policy],
    partners: Mapping[str, Policy],
    sampling: Mapping[str, Sampling],
    samples: int = 1,
) -> BeliefGap:
    """Ask a team for the other's card in every information set; compare with the posterior.

    Args:
        env: a game of cards with `infer`.
        team: agent -> the policy that is asked, and that plays.
        partners: agent -> the policy that the other plays against; the team itself in self-play.
        sampling: agent -> how both sample; of temperature 0 for the likeliest answers.
        samples: answers in each information set.

    Raises:
        ConfigError: the environment is no game of cards.
    """
    own = own_env(env)
    if not isinstance(own, CardGameEnv):
        raise ConfigError(f"{own.metadata['name']} is no game of cards, whose posterior is known exactly")
    tree, exact = GameTree.of(own.game), own.exact_game()
    assert exact is not None
    profiles = {}
    for name, players in (("team", team), ("partners", partners)):
        chances, _ = team_chances(exact, players, sampling)
        rows = zip(exact.prompts, exact.actions, chances, strict=True)
        profiles[name] = {prompt: dict(zip(legal, row, strict=True)) for prompt, legal, row in rows}
    asked = [(prompt, PLAYERS[player]) for prompt, (player, _) in tree.infosets.items()]
    answers = act_batched([(team[agent], _request(own, prompt, agent, sampling, samples)) for prompt, agent in asked])
    return _compare(tree, profiles, own, asked, [[c.text for c in row] for row in answers])


def _request(env: CardGameEnv, prompt: str, agent: str, sampling: Mapping[str, Sampling], samples: int) -> Request:
    """The question in an information set, as the environment asks it."""
    text = f"{prompt}\n\n{_question(env, agent).full_text}"
    seeds = tuple(stable_seed("beliefs", prompt, k) for k in range(samples))
    return Request(agent, (Message("user", text),), seeds, sampling[agent], (), env.game.cards)


def _question(env: CardGameEnv, agent: str) -> InferenceQuestion:
    return env.questions(agent, {})[0]


def _compare(
    tree: GameTree,
    profiles: Mapping[str, Profile],
    env: CardGameEnv,
    asked: Sequence[tuple[str, str]],
    answers: Sequence[Sequence[str]],
) -> BeliefGap:
    """Weigh distances by the reach of the team as the asked player against the partners."""
    mixed = {
        player: {
            prompt: profiles["team" if PLAYERS[actor] == player else "partners"][prompt]
            for prompt, (actor, _) in tree.infosets.items()
        }
        for player in PLAYERS
    }
    posteriors = {player: beliefs(tree, profile) for player, profile in mixed.items()}
    uniform = dict.fromkeys(env.game.cards, 1 / len(env.game.cards))
    gaps, bases, weights, wrong, count = [], [], [], 0, 0
    for (prompt, agent), texts in zip(asked, answers, strict=True):
        question, (reach, posterior) = _question(env, agent), posteriors[agent][prompt]
        guesses = [read_guess(text, question) for text in texts]
        wrong += sum(not guess.readable for guess in guesses)
        count += len(guesses)
        gap = [total_variation(guess.weights, posterior) if guess.readable else 1.0 for guess in guesses]
        gaps.append(sum(gap) / len(gap))
        bases.append(total_variation(uniform, posterior))
        weights.append(reach)
    total = sum(weights)
    return BeliefGap(
        sum(w * gap for w, gap in zip(weights, gaps, strict=True)) / total,
        max(gap for w, gap in zip(weights, gaps, strict=True) if w > 0),
        sum(w * base for w, base in zip(weights, bases, strict=True)) / total,
        wrong / count,
    )
