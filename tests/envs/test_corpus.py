"""The text generators: reproducible, in the public schema, disjoint from what the tiny model imitates."""

from __future__ import annotations

import importlib
import random
import re
import subprocess
import sys
from itertools import chain

import pytest

import palaver
from palaver.agents.tiny.training import Recipe
from palaver.core import Message, TaskError, stable_seed
from palaver.envs.writing import corpus, text
from palaver.envs.writing.text import SPLIT
from palaver.trainers.rollout.team import refuse_tiny

NAMES = ("arxiv", "tldr")
TEXT = {"arxiv": "abstract_text", "tldr": "prompt"}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def module(name):
    return importlib.import_module(f"palaver.envs.writing.{name}.corpus")


def combination(name, module, text):
    """The slots of a generated text, read back from its words."""
    if name == "arxiv":
        data, problems, _ = zip(*module.FIELDS.values(), strict=True)
        slots = (module.FIELDS, [*chain(*data)], [*chain(*problems)], module.METHODS, module.MEASURES)
    else:
        slots = (module.PEOPLE, module.DEEDS, module.TIMES, module.TRIED, module.OPTIONS)
    lowered = text.lower()
    return tuple(frozenset(value for value in values if value.lower() in lowered) for values in slots)


def test_the_shipped_sample_is_what_the_command_writes(module, tmp_path):
    assert module.SAMPLE.read_bytes().count(b"\n") == 96
    corpus.write_sample(tmp_path / "again.jsonl", module.tasks(96, 0))
    assert (tmp_path / "again.jsonl").read_bytes() == module.SAMPLE.read_bytes()


def test_another_process_with_another_hash_seed_makes_the_same_texts(module):
    code = (
        f"import hashlib, {module.__name__} as m; "
        "print(hashlib.sha256(repr((m.tasks(20, 3), m.demonstrations(40, 3))).encode()).hexdigest())"
    )
    command = [sys.executable, "-c", code]
    runs = {
        subprocess.check_output(command, env={"PYTHONHASHSEED": seed}, text=True, timeout=120) for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_public_schema(name, module):
    rows = module.tasks(96, 0)
    assert module.tasks(10, 0) == rows[:10]
    assert module.tasks(10, 1) != rows[:10]
    if name == "arxiv":
        assert len({row["article_id"] for row in rows}) == 96
        assert all(row["token_count"] == len(row["abstract_text"].split()) for row in rows)
        assert all(60 <= row["token_count"] <= 120 for row in rows)
    else:
        layout = re.compile(r"SUBREDDIT: r/\w+\n\nTITLE: [^\n]+\n\nPOST: [^\n]+\n\nTL;DR:")
        assert all(layout.fullmatch(row["prompt"]) and row["completion"].startswith(" ") for row in rows)
    assert len({row[TEXT[name]] for row in rows}) == 96


def test_no_combination_of_the_sample_is_imitated(name, module):
    """Read back from the texts, not from the generator, for all the prompts that the tiny model is trained on."""
    known = module.demonstrations(Recipe().texts, stable_seed("tiny texts", 0))
    prompts = {conversation[0].content.partition("\n\n")[2] for conversation, _ in known}
    imitated = {combination(name, module, prompt) for prompt in prompts}
    assert len(imitated) > 1200
    rows = module.tasks(96, 0)
    sample = {combination(name, module, f"{row.get('title', '')}\n{row[TEXT[name]]}") for row in rows}
    assert all(map(all, sample | imitated))  # each slot was found
    assert not imitated & sample


def test_the_partition_holds_for_other_seeds(module):
    for seed in range(3):
        for tasks in (True, False):
            rng = random.Random(seed)
            slots = corpus.draw(module._slots, module.KEYS, rng, tasks=tasks)
            assert corpus.held_out(*(slots[key] for key in module.KEYS)) is tasks


def test_prompts_are_the_environments_own(name, module):
    env = palaver.make(f"{name}-v0", **({"length": (32, 64)} if name == "arxiv" else {}))
    seen = env.reset(seed=0)[0]
    heads = {text.partition("\n\n")[0] for text in seen.values()}
    shown = {conversation[0].content.partition("\n\n")[0] for conversation, _ in module.demonstrations(400, 0)}
    assert heads <= shown
    for conversation, _ in module.demonstrations(8, 0):
        assert len(conversation) == 1
        assert isinstance(conversation[0], Message)
        assert conversation[0].role == "user"


def test_answers(name, module):
    """Whole sentences on the topic; lengths all over the place; both paragraphs where one author writes."""
    found = module.demonstrations(2000, 5)
    counts = []
    for conversation, answer in found:
        prompt = conversation[0].content
        assert answer.endswith(".")
        assert (SPLIT in answer) == (SPLIT in prompt)
        assert not re.search(r"[{}|]|\[(?!PARAGRAPH)| {2}", answer)
        counts += [len(part.split()) for part in answer.split(SPLIT)]
    assert min(counts) <= 12
    assert max(counts) >= 64
    middle = sum(32 <= count <= 64 for count in counts) / len(counts)
    assert 0.2 < middle < 0.5


def test_an_uncoordinated_pair_is_paid_little():
    """What the demonstrator's texts are worth before any learning: there is something to learn, and a start."""
    module = importlib.import_module("palaver.envs.writing.arxiv.corpus")
    env = palaver.make("arxiv-v0", length=(32, 64), match="word", ending=".")
    rng = random.Random(0)
    rewards = []
    for number in range(96):
        env.reset(options={"task": number})
        own = random.Random(stable_seed("arxiv tasks", 0, number))
        slots = corpus.draw(module._slots, module.KEYS, own, tasks=True)
        for _ in range(5):
            env.reset(options={"task": number})
            said = {agent: corpus.answer(module.AUTHORS, agent, slots, rng) for agent in env.agents}
            rewards.append(env.step(said)[1]["method"])
    assert 0.1 <= sum(rewards) / len(rewards) <= 0.4
    assert max(rewards) > 2


def test_the_grammar_knows_every_sentence_imitated_and_no_broken_one(module):
    grammar = module.grammar()
    paragraphs = [part for _, answer in module.demonstrations(400, 9) for part in answer.split(SPLIT)]
    said = [sentence for part in paragraphs for sentence in text.sentences(part)]
    assert len(said) > 1000
    assert [sentence for sentence in said if not grammar.fullmatch(sentence)] == []
    assert not any(grammar.fullmatch(" ".join(reversed(sentence.split()))) for sentence in said)
    assert not grammar.fullmatch("developers can consequence for residents is")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("{a} is [red]", "Tea is red."), ("why {a}?", "Why tea?"), ("Äpfel", "Äpfel.")],
)
def test_fill_and_sentence(pattern, expected):
    assert corpus.sentence(corpus.fill(pattern, {"a": "tea"}, random.Random(0))) == expected


def test_passage_repeats_neither_pattern_nor_opener():
    text = corpus.passage([f"w{n} x" for n in range(6)], {}, 9, random.Random(1), 1.0)
    sentences = text.split(". ")
    assert len(sentences) == 6
    assert len({s.split()[-2] for s in sentences}) == 6
    assert len({s.rpartition(" w")[0] for s in sentences}) == 6


def test_in_order_leaves_empty_steps_out():
    assert corpus.in_order((("a",), ("",), ("b",)), {}, random.Random(0)) == "A. B."


@pytest.mark.parametrize("env", ["arxiv-v0", "tldr-v0", "pioneer-v0"])
def test_generated_tasks_of_seed_0_are_the_sample(env):
    shipped = palaver.make(env)
    assert len(shipped.tasks) == 96
    assert palaver.make(env, tasks="generated:0:96").tasks == shipped.tasks
    assert palaver.make(env, tasks="generated:0:20[4:]").tasks == shipped.tasks[4:20]
    assert palaver.make(env, tasks="sample[:5]").tasks == shipped.tasks[:5]


def test_two_seeds_share_no_task(name):
    texts = [
        {task[TEXT[name]] for task in palaver.make(f"{name}-v0", tasks=f"generated:{seed}:96").tasks}
        for seed in (0, 1, 2)
    ]
    assert [len(each) for each in texts] == [96] * 3
    assert len(set().union(*texts)) == 3 * 96
    ids = {task.id for seed in (1, 2) for task in palaver.make(f"{name}-v0", tasks=f"generated:{seed}:9").tasks}
    assert len(ids) == 18


def test_no_combination_of_generated_tasks_is_imitated(name, module):
    """Read back from the texts."""
    known = module.demonstrations(2000, 7)
    imitated = {combination(name, module, conversation[0].content.partition("\n\n")[2]) for conversation, _ in known}
    tasks = palaver.make(f"{name}-v0", tasks="generated:2:200").tasks
    made = {combination(name, module, f"{task.data.get('title', '')}\n{task[TEXT[name]]}") for task in tasks}
    assert len(made) > 100
    assert not made & imitated


@pytest.mark.parametrize("env", ["arxiv-v0", "tldr-v0", "pioneer-v0"])
def test_the_tiny_model_may_read_generated_tasks(env):
    refuse_tiny(palaver.make(env, tasks="generated:2:48").source, force=False)
    with pytest.raises(TaskError, match="write generated:SEED or generated:SEED:COUNT"):
        palaver.make(env, tasks="generated:two")
