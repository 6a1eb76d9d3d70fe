"""Words and sentences of texts, their overlap and repetition. Pure; linear in the length."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import chain

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")  # with + after the class, a run of n stops would take n² steps
SPLIT = "[PARAGRAPH_SPLIT]"

_LABEL = re.compile(r"paragraph 2:", re.IGNORECASE)
_LEADING = re.compile(r"^paragraph [12]:\s*", re.IGNORECASE)


def words(text: str) -> list[str]:
    """Lower-cased runs of letters, digits and underscores, as published.

    An apostrophe separates: `don't` gives `don` and `t`.

    >>> words("A cat, a CAT.")
    ['a', 'cat', 'a', 'cat']
    """
    return _WORD.findall(text.lower())


def content_words(text: str, stopwords: Collection[str]) -> set[str]:
    """Set of the words of a text without stop words."""
    return set(words(text)).difference(stopwords)


def jaccard(first: set[str], second: set[str]) -> float:
    """Jaccard index |A ∩ B| / |A ∪ B|; 1 for two empty sets, as published."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def sentences(text: str) -> list[str]:
    """Sentences of a text, each as its lower-cased words joined by spaces.

    A sentence ends at `.`, `!` or `?` before white space, or at a line end. Those without a word are left out.

    >>> sentences("Rain fell. It rained 3.5 mm! ...")
    ['rain fell', 'it rained 3 5 mm']
    """
    normalised = (" ".join(words(fragment)) for fragment in _SENTENCE_END.split(text))
    return [sentence for sentence in normalised if sentence]


def repeated_share(texts: Sequence[Sequence[str]]) -> float:
    """Share of all sentences that occurred earlier in the same text; 0 without sentences.

    Args:
        texts: the sentences of each text.
    """
    total = sum(map(len, texts))
    distinct = sum(len(set(text)) for text in texts)
    return (total - distinct) / total if total else 0.0


def topic_words(source: str, stopwords: Collection[str]) -> frozenset[str]:
    """Content words of `source` of at least four letters, without a plural s."""
    return frozenset(_singular(word) for word in content_words(source, stopwords) if len(word) >= 4)


def off_topic_share(texts: Sequence[Sequence[str]], topic: frozenset[str]) -> float:
    """Share of all sentences without any topic word; 0 without sentences.

    Args:
        texts: the sentences of each text.
        topic: see `topic_words`.
    """
    return _share(texts, lambda sentence: topic.isdisjoint(map(_singular, sentence.split())))


def ill_formed_share(texts: Sequence[Sequence[str]], grammar: re.Pattern[str]) -> float:
    """Share of all sentences that `grammar` does not match; 0 without sentences.

    Args:
        texts: the sentences of each text.
        grammar: pattern of a whole sentence.
    """
    return _share(texts, lambda sentence: grammar.fullmatch(sentence) is None)


def _share(texts: Sequence[Sequence[str]], at_fault: Callable[[str], bool]) -> float:
    all_sentences = list(chain.from_iterable(texts))
    return sum(map(at_fault, all_sentences)) / len(all_sentences) if all_sentences else 0.0


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


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
