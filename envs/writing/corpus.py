"""Shared parts of the text generators: sentence patterns, passages, held-out combinations.

A pattern is a sentence in lower case, without its full stop, with choices in brackets and slots in braces:
`[work|research] on {field} is [new|old]`. Nothing here draws from a data set: every word is in the generators.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.tasks import Generate, Task, is_generated, is_sample, load_tasks
from palaver.envs.writing.text import SPLIT, words

SAMPLE_ROWS = 96
SAMPLE_SEED = 0
HELD_OUT = 8  # one combination in so many is kept for tasks; imitation texts never use it
OPENERS = (
    "however,",
    "therefore,",
    "in addition,",
    "for example,",
    "indeed,",
    "similarly,",
    "even so,",
    "at the same time,",
    "overall,",
    "finally,",
)
ANSWERS = 4  # to each prompt of the imitation texts
ALONE = 0.06  # share of prompts to the single author
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_PIECES = re.compile(r"\[([^\[\]]*)\]|\{(\w+)\}|([^\[{]+)")

Slots = Mapping[str, str]
Asked = tuple[str, str, Slots]  # who, the prompt, what fills the answers' patterns


def fill(pattern: str, slots: Slots, rng: random.Random) -> str:
    """One wording of a pattern.

    >>> fill("[big] {thing}", {"thing": "dogs"}, random.Random(0))
    'big dogs'
    """
    return _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), pattern).format_map(slots)


def sentence(text: str) -> str:
    """With a capital in front and a full stop behind, unless it ends as a question.

    >>> sentence("rain fell"), sentence("why?")
    ('Rain fell.', 'Why?')
    """
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


def passage(patterns: Sequence[str], slots: Slots, count: int, rng: random.Random, opener_rate: float = 0.0) -> str:
    """`count` sentences of different patterns, in the patterns' order.

    All patterns if there are fewer. The order makes the text read as one, and lets a small model know its position in
    the text from its last sentence.

    Args:
        patterns: to choose from.
        slots: what fills them.
        count: sentences wanted.
        rng: draws everything.
        opener_rate: how often a sentence begins with a transition; none is used twice.
    """
    openers = list(OPENERS)
    rng.shuffle(openers)
    sentences = []
    for index in sorted(rng.sample(range(len(patterns)), min(count, len(patterns)))):
        opener = f"{openers.pop()} " if openers and rng.random() < opener_rate else ""
        sentences.append(sentence(opener + fill(patterns[index], slots, rng)))
    return " ".join(sentences)


def in_order(steps: Sequence[Sequence[str]], slots: Slots, rng: random.Random) -> str:
    """One sentence per step, each from that step's patterns; the pattern "" leaves the step out."""
    chosen = [rng.choice(patterns) for patterns in steps]
    return " ".join(sentence(fill(pattern, slots, rng)) for pattern in chosen if pattern)


def grammar(patterns: Iterable[str], vocabulary: Mapping[str, Iterable[str]]) -> re.Pattern[str]:
    """Compile a pattern of whole sentences, with or without a transition; see `text.sentences`.

    Args:
        patterns: the sentences that are allowed.
        vocabulary: what may stand in each slot; the slots of one sentence need not fit each other.

    >>> small = grammar(["{who} [sleep|eat], as ever"], {"who": ["cats", "well-fed dogs"]})
    >>> [bool(small.fullmatch(said)) for said in ("however well fed dogs eat as ever", "cats sleep eat as ever")]
    [True, False]
    """

    def one_of(texts: Iterable[str]) -> str:
        return f"(?:{'|'.join(re.escape(' '.join(words(option))) for option in texts)})"

    def shape(pattern: str) -> str:
        pieces = [
            one_of(choice.split("|") if choice else vocabulary[slot] if slot else [plain])
            for choice, slot, plain in _PIECES.findall(pattern)
            if choice or slot or words(plain)
        ]
        return " ".join(pieces)

    return re.compile(f"(?:{one_of(OPENERS)} )?(?:{'|'.join(map(shape, patterns))})")


def held_out(*combination: str) -> bool:
    """Return whether a combination belongs to the tasks (True) or the imitation texts (False)."""
    return stable_seed("held out", *combination) % HELD_OUT == 0


def draw(make: Callable[[random.Random], Slots], keys: Sequence[str], rng: random.Random, tasks: bool) -> Slots:
    """Slots whose combination of `keys` is held out (`tasks=True`) or not."""
    while True:
        slots = make(rng)
        if held_out(*(slots[key] for key in keys)) == tasks:
            return slots


def uneven_count(rng: random.Random) -> int:
    """Draw 1 to 9 sentences, the middle less often; the requested length is ignored."""
    return rng.choice((1, 2, 3, 7, 8, 9)) if rng.random() < 0.75 else rng.randint(4, 6)


def author(authors: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    """Draw an author: `writer`, who writes all texts, or one of the authors."""
    return "writer" if rng.random() < ALONE else rng.choice(list(authors))


def demonstrations(
    n: int,
    keys: Sequence[object],
    draw_request: Callable[[random.Random], Asked],
    authors: Mapping[str, Sequence[str]],
    answers: int = ANSWERS,
) -> list[tuple[Conversation, str]]:
    """`n` pairs of a prompt and an answer.

    Args:
        n: pairs wanted.
        keys: of the seed of all draws.
        draw_request: draws the author, its prompt, and the slots that the answers are about.
        authors: author -> the patterns of its answers.
        answers: to each prompt; they share its computation in training.
    """
    demos: list[tuple[Conversation, str]] = []
    for index in range(math.ceil(n / answers)):
        rng = random.Random(stable_seed(*keys, index))
        agent, prompt, slots = draw_request(rng)
        demos += [((Message("user", prompt),), answer(authors, agent, slots, rng)) for _ in range(answers)]
    return demos[:n]


def answer(authors: Mapping[str, Sequence[str]], agent: str, slots: Slots, rng: random.Random) -> str:
    """One answer of an author, or of `writer` all texts with the marker between them."""
    patterns = [authors[agent]] if agent in authors else list(authors.values())
    rate = rng.choice((0.0, 0.15, 0.4))
    return f"\n{SPLIT}\n".join(
        passage(passage_patterns, slots, uneven_count(rng), rng, rate) for passage_patterns in patterns
    )


def load(source: str | Path, sample: Path, generate: Generate, field: str, id_field: str = "id") -> tuple[Task, ...]:
    """Tasks of a writing environment; other fields than those named are kept.

    Args:
        source: `sample`, `generated:SEED:COUNT`, a path, or `hf:NAME:SPLIT`.
        sample: the shipped file.
        generate: makes rows from a count and a seed.
        field: the text that is written about.
        id_field: names a task.

    Raises:
        TaskError: see `palaver.envs.base.tasks.load_tasks`.
    """
    made = is_generated(source) and not is_sample(str(source))
    return load_tasks(source, sample=generate if made else sample, fields={field: str}, id_field=id_field)


def instruction(
    wordings: Mapping[str, str], agent: str, length: tuple[int, int], ratio: tuple[float, float], unique: float = 0.0
) -> str:
    """The wording of an agent's prompt, with its numbers.

    Args:
        wordings: agent -> its wording. Imitation texts answer these very words: a change bumps the version.
        agent: its name.
        length: fewest and most words of a text.
        ratio: second text over first, in characters.
        unique: different words of the second text over those of the first.
    """
    (low, high), (short, long) = length, (f"{bound:g}" for bound in ratio)
    return wordings[agent].format(low=low, high=high, short=short, long=long, unique=f"{unique:g}", split=SPLIT)


def draw_all(choices: Mapping[str, Sequence[str]], rng: random.Random) -> dict[str, str]:
    """One of the choices for each slot, in order."""
    return {slot: rng.choice(options) for slot, options in choices.items()}


def generated(
    n: int, name: str, seed: int, make: Callable[[str, random.Random], dict[str, Any]]
) -> list[dict[str, Any]]:
    """`n` rows, each made from its id and a generator of its own.

    Smaller sets of a seed begin larger ones.
    """
    return [
        make(f"made-{seed}-{index:03d}", random.Random(stable_seed(f"{name} tasks", seed, index))) for index in range(n)
    ]


def write_sample(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as JSON lines."""
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
