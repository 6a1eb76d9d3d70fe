"""Probabilities of a policy's actions in given information sets."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from palaver.agents.base.policy import LanguageModel, Policy
from palaver.core import Message, Request, Sampling, stable_seed
from palaver.envs.base.exact import ExactGame

ANSWERS = 8  # sampled of a language model, to learn how it words its actions
SAMPLES = 400  # of a policy whose probabilities cannot be asked for

Parse = Callable[[str, Sequence[str]], int | None]


@runtime_checkable
class Chooser(Protocol):
    """Policy that knows the probabilities of its actions."""

    def chances(self, prompts: Sequence[str], actions: Sequence[Sequence[str]]) -> list[list[float]]:
        """Probabilities of the legal actions at each prompt."""


def team_chances(
    game: ExactGame, team: Mapping[str, Policy], sampling: Mapping[str, Sampling]
) -> tuple[list[list[float]], float]:
    """Probabilities of a team's actions in all information sets of a game.

    Those of a language model are exact sums over the wordings of an action that it was seen to use.
    Other policies are sampled, unless they are a `Chooser`. Where no legal action has any probability all are equally
    likely, as the environment draws one.

    Args:
        game: the game.
        team: agent -> its policy.
        sampling: agent -> its sampling parameters.

    Returns:
        The probabilities, and the mean probability of a legal answer before they were renormalised.
    """
    weights: list[list[float]] = [[] for _ in game.prompts]
    for agent, policy in team.items():
        places = [n for n, actor in enumerate(game.agents) if actor == agent]
        prompts, actions = [game.prompts[n] for n in places], [game.actions[n] for n in places]
        if isinstance(policy, Chooser):
            rows = policy.chances(prompts, actions)
        else:
            rows = policy_chances(policy, agent, prompts, actions, sampling[agent], game.parse)
        for place, row in zip(places, rows, strict=True):
            weights[place] = row
    masses = [sum(row) for row in weights]
    chances = [
        [weight / mass for weight in row] if mass > 0 else [1 / len(row)] * len(row)
        for row, mass in zip(weights, masses, strict=True)
    ]
    return chances, sum(masses) / len(masses)


def policy_chances(
    policy: Policy,
    agent: str,
    prompts: Sequence[str],
    actions: Sequence[Sequence[str]],
    sampling: Sampling,
    parse: Parse,
) -> list[list[float]]:
    """Weight of each legal action at each prompt, at most 1 together; see `team_chances`."""
    model = policy if isinstance(policy, LanguageModel) else None
    count = SAMPLES if model is None else ANSWERS
    requests = [
        Request(
            agent,
            (Message("user", prompt),),
            tuple(stable_seed("chances", n, k) for k in range(count)),
            sampling,
            (),
            tuple(legal),
        )
        for n, (prompt, legal) in enumerate(zip(prompts, actions, strict=True))
    ]
    texts = [[completion.text for completion in answers] for answers in policy.act(requests)]
    if model is not None:
        forms = [wordings(row, legal, parse) for row, legal in zip(texts, actions, strict=True)]
        return _scored(model, requests, forms, sampling)
    counts = [Counter(parse(text, legal) for text in row) for row, legal in zip(texts, actions, strict=True)]
    return [[count[n] / SAMPLES for n in range(len(legal))] for count, legal in zip(counts, actions, strict=True)]


def wordings(texts: Sequence[str], actions: Sequence[str], parse: Parse) -> list[list[str]]:
    """Texts that name each action: sampled ones with the name exchanged, and the bare name.

    >>> from palaver.envs.matrix.rules import action_index
    >>> wordings(["I bet."], ["check", "bet"], action_index)
    [['I check.', 'check'], ['I bet.', 'bet']]
    >>> wordings(["checked: check."], ["check", "bet"], action_index)
    [['checked: check.', 'check'], ['checked: bet.', 'bet']]
    """
    forms: list[dict[str, None]] = [{} for _ in actions]
    for text in texts:
        if (named := parse(text, actions)) is None:
            continue
        for n, action in enumerate(actions):
            other = _word(actions[named]).sub(action.replace("\\", r"\\"), text)
            if parse(other, actions) == n:
                forms[n][other] = None
    return [list(dict.fromkeys([*form, action])) for form, action in zip(forms, actions, strict=True)]


@functools.lru_cache(maxsize=1024)
def _word(action: str) -> re.Pattern[str]:
    """The action as whole words: `check` also begins `checked`, which is no action."""
    return re.compile(rf"(?<![^\W_]){re.escape(action)}(?![^\W_])", re.IGNORECASE)


def _scored(
    policy: LanguageModel, requests: Sequence[Request], forms: Sequence[Sequence[Sequence[str]]], sampling: Sampling
) -> list[list[float]]:
    """Sums of the probabilities of an action's wordings.

    The end token is included, unless a wording is as long as `sampling.max_tokens` or longer: sampling stops there, and
    what was written is read, so that wordings which are equal up to there are one.
    """
    prompts, answers, places = [], [], []
    for row, (request, wording) in enumerate(zip(requests, forms, strict=True)):
        ids = policy.render(request.conversation)
        for n, texts in enumerate(wording):
            for written in dict.fromkeys(tuple(policy.written(text)[: sampling.max_tokens]) for text in texts):
                prompts.append(ids)
                answers.append([*written])
                places.append((row, n))
    weights = [[0.0] * len(wording) for wording in forms]
    for (row, n), total in zip(places, policy.answer_log_probs(prompts, answers, sampling), strict=True):
        weights[row][n] += math.exp(total)
    return weights
