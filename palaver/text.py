"""Sanitised text: model output may contain terminal escapes and broken unicode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

LIMIT = 20_000

# C0 and C1 controls, marks that turn the direction of writing, lone surrogates, and the byte-order mark.
# Tab and newline stay; the separators U+2028 and U+2029 break lines in some viewers, so they go too.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def clean(text: object, limit: int = LIMIT) -> str:
    """Replace every character that could act on a terminal or a page, and cut at `limit`.

    A C0 control becomes its Unicode control picture (escape becomes U+241B), anything else unsafe becomes U+FFFD.
    `\\r\\n` and a lone `\\r` are read as line ends.

    >>> clean("a" + chr(27) + "[31m")
    'a␛[31m'
    """
    full = str(text)
    cut = full[:limit].replace("\r\n", "\n").replace("\r", "\n")
    cut = _UNSAFE.sub(_visible, cut)
    return f"{cut} … [{len(full) - limit:,} more characters]" if len(full) > limit else cut


def one_line(text: object, limit: int = 200) -> str:
    """Return `clean` text with runs of white space folded to one space."""
    return " ".join(clean(text, limit).split())


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each `{{ name }}` of a page's template by its value.

    Values are not escaped.

    >>> fill("<p>{{ text }}</p>", {"text": "{{ text }}"})
    '<p>{{ text }}</p>'
    """
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: values[match[1]], template)


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which neither JSON nor UTF-8 can carry, by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def first_fault(error: ValidationError, whole: str = "") -> str:
    """Location and message of the first validation error, in one line.

    `whole` stands for the location of the whole.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    location = ".".join(map(str, first["loc"])) or whole
    return one_line(f"{location}: {first['msg']}" if location else first["msg"])


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
