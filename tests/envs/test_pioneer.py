"""The pioneer workflow: who hears what, who is paid for what, which environments fit inside."""

from __future__ import annotations

import re

import pytest

import palaver
from palaver.core import ConfigError, Message
from palaver.envs.pioneer.corpus import demonstrations
from palaver.envs.pioneer.env import observer
from palaver.envs.writing.arxiv import corpus
from palaver.envs.writing.arxiv.corpus import grammar
from palaver.envs.writing.text import SPLIT, sentences
from palaver.registry import resolve
from tests.envs.test_corpus import combination


def answer(task: int, text: str, **keywords) -> float:
    """What the inner environment pays its single author for a text."""
    inner = palaver.make("arxiv-v0", agents=1, **keywords)
    inner.reset(options={"task": task})
    return inner.step({"writer": text})[1]["writer"]


def test_the_observer_waits_and_then_hears_the_pioneer():
    env = palaver.make("pioneer-v0")
    heard, infos = env.reset(seed=0, options={"task": 3})
    assert [infos[agent]["can_act"] for agent in env.possible_agents] == [True, False]
    assert heard["observer"] == ""
    heard_then, _, ended, _, infos = env.step({"pioneer": "A brave first answer.", "observer": "too early"})
    assert heard_then["observer"].startswith(heard["pioneer"])
    assert "\n\nA brave first answer.\n\n" in heard_then["observer"]
    assert heard_then["pioneer"] == ""
    assert "too early" not in heard_then["observer"]
    assert [infos[agent]["can_act"] for agent in env.possible_agents] == [False, True]
    assert not any(ended.values())
    assert env.step({"observer": "x"})[2] == {"pioneer": True, "observer": True}


def test_both_are_paid_for_both_answers():
    scripted = resolve(palaver.spec("arxiv-v0").scripted["reference"])
    env = palaver.make("pioneer-v0", keywords={"gated": False})
    for task in (0, 5):
        asked = env.reset(seed=0, options={"task": task})[0]["pioneer"]
        good = scripted((Message("user", asked),), 1)
        first, second = answer(task, good, gated=False), answer(task, "Rain fell.", gated=False)
        _, rewards, _, _, infos = env.step({"pioneer": good})
        assert [*rewards.values()] == pytest.approx([first, first])
        assert all(name.startswith("pioneer_") for name in infos["observer"]["reward_components"])
        _, rewards, _, _, infos = env.step({"observer": "Rain fell."})
        assert [*rewards.values()] == pytest.approx([second, second])
        assert all(name.startswith("observer_") for name in infos["pioneer"]["reward_components"])
        assert first > second


def test_what_fits_inside():
    assert palaver.make("pioneer-v0", env="tldr-v0").max_return == 6.0
    assert palaver.make("pioneer-v0", env="echo-v0", keywords={"num_turns": 1}).max_return == 3.0
    with pytest.raises(ConfigError, match="must end after one turn"):
        palaver.make("pioneer-v0", env="echo-v0")
    with pytest.raises(ConfigError, match="must have one agent"):
        palaver.make("pioneer-v0", env="arxiv-v0", keywords={"agents": 2})
    with pytest.raises(ConfigError, match=re.escape("Did you mean 'arxiv-v0'?")):
        palaver.make("pioneer-v0", env="arxive-v0")
    with pytest.raises(ConfigError, match="no keyword 'lenght'"):
        palaver.make("pioneer-v0", keywords={"lenght": 3})


def test_both_seats_have_texts_to_imitate():
    """Prompts as the environment words them, half of them the observer's; the partner's answer is as any author's."""
    found = demonstrations(2000, 5)
    assert found == demonstrations(2000, 5)
    assert all(answer.count(SPLIT) == 1 and answer.endswith(".") for _, answer in found)
    prompts = list(dict.fromkeys(conversation[0].content for conversation, _ in found))
    assert len(prompts) == 1000
    env = palaver.make("pioneer-v0", keywords={"length": (32, 64)})
    head = env.reset(seed=0)[0]["pioneer"].partition("\n\n")[0]
    assert head in {prompt.partition("\n\n")[0] for prompt in prompts}
    known, partners = grammar(), []
    for prompt in prompts:
        question, told, rest = prompt.partition("\n\nA partner answered:\n\n")
        if told:
            partner = rest.partition("\n\nEnd of the partner's answer.")[0]
            assert prompt == observer(question, partner)
            assert all(known.fullmatch(said) for part in partner.split(SPLIT) for said in sentences(part))
            partners.append(partner)
    assert 450 < len(partners) < 550
    assert not set(partners) & {answer for _, answer in found}, "nobody repeats the partner"


def test_no_combination_of_the_sample_is_imitated():
    """Read back from the texts: field, data, problem, method and measure of the prompts and of the tasks."""
    prompts = {conversation[0].content.partition("\n\n")[2] for conversation, _ in demonstrations(4000, 0)}
    imitated = {combination("arxiv", corpus, prompt) for prompt in prompts}
    asked = {
        combination("arxiv", corpus, f"{task.data['title']}\n{task.data['abstract_text']}")
        for task in palaver.make("pioneer-v0").tasks
    }
    assert len(imitated) > 1000
    assert all(map(all, imitated | asked))
    assert not imitated & asked
