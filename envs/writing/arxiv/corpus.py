"""Generated papers: abstracts from a grammar, and introductions to imitate.

python -m palaver.envs.writing.arxiv.corpus    rewrites sample.jsonl

The abstracts read plausibly and mean nothing: fields, data, methods and findings are combined at random. The author of
the imitation texts knows the topic and the role but does not coordinate: the number of sentences, the transitions and
the words shared with the other paragraph are left to chance, so that there is something to learn by reward.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

from palaver.core import Conversation
from palaver.envs.base.tasks import Task
from palaver.envs.writing import corpus

SAMPLE = Path(__file__).with_name("sample.jsonl")
KEYS = ("field", "data", "problem", "method", "measure")
LENGTHS = ((32, 64),) * 6 + ((16, 32), (128, 256))

_FIELDS = """
speech recognition: telephone recordings, broadcast interviews; street noise, rare accents; callers
medical imaging: chest scans, retina photographs; missing labels, tiny lesions; radiologists
weather forecasting: satellite images, station reports; sudden storms, coarse grids; pilots
robot navigation: warehouse maps, laser sweeps; moving obstacles, slippery floors; operators
machine translation: parliament debates, film subtitles; idiomatic phrases, endless clauses; readers
traffic control: junction counts, taxi routes; morning congestion, road closures; commuters
protein folding: crystal structures, sequence alignments; flexible loops, distant contacts; biologists
fraud detection: card payments, insurance claims; delayed complaints, changing habits; banks
crop monitoring: drone surveys, soil probes; cloudy seasons, mixed plots; farmers
earthquake warning: seismic traces, borehole readings; false alarms, weak tremors; residents
music recommendation: listening histories, playlist archives; popularity bias, unfamiliar tastes; listeners
energy planning: meter curves, turbine logs; volatile demand, windless nights; utilities
software testing: bug trackers, commit messages; flaky builds, intermittent crashes; developers
drug discovery: molecule libraries, cell assays; toxic compounds, costly screening; chemists
network security: packet captures, server journals; hidden attacks, encrypted traffic; administrators
wildlife counting: camera traps, acoustic stations; overlapping herds, nocturnal species; rangers
"""


def _fields() -> dict[str, tuple[list[str], list[str], str]]:
    """Field: kinds of data, problems, who is concerned."""
    fields = {}
    for line in _FIELDS.strip().splitlines():
        field, _, value = line.partition(": ")
        data, problems, people = value.split("; ")
        fields[field] = (data.split(", "), problems.split(", "), people)
    return fields


FIELDS = _fields()
METHODS = (
    "sparse attention",
    "Bayesian filtering",
    "contrastive pretraining",
    "graph convolution",
    "tree search",
    "spectral clustering",
    "curriculum learning",
    "kernel regression",
    "variational inference",
    "symbolic reasoning",
    "federated averaging",
    "convex relaxation",
    "adaptive hashing",
    "recurrent memory",
)
DEVICES = (
    "a simple penalty",
    "a learned prior",
    "random restarts",
    "a shared encoder",
    "pairwise comparisons",
    "early stopping",
    "a second critic",
    "synthetic examples",
)
MEASURES = (
    "prediction error",
    "training time",
    "memory use",
    "annotation effort",
    "response delay",
    "calibration drift",
)
RIVALS = (
    "handwritten rules",
    "linear baselines",
    "nearest neighbours",
    "deep networks",
    "human experts",
    "commercial systems",
)
AMOUNTS = ("a half", "a third", "a quarter", "a tenth", "two thirds", "a fifth")
LESSONS = (
    "fewer labels are enough",
    "smaller models suffice",
    "the gain survives a change of domain",
    "careful evaluation matters",
    "structure is worth more than scale",
    "cheap hardware is sufficient",
    "uncertainty should be reported",
    "local information is often enough",
)
_CHOICES = {
    "method": METHODS,
    "device": DEVICES,
    "measure": MEASURES,
    "rival": RIVALS,
    "amount": AMOUNTS,
    "lesson": LESSONS,
}

ABSTRACT = (
    (
        "[recent|modern] {field} [relies on|depends on] {data}",
        "progress in {field} [requires|calls for] a careful use of {data}",
        "{field} is [an important|a growing] application with plenty of {data}",
    ),
    (
        "a [central|common|major] difficulty is {problem}, which {rival} [ignore|cannot handle]",
        "{rival} [break down|lose accuracy] because of {problem}",
        "[most|existing] approaches use {rival} and suffer from {problem}",
    ),
    (
        "[earlier|previous] studies of {field} [rarely considered|overlooked] {measure}",
        "a [high|large] {measure} makes matters worse",
        "",
        "",
    ),
    (
        "for {people}, this [is a serious limitation|has serious consequences]",
        "{people} [notice|report] such failures every day",
    ),
    (
        "we [propose|present|introduce] {method} as [a remedy|an alternative]",
        "this [paper|work] [studies|introduces] a new [variant|form] of {method}",
    ),
    (
        "the [idea|approach] is to combine {method} with {device}",
        "{device} can be added with little effort",
        "the [idea|approach] is to combine {method} with {device}, and to [train|evaluate] the system on {data}",
    ),
    (
        "the [analysis|theory] explains [when|why] {method} [works|helps]",
        "{method} [is robust to|copes with] {problem} and needs no more data than {rival}",
        "",
    ),
    (
        "[experiments|tests] on {data} [show|reveal] that {measure} [falls|drops] by {amount}",
        "on {data}, {method} [reduces|lowers] {measure} by {amount}",
    ),
    (
        "[compared with|relative to] {rival}, the [improvement|gain] is consistent",
        "the [improvement|gain] over {rival} is [largest|clearest] in the presence of {problem}",
    ),
    ("the results suggest that {lesson}", "we conclude that {lesson}", "our findings indicate that {lesson}"),
)
TITLES = (
    "{method} for {field}",
    "{field} with {method}",
    "Coping with {problem} in {field}",
    "{method} on {data}",
    "Towards a lower {measure} in {field}",
)
BACKGROUND = (
    "[research on|interest in] {field} has [grown quickly|grown over the last decade|attracted wide attention]",
    "{people} [depend on|benefit from|ask for] [reliable|better|faster] {field}",
    "[large|growing] collections of {data} are [available|easy to obtain]",
    "{rival} [remain|are] the [usual|standard] choice for {field}",
    "understanding {data} [requires|takes] [patience|time|expert knowledge]",
    "the price of {problem} is paid by {people}",
    "[simple|cheap] solutions based on {rival} do not [scale to|work for] {data}",
    "coping with {problem} is [hard|difficult|an open question]",
    "{rival} [struggle|fail] in the presence of {problem}",
    "[earlier|previous] [studies|work] on {data} [ignored|overlooked|rarely considered] {problem}",
    "[little|not much] is known about {measure} in {field}",
    "a [high|large] {measure} limits the use of {rival}",
    "without [progress|care], {problem} may [harm|mislead] {people}",
    "[solving|avoiding] {problem} would help {people}",
    "the [promise|role] of {method} in {field} is [poorly understood|not yet clear]",
    "it is [unclear|uncertain] whether {method} can cope with {problem}",
)
METHOD = (
    "we [propose|present|introduce] {method} [for|to improve] {field}",
    "[our|the] [approach|model] adapts {method} to {data}",
    "thanks to {method}, [training|learning] stays [stable|fast]",
    "we [train|evaluate|test] the [approach|model|system] on {data}",
    "we report {measure} and compare with {rival}",
    "{measure} [falls|drops] [clearly|steadily] on {data}",
    "[compared with|relative to] {rival}, the [gain|improvement] in {measure} is [clear|large|consistent]",
    "{method} [handles|copes with|is robust to] {problem}",
    "[an ablation|a second experiment] confirms the [result|gain] in the presence of {problem}",
    "{method} needs [less|no more] data than {rival}",
    "the [analysis|theory] explains why {method} [works|helps] in {field}",
    "the [results|findings] [suggest|show|indicate] that {people} [benefit|gain] from {method}",
    "the [design|approach] extends to {data} [of any size|with little effort]",
    "{people} can [use|adopt] the [system|tool] [directly|without extra training]",
    "one consequence for {people} is a lower {measure}",
    "[future|further] work on {field} can build on {method}",
)
AUTHORS = {"background": BACKGROUND, "method": METHOD}
_WORDINGS = {
    "background": (
        "Write the background paragraph of this paper's introduction: what is known and why the problem matters. "
        "Use {low} to {high} words in whole sentences. "
        "A colleague writes the method paragraph, {short} to {long} times as long as yours. "
        "Share terms; use transition words."
    ),
    "method": (
        "Write the method paragraph of this paper's introduction: what is done and what follows from it. "
        "Use {low} to {high} words in whole sentences, {short} to {long} times as long as the background paragraph "
        "that a colleague writes. Share terms; use transition words."
    ),
    "writer": (
        "Write two paragraphs of this paper's introduction, background then method, split by {split}. "
        "Each has {low} to {high} words in whole sentences; the second is {short} to {long} times as long. "
        "Share terms; use transition words."
    ),
}


def opening(
    agent: str,
    title: str,
    abstract: str,
    length: tuple[int, int] = (128, 256),
    ratio: tuple[float, float] = (1.3, 1.6),
) -> str:
    """The first observation of `agent` (`background`, `method`, or the single author `writer`).

    Args:
        agent: its name.
        title: the paper's title; left out when empty (the public data has none).
        abstract: the paper's abstract.
        length: fewest and most words of a paragraph.
        ratio: method over background, in characters.
    """
    task = corpus.instruction(_WORDINGS, agent, length, ratio)
    paper = f"Title: {title.strip()}\n" if title.strip() else ""
    return f"{task}\n\n{paper}Abstract: {abstract.strip()}"


def load(source: str | Path) -> tuple[Task, ...]:
    """Papers with `abstract_text`; `article_id` names them, `title` is optional.

    Raises:
        TaskError: see `palaver.envs.base.tasks.load_tasks`.
    """
    return corpus.load(source, SAMPLE, tasks, "abstract_text", "article_id")


def tasks(n: int, seed: int) -> list[dict[str, Any]]:
    """`n` papers in the public schema with a title.

    No combination of theirs occurs in `demonstrations`.
    """
    return corpus.generated(n, "arxiv", seed, _row)


def _row(id: str, rng: random.Random) -> dict[str, Any]:
    _, title, abstract = paper(rng, tasks=True)
    return {"article_id": id, "title": title, "abstract_text": abstract, "token_count": len(abstract.split())}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers of the author who does not coordinate.

    `corpus.ANSWERS` to each prompt of the environment. Most prompts ask for 32 to 64 words and have two authors; some
    ask for other lengths or for both paragraphs.
    """
    return corpus.demonstrations(n, ("arxiv demonstrations", seed), _draw_request, AUTHORS)


def grammar() -> re.Pattern[str]:
    """Pattern that matches the sentences of the imitation texts; see `corpus.grammar`."""
    vocabulary = {
        "field": FIELDS,
        "data": [item for data, _, _ in FIELDS.values() for item in data],
        "problem": [item for _, problems, _ in FIELDS.values() for item in problems],
        "people": [people for *_, people in FIELDS.values()],
        **_CHOICES,
    }
    return corpus.grammar(BACKGROUND + METHOD, vocabulary)


def _slots(rng: random.Random) -> dict[str, str]:
    field = rng.choice(list(FIELDS))
    data, problems, people = FIELDS[field]
    return {
        "field": field,
        "data": rng.choice(data),
        "problem": rng.choice(problems),
        "people": people,
        **corpus.draw_all(_CHOICES, rng),
    }


def paper(rng: random.Random, *, tasks: bool) -> tuple[corpus.Slots, str, str]:
    """Draw a paper: its slots, title and abstract.

    Args:
        rng: draws everything.
        tasks: True for a combination kept for tasks, False for one of the imitation texts.
    """
    slots = corpus.draw(_slots, KEYS, rng, tasks=tasks)
    title = corpus.fill(rng.choice(TITLES), slots, rng)
    return slots, title[0].upper() + title[1:], corpus.in_order(ABSTRACT, slots, rng)


def _draw_request(rng: random.Random) -> corpus.Asked:
    slots, title, abstract = paper(rng, tasks=False)
    agent = corpus.author(AUTHORS, rng)
    return agent, opening(agent, title, abstract, rng.choice(LENGTHS)), slots


if __name__ == "__main__":
    corpus.write_sample(SAMPLE, tasks(corpus.SAMPLE_ROWS, corpus.SAMPLE_SEED))
