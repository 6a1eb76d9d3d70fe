"""Words, sentences and kinds of transition words of texts. Linear in the length."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import yaml

from palaver.core import ConfigError
from palaver.envs.base.tasks import Shared
from palaver.text import one_line

Match = Literal["substring", "word"]
LexiconSource = Mapping[str, list[str]] | str | Path | None
StopwordSource = list[str] | str | Path | None
_HERE = Path(__file__).parent

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


@dataclass(frozen=True)
class Lexicon(Shared):
    """Expressions by kind, lower case.

    Raises:
        ConfigError: no kinds, or a kind without expressions.
    """

    kinds: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ConfigError("lexicon: it has no kinds; give a mapping of kind -> list of expressions")
        for kind, expressions in self.kinds.items():
            if not expressions or not all(isinstance(e, str) and e.strip() for e in expressions):
                raise ConfigError(f"lexicon: the kind {kind!r} needs a list of expressions that are not empty")
        lowered = {kind: tuple(e.strip().lower() for e in expressions) for kind, expressions in self.kinds.items()}
        object.__setattr__(self, "kinds", lowered)
        object.__setattr__(self, "_patterns", {kind: _pattern(group) for kind, group in lowered.items()})

    def matching_kinds(self, texts: Sequence[str], match: Match) -> frozenset[str]:
        """The kinds that occur in the texts.

        Args:
            texts: joined before the search: without a gap under `substring`, as published, else by a line end.
            match: `substring` finds an expression inside other words ("so" in "also"); `word` only whole words, with
                any white space between those of one expression.
        """
        if match == "substring":
            joined = "".join(texts).lower()
            return frozenset(kind for kind, group in self.kinds.items() if any(e in joined for e in group))
        joined = "\n".join(texts).lower()
        patterns: Mapping[str, re.Pattern[str]] = self._patterns  # type: ignore[attr-defined]
        return frozenset(kind for kind, pattern in patterns.items() if pattern.search(joined))


def _pattern(expressions: Sequence[str]) -> re.Pattern[str]:
    spaced = (r"\s+".join(map(re.escape, expression.split())) for expression in expressions)
    return re.compile(rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)")


@cache
def transitions() -> Lexicon:
    """The built-in lexicon of twelve kinds."""
    return lexicon(str(_HERE / "transitions.yaml"))


@cache
def stop_list() -> frozenset[str]:
    """The built-in stop words."""
    return stopwords(str(_HERE / "stopwords.yaml"))


def lexicon(source: Mapping[str, Sequence[str]] | str | Path | Lexicon | None) -> Lexicon:
    """Lexicon of a mapping of kind -> expressions, or of a YAML or JSON file.

    None is the built-in one.

    Raises:
        ConfigError: the file cannot be read, or its content is no such mapping.
    """
    if source is None:
        return transitions()
    if isinstance(source, Lexicon):
        return source
    loaded = _read(source, "lexicon") if isinstance(source, str | Path) else source
    if not isinstance(loaded, Mapping) or not all(isinstance(group, list | tuple) for group in loaded.values()):
        raise ConfigError("lexicon: expected a mapping of kind -> list of expressions")
    return Lexicon({str(kind): tuple(group) for kind, group in loaded.items()})


def stopwords(source: Collection[str] | str | Path | None) -> frozenset[str]:
    """Stop words from a list, or a YAML or JSON file of one; None is the built-in list.

    Raises:
        ConfigError: the file cannot be read, or its content is no list of words.
    """
    if source is None:
        return stop_list()
    loaded = _read(source, "stopwords") if isinstance(source, str | Path) else source
    if not isinstance(loaded, list | tuple | set | frozenset) or not all(isinstance(word, str) for word in loaded):
        raise ConfigError("stopwords: expected a list of words (quote 'on', 'off', 'yes' and 'no' in YAML)")
    return frozenset(word.lower() for word in loaded)


def _read(path: str | Path, keyword: str) -> Any:
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{keyword}: cannot read {str(path)[:200]!r}: {one_line(error)}") from error
