"""Hidden profiles made from a seed, and the proof that they are hidden.

Their rows have the schema of HiddenBench.

A fact is a point for an option, and the best option is the one with most points. All participants share `n - 1` facts
for a decoy and one for each other option but the right one; each holds one fact more, for the right one. So a
participant alone sees the decoy ahead, and the right option level with the others; only all facts together show it.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from palaver.core import stable_seed

Fact = tuple[str, str]  # option and attribute
HELD_OUT = 4  # of so many sets of options one is the sample's alone
THEMES: Mapping[str, tuple[str, ...]] = {
    "A team has to choose a site for its new office": (
        "Ashford",
        "Brighton",
        "Carlisle",
        "Durham",
        "Exeter",
        "Falmouth",
    ),
    "A committee has to hire one of the candidates": ("Adams", "Baker", "Clarke", "Davies", "Evans", "Foster"),
    "A club has to buy one of the boats": ("Albatross", "Barnacle", "Cormorant", "Dolphin", "Egret", "Frigate"),
    "A museum has to restore one of the paintings": ("Autumn", "Bathers", "Crossing", "Dawn", "Evening", "Forest"),
}
ATTRIBUTES = (
    *("affordable", "reliable", "popular", "modern", "spacious", "accessible", "famous", "durable", "promising"),
    *("available", "recommended", "insured", "flexible", "efficient", "respected", "documented"),
)
TINY_OPTIONS = ("amber", "birch", "cedar", "daisy", "elder", "fern")
TINY_ATTRIBUTES = (
    *("bright", "calm", "cheap", "clean", "dry", "fast", "flat", "large"),
    *("light", "near", "new", "open", "quiet", "safe", "strong", "warm"),
)


@dataclass(frozen=True, slots=True)
class HiddenProfile:
    """Facts of a task with their meaning.

    Attributes:
        options: all answers.
        decoy: answer that the shared facts favour.
        right: answer that all facts favour.
        shared: facts that everyone has.
        hidden: one fact of each participant.
    """

    options: tuple[str, ...]
    decoy: str
    right: str
    shared: tuple[Fact, ...]
    hidden: tuple[Fact, ...]


def favoured(facts: Iterable[Fact], options: Sequence[str]) -> str | None:
    """The option with most different facts; None if several have as many.

    >>> favoured([("a", "x"), ("b", "x"), ("a", "y"), ("a", "y")], "abc"), favoured([("a", "x"), ("b", "x")], "ab")
    ('a', None)
    """
    points = Counter(option for option, _ in set(facts))
    first, *others = sorted((points[option] for option in options), reverse=True)
    return None if first in others else max(options, key=lambda option: points[option])


def design_faults(profile: HiddenProfile) -> list[str]:
    """The rules of a hidden profile that are broken, by enumeration of all sets of hidden facts."""
    shared, hidden, options = profile.shared, profile.hidden, profile.options
    faults = []
    if favoured(shared, options) != profile.decoy or profile.decoy == profile.right:
        faults.append("the shared facts do not favour a decoy")
    if any(favoured((*shared, fact), options) != profile.decoy for fact in hidden):
        faults.append("one hidden fact is enough to doubt the decoy")
    if favoured((*shared, *hidden), options) != profile.right:
        faults.append("all facts together do not favour the right answer")
    fewer = itertools.chain.from_iterable(itertools.combinations(hidden, n) for n in range(len(hidden)))
    if any(favoured((*shared, *some), options) == profile.right for some in fewer):
        faults.append("a hidden fact is not needed")
    return faults


def draw(rng: random.Random, participants: int, *, tiny: bool, sample: bool) -> tuple[str, HiddenProfile]:
    """Draw a theme and a profile, with a set of options of the sample or with one of the others."""
    theme = "" if tiny else rng.choice([*THEMES])
    names, size = _options(theme)
    attributes = TINY_ATTRIBUTES if tiny else ATTRIBUTES
    while True:
        options = rng.sample(names, size)
        decoy, right, *others = options
        if (frozenset(options) in sets_of_sample(theme)) != sample:
            continue
        if tiny and 2 * participants <= len(attributes):  # a fact is known by its attribute, which no other fact has
            pool = iter(rng.sample(attributes, len(attributes)))
            qualities = dict.fromkeys(options, pool)
        else:
            qualities = {option: iter(rng.sample(attributes, len(attributes))) for option in options}
        shared = [(decoy, next(qualities[decoy])) for _ in range(participants - 1)]
        shared += [(option, next(qualities[option])) for option in others]
        hidden = [(right, next(qualities[right])) for _ in range(participants)]
        profile = HiddenProfile(tuple(sorted(options)), decoy, right, tuple(shared), tuple(hidden))
        assert not design_faults(profile)
        return theme, profile


def _options(theme: str) -> tuple[Sequence[str], int]:
    """Options of a theme, and how many of them a task has."""
    return (THEMES[theme], 4) if theme else (TINY_OPTIONS, 3)


@functools.cache
def sets_of_sample(theme: str) -> frozenset[frozenset[str]]:
    """Sets of options that only tasks of the sample have, one of `HELD_OUT`.

    In the other tasks a set says nothing about the right answer. Were only combinations of decoy and right answer held
    out, a model could learn by heart which are left for a set, and would be wrong on the sample more often than by
    chance.
    """
    sets = [*itertools.combinations(*_options(theme))]
    random.Random(stable_seed("hidden profile", theme)).shuffle(sets)
    return frozenset(map(frozenset, sets[: len(sets) // HELD_OUT]))


def row(theme: str, profile: HiddenProfile, name: str) -> dict[str, Any]:
    """The task in the schema of HiddenBench, with its decoy."""
    tiny = not theme
    return {
        "name": name,
        "description": "Choose the best." if tiny else f"{theme}: the one with most points in its favour.",
        "shared_information": [fact_text(fact, tiny=tiny) for fact in profile.shared],
        "hidden_information": [fact_text(fact, tiny=tiny) for fact in profile.hidden],
        "possible_answers": list(profile.options),
        "correct_answer": profile.right,
        "decoy": profile.decoy,
    }


def fact_text(fact: Fact, *, tiny: bool) -> str:
    """A fact in words.

    >>> fact_text(("amber", "calm"), tiny=True), fact_text(("Durham", "modern"), tiny=False)
    ('CalmAmber', 'Durham is modern.')
    """
    option, attribute = fact
    return f"{attribute.title()}{option.title()}" if tiny else f"{option} is {attribute}."


def generate(count: int, seed: int, *, participants: int, tiny: bool) -> list[dict[str, Any]]:
    """Rows of different tasks: with seed 0 the sample's, else with other sets of options."""
    rows: dict[str, dict[str, Any]] = {}
    index = 0
    while len(rows) < count:
        rng = random.Random(stable_seed("hidden profiles", seed, participants, tiny, index))
        made = row(*draw(rng, participants, tiny=tiny, sample=not seed), f"profile-{seed}-{len(rows)}")
        rows.setdefault(repr(sorted(made["shared_information"] + made["hidden_information"])), made)
        index += 1
    return list(rows.values())
