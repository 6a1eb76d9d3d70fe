"""Split one author's text into two paragraphs. Pure functions of texts."""

from __future__ import annotations

import re

SPLIT = "[PARAGRAPH_SPLIT]"

_LABEL = re.compile(r"paragraph 2:", re.IGNORECASE)
_LEADING = re.compile(r"^paragraph [12]:\s*", re.IGNORECASE)


def paragraphs(text: str) -> tuple[str, str]:
    """Both paragraphs of a single author.

    They are parted at the first `[PARAGRAPH_SPLIT]`; without it at the first label `Paragraph 2:`; without that after
    the first third of the characters, so that a text without marker can still be rewarded, as published. White space
    around the paragraphs and leading labels `Paragraph 1:` and `Paragraph 2:` are dropped.

    >>> paragraphs("one [PARAGRAPH_SPLIT] two"), paragraphs("abcdef")
    (('one', 'two'), ('ab', 'cdef'))
    """
    text = text.strip()
    if SPLIT in text:
        first, _, second = text.partition(SPLIT)
    elif label := _LABEL.search(text):
        first, second = text[: label.start()], text[label.end() :]
    else:
        third = len(text) // 3 or 1
        first, second = text[:third], text[third:]
    return _LEADING.sub("", first.strip()), _LEADING.sub("", second.strip())
