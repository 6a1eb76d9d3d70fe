"""What messages are worth: a team that uses its messages is told from one that does not."""

from __future__ import annotations

import pytest

import palaver
from palaver.agents.simple import ScriptedPolicy
from palaver.benchmarks.evaluation.interventions import Players
from palaver.benchmarks.evaluation.messages import measure
from palaver.core import ConfigError, Sampling
from palaver.envs.hidden_profile.reference import alone, asks_for_vote, reference


def talks(conversation, seed):
    """Sends all its facts, as the reference does, and votes by its own."""
    vote = asks_for_vote(conversation[-1].content)
    return (alone if vote else reference)(conversation, seed)


def worth(function, tasks=16, **kwargs):
    env = palaver.make("hidden-profile-v0", form="tiny", rounds=1, **kwargs)
    team = dict.fromkeys(env.possible_agents, ScriptedPolicy(function))
    ids = [task.id for task in env.tasks][:tasks]
    return measure(Players(env, team, dict.fromkeys(team, Sampling()), ids), "hidden-profile-v0").worth


def test_a_team_that_uses_its_messages_is_told_from_one_that_does_not():
    uses, ignores = worth(reference), worth(talks)
    assert (uses.messages, ignores.messages) == (3, 3)
    assert (uses.mean, ignores.mean) == (2, 0)
    for name in ("removed", "shuffled", "silenced/p1"):
        assert uses.effects[name].high < ignores.effects[name].low
        assert ignores.effects[name].low == ignores.effects[name].high == 0
    assert uses.effects["removed"].difference == -2  # without messages every vote is for the decoy


def test_influence_and_use_follow_the_votes():
    uses, ignores = worth(reference), worth(talks)
    assert all(share == 0 for row in ignores.influence.values() for share in row.values())
    # without one hidden fact the decoy and the right answer have two points each, and the first option is voted for
    tasks = [task.data for task in palaver.make("hidden-profile-v0", form="tiny").tasks][:16]
    lost = [t["possible_answers"].index(t["decoy"]) < t["possible_answers"].index(t["correct_answer"]) for t in tasks]
    share = sum(lost) / 16
    assert 0 < share < 1
    assert [value for row in uses.influence.values() for value in row.values()] == [share] * 6
    assert (uses.facts.n, uses.facts.sent, uses.facts.used) == (48, 1, share)
    assert (ignores.facts.sent, ignores.facts.used) == (1, 0)


def test_each_message_has_its_readers_and_facts_and_what_changes_without_it():
    """Each of three agents has one hidden fact for the right answer, and sends it with the three that all have."""
    result = worth(reference, tasks=4)
    tasks = [task.data for task in palaver.make("hidden-profile-v0", form="tiny").tasks][:4]
    lost = [t["possible_answers"].index(t["decoy"]) < t["possible_answers"].index(t["correct_answer"]) for t in tasks]
    for task, flips, one in zip(tasks, lost, result.each, strict=True):
        assert [(m.turn, m.agent, m.readers) for m in one.messages] == [
            (1, "p1", ("p2", "p3")), (1, "p2", ("p1", "p3")), (1, "p3", ("p1", "p2"))
        ]  # fmt: skip
        told = [message.facts for message in one.messages]
        assert [len(facts) for facts in told] == [1, 1, 1]
        assert all(task["correct_answer"] in facts[0] for facts in told)
        assert one.returns["removed"] == -2
        # who is silent still votes by all facts, so that one vote in three stays right; the majority is lost
        assert one.returns["silenced/p2"] == pytest.approx(-2 + 1 / 3 if flips else 0)
        assert one.changed["p2"] == (("p1", "p3") if flips else ())


def test_a_sender_keeps_its_own_text():
    """A vote by the conversation's own messages does not change when they are withheld from the others."""

    def remembers(conversation, seed):
        own = [message.content for message in conversation if message.role == "assistant"]
        return own[1] if asks_for_vote(conversation[-1].content) and len(own) > 1 else reference(conversation, seed)

    result = worth(remembers)
    assert result.messages == 3
    assert result.effects["removed"].difference == 0


def test_silent_teams_have_no_messages():
    result = worth(lambda _conversation, _seed: "")
    assert (result.messages, result.tokens, result.return_per_100_tokens) == (0, 0, 0)
    assert {effect.difference for effect in result.effects.values()} == {0}
    assert result.facts.sent == 0


def test_tokens_are_words_for_policies_without():
    result = worth(reference, tasks=4)
    assert result.tokens == 3 * (1 + 4 + 1)  # a vote, four facts of one word, a vote
    assert result.return_per_100_tokens == pytest.approx(100 * 2 / 18)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ConfigError, match="two tasks or more"):
        worth(reference, tasks=1)
    env = palaver.make("kuhn-v0")
    with pytest.raises(ConfigError, match="compete"):
        measure(Players(env, {}, {}, ["J-Q", "J-K"]), "kuhn-v0")
