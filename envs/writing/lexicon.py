"""Kinds of transition words, and how they are found in a text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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
