"""Reward of two texts: four levels, each open only if the one before it was passed.

The form of the reward is that of CoMLRL's writing tasks (Liu et al., "LLM Collaboration With Multi-Agent Reinforcement
Learning", arXiv:2508.04652, and the repository OpenMLRL/LLM_Collab_Writing). With n_i the whitespace tokens of text i,
ρ = len(text 2) / len(text 1) in characters, u the different words of text 2 over those of text 1 (stop words included),
k the kinds of transition found and J the Jaccard overlap of the words that are no stop words:

    length      = w_1 if low <= n_1, n_2 <= high else stop
    ratio       = w_2 · trapezoid(ρ; ratio, ratio_limits), stop outside the limits
    unique      = w_3 · trapezoid(u; unique, unique_limits), stop outside the limits
    transitions = w_4 · T, T = 0 if k = 0 else min(1, base + step · (k − 1))
    overlap     = w_5 · min(J, cap) / cap

All bounds are inclusive. A value exactly at a limit gives 0 for its level and leaves the next level open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Literal, get_args

from palaver.core import ConfigError, did_you_mean
from palaver.envs.base.arguments import choice, truth
from palaver.envs.base.tasks import Shared
from palaver.envs.writing import text as count
from palaver.envs.writing.text import Lexicon, LexiconSource, Match, StopwordSource

Where = Literal["both", "second"]
Range = tuple[float, float]
COMPONENTS = ("length", "ratio", "unique", "transitions", "overlap")
WEIGHTS: Mapping[str, float] = {"length": 0.5, "ratio": 1.0, "unique": 0.5, "transitions": 0.4, "overlap": 0.6}


@dataclass(frozen=True)
class WritingRewardConfig(Shared):
    """Every constant of the reward.

    Attributes:
        length: fewest and most whitespace tokens of each text.
        ratio: characters of the second text over the first: the range with the full reward.
        ratio_limits: where the reward has fallen to 0; outside, the remaining levels give 0.
        unique: different words of the second text over the first: the range with the full reward.
        unique_limits: where the reward has fallen to 0; outside, the remaining levels give 0.
        transition_base: T for one kind of transition.
        transition_step: what every further kind adds to T.
        jaccard_cap: the overlap with the full reward.
        weights: the weight of each component.
        lexicon: where the kinds of transition come from; `kinds` holds them.
        stopwords: where the words that do not count in the overlap come from; `ignored` holds them.
        match: `substring` as published, `word` as corrected.
        transitions_in: the texts searched for transitions, `both` or the `second`.
        gated: False opens every level regardless of the others.
        ending: what each text must end with to pass the first level (trailing white space aside); "" requires nothing.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
    """

    length: tuple[int, int]
    ratio: Range
    ratio_limits: Range
    unique: Range
    unique_limits: Range
    transition_base: float
    transition_step: float
    jaccard_cap: float
    weights: Mapping[str, float]
    lexicon: InitVar[LexiconSource]
    stopwords: InitVar[StopwordSource]
    match: Match
    transitions_in: Where
    gated: bool
    ending: str
    kinds: Lexicon = field(init=False)
    ignored: frozenset[str] = field(init=False)

    def __post_init__(self, lexicon: LexiconSource, stopwords: StopwordSource) -> None:
        object.__setattr__(self, "kinds", count.lexicon(lexicon))
        object.__setattr__(self, "ignored", count.stopwords(stopwords))
        length = _pair("length", self.length)
        if any(n != int(n) if math.isfinite(n) else True for n in length):
            raise ConfigError(f"length must be two whole numbers, got {self.length!r}")
        object.__setattr__(self, "length", (int(length[0]), int(length[1])))
        for name in ("ratio", "unique"):
            full, limits = _pair(name, getattr(self, name)), _pair(f"{name}_limits", getattr(self, f"{name}_limits"))
            if not (limits[0] <= full[0] and full[1] <= limits[1]):
                raise ConfigError(f"{name}_limits={list(limits)} must enclose {name}={list(full)}")
            object.__setattr__(self, name, full)
            object.__setattr__(self, f"{name}_limits", limits)
        for name in ("transition_base", "transition_step"):
            if math.isinf(_parse_float(name, getattr(self, name))):
                raise ConfigError(f"{name} must be finite, got {getattr(self, name)!r}")
        if not 0 < _parse_float("jaccard_cap", self.jaccard_cap) <= 1:
            raise ConfigError(f"jaccard_cap must be above 0 and at most 1, got {self.jaccard_cap!r}")
        object.__setattr__(self, "weights", _weights(self.weights))
        choice("match", self.match, get_args(Match))
        choice("transitions_in", self.transitions_in, get_args(Where))
        truth("gated", self.gated)
        if not isinstance(self.ending, str):
            raise ConfigError(f"ending must be a text such as '.', got {self.ending!r}")


@dataclass(frozen=True, slots=True)
class TextFacts:
    """Measurements of two texts.

    Attributes:
        words: whitespace tokens of each text.
        ratio: characters of the second over the first; None if the first is empty.
        unique: different words of the second over the first; None if the first has none.
        jaccard: overlap of the words that are no stop words, in [0, 1].
        kinds: the kinds of transition found.
        ended: True if both texts end as required.
    """

    words: tuple[int, int]
    ratio: float | None
    unique: float | None
    jaccard: float
    kinds: frozenset[str]
    ended: bool


@dataclass(frozen=True, slots=True)
class WritingScore:
    """The reward in parts.

    Attributes:
        gated: each component, 0 after the first level that was not passed.
        ungated: each component by itself.
    """

    gated: Mapping[str, float]
    ungated: Mapping[str, float]


def facts(rubric: WritingRewardConfig, first: str, second: str) -> TextFacts:
    """Count what the reward reads."""
    different = [len(set(count.words(text))) for text in (first, second)]
    texts = (second,) if rubric.transitions_in == "second" else (first, second)
    return TextFacts(
        words=(len(first.split()), len(second.split())),
        ratio=len(second) / len(first) if first else None,
        unique=different[1] / different[0] if different[0] else None,
        jaccard=count.jaccard(count.content_words(first, rubric.ignored), count.content_words(second, rubric.ignored)),
        kinds=rubric.kinds.matching_kinds(texts, rubric.match),
        ended=all(text.rstrip().endswith(rubric.ending) for text in (first, second)),
    )


def score(rubric: WritingRewardConfig, facts: TextFacts) -> WritingScore:
    """The five components under the rubric."""
    low, high = rubric.length
    in_range = facts.ended and all(low <= n <= high for n in facts.words)
    ratio = trapezoid(facts.ratio, rubric.ratio, rubric.ratio_limits)
    unique = trapezoid(facts.unique, rubric.unique, rubric.unique_limits)
    shares = {
        "length": float(in_range),
        "ratio": ratio or 0.0,
        "unique": unique or 0.0,
        "transitions": transition_share(len(facts.kinds), rubric.transition_base, rubric.transition_step),
        "overlap": min(facts.jaccard, rubric.jaccard_cap) / rubric.jaccard_cap,
    }
    passed = {"length": True, "ratio": in_range}
    passed["unique"] = passed["ratio"] and ratio is not None
    passed["transitions"] = passed["overlap"] = passed["unique"] and unique is not None
    ungated = {name: rubric.weights[name] * shares[name] for name in COMPONENTS}
    return WritingScore({name: ungated[name] if passed[name] else 0.0 for name in COMPONENTS}, ungated)


def trapezoid(value: float | None, full: Range, limits: Range) -> float | None:
    """1 inside `full`, falling linearly to 0 at `limits`, None outside them.

    All bounds inclusive.

    >>> trapezoid(1.0, (1.3, 1.6), (0.5, 2.0)), trapezoid(2.1, (1.3, 1.6), (0.5, 2.0))
    (0.625, None)
    """
    if value is None or not limits[0] <= value <= limits[1]:
        return None
    if value < full[0]:
        return (value - limits[0]) / (full[0] - limits[0])
    return 1.0 - (value - full[1]) / (limits[1] - full[1]) if value > full[1] else 1.0


def transition_share(kinds: int, base: float, step: float) -> float:
    """T = 0 without transitions, else min(1, base + step · (kinds − 1))."""
    return min(1.0, base + step * (kinds - 1)) if kinds else 0.0


def _parse_float(keyword: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ConfigError(f"{keyword} must be a number of 0 or more, got {value!r}")
    try:
        return float(value)
    except OverflowError as error:
        raise ConfigError(f"{keyword} must be a number of 0 or more, got one too large for a float") from error


def _pair(keyword: str, value: object) -> Range:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise ConfigError(f"{keyword} must be two numbers [low, high], got {value!r}")
    low, high = _parse_float(keyword, value[0]), _parse_float(keyword, value[1])
    if low > high:
        raise ConfigError(f"{keyword} must be [low, high] with low <= high, got {value!r}")
    return low, high


def _weights(given: object) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"weights must map components to numbers, got {given!r}")
    for name in given:
        if name not in WEIGHTS:
            raise ConfigError(f"weights has no component {name!r}.{did_you_mean(str(name), WEIGHTS)}")
    weights = {name: _parse_float("weights", given.get(name, WEIGHTS[name])) for name in COMPONENTS}
    if not math.isfinite(sum(weights.values())):
        raise ConfigError(f"weights must have a finite sum, got {given!r}")
    return weights
