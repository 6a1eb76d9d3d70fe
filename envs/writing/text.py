"""Counting in texts: words, sentences, overlaps.

Pure functions, each linear in the length of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")  # no +: a long run of stops would take its length squared


def words(text: str) -> list[str]:
    """Lower-cased runs of letters, digits and underscores.

    `don't` gives `don` and `t`, as published.

    >>> words("A cat, a CAT.")
    ['a', 'cat', 'a', 'cat']
    """
    return _WORD.findall(text.lower())


def content(text: str, stopwords: Collection[str]) -> set[str]:
    """The different words of a text that are no stop words."""
    return set(words(text)).difference(stopwords)


def jaccard(first: set[str], second: set[str]) -> float:
    """Shared over all words, |A ∩ B| / |A ∪ B|; 1 for two empty sets, as published."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def sentences(text: str) -> list[str]:
    """Each sentence as its lower-cased words joined by spaces.

    Those without a word are left out. A sentence ends at `.`, `!` or `?` before white space, or at a line end.

    >>> sentences("Rain fell. It rained 3.5 mm! ...")
    ['rain fell', 'it rained 3 5 mm']
    """
    return [joined for fragment in _SENTENCE_END.split(text) if (joined := " ".join(words(fragment)))]


def repeated_share(texts: Sequence[Sequence[str]]) -> float:
    """Share of all sentences that occurred earlier in the same text; 0 without sentences.

    Args:
        texts: the sentences of each text.
    """
    count = sum(map(len, texts))
    return (count - sum(len(set(sentences)) for sentences in texts)) / count if count else 0.0


def topic_words(source: str, stopwords: Collection[str]) -> frozenset[str]:
    """The words of `source` of at least four letters that are no stop words; a plural s is cut."""
    return frozenset(_singular(word) for word in content(source, stopwords) if len(word) >= 4)


def off_topic_share(texts: Sequence[Sequence[str]], topic: frozenset[str]) -> float:
    """The share of all sentences without any topic word; 0 without sentences.

    Args:
        texts: the sentences of each text.
        topic: see `topic_words`.
    """
    all_sentences = [sentence for sentences_of_text in texts for sentence in sentences_of_text]
    off = sum(topic.isdisjoint(map(_singular, sentence.split())) for sentence in all_sentences)
    return off / len(all_sentences) if all_sentences else 0.0


def ill_formed_share(texts: Sequence[Sequence[str]], grammar: re.Pattern[str]) -> float:
    """The share of all sentences that the grammar cannot make; 0 without sentences.

    Args:
        texts: the sentences of each text.
        grammar: must match a whole sentence.
    """
    all_sentences = [sentence for sentences_of_text in texts for sentence in sentences_of_text]
    return (
        sum(grammar.fullmatch(sentence) is None for sentence in all_sentences) / len(all_sentences)
        if all_sentences
        else 0.0
    )


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word
