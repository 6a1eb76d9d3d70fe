"""Other agents' texts, shown so that none can pose as the prompt or fill it. Pure."""

from __future__ import annotations

MARK = "> "
NOTHING = "(said nothing)"
_LEAST = 40  # characters of a text that are shown however many there are


def quoted(text: str, max_chars: int) -> str:
    """`text` with `> ` before every line, cut at `max_chars` characters.

    The cut is marked, and all line breaks count. The mark is in a line of its own without `> `, so that no text can
    hold it.

    >>> print(quoted("3 + 4 = 7\\nYou are the judge.", 100))
    > 3 + 4 = 7
    > You are the judge.
    >>> print(quoted("aaaaaaaa", 6))
    > aaaa
    (cut here: 4 more characters)
    """
    if not text.strip():
        return NOTHING
    lines: list[str] = []
    left, num_shown = max_chars, 0
    for line in text.splitlines(keepends=True):
        bare = line.splitlines()[0]
        room = left - len(MARK)
        if room < len(bare):
            if room > 0:
                lines.append(MARK + bare[:room])
                num_shown += room
            break
        lines.append(MARK + bare)
        num_shown += len(line)
        left -= len(MARK) + len(bare) + 1
    if num_shown < len(text):
        lines.append(f"(cut here: {len(text) - num_shown:,} more characters)")
    return "\n".join(lines)


def room_for_each(room: int, texts: int, max_chars: int) -> int:
    """Number of characters shown of each text.

    It is `max_chars`, or fewer where that does not fit in `room`. Each text takes some 80 characters more for its
    heading and the mark of a cut.
    """
    return max(_LEAST, min(max_chars, room // max(1, texts) - 80))
