"""Exact numbers in text. Pure.

Integers, decimals, fractions, percentages, currencies, powers of ten. What is read: `1,234.5`, `-3`, `−3`, `.5`, `3/4`,
`1 1/2`, `2½`, `50%`, `$12`, `-$5`, `12km`, `1.5e3`, `3 × 10^5`, and of LaTeX `\\frac{3}{4}`, `1{,}234`, `\\$5`,
`50\\%`. Signs of money and percentage are units: 50% is 50. Not read: numbers inside words (`H2O`, `x2`), exponents and
indices (`m^2`, `a_1`), ordinals (`3rd`), fractions of 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

LONGEST = 40  # digits of a number; what is longer is no answer
_MOST_POWER = 300
_VULGAR = {
    "½": "1/2",
    "⅓": "1/3",
    "⅔": "2/3",
    "¼": "1/4",
    "¾": "3/4",
    "⅕": "1/5",
    "⅖": "2/5",
    "⅗": "3/5",
    "⅘": "4/5",
    "⅙": "1/6",
    "⅚": "5/6",
    "⅛": "1/8",
    "⅜": "3/8",
    "⅝": "5/8",
    "⅞": "7/8",
}
_LATEX = (
    (re.compile(r"\{,\}"), ","),
    (re.compile("(?<=\\d)(?:\\\\[,!]|[\u00a0\u202f\u2009])(?=\\d{3}(?!\\d))"), ""),
    (re.compile(r"\\[,;!: ]"), " "),
    (re.compile(r"\\([$%€£#&])"), r"\1"),
    (re.compile(r"(?<=\d)(?=\\[dt]?frac)"), " "),
    (re.compile(r"\\[dt]?frac\s*\{\s*(-?\d{1,40})\s*\}\s*\{\s*(\d{1,40})\s*\}"), r"\1/\2 "),
    (re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)"), r"\1/\2 "),
    (re.compile(r"\\(?:times|cdot)(?![a-zA-Z])"), "×"),
    (re.compile(r"\^\{(-?\d{1,4})\}"), r"^\1"),
)
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?![\d])|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"""
    (?=[-−–+$€£¥₹.\d])
    (?P<sign>[-−–+]\s?)? (?P<money>[$€£¥₹]\s?)? (?P<inner>[-−–])?
    (?: (?P<whole>\d{{1,18}})\s(?P<over>\d{{1,18}})\s?/\s?(?P<under>\d{{1,18}})(?![\d.])
      | (?P<digits>{_DIGITS})
        (?: \s?/\s?(?P<divisor>\d{{1,40}}(?:\.\d+)?)(?![\d/])
          | [eE](?P<power>[-+]?\d{{1,4}})(?![\w.])
          | \s?[×x*·]\s?10\s?\^\s?(?P<ten>[-−]?\d{{1,4}}) )? )
    """,
    re.VERBOSE,
)
_MINUS = ("-", "−", "–")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)


class Number(NamedTuple):
    """A number and its position in the text."""

    value: Fraction
    start: int
    end: int


def plain(text: str) -> str:
    """The text with LaTeX and single characters for fractions spelt out.

    The indices of `numbers` refer to this text.

    >>> plain("\\\\frac{3}{4} of 1{,}000, 2½")
    '3/4  of 1,000, 2 1/2'
    """
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    for character, fraction in _VULGAR.items():
        if character in text:
            text = text.replace(character, f" {fraction}")
    return text.replace("\u202f", " ").replace("\u00a0", " ")


def numbers(text: str) -> Iterator[Number]:
    """The numbers in a text that `plain` gave, in order."""
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        before = text[start - 1 : start]
        in_a_word = before.isalnum() and not (match["sign"] or match["money"])  # `x2`, the rest of `1.2.3`
        if in_a_word or before in ("^", "_") or _ORDINAL.match(text, end):
            continue
        value = _value(match)
        if value is not None:
            yield Number(-value if _negative(match, text, start) else value, start, end)


def _negative(match: re.Match[str], text: str, start: int) -> bool:
    """Return whether a minus is a sign and not between two operands, as in `10-3` and `10 - 3`."""
    sign, before = match["sign"] or "", text[max(0, start - 3) : start]
    if not sign or sign[0] not in _MINUS:
        return bool(match["inner"])
    if len(sign) > 1:
        return before.rstrip().endswith(("=", ":", "(", "{"))
    return not (before[-1:].isalnum() or before.endswith((")", "]", "}", "%")))


def _value(match: re.Match[str]) -> Fraction | None:
    if len(match[0]) > LONGEST + 10:
        return None
    if match["whole"]:
        under = int(match["under"])
        return int(match["whole"]) + Fraction(int(match["over"]), under) if under else None
    value = Fraction(match["digits"].replace(",", ""))
    if match["divisor"]:
        divisor = Fraction(match["divisor"])
        return value / divisor if divisor else None
    power = int((match["power"] or match["ten"] or "0").replace("−", "-"))
    return value * Fraction(10) ** power if abs(power) <= _MOST_POWER else None
