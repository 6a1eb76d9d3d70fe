"""The examination a freshly trained tiny model must pass before anybody may use it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.tiny.training import Demonstration
from palaver.core import Conversation, PolicyError, Request, Sampling, stable_seed

PROMPTS = 64
MAX_TOKENS = 256
COMMON = 0.3  # a word that occurs in more of the prompts is no topic word
OWN = 0.95  # nor is one that fewer of its uses take from the own prompt
_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One measurement: what was found and the range that is accepted."""

    name: str
    value: float
    low: float
    high: float

    @property
    def passed(self) -> bool:
        """True if the value is in the range, bounds included."""
        return self.low <= self.value <= self.high


def examine(
    model: Any, tokenizer: Any, known: Sequence[Demonstration], fresh: Sequence[Demonstration]
) -> list[GateCheck]:
    """Measure the model's answers, at temperature 1, to prompts it has not seen.

    Args:
        model: to be examined.
        tokenizer: of the model.
        known: what it was trained on; its words are the vocabulary.
        fresh: held-out demonstrations; their answers set the normal range.
    """
    policy = LLMPolicy(model, tokenizer, name="tiny")
    requests = [
        Request("tiny", conversation, (stable_seed("tiny gate", index),), Sampling(max_tokens=MAX_TOKENS))
        for index, (conversation, _) in enumerate(fresh)
    ]
    answers = [completions[0].text for completions in policy.act(requests)]
    prompts = [_prompt(conversation) for conversation, _ in fresh]
    references = [answer for _, answer in fresh]
    vocabulary = {
        word for conversation, answer in known for word in letter_runs(_prompt(conversation)) + letter_runs(answer)
    }
    topics = _topic_words(known)

    def topical(text: str) -> list[str]:
        return [word for word in letter_runs(text) if word in topics]

    usual = mean(len(text.split()) for text in references)
    bar = 0.6 * _from_prompt(references, prompts, topical)
    checks = [
        GateCheck("unknown words", _unknown(answers, vocabulary), 0.0, 0.003),
        GateCheck("topic words from the prompt", _from_prompt(answers, prompts, topical), bar, 1.0),
        GateCheck("repeated sentences", _repeated(answers), 0.0, max(0.08, 2 * _repeated(references))),
        GateCheck("words per text", mean(len(text.split()) for text in answers), 0.6 * usual, 1.6 * usual),
    ]
    for name, holds in (("texts with a full stop", _stopped), ("texts that are Python", _is_python)):
        if all(map(holds, references)):
            checks.append(GateCheck(name, mean(map(holds, answers)), 0.97, 1.0))
    if _from_prompt(references, prompts, str.splitlines) == 1.0:
        checks.append(GateCheck("lines from the prompt", _from_prompt(answers, prompts, str.splitlines), 0.9, 1.0))
    return checks


def demand(checks: Iterable[GateCheck], name: str) -> None:
    """Refuse a model.

    Raises:
        PolicyError: a check failed; the message names the first.
    """
    for check in checks:
        if not check.passed:
            raise PolicyError(
                f"the tiny model for {name} did not learn its texts and is refused: {check.name} is {check.value:.4f}, "
                f"accepted {check.low:.4f} to {check.high:.4f}; try another seed or more steps"
            )


def letter_runs(text: str) -> list[str]:
    """Lower-cased runs of letters."""
    return _WORD.findall(text.lower())


def _stopped(text: str) -> bool:
    return text.rstrip().endswith(".")


def _is_python(text: str) -> bool:
    """Return whether a text is a program; a short one may be by accident, not a whole set."""
    try:
        return bool(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _prompt(conversation: Conversation) -> str:
    return " ".join(message.content for message in conversation)


def _topic_words(known: Sequence[Demonstration]) -> set[str]:
    """Words of answers that come from their own prompt and that most other prompts lack.

    Words have four letters or more.
    """
    in_prompts, in_answers, taken = Counter[str](), Counter[str](), Counter[str]()
    for conversation, answer in known:
        prompt_words = set(letter_runs(_prompt(conversation)))
        spoken = [word for word in letter_runs(answer) if len(word) >= 4]
        in_prompts.update(prompt_words)
        in_answers.update(spoken)
        taken.update(word for word in spoken if word in prompt_words)
    return {
        word
        for word, count in in_answers.items()
        if taken[word] >= OWN * count and in_prompts[word] <= COMMON * len(known)
    }


def _from_prompt(texts: Sequence[str], prompts: Sequence[str], split: Callable[[str], list[str]]) -> float:
    """Share of the parts of the answers that are parts of their prompt; 0 if there are none."""
    hits = [
        part in prompt_parts
        for text, prompt_parts in zip(texts, (set(split(prompt)) for prompt in prompts), strict=True)
        for part in split(text)
    ]
    return mean(hits) if hits else 0.0


def _unknown(texts: Sequence[str], vocabulary: set[str]) -> float:
    """Share of the words of the answers that no demonstration holds."""
    unknown = [word not in vocabulary for text in texts for word in letter_runs(text)]
    return mean(unknown) if unknown else 1.0


def _repeated(texts: Sequence[str]) -> float:
    """Share of sentences that occurred earlier in the same text."""
    count = repeated = 0
    for text in texts:
        sentences = [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]
        count += len(sentences)
        repeated += len(sentences) - len(set(sentences))
    return repeated / count if count else 0.0
