"""Synthetic posts: small troubles from a grammar of our own, and summaries to imitate.

python -m palaver.envs.writing.tldr.corpus    rewrites sample.jsonl

As for the papers (`palaver.envs.writing.arxiv.corpus`), the author of the imitation texts knows the post and the role
but not what the other author does: lengths and transitions are left to chance.
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
KEYS = ("who", "deed", "since", "tried", "option")
LENGTHS = ((8, 256),) * 4 + ((8, 64), (16, 64), (8, 48), (16, 128))

PEOPLE = {
    "roommate": "relationships",
    "landlord": "legaladvice",
    "manager": "jobs",
    "neighbour": "advice",
    "sister": "family",
    "brother": "family",
    "cousin": "family",
    "classmate": "college",
    "coach": "sports",
    "uncle": "family",
    "girlfriend": "relationships",
    "boyfriend": "relationships",
    "colleague": "jobs",
    "supervisor": "college",
    "husband": "relationships",
    "wife": "relationships",
    "flatmate": "advice",
    "grandmother": "family",
    "tutor": "college",
    "best friend": "relationships",
}
DEEDS = (
    "borrowing my bicycle",
    "reading my messages",
    "telling lies about me",
    "forgetting my birthday",
    "cancelling our plans",
    "feeding my dog chocolate",
    "parking in my space",
    "copying my notes",
    "ignoring my calls",
    "eating my lunch",
    "playing loud drums at night",
    "inviting strangers home",
    "criticising my cooking",
    "losing my keys",
    "wearing my jackets",
    "asking for cash",
    "blaming me for mistakes",
    "sharing private photographs",
    "leaving rubbish everywhere",
    "mocking my accent",
    "breaking promises",
    "checking my email",
    "hiding the bills",
    "shouting during games",
)
TIMES = (
    "last summer",
    "the wedding",
    "Christmas",
    "the first week of term",
    "early spring",
    "the move",
    "the funeral",
    "my promotion",
    "the holiday in Spain",
    "the flood",
    "October",
    "the new contract",
)
PLACES = (
    "at the airport",
    "in the kitchen",
    "on the train",
    "outside the library",
    "at a restaurant",
    "in the garage",
    "at the gym",
    "in front of my parents",
    "behind the office",
    "at the supermarket",
    "in the garden",
    "on the phone",
)
TRIED = (
    "writing a long letter",
    "talking calmly",
    "offering money",
    "setting clear rules",
    "staying silent",
    "making jokes",
    "drawing up a schedule",
    "seeing a counsellor",
    "locking my door",
    "changing the subject",
)
FEARS = (
    "ruining the friendship",
    "paying a penalty",
    "upsetting everyone",
    "being alone",
    "missing the deadline",
    "starting another argument",
    "looking selfish",
    "regretting it later",
    "wasting more energy",
    "losing respect",
)
OPTIONS = (
    "move out",
    "call a lawyer",
    "apologise first",
    "cut contact",
    "wait until winter",
    "demand compensation",
    "find a mediator",
    "tell the whole story",
    "forgive and forget",
    "set an ultimatum",
    "change jobs",
    "buy a second one",
)
FEELINGS = ("angry", "exhausted", "guilty", "confused", "lonely", "nervous", "helpless", "jealous")
_CHOICES = {
    "who": tuple(PEOPLE),
    "deed": DEEDS,
    "since": TIMES,
    "place": PLACES,
    "tried": TRIED,
    "fear": FEARS,
    "option": OPTIONS,
    "feeling": FEELINGS,
}

POST = (
    (
        "I have known my {who} for [many years|a long time] and we [usually get along|rarely disagree]",
        "my {who} and I [used to|still] spend a lot of time together",
    ),
    (
        "[sadly|recently], my {who} keeps {deed}, and it has been [going on|getting worse] since {since}",
        "since {since}, my {who} keeps {deed} [almost every day|whenever I look away]",
    ),
    ("it [started|began] {place}, and I [said nothing|did not mind] at first", "the [first|worst] time was {place}"),
    ("I have tried {tried}, but nothing changed", "[twice|so far] I tried {tried} without success"),
    (
        "[yesterday|last night] it happened again and I [lost my temper|almost cried]",
        "[yesterday|last night] we had a loud argument about it",
    ),
    ("now I feel {feeling} and [cannot sleep|cannot think clearly]", "it makes me {feeling}, which is [new|hard]"),
    ("what worries me is {fear}", "I am [afraid of|scared of] {fear}"),
    ("my friends [say|think] that I should {option}", "part of me wants to {option}"),
    ("what would you do?", "am I wrong?", "is there a better way?"),
)
TITLES = (
    "My {who} keeps {deed}",
    "Should I {option} because of my {who}?",
    "Feeling {feeling} since {since}, is it fair to {option}?",
    "How do I stop my {who} from {deed}?",
)
CONCISE = (
    "my {who} keeps {deed}",
    "since {since}, my {who} [has changed|is a problem]",
    "it [started|began] {place}",
    "I feel {feeling} because my {who} keeps {deed}",
    "{tried} did not [help|work]",
    "I [fear|dread] {fear}",
    "my friends [say|think] I should {option}",
    "I [wonder|am asking] whether to {option}",
)
DETAILED = (
    "before {since}, my {who} was [kind|fun] and we [got along|rarely disagreed]",
    "my {who} keeps {deed} [and will not stop|without any reason]",
    "the [trouble|conflict] has [lasted|grown] since {since}",
    "it [started|began] {place}, where I [said nothing|kept quiet]",
    "the scene {place} [hurt|surprised] me [badly|most]",
    "I tried {tried}, [but nothing changed|without success]",
    "[yesterday|last night] it happened again and we had [an argument|a fight]",
    "[nobody|no one] noticed that my {who} kept {deed}",
    "I feel {feeling} and [cannot sleep|cannot think clearly]",
    "it is [hard|painful] to be {feeling} about my {who}",
    "I am [afraid of|scared of] {fear}",
    "my friends [say|think] that I should {option}",
    "[part of me|some days I] would rather {option} than keep {tried}",
    "{fear} [seems|looks] [possible|likely] if I {option}",
    "I [wonder|am asking] whether to {option} [soon|now]",
    "I [want|need] an honest opinion about my {who}",
)
AUTHORS = {"concise": CONCISE, "detailed": DETAILED}
_WORDINGS = {
    "concise": (
        "Summarise this post briefly, in {low} to {high} words and whole sentences: only the point. "
        "A colleague writes a detailed summary, {short} to {long} times as long as yours. Share its terms."
    ),
    "detailed": (
        "Summarise this post in detail, in {low} to {high} words and whole sentences, {short} to {long} times "
        "as long as the brief summary that a colleague writes, with {unique} times as many different words. "
        "Use transition words."
    ),
    "writer": (
        "Write two summaries of this post, a brief and a detailed one, split by {split}. "
        "Each has {low} to {high} words in whole sentences; the second is {short} to {long} times as long, "
        "with {unique} times as many different words and transition words."
    ),
}


def opening(
    agent: str,
    post: str,
    length: tuple[int, int] = (8, 256),
    ratio: tuple[float, float] = (1.6, 3.2),
    unique: float = 2.0,
) -> str:
    """The first observation of `agent` (`concise`, `detailed`, or the single author `writer`).

    Args:
        agent: its name.
        post: the post with its headings, as in the public data (field `prompt`).
        length: fewest and most words of a summary.
        ratio: detailed over concise, in characters.
        unique: different words of the detailed summary over those of the concise one.
    """
    return f"{corpus.instruction(_WORDINGS, agent, length, ratio, unique)}\n\n{post.strip()}"


def load(source: str | Path) -> tuple[Task, ...]:
    """Posts in `prompt`; `id` names them where there is one (the public data has none).

    Raises:
        TaskError: see `palaver.envs.base.tasks.load_tasks`.
    """
    return corpus.load(source, SAMPLE, tasks, "prompt")


def tasks(n: int, seed: int) -> list[dict[str, Any]]:
    """`n` posts in the public schema; no combination of theirs occurs in `demonstrations`."""
    return corpus.generated(n, "tldr", seed, _row)


def _row(id: str, rng: random.Random) -> dict[str, Any]:
    slots = corpus.draw(_slots, KEYS, rng, tasks=True)
    return {"id": id, "prompt": _post(slots, rng), "completion": " " + corpus.passage(CONCISE, slots, 2, rng)}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers of the author who does not coordinate.

    `corpus.ANSWERS` to each of the environment's prompts.
    """
    return corpus.demonstrations(n, ("tldr demonstrations", seed), _draw_request, AUTHORS)


def grammar() -> re.Pattern[str]:
    """Pattern that matches the sentences of the imitation texts; see `corpus.grammar`."""
    return corpus.grammar(CONCISE + DETAILED, _CHOICES)


def _slots(rng: random.Random) -> dict[str, str]:
    slots = corpus.draw_all(_CHOICES, rng)
    return {**slots, "sub": PEOPLE[slots["who"]]}


def _post(slots: corpus.Slots, rng: random.Random) -> str:
    title = corpus.fill(rng.choice(TITLES), slots, rng)
    body = corpus.in_order(POST, slots, rng)
    return f"SUBREDDIT: r/{slots['sub']}\n\nTITLE: {title}\n\nPOST: {body}\n\nTL;DR:"


def _draw_request(rng: random.Random) -> corpus.Asked:
    slots = corpus.draw(_slots, KEYS, rng, tasks=False)
    agent = corpus.author(AUTHORS, rng)
    return agent, opening(agent, _post(slots, rng), rng.choice(LENGTHS)), slots


if __name__ == "__main__":
    corpus.write_sample(SAMPLE, tasks(corpus.SAMPLE_ROWS, corpus.SAMPLE_SEED))
