"""Hidden profiles: the four rules, votes, rewards by hand, the schema of HiddenBench, and the scripted groups."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter

import pytest

import palaver
from palaver.core import ConfigError, Message, PalaverWarning, TaskError
from palaver.envs.hidden_profile import corpus, guesses, reference
from palaver.envs.hidden_profile.generate import HiddenProfile, design_faults, draw, favoured, generate
from palaver.envs.hidden_profile.reward import has_majority, mentioned, vote_of, vote_rewards

ROW = {
    "name": "bridge", "description": "Where to build?", "shared_information": ["Site A is near.", "Site A is cheap."],
    "hidden_information": ["Site B is firm.", "Site B is dry.", "Site B is wide."],
    "possible_answers": ["Site A", "Site B", "Site C"], "correct_answer": "Site B",
}  # fmt: skip


def play(env, said, task=0):
    """`said(agent, conversation)` gives each text; returns the sums of rewards and the last infos."""
    observations, infos = env.reset(seed=1, options={"task": task})
    conversations, totals = dict.fromkeys(env.agents, ()), dict.fromkeys(env.agents, 0.0)
    while env.agents:
        conversations = {agent: (*past, Message("user", observations[agent])) for agent, past in conversations.items()}
        texts = {agent: said(agent, past) for agent, past in conversations.items()}
        conversations = {agent: (*past, Message("assistant", texts[agent])) for agent, past in conversations.items()}
        observations, rewards, *_, infos = env.step(texts)
        totals = {agent: totals[agent] + reward for agent, reward in rewards.items()}
    return totals, next(iter(infos.values()))["metrics"]


def facts(options, points):
    """`points` different facts for each option."""
    return tuple((option, f"{option}{n}") for option, count in zip(options, points, strict=True) for n in range(count))


def test_the_option_with_most_points():
    assert favoured(facts("abc", (2, 1, 0)), "abc") == "a"
    assert favoured(facts("abc", (2, 2, 0)), "abc") is None
    assert favoured((), "ab") is None
    assert favoured([("a", "x")] * 3 + [("b", "x"), ("b", "y")], "ab") == "b"  # a fact counts once


@pytest.mark.parametrize(
    ("shared", "hidden", "fault"),
    [
        ((2, 0, 1), ("b0", "b1", "b2"), None),
        ((1, 1, 1), ("b0", "b1", "b2"), "do not favour a decoy"),
        ((1, 0, 0), ("b0", "b1", "b2"), "enough to doubt"),
        ((3, 0, 1), ("b0", "b1", "b2"), "do not favour the right answer"),
        ((2, 0, 1), ("b0", "b1", "b2", "b3"), "is not needed"),
    ],
)
def test_each_rule_is_checked(shared, hidden, fault):
    """Points of decoy a, right answer b and other c; each fault breaks its rule, perhaps with others."""
    profile = HiddenProfile(tuple("abc"), "a", "b", facts("abc", shared), tuple(("b", f"h{name}") for name in hidden))
    found = design_faults(profile)
    assert found == [] if fault is None else any(fault in each for each in found)


@pytest.mark.parametrize("tiny", [False, True])
@pytest.mark.parametrize("participants", [3, 4, 5, 16])
def test_generated_profiles_are_hidden(participants, tiny):
    """The rules again, counted here by points and not by the generator's own check."""
    for seed in range(20):
        _, profile = draw(random.Random(seed), participants, tiny=tiny, sample=seed % 2 == 0)

        def points(some, profile=profile):
            held = {*profile.shared, *some}
            return {option: sum(o == option for o, _ in held) for option in profile.options}

        qualities = [quality for _, quality in (*profile.shared, *profile.hidden)]
        assert not tiny or participants > 8 or len({*qualities}) == len(qualities)
        for n in range(participants + 1) if participants < 16 else (0, 1, 15, 16):
            for some in itertools.combinations(profile.hidden, n):
                table = points(some)
                others = [count for option, count in table.items() if option != profile.right]
                assert (table[profile.right] > max(others)) == (n == participants)
                if n <= 1:
                    assert all(table[profile.decoy] > c for o, c in table.items() if o != profile.decoy)
        # alone the right answer looks like every other option but the decoy
        alone = points(profile.hidden[:1])
        assert {count for option, count in alone.items() if option != profile.decoy} == {1}
        assert len({*profile.shared, *profile.hidden}) == len(profile.shared) + participants


@pytest.mark.parametrize("tiny", [False, True])
def test_sets_of_options_of_the_sample_are_in_no_other_task(tiny):
    """Counted here from the texts of the rows; a set and its decoy do not give the right answer away."""
    sample, others = (generate(4000, seed, participants=3, tiny=tiny) for seed in (0, 5))
    sets = [{tuple(row["possible_answers"]) for row in rows} for rows in (sample, others)]
    assert not sets[0] & sets[1]
    assert [len(each) for each in sets] == ([5, 15] if tiny else [12, 48])
    for rows in (sample, others):
        right = {}
        for row in rows:
            right.setdefault((*row["possible_answers"], row["decoy"]), set()).add(row["correct_answer"])
        assert len(min(right.values(), key=len)) > 1


def test_rows_are_reproducible_and_different():
    rows = generate(64, 0, participants=3, tiny=True)
    assert generate(10, 0, participants=3, tiny=True) == rows[:10]
    assert generate(10, 1, participants=3, tiny=True) != rows[:10]
    assert len({json.dumps(sorted(r["shared_information"] + r["hidden_information"])) for r in rows}) == 64


@pytest.mark.parametrize(
    ("text", "vote"),
    [
        ('{"vote": "Site B", "rationale": "Site A is far"}', "Site B"), ("SITE  b", None), ("site b!", "Site B"),
        ("not Site A but Site B", "Site A"), ("Site", None), ("", None), ('{"vote": 3}', None),
        ('["Site A"]', "Site A"),
        ("Sites A", None), ("[" * 9000, None), ("Site AB", None),
    ],
)  # fmt: skip
def test_votes(text, vote):
    assert vote_of(text, ["Site A", "Site B"]) == vote


def test_the_longer_of_two_names_is_read():
    assert vote_of("i choose a and b", ["A", "A and B"]) == "A and B"


def test_majority_is_more_than_half():
    assert has_majority(["x", "x", "y"], "x")
    assert not has_majority(["x", "y"], "x")
    assert not has_majority(["x", None, "y"], "x")
    assert vote_rewards({"p1": "x", "p2": "y", "p3": "x"}, "x") == {
        "p1": {"majority": 1, "own": 1}, "p2": {"majority": 1, "own": 0}, "p3": {"majority": 1, "own": 1},
    }  # fmt: skip


def test_mentioned_facts():
    assert mentioned(["Site B is firm.", "Site B is dry."], ["well, site b IS  firm, they say", "Site B is"]) == 0.5
    assert mentioned(["amber calm"], ["chamber calm"]) == 0


@pytest.fixture
def bridge(tmp_path):
    def make(*rows, **kwargs):
        path = tmp_path / "rows.json"
        path.write_text(json.dumps(list(rows or (ROW,))))
        return palaver.make("hidden-profile-v0", tasks=str(path), **kwargs)

    return make


def test_an_episode_by_hand(bridge):
    env = bridge(rounds=1, cost=0.01)
    script = {
        "p1": ["Site A", "Site B is firm.", "Site B"],
        "p2": ["Site A", "I like Site A", "Site B"],
        "p3": ["Site C", "", "Site A"],
    }
    totals, metrics = play(env, lambda agent, past: script[agent][len(past) // 2])
    assert totals == pytest.approx({"p1": 2 - 0.04, "p2": 2 - 0.04, "p3": 1})
    assert metrics == pytest.approx(
        {"initial": 0, "final": 2 / 3, "majority": 1, "mentioned": 1 / 3, "unanimous": 0, "decoy": 0, "illegal": 0}
    )


def test_what_is_observed(bridge):
    env = bridge(rounds=1)
    observations, _ = env.reset(seed=0)
    first = observations["p2"].splitlines()
    assert first[:2] == ["You are p2. Where to build?", "Options: Site A, Site B, Site C."]
    assert {line.partition(": ")[2] for line in first[2:5]} == {*ROW["shared_information"], "Site B is dry."}
    assert first[5] == "Vote for one option."
    observations, *_ = env.step({"p1": "Site A"})
    assert observations["p2"] == "Round 1 of 1. Say in one or two sentences what the others should know."
    observations, *_ = env.step({"p1": "Site B\nis firm.\np3: I lie", "p2": "hm"})
    assert observations["p2"] == "p1: Site B is firm. p3: I lie\np3: \nFinal vote: name one option."


def test_the_order_of_facts_does_not_give_the_hidden_one_away():
    """In 300 episodes the hidden fact is in each of four places about as often: 75, standard deviation 7.5."""
    env, places = palaver.make("hidden-profile-v0", form="tiny"), []
    for seed in range(300):
        observations, _ = env.reset(seed=seed, options={"task": 0})
        listed = observations["p1"].splitlines()[1].removeprefix("Facts: ").removesuffix(".").split(", ")
        places.append(listed.index(env.task["hidden_information"][0]))
    assert all(45 < places.count(n) < 105 for n in range(4))


@pytest.mark.parametrize("kwargs", [{}, {"form": "tiny"}, {"agents": 4, "rounds": 1}, {"profile": "full"}], ids=str)
def test_the_reference_is_always_right_and_the_alone_never(kwargs):
    env = palaver.make("hidden-profile-v0", **kwargs)
    full = kwargs.get("profile") == "full"
    for task in range(0, 64, 7):
        totals, metrics = play(env, lambda _, past: reference.reference(past, 0), task)
        assert set(totals.values()) == {2.0}
        assert metrics["final"] == metrics["majority"] == metrics["unanimous"] == 1
        assert metrics["mentioned"] == float(not full)
        if not full:
            assert metrics["initial"] == 0
            totals, metrics = play(env, lambda _, past: reference.alone(past, 0), task)
            assert set(totals.values()) == {0.0}
            assert metrics["decoy"] == 1


def test_rows_that_cannot_be_used(bridge):
    four = ROW | {"name": "four", "hidden_information": ["a", "b", "c", "d"]}
    odd = ROW | {"name": "odd", "correct_answer": "Site D"}
    with pytest.warns(PalaverWarning, match="2 of 3 rows left out"):
        env = bridge(ROW, four, odd)
    assert [task.id for task in env.tasks] == ["bridge"]
    with pytest.raises(TaskError, match="set agents=4"):
        bridge(four)
    assert len(bridge(four, agents=4).possible_agents) == 4
    assert bridge(ROW, four, profile="full").possible_agents == ["solver"]
    with pytest.raises(TaskError, match="must be a list of texts"):
        bridge(ROW | {"shared_information": [3]})


@pytest.mark.parametrize("kwargs", [{"agents": 2}, {"rounds": -1}, {"form": "x"}, {"profile": "x"}, {"cost": 2}])
def test_faulty_keywords(kwargs):
    with pytest.raises(ConfigError, match=next(iter(kwargs))):
        palaver.make("hidden-profile-v0", **kwargs)


@pytest.mark.parametrize("text", ["", "hello", "Options: .\nVote.", "Options: a, b.\nFinal vote."])
def test_scripted_participants_answer_anything(text):
    for rule in (reference.reference, reference.alone):
        assert isinstance(rule((Message("user", text),), 0), str)
        assert rule((), 0) == ""


def test_imitated_texts_hold_no_solution():
    """Every option is voted for alike, whatever others have said."""
    texts = corpus.demonstrations(4000, 0)
    noted, drilled, chosen, voted = 0, 0, Counter(), Counter()
    groups = [list(pairs) for _, pairs in itertools.groupby(texts, key=lambda text: text[0])]
    for pairs in groups[:-1]:  # the last may be cut
        conversation, given = pairs[0][0], [answer for _, answer in pairs]
        names = reference.options(conversation)
        if not names:
            drilled += 1
            continue
        read = reference.facts(names, [m.content for m in conversation if m.role == "user"])
        own = reference.facts(names, [conversation[0].content])
        if ": vote " in given[0]:
            notes, votes = zip(*(answer.removesuffix(".").split(": vote ") for answer in given), strict=True)
            assert len({*votes}) == len(votes) == corpus.VOTES
            fresh = [option[0].upper() for option, word in read if (option, word) not in own]
            assert {note.rpartition("; ")[2] for note in notes} == {f"fresh {next(iter(fresh), 'none')}"}
            if fresh:
                noted += 1
                chosen.update(vote[0].upper() == fresh[0] for vote in votes)
                voted.update(names.index(vote) for vote in votes)
        else:
            known = listed_facts(conversation[0].content)
            assert given in ([f"known {known[0]}, {known[1]}."], [f"known {known[2]}, {known[3]}."])
    assert noted > 150
    assert drilled > 800
    assert chosen[True] / chosen.total() == pytest.approx(1 / 3, abs=0.07)
    assert all(count / voted.total() == pytest.approx(1 / 3, abs=0.07) for count in voted.values())
    assert corpus.demonstrations(8, 0) == texts[:8]


def listed_facts(prompt):
    return next(line for line in prompt.splitlines() if line.startswith("Facts: "))[7:-1].split(", ")


def test_exercises_mark_and_name_facts_as_the_prompt_has_them():
    rng, marks, kinds = random.Random(0), Counter(), Counter()
    for _ in range(200):
        for (prompt,), answer in corpus.draw_drill(rng):
            own = listed_facts(prompt.content)
            parts = [part.split() for part in answer.partition(" ")[2][:-1].split(", ")]
            kind = prompt.content.splitlines()[-1]
            kinds[kind] += 1
            assert len(parts) == (6 if kind == "Name." else 8)
            if kind == "Name.":
                assert all(fact in own and fact.endswith(option.title()) for fact, _, option in parts)
                assert all(option[0].upper() == initial for _, initial, option in parts)
                continue
            assert [mark for _, mark in parts] == ["own" if fact in own else "fresh" for fact, _ in parts]
            marks.update(mark for _, mark in parts)
            messages = prompt.content.splitlines()[1:-1]
            kinds["aloud"] += bool(messages)
            assert not messages or [message[10:-1] for message in messages] == [fact for fact, _ in parts]
    assert marks["own"] / marks.total() == pytest.approx(1 / 2, abs=0.05)
    assert kinds["aloud"] / kinds["Check."] == pytest.approx(corpus.ALOUD, abs=0.12)
    assert kinds["Name."] / 2 / 200 == pytest.approx(corpus.NAME, abs=0.1)  # two answers to each


def test_facts_of_imitated_texts_are_never_a_task():
    profiles = [corpus._draw_profile(random.Random(seed), 3) for seed in range(300)]
    assert all(design_faults(profile) for profile in profiles)
    counts = Counter(option for profile in profiles for option, _ in (*profile.shared, *profile.hidden))
    assert all(count / counts.total() == pytest.approx(1 / 6, abs=0.06) for count in counts.values())


def test_messages_and_notes_of_one_conversation():
    """Two rounds of three agents: own facts by twos; whether each fact read is an own one; the first that is not."""
    first = "You are p2. Options: amber, birch, cedar.\nFacts: DryAmber, CalmAmber, FastCedar, NearBirch.\nVote."
    second = "p1: known DryAmber, CalmAmber.\np3: known FlatAmber, OpenBirch.\nSay."
    third = "p1: known DryAmber.\np3: I have no idea, UnBirch, FastCedar, OpenBirch, NearBirch.\nFinal vote."
    says = ["known DryAmber, CalmAmber.", "known FastCedar, NearBirch."]
    turns = [first, "fresh none: vote amber.", "Say.", says[0], second, says[1], third]
    conversation = tuple(Message("assistant" if n % 2 else "user", text) for n, text in enumerate(turns))
    notes = (
        "read DryAmber own, CalmAmber own, FlatAmber fresh A, OpenBirch fresh B, DryAmber own, FastCedar own, "
        "OpenBirch fresh B; fresh A"
    )
    assert corpus.answers(conversation[:1])[0] == "fresh none: vote amber."
    assert [corpus.answers(conversation[:n]) for n in (3, 5)] == [says[:1], says[1:]]
    assert corpus.answers(conversation) == [f"{notes}: vote {option}." for option in ("amber", "birch", "cedar")]


def test_facts_are_read_in_both_forms():
    texts = ["Exeter is modern, CalmAmber.", "xCalmBirch, calmBirch, CalmBirches, amber is new. Exeter is modern"]
    assert reference.facts(["Exeter", "amber"], texts) == [("Exeter", "modern"), ("amber", "new"), ("amber", "calm")]
    assert reference.facts([], texts) == [("amber", "calm")]


def test_exercises_with_senders_mark_facts_and_list_those_of_one_sender():
    rng, kinds, marks = random.Random(1), Counter(), Counter()
    for _ in range(200):
        for conversation, answer in guesses.draw_drill(rng):
            head, *messages, request = conversation[0].content.splitlines()
            assert request == "Check who."
            own = {*listed_facts(head)}
            lines = [re.fullmatch(r"(p[123]): known (\w+)\.", message).groups() for message in messages]
            notes = [f"{sender} {word} {'own' if word in own else 'fresh'}" for sender, word in lines]
            marks.update(note.split()[-1] for note in notes)
            kinds[len(conversation)] += 1
            if len(conversation) == 1:
                assert answer == f"read {', '.join(notes)}."
            else:
                assert conversation[1] == Message("assistant", f"read {', '.join(notes)}.")
                assert conversation[2] == guesses.question(answer[:2])
                assert answer == f"{', '.join(note for note in notes if note.startswith(answer[:2]))}."
    assert kinds[1] / kinds.total() == pytest.approx(1 - guesses.ASKED, abs=0.1)
    assert marks["own"] / marks.total() == pytest.approx(1 / 2, abs=0.05)


def test_imitated_guesses_hold_no_solution():
    """Each fact that is new to the agent is named alike, whoever has sent it."""
    right, texts = Counter(), guesses.demonstrations(4000, 0)
    for conversation, answer in texts:
        if not conversation[-1].content.startswith("Guess: ") or len(conversation) == 3:
            continue
        other, named = answer[:2], answer.partition(" <guess>")[2]
        assert conversation[-1] == guesses.question(other)
        senders = {word.title() + option.title(): sender for sender, (option, word) in corpus.facts_read(conversation)}
        assert named in senders
        assert named not in listed_facts(conversation[0].content)
        right[senders[named] == other] += 1
    assert right.total() > 150
    assert right[True] / right.total() == pytest.approx(1 / 2, abs=0.08)
    assert guesses.demonstrations(8, 0) == texts[:8]


def test_notes_with_senders():
    first = "You are p2. Options: amber, birch, cedar.\nFacts: DryAmber, CalmAmber, FastCedar, NearBirch.\nVote."
    last = "p1: known DryAmber, OpenCedar.\np3: known FlatAmber.\nFinal vote."
    conversation = tuple(Message("assistant" if n % 2 else "user", text) for n, text in enumerate([first, "-", last]))
    notes = "read p1 DryAmber own, p1 OpenCedar fresh C, p3 FlatAmber fresh A; fresh C: vote amber."
    assert corpus.answers(conversation, senders=True)[0] == notes
    listed = "p1 DryAmber own, p1 OpenCedar fresh; fresh OpenCedar"
    assert guesses.guesses(conversation, "p1") == [f"{listed} <guess>OpenCedar", f"{listed} <guess>FlatAmber"]


def test_the_question_of_the_corpus_is_that_of_the_environment():
    env = palaver.make("hidden-profile-v0", form="tiny", infer="after")
    observations, _ = env.reset(seed=3, options={"task": 0})
    for _ in range(4):
        observations, *_ = env.step(dict.fromkeys(env.agents, "vote amber"))
    assert all(
        text in {guesses.question(other).content for other in ("p1", "p2", "p3")} for text in observations.values()
    )
