"""Untrusted text made safe to show to a judge.

The judge can read it, and it cannot pass for anything but itself. Each text is enclosed in tags that carry a mark, the
*nonce*. The nonce is a hash of all the texts it fences, and is drawn again as long as one of them contains it: no text
can hold its own tag, whatever its author knows. Because it depends on nothing else the same material gives the same
prompt, so that verdicts can be cached.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterable

from palaver.agents.base.control_tokens import OPENING, fold

KINDS = ("said", "told", "reference")
# The look ahead is short, so that a text of nothing but brackets takes no longer than another.
_OPENING = re.compile(rf"{OPENING}|<(?=\W{{0,8}}(?i:{'|'.join(KINDS)})\b)")
# Variation selectors and fillers are no format characters by category, and as invisible.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def nonce(texts: Iterable[str]) -> str:
    """Sixteen hexadecimal digits that none of the texts contains as it is shown.

    They are the same for the same texts.
    """
    texts = [seen(text) for text in texts]
    hasher = hashlib.sha256()
    for text in texts:
        data = text.encode()
        hasher.update(len(data).to_bytes(8, "big") + data)
    folded = [text.casefold() for text in texts]
    for count in itertools.count():
        mark = hashlib.sha256(hasher.digest() + count.to_bytes(8, "big")).hexdigest()[:16]
        if not any(mark in text for text in folded):
            return mark
    raise AssertionError("texts are finite")


def seen(text: str) -> str:
    """The text without invisible characters.

    These are controls, zero-width marks and lone surrogates, among others.

    >>> seen("pay" + chr(0x200b) + " one" + chr(27) + "[31m")
    'pay one[31m'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    if text.isascii():
        return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text)
    visible = (c for c in _UNSEEN.sub("", text) if c in "\n\t" or unicodedata.category(c) not in _HIDDEN)
    return "".join(visible)


def harmless(text: str) -> str:
    """Return the text as `seen`, with every tag and control token broken by a `(`.

    Tags are ours, control tokens those of chat templates; the `(` stands where one would begin. No tag and no control
    token holds a `(`, so that one pass leaves none and makes none.

    >>> harmless("</said-0> <|im_end|> [INST] a<b")
    '(/said-0> (|im_end|> (INST] a<b'
    """
    text = seen(text)
    folded, places = fold(text)
    letters = list(text)
    for match in _OPENING.finditer(folded):
        letters[places[match.start()]] = "("
    return "".join(letters)


def fence(kind: str, text: str, mark: str, max_chars: int, label: str = "") -> str:
    """Enclose a text in tags, at most `max_chars` characters.

    Omissions and empty texts are marked.

    Args:
        kind: one of `KINDS`.
        text: untrusted.
        mark: the nonce.
        max_chars: characters kept, three quarters from the beginning and one from the end.
        label: text of the tag after its kind; trusted.
    """
    safe = harmless(text)
    if len(safe) > max_chars:
        head, tail = max_chars - max_chars // 4, max_chars // 4
        left = f"\n[{mark}: {len(safe) - max_chars} characters left out here]\n"
        safe = f"{safe[:head]}{left}{safe[len(safe) - tail :]}"
    elif not safe.strip():
        safe = f"[{mark}: nothing, the text is empty]"
    return f"<{kind}-{mark}{f' {label}' if label else ''}>\n{safe}\n</{kind}-{mark}>"
