"""Distance of stated beliefs from Bayes' posterior under the partner's actual policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palaver.agents.base.policy import LanguageModel, Policy, act_batched
from palaver.agents.simple import ScriptedPolicy
from palaver.core import ConfigError, Message, Request, Sampling, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.base.exact import ExactGame
from palaver.envs.base.inference_wrapper import InferenceWrapper
from palaver.envs.base.questions import InferenceQuestion, read_guess
from palaver.envs.base.wrappers import own_env
from palaver.envs.games.env import CardGameEnv
from palaver.envs.games.game import PLAYERS
from palaver.envs.games.solve import GameTree, Profile, beliefs, named_profile, total_variation
from palaver.episodes import inference_role
from palaver.trainers.league.chances import Chooser, team_chances


@dataclass(frozen=True)
class BeliefGap:
    """Total variation between stated beliefs and Bayes' posterior.

    Attributes:
        mean: over information sets, each weighted by the probability that the players reach it.
        maximum: over those that are reached at all.
        pooled: the mean of the distance of the answers' average in each set.
        uniform: the mean of equal probabilities for all cards.
        deal: the mean of the odds of the deal, which know the own card and nothing of what was done.
        unreadable: share of answers that name no card; they count as the largest distance, 1.
    """

    mean: float
    maximum: float
    pooled: float
    uniform: float
    deal: float
    unreadable: float


def belief_gap(
    env: InferenceWrapper,
    team: Mapping[str, Policy],
    partners: Mapping[str, Policy],
    sampling: Mapping[str, Sampling],
    samples: int = 1,
    answering: Mapping[str, Sampling] | None = None,
) -> BeliefGap:
    """Ask a team for the other's card in every information set; compare with the posterior.

    Args:
        env: a game of cards with `infer`.
        team: agent -> the policy that plays, and that is asked unless the team has another for that (`inference_role`).
        partners: agent -> the policy that the other plays against; the team itself in self-play.
        sampling: agent -> how actions are sampled; a temperature of 0 is taken as 1.
        samples: answers in each information set.
        answering: agent -> how answers are sampled, temperature 0 for the likeliest; None: as actions.

    Raises:
        ConfigError: the environment is no game of cards.
    """
    own = own_env(env)
    if not isinstance(own, CardGameEnv):
        raise ConfigError(f"{own.metadata['name']} is no game of cards, whose posterior is known exactly")
    tree, exact = GameTree.of(own.game), own.exact_game()
    assert exact is not None
    profiles = {"team": _profile(exact, team, sampling)}
    profiles["partners"] = profiles["team"] if partners is team else _profile(exact, partners, sampling)
    sets = [(prompt, PLAYERS[player]) for prompt, (player, _) in tree.infosets.items()]
    asked = [(prompt, agent) for prompt, agent in sets if agent in (env.infer.agents or PLAYERS)]
    how = sampling if answering is None else answering
    answers = act_batched(
        [
            (team.get(inference_role(agent), team[agent]), _request(own, prompt, agent, how, samples))
            for prompt, agent in asked
        ]
    )
    return _compare(tree, profiles, own, asked, [[c.text for c in row] for row in answers])


def belief_metrics(
    env: TextEnv,
    team: Mapping[str, Policy],
    sampling: Mapping[str, Sampling],
    samples: int,
    answering: Mapping[str, Sampling],
) -> dict[str, float]:
    """Metrics of `belief_gap` in self-play.

    Empty unless the agents of a game of cards are asked, and the probabilities of their actions can be computed: models
    behind an API would take thousands of calls.
    """
    own = own_env(env)
    if not (isinstance(env, InferenceWrapper) and isinstance(own, CardGameEnv) and own.game.small):
        return {}
    if not all(isinstance(team[agent], Chooser | ScriptedPolicy | LanguageModel) for agent in PLAYERS):
        return {}
    gap = belief_gap(env, team, team, sampling, samples, answering)
    return {
        "belief/gap": gap.mean,
        "belief/gap_max": gap.maximum,
        "belief/gap_pooled": gap.pooled,
        "belief/gap_uniform": gap.uniform,
        "belief/gap_deal": gap.deal,
        "belief/unreadable": gap.unreadable,
    }


def _profile(game: ExactGame, team: Mapping[str, Policy], sampling: Mapping[str, Sampling]) -> Profile:
    """Probabilities of the players' actions, by prompt."""
    chances, _ = team_chances(game, {agent: team[agent] for agent in PLAYERS}, sampling)
    return named_profile(game.prompts, game.actions, chances)


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
    passive = {prompt: dict.fromkeys(legal, 1.0) for prompt, (_, legal) in tree.infosets.items()}
    dealt = beliefs(tree, passive)  # what is done does not depend on the cards
    gaps, pooled, bases, deals, weights, wrong, count = [], [], [], [], [], 0, 0
    for (prompt, agent), texts in zip(asked, answers, strict=True):
        question, (reach, posterior) = _question(env, agent), posteriors[agent][prompt]
        guesses = [read_guess(text, question) for text in texts]
        wrong += sum(not guess.readable for guess in guesses)
        count += len(guesses)
        gap = [total_variation(guess.weights, posterior) if guess.readable else 1.0 for guess in guesses]
        gaps.append(sum(gap) / len(gap))
        readable = [guess.weights for guess in guesses if guess.readable]
        average = {card: sum(each[card] for each in readable) / len(readable) for card in uniform if readable}
        pooled.append(total_variation(average, posterior) if readable else 1.0)
        bases.append(total_variation(uniform, posterior))
        deals.append(total_variation(dealt[prompt][1], posterior))
        weights.append(reach)

    def mean(distances: Sequence[float]) -> float:
        return sum(w * d for w, d in zip(weights, distances, strict=True)) / sum(weights)

    largest = max(gap for w, gap in zip(weights, gaps, strict=True) if w > 0)
    return BeliefGap(mean(gaps), largest, mean(pooled), mean(bases), mean(deals), wrong / count)
