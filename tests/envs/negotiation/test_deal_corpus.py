"""Texts of deal-or-no-deal and of the price: what they restate is as the prompt has it, in proposals that fit."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from palaver.envs.negotiation import deal_corpus, price_corpus
from palaver.envs.negotiation.deal_or_no_deal import REQUEST, taken
from palaver.envs.negotiation.price import offer

COUNTS = re.compile(r"There are (\d+) books?, (\d+) hats? and (\d+) balls?\.")
OWN = re.compile(r"To you a book is worth (\d+), a hat (\d+), a ball (\d+)\.")
OTHER = re.compile(r"^The other: Books (\d+), Hats (\d+), Balls (\d+)\.$", re.M)
KIND = re.compile(r"(book|hat|ball) (\d+) (\d+|none) (over|under|even|alone)(take|leave) (\w+)s (\d+)")
LIMIT = re.compile(r"The item (?:costs|is worth) (\d+) to you")
OFFERS = re.compile(r"The last offer of the \w+: (\d+|none)\.$")


@pytest.mark.parametrize("corpus", [deal_corpus, price_corpus])
def test_demonstrations_depend_on_the_seed_alone(corpus):
    texts = corpus.demonstrations(50, 3)
    assert corpus.demonstrations(20, 3) == texts[:20]
    assert corpus.demonstrations(50, 4) != texts


def test_a_deal_restates_the_prompt_and_takes_all_of_a_kind_or_none():
    seen = Counter()
    for (message,), answer in deal_corpus.demonstrations(4000, 0):
        counts, own = (list(map(int, pattern.findall(message.content)[0])) for pattern in (COUNTS, OWN))
        if REQUEST not in message.content:
            assert answer == "Books {}, Hats {}, Balls {}.".format(*own)
            seen["message"] += 1
            continue
        others = OTHER.findall(message.content)
        shown, items = KIND.findall(answer), taken(answer, counts)
        assert [kind for kind, *_ in shown] == ["book", "hat", "ball"]
        for n, (kind, mine, theirs, word, choice, kinds, item) in enumerate(shown):
            assert kind == kinds
            assert int(mine) == own[n]
            assert theirs == (others[0][n] if others else "none")
            expected = (
                "alone" if not others else ("even", "over", "under")[(own[n] > int(theirs)) - (own[n] < int(theirs))]
            )
            assert word == expected
            assert int(item) == items[n]
            assert items[n] == (counts[n] if choice == "take" else 0)
            seen[word, choice] += 1
        assert answer == " ".join("{} {} {} {}{} {}s {}".format(*row) for row in shown) + ": " + written(items)
    for word in ("over", "under", "even", "alone"):
        share = seen[word, "take"] / (seen[word, "take"] + seen[word, "leave"])
        assert share == pytest.approx(0.5, abs=0.08), "no text prefers a choice"
    assert seen["message"] > 400


def written(items):
    return "<take> books={} hats={} balls={} </take>".format(*items)


def test_a_price_restates_the_prompt_and_each_choice_occurs_in_each_situation():
    seen = defaultdict(set)
    for (message,), answer in price_corpus.demonstrations(12000, 0):
        seller = message.content.startswith("You are the seller.")
        limit, (shown,) = int(LIMIT.findall(message.content)[0]), OFFERS.findall(message.content)
        mine, theirs, word, choice, named, *rest = answer.replace(":", "").split()
        assert (int(mine), theirs) == (limit, shown)
        assert rest == ["<price>", named, "</price>"]
        assert offer(answer) == int(named)
        if shown == "none":
            assert word == "none"
        else:
            gain = int(shown) - limit if seller else limit - int(shown)
            low, high = {"loss": (-999, 0), "thin": (0, 10), "fair": (10, 20), "good": (20, 999)}[word]
            assert low <= gain < high
        expected = {"accept": shown, **{c: str(limit + (m if seller else -m)) for c, m in price_corpus.MARGINS.items()}}
        assert named == (expected[choice] if not expected[choice].startswith("-") else "0")
        seen[seller, "message 1" in message.content, word].add(choice)
    for (seller, first, word), choices in seen.items():
        assert choices == {*price_corpus.MARGINS, *(() if word == "none" else ("accept",))}, (seller, first, word)
    assert len(seen) == 16, "the seller has no offer of the buyer at first; else each comparison, and a silent other"
