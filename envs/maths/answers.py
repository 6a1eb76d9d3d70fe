"""Parse the answer of a text. Pure.

It is marked by `####` or `\\boxed{}`, after "the answer is", or the last number.

1. Text up to `</think>` is left out; after a `<think>` that is not closed nothing counts.
2. The last of all `####` (to the end of its line) and `\\boxed{}` is the answer. Of it counts what follows its last
   `=`, and of that the first number; where it has none the words themselves, without case and punctuation.
3. Without a mark it is the first number after the last "answer is", "answer:" or "answer =", in the same line.
4. Otherwise it is the last number of the text. A text with no number then has no answer.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction

from palaver.envs.maths.numbers import Number, numbers, plain

HINT = "End with #### and the answer."
LONGEST = 20_000  # characters of a text that are read
_MOST_WORDS = 200  # characters of an answer in words
_THOUGHT = re.compile(r"<think>.*?</think>|^.*?</think>|<think>.*", re.DOTALL)
_HASHES = re.compile(r"####([^\n]*)")
_BOXED = re.compile(r"\\f?boxed\s*\{")
_PHRASE = re.compile(r"\banswer\b\**\s*(?:is|was|:|=)", re.IGNORECASE)
_UNIT = re.compile(r"\s*[%°]?(?:\s*[^\W\d_]{2}|\s+[^\W\d_]|\s*$)[^\d=+*^\\()-]*")
_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\s*\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """An answer.

    Attributes:
        value: its number; None where it has none.
        words: what was marked, without case and outer punctuation; "" where nothing was.
        marked: whether `####` or a box marks it.
        raw: the marked text, unchanged.
    """

    value: Fraction | None = None
    words: str = ""
    marked: bool = False
    raw: str = ""

    @property
    def key(self) -> str:
        """One text for equal answers: the number, else the words; "" for no answer."""
        return self.words if self.value is None else str(self.value)


def opening(question: str) -> str:
    """The question, and how its answer is to be marked."""
    return f"{question.strip()}\n{HINT}"


def question_of(prompt: str) -> str:
    """The question of the prompt that `opening` wrote; "" where it wrote none."""
    before, hint, _ = prompt.partition(f"\n{HINT}")
    return before if hint else ""


@functools.lru_cache(maxsize=512)
def read(text: str) -> ParsedAnswer:
    """The answer in a model's text; see the module's rule."""
    words = spoken(text)
    marked = _marked(words)
    if marked is not None:
        numeral = _first(marked.rpartition("=")[2]) or _first(marked)
        return ParsedAnswer(numeral.value if numeral else None, _words(marked), True, marked.strip()[:_MOST_WORDS])
    words = plain(words)
    phrases = list(_PHRASE.finditer(words))
    if phrases:
        line = words[phrases[-1].end() :].partition("\n")[0]
        if last_number := next(numbers(line), None):
            return ParsedAnswer(last_number.value)
    last = [*numbers(words)][-1:]
    return ParsedAnswer(last[0].value if last else None)


def spoken(text: str) -> str:
    """The text without thoughts; of a long one the beginning."""
    cut = text[:LONGEST]
    return _THOUGHT.sub("", cut) if "think>" in cut else cut


def marked_text(text: str) -> str | None:
    """Return what follows the last `####`, to the end, else the last box; None without a mark."""
    words = spoken(text)
    _, mark, after = words.rpartition("####")
    if mark:
        return after.strip()
    boxes = [match.end() for match in _BOXED.finditer(words)][-1:]
    return _braced(words, boxes[0]).strip() if boxes else None


@functools.lru_cache(maxsize=4096)
def gold(text: str) -> ParsedAnswer:
    """The right answer as data sets give it.

    It is the text after `####` where there is one (GSM8K), else the whole text. It is a number if it is one, with a
    unit at most: `72`, `$1,200`, `12km`, `3 red apples`; else words: `2x + 2`.
    """
    marked = text.rpartition("####")[2].strip()
    boxed = _marked(marked) if "boxed" in marked else None
    answer_text = (boxed or marked).strip()
    spelt = plain(_TEXT.sub(r" \1 ", answer_text[:_MOST_WORDS])).strip()
    first = next(numbers(spelt), None)
    alone = first is not None and first.start == 0 and _UNIT.fullmatch(spelt, first.end)
    return ParsedAnswer(first.value if first and alone else None, _words(answer_text), True, answer_text[:_MOST_WORDS])


def right(answer: ParsedAnswer, truth: ParsedAnswer) -> bool:
    """Return whether an answer is right, as an exact fraction or, for other truths, in words."""
    in_words = bool(answer.words) and answer.words == truth.words
    return in_words if truth.value is None else answer.value == truth.value


def hidden(text: str) -> str:
    """Replace the answer in the text by `(hidden)` wherever it occurs.

    Every number equal to the answer goes, for the way to it usually ends with it.
    """
    answer = read(text)
    if answer.value is None:
        return text.replace(answer.raw, "(hidden)") if answer.raw else text
    spoken = plain(text[:LONGEST])
    pieces, at = [], 0
    for number_match in numbers(spoken):
        if number_match.value == answer.value:
            pieces += [spoken[at : number_match.start], "(hidden)"]
            at = number_match.end
    return "".join([*pieces, spoken[at:]])


def _marked(text: str) -> str | None:
    """Content of the last mark; None without one."""
    hashes = [(match.start(), match[1]) for match in _HASHES.finditer(text)]
    boxes = [match.span() for match in _BOXED.finditer(text)][-1:]
    every = [*hashes[-1:], *((start, _braced(text, end)) for start, end in boxes)]
    return max(every)[1] if every else None


def _braced(text: str, start: int) -> str:
    """Text from `start` to the brace that closes it, up to a maximal length."""
    depth = 1
    for index in range(start, min(len(text), start + 10 * _MOST_WORDS)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[start:index]
    return text[start : start + _MOST_WORDS].partition("\n")[0]


def _first(text: str) -> Number | None:
    return next(numbers(plain(_TEXT.sub(r" \1 ", text))), None)


def _words(text: str) -> str:
    plain_text = _TEXT.sub(r"\1", text[:_MOST_WORDS]).casefold()
    return " ".join(plain_text.split()).strip(" .,;:!?*$\"'()")
