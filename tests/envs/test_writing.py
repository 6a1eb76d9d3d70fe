"""What the writing environments are made of: counting, the lexicon, splitting, the metrics, prompts, bad keywords."""

from __future__ import annotations

import importlib
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import palaver
from palaver.core import ConfigError, Message
from palaver.envs.writing import text
from palaver.envs.writing.arxiv import corpus as arxiv_prompts
from palaver.envs.writing.text import SPLIT, Lexicon, lexicon, paragraphs, stop_list, stopwords, transitions
from palaver.envs.writing.tldr import corpus as tldr_prompts
from palaver.registry import resolve

IDS = ["arxiv-v0", "tldr-v0"]


def test_words_and_sentences():
    assert text.words("Don't stop, état-major_2!") == ["don", "t", "stop", "état", "major_2"]
    assert text.sentences("One.Two. Three?! Four\nfive... \n. 3.5 m") == ["one two", "three", "four", "five", "3 5 m"]
    assert text.sentences("Rain... and?!. Sun") == ["rain", "and", "sun"]
    assert text.jaccard({"a", "b"}, {"b", "c"}) == pytest.approx(1 / 3)
    assert text.jaccard(set(), set()) == 1.0
    assert text.jaccard({"a"}, set()) == 0.0


def said(*texts):
    return [text.sentences(each) for each in texts]


def test_repeated_share_counts_within_each_text():
    # text 1: a, b, a; text 2: a — one of four was said before in the same text
    assert text.repeated_share(said("A. B. a!", "A.")) == 1 / 4
    assert text.repeated_share(said("", "...")) == 0.0
    assert text.repeated_share(said("A. A. A. A.")) == 3 / 4


def test_off_topic_share():
    topic = text.topic_words("The Rivers carry sand to the sea", stop_list())
    assert topic == {"river", "carry", "sand"}  # "sea" is too short, "the" and "to" are stop words
    assert text.off_topic_share(said("A river is wide. It is nice."), topic) == 1 / 2
    assert text.off_topic_share(said("The sea.", "Sands! Carry on."), topic) == 1 / 3
    assert text.off_topic_share(said(""), topic) == 0.0


def test_ill_formed_share():
    grammar = re.compile("(?:however )?(?:cats|dogs) sleep")
    assert text.ill_formed_share(said("Cats sleep. However, dogs sleep!", "Sleep cats."), grammar) == 1 / 3
    assert text.ill_formed_share(said("Cats sleep soundly."), grammar) == 1.0
    assert text.ill_formed_share(said(""), grammar) == 0.0


def test_the_lexicon_has_twelve_disjoint_kinds_of_ten_expressions():
    kinds = transitions().kinds
    assert len(kinds) == 12
    expressions = [e for group in kinds.values() for e in group]
    assert len(expressions) == len(set(expressions)) >= 120
    assert all(e == " ".join(e.lower().split()) for e in expressions)


def test_word_match_knows_word_ends_and_line_breaks():
    found = transitions().matching_kinds
    assert found(["as a\n result"], "word") == {"cause"}
    assert found(["As-a-result; sonata"], "word") == frozenset()
    assert found(["SO!"], "word") == {"cause"}
    assert found(["_so_"], "word") == frozenset()
    assert "cause" in found(["_so_"], "substring")


def test_lexicon_and_stopwords_from_files(tmp_path, scored):
    path = tmp_path / "lexicon.json"
    path.write_text(json.dumps({"joy": ["Hurray"]}))
    assert lexicon(str(path)).kinds == {"joy": ("hurray",)}
    words = tmp_path / "stop.yaml"
    words.write_text("[Alpha, beta]")
    assert stopwords(str(words)) == {"alpha", "beta"}
    info = scored("tldr-v0", "alpha gamma", "beta gamma hurray", lexicon=str(path), stopwords=str(words))
    assert info["metrics"]["jaccard"] == 1 / 2  # {gamma} and {gamma, hurray}
    assert info["metrics"]["transition_kinds"] == 1.0


def test_lexicons_are_shared_by_forks():
    env = palaver.make("arxiv-v0")
    env.reset(seed=0)
    assert env.fork().rubric is env.rubric
    assert lexicon(Lexicon({"a": ("b",)})).kinds == {"a": ("b",)}


@pytest.mark.parametrize(
    ("said", "first", "second"),
    [
        ("one [PARAGRAPH_SPLIT] two [PARAGRAPH_SPLIT] three", "one", "two [PARAGRAPH_SPLIT] three"),
        ("Paragraph 1: one\n[PARAGRAPH_SPLIT]\nparagraph 2:  two", "one", "two"),
        ("Paragraph 1: one\nPARAGRAPH 2: two", "one", "two"),
        ("abcdefghij", "abc", "defghij"),
        ("ab", "a", "b"),
        ("a", "a", ""),
        ("  ", "", ""),
        ("[PARAGRAPH_SPLIT]", "", ""),
    ],
)
def test_paragraphs(said, first, second):
    assert paragraphs(said) == (first, second)


@pytest.mark.parametrize("id", IDS)
def test_one_author_is_paid_like_two(id, write, scored):
    first = write(200, 100, 1000) if id == "arxiv-v0" else write(20, 10, 200)
    second = write(180, 100, 1400) if id == "arxiv-v0" else write(40, 20, 400)
    two = scored(id, first, second)
    one = scored(id, f"{first}\n[PARAGRAPH_SPLIT]\n{second}", None, agents=1)
    assert one["reward_components"] == two["reward_components"]
    assert one["metrics"].pop("marker") == 1.0
    assert one["metrics"] == two["metrics"]
    assert scored(id, first, None, agents=1)["metrics"]["marker"] == 0.0


def test_metrics(scored):
    first = "Rivers carry sand. Rivers carry sand. Nobody cares."
    metrics = scored("arxiv-v0", first, "Sand moves. However, who knows?", length=[1, 9])["metrics"]
    assert metrics == pytest.approx(
        {
            "words_background": 8.0,
            "words_method": 5.0,
            "characters_ratio": 31 / 51,
            "unique_ratio": 5 / 5,  # rivers carry sand nobody cares; sand moves however who knows
            "jaccard": 1 / 8,  # "who" is a stop word: 5 + 4 − 1
            "transition_kinds": 1.0,
            "repeated_sentence_share": 1 / 5,
            "off_topic_share": 2 / 5,
            "gated_total": 0.5,  # both in 1..9, ρ below 0.8
            "ungated_total": 0.5 + 0 + 0.5 + 0.16 + 0.6 * (1 / 8) / 0.23,
            "illegal": 0.0,
        }
    )


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("agents", 3),
        ("agents", True),
        ("length", [9, 4]),
        ("length", [1.5, 4]),
        ("length", [-1, 4]),
        ("length", 7),
        ("length", [1, 10**400]),
        ("ratio_limits", [10**400, 10**400]),
        ("transition_base", 10**400),
        ("transition_base", float("inf")),
        ("transition_step", float("inf")),
        ("jaccard_cap", 10**400),
        ("weights", {"length": 10**400}),
        ("weights", {"length": 1e308, "ratio": 1e308}),
        ("lexicon", "a\0b"),
        ("stopwords", "x" * 5000),
        ("length", "ab"),
        ("ratio", [1.0]),
        ("ratio", [0.1, 1.9]),
        ("ratio_limits", [1.5, 1.5]),
        ("unique", ["a", "b"]),
        ("unique_limits", [3, 4]),
        ("transition_base", -1),
        ("transition_step", float("nan")),
        ("jaccard_cap", 0),
        ("jaccard_cap", 1.1),
        ("weights", {"lenght": 1.0}),
        ("weights", {"length": float("inf")}),
        ("weights", [1, 2]),
        ("lexicon", {}),
        ("lexicon", {"a": []}),
        ("lexicon", {"a": "word"}),
        ("lexicon", {"a": [1]}),
        ("lexicon", "/no/such/file.yaml"),
        ("stopwords", "/no/such/file.yaml"),
        ("stopwords", [True]),
        ("match", "regex"),
        ("transitions_in", "first"),
        ("gated", "yes"),
        ("ending", None),
        ("tasks", "/no/such/file.jsonl"),
    ],
)
def test_bad_keywords_are_named_in_one_line(id, keyword, value):
    with pytest.raises(palaver.PalaverError) as caught:
        palaver.make(id, **{keyword: value})
    message = str(caught.value)
    assert "\n" not in message
    assert keyword == "tasks" or message.startswith(keyword)


def test_a_misspelt_weight_gets_a_hint():
    with pytest.raises(ConfigError, match="Did you mean 'length'"):
        palaver.make("arxiv-v0", weights={"lenght": 1.0})


@settings(max_examples=60, deadline=None)
@given(first=st.text(max_size=300), second=st.text(max_size=300))
def test_any_two_texts_are_scored(first, second):
    for id in IDS:
        for match in ("substring", "word"):
            parts = ENVS[id, match].fork()
            parts.reset(seed=0)
            *_, infos = parts.step(dict(zip(parts.possible_agents, (first, second), strict=True)))
            metrics = infos[parts.possible_agents[0]]["metrics"]
            assert 0.0 <= metrics["gated_total"] <= metrics["ungated_total"] + 1e-12 <= 2.98 + 1e-9
            assert 0.0 <= metrics["repeated_sentence_share"] < 1.0
            assert 0.0 <= metrics["off_topic_share"] <= 1.0


ENVS = {(id, match): palaver.make(id, match=match, length=[1, 30]) for id in IDS for match in ("substring", "word")}
SEATS = [
    *((arxiv_prompts.opening, seat, ("T", "A. B.")) for seat in ("background", "method", "writer")),
    *((tldr_prompts.opening, seat, ("POST: x",)) for seat in ("concise", "detailed", "writer")),
]


@pytest.mark.parametrize(("opening", "seat", "given"), SEATS)
def test_prompts_are_short_and_state_the_numbers(opening, seat, given):
    task, _, material = opening(seat, *given, length=(32, 64), ratio=(1.25, 1.5)).partition("\n\n")
    assert len(task.split()) <= 45
    assert "32 to 64 words" in task
    assert "1.25 to 1.5 times" in task
    assert ("[PARAGRAPH_SPLIT]" in task) == (seat == "writer")
    assert material in ("Title: T\nAbstract: A. B.", "POST: x")


def test_a_title_is_optional():
    assert "Title" not in arxiv_prompts.opening("method", " ", "An abstract.")


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("kwargs", [{}, {"agents": 1}, {"match": "word", "ending": "."}], ids=str)
def test_the_reference_scores_well_and_lazy_does_not(id, kwargs):
    env = palaver.make(id, **kwargs)
    for name, low, high in (("reference", 2.5, 3.0), ("lazy", 0.0, 0.1)):
        policy = resolve(palaver.spec(id).scripted[name])
        for index in range(min(64, len(env.tasks))):
            observations, _ = env.reset(options={"task": index})
            conversations = {agent: (Message("user", seen),) for agent, seen in observations.items()}
            said = {agent: policy(conversation, index) for agent, conversation in conversations.items()}
            assert said == {agent: policy(conversation, index) for agent, conversation in conversations.items()}
            _, rewards, _, _, infos = env.step(said)
            assert low <= next(iter(rewards.values())) <= high
            if name == "reference":
                metrics = next(iter(infos.values()))["metrics"]
                assert metrics["repeated_sentence_share"] == 0.0
                assert metrics["off_topic_share"] <= 0.1


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize(("gated", "overlap"), [(True, 0.0), (False, 0.6)])
def test_silence_is_paid_as_the_page_says(id, gated, overlap, scored):
    parts = scored(id, "", "", gated=gated)["reward_components"]
    assert parts == {"length": 0.0, "ratio": 0.0, "unique": 0.0, "transitions": 0.0, "overlap": pytest.approx(overlap)}


@pytest.mark.parametrize("id", IDS)
def test_grammar_measures_and_does_not_pay(id):
    corpus = importlib.import_module(f"palaver.envs.writing.{id.removesuffix('-v0')}.corpus")
    env, plain = palaver.make(id, grammar="sample"), palaver.make(id)
    said = next(answer for _, answer in corpus.demonstrations(40, 5) if SPLIT not in answer)
    texts = dict(zip(env.possible_agents, (said, f"{said} Sleep furiously ideas."), strict=True))
    count = 2 * len(text.sentences(said)) + 1
    found = {}
    for each in (env, plain):
        each.reset(options={"task": 0})
        _, rewards, _, _, infos = each.step(texts)
        found[each] = rewards, next(iter(infos.values()))["metrics"]
    assert found[env][0] == found[plain][0]
    assert found[env][1].pop("ill_formed_share") == pytest.approx(1 / count)
    assert found[env][1] == found[plain][1]
    with pytest.raises(ConfigError, match="grammar must be"):
        palaver.make(id, grammar="English")


def test_the_reference_survives_other_conversations():
    for id in IDS:
        policy = resolve(palaver.spec(id).scripted["reference"])
        for said in ("", "{0}\n\n\ud800", "1.2.3 to 4 times", "... to . times", "1 to . words"):
            assert re.search(r"\w", policy((Message("user", said),), 0))
        for conversation in ((), (Message("assistant", "1 to 2 words"),)):
            assert re.search(r"\w", policy(conversation, 0))
