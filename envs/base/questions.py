"""Questions about what another agent has, does or expects, and the scores of answers.

An environment knows the truth, so no judge is needed. It exposes its questions by `TextEnv.questions(agent, actions)`:
those to an agent, the same in the same order before the agents have chosen (`actions` is empty) and after. The keyword
`infer` of `palaver.make` asks them (`palaver.envs.base.inference_wrapper`). Everything here is pure. An answer is the
text of a model: any string has a score, and none raises.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from palaver.core import ConfigError

Kind = Literal["choice", "slots", "text"]
MOST_READ = 4096  # characters of an answer
MOST_OPTIONS = 64
FLOOR = 0.01  # least probability in a log score
_TAGGED = re.compile(r"<guess>(.*?)(?:</guess>|$)", re.DOTALL | re.IGNORECASE)
_NUMBER = r"(?:\s*[:=]?\s*(\d{0,3}\.\d{1,6}(?!\d)|\d{1,3}(?=\s?%)|[01](?![\w.]))\s?(%)?)?"
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class InferenceQuestion:
    """Question to an agent about another, with its truth.

    Attributes:
        about: the other agent.
        text: the question. It is public, as the options are: in a question of second order another agent reads both.
        kind: `choice`, one of the options; `slots`, any number of the options, or of words where there are none;
            `text`, any text.
        options: possible answers, at most 64.
        truth: the right answer: one text, or for slots any number; None while the agents have not acted.

    Raises:
        ConfigError: a choice without two options, too many options, or a truth that is none of the options.
    """

    about: str
    text: str
    kind: Kind
    options: tuple[str, ...] = ()
    truth: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        low = 2 if self.kind == "choice" else 0
        if not low <= len(self.options) <= MOST_OPTIONS:
            raise ConfigError(f"a question of kind {self.kind!r} needs {low} to {MOST_OPTIONS} options")
        truth = self.truth
        if truth is not None and (
            (self.kind != "slots" and len(truth) != 1) or (self.options and not set(truth) <= set(self.options))
        ):
            raise ConfigError(f"the truth {truth!r:.80} of a question is not among its options {self.options!r:.80}")

    @property
    def full_text(self) -> str:
        """The question as an agent reads it, with the form of an answer."""
        listed = ", ".join(self.options)
        if self.kind == "choice":
            return f"Guess: {self.text}\nAnswers: {listed}. A probability may follow an answer."
        return f"Guess: {self.text}" + (f"\nName any of: {listed}." if self.options else "")


@dataclass(frozen=True, slots=True)
class Guess:
    """Content of an answer.

    Attributes:
        weights: for a choice option -> probability; for slots item -> 1; for a text word -> number of times.
        readable: False if a choice names no option.
    """

    weights: Mapping[str, float]
    readable: bool = True

    @property
    def confidence(self) -> float:
        """The largest probability of a choice."""
        return max(self.weights.values(), default=0.0)


def read_guess(text: str, question: InferenceQuestion) -> Guess:
    """Parse an answer; between `<guess>` and `</guess>`, where these occur, alone.

    In a choice a number behind an option is its probability, as in `J 0.75` or `J: 75%`. What the numbers leave of 1 is
    shared by the options without one; numbers that add up to more are scaled. Without numbers the first option named
    has probability 1.

    >>> read_guess("a J, I think", InferenceQuestion("p2", "", "choice", ("J", "Q"))).weights
    {'J': 1.0, 'Q': 0.0}
    >>> read_guess("J .25", InferenceQuestion("p2", "", "choice", ("J", "Q"))).weights
    {'J': 0.25, 'Q': 0.75}
    """
    tagged = _TAGGED.findall(text[:MOST_READ])
    answer = tagged[-1] if tagged else text[:MOST_READ]
    if question.kind == "choice":
        return _read_choice(answer, question.options)
    if question.kind == "slots" and question.options:
        named = dict.fromkeys(match[0] for match in _pattern(question.options).findall(answer))
        by_name = {option.casefold(): option for option in question.options}
        return Guess({by_name[name.casefold()]: 1.0 for name in named if name.casefold() in by_name})
    words = words_of(answer)
    return Guess(dict.fromkeys(words, 1.0) if question.kind == "slots" else dict(Counter(words)))


def words_of(text: str) -> list[str]:
    """Words of a text in lower case, as slots and texts are compared by."""
    return _WORD.findall(text.casefold())


def text_questions(agents: Sequence[str], agent: str, actions: Mapping[str, str]) -> list[InferenceQuestion]:
    """Questions to an agent about the text that each of the others writes in this turn."""
    texts = {other: (actions.get(other, ""),) if actions else None for other in agents if other != agent}
    return [InferenceQuestion(other, f"What does {other} write?", "text", (), text) for other, text in texts.items()]


def truth_of(question: InferenceQuestion) -> Guess:
    """The truth of a question as the answer that would be right and certain.

    Raises:
        ValueError: it is not known yet.
    """
    if question.truth is None:
        raise ValueError("the truth of this question is not known before the agents have acted")
    if question.options:
        certain = {option: float(option in question.truth) for option in question.options}
        return Guess(certain if question.kind == "choice" else dict.fromkeys(question.truth, 1.0))
    return read_guess(" ".join(question.truth), question)


def brier_score(guess: Guess, truth: Guess) -> float:
    """Quadratic score of probabilities: 2 p·q - |p|², between -1 and 1.

    Of a certain truth it is 1 less the Brier score. A proper score: in the mean it is largest for p = q. An answer that
    names no option has -1.

    >>> brier_score(Guess({"J": 0.75, "Q": 0.25}), Guess({"J": 1.0, "Q": 0.0}))
    0.875
    """
    if not guess.readable:
        return -1.0
    both = sum(p * truth.weights.get(option, 0.0) for option, p in guess.weights.items())
    return 2.0 * both - sum(p * p for p in guess.weights.values())


def log_score(guess: Guess, truth: Guess) -> float:
    """Mean of log p over the truth, with p at least `FLOOR`; log `FLOOR` if unreadable."""
    if not guess.readable:
        return math.log(FLOOR)
    return sum(q * math.log(max(FLOOR, guess.weights.get(option, 0.0))) for option, q in truth.weights.items() if q)


def overlap(guess: Guess, truth: Guess) -> float:
    """F1 of two bags of words or sets of items: twice the shared ones over all of both.

    It is 0 if one is empty.

    >>> overlap(Guess({"1": 1.0, "2": 1.0}), Guess({"2": 1.0, "3": 1.0, "4": 1.0}))
    0.4
    """
    total = sum(guess.weights.values()) + sum(truth.weights.values())
    shared = sum(min(count, truth.weights.get(item, 0.0)) for item, count in guess.weights.items())
    return 2.0 * shared / total if shared else 0.0


def accuracy(guess: Guess, truth: Guess, kind: Kind) -> float:
    """Probability that the likeliest option, equal ones drawn, is the truth; else the overlap."""
    if kind != "choice":
        return overlap(guess, truth)
    if not guess.readable:
        return 0.0
    best = [option for option, p in guess.weights.items() if p == guess.confidence]
    return sum(truth.weights.get(option, 0.0) for option in best) / len(best)


def chance_score(question: InferenceQuestion, rule: Literal["brier", "log"]) -> float:
    """Score of equal probabilities for all options; 0 for slots and texts."""
    if question.kind != "choice":
        return 0.0
    return 1 / len(question.options) if rule == "brier" else -math.log(len(question.options))


def calibration_error(guesses: Sequence[tuple[float, float]], bins: int = 10) -> float:
    """Expected calibration error: mean |accuracy - confidence| of the guesses' bins.

    M. Naeini et al., "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015.

    Args:
        guesses: (confidence, accuracy) of each.
        bins: equal parts of [0, 1].
    """
    held: dict[int, list[tuple[float, float]]] = {}
    for confidence, right in guesses:
        held.setdefault(min(bins - 1, int(confidence * bins)), []).append((confidence, right))
    gaps = (abs(sum(right - confidence for confidence, right in members)) for members in held.values())
    return sum(gaps) / len(guesses) if guesses else 0.0


def _read_choice(answer: str, options: tuple[str, ...]) -> Guess:
    by_name = {option.casefold(): option for option in options}
    stated: dict[str, float] = {}
    first = ""
    for name, number, percent in _pattern(options).findall(answer):
        option = by_name.get(name.casefold())
        if option is None:
            continue
        first = first or option
        if number:
            stated[option] = float(number) / (100.0 if percent else 1.0)
    if not stated:
        return Guess({option: float(option == first) for option in options}, bool(first))
    total, rest = sum(stated.values()), [option for option in options if option not in stated]
    if total > 1.0 or (not rest and total > 0.0):
        stated = {option: p / total for option, p in stated.items()}
        total = 1.0
    if not rest and total == 0.0:
        return Guess(dict.fromkeys(options, 0.0), readable=False)
    share = (1.0 - total) / len(rest) if rest else 0.0
    return Guess({option: stated.get(option, share) for option in options})


@functools.lru_cache(maxsize=1024)
def _pattern(options: tuple[str, ...]) -> re.Pattern[str]:
    """Pattern of an option as whole words, the longest first, and of the number behind it."""
    names = "|".join(map(re.escape, sorted(options, key=len, reverse=True)))
    return re.compile(rf"(?<![^\W_])({names})(?![^\W_]){_NUMBER}", re.IGNORECASE)
