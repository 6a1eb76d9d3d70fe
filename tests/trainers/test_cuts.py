"""Ends by a limit: the record of the state after them, and returns that lean on the critic's value of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from palaver.core import Message, PolicyError, Sampling
from palaver.envs.base.env import TextEnv
from palaver.episodes import CutState
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.objectives.advantages import individual_reward, shared_reward
from palaver.trainers.rollout.batch import after_cut, joint_returns, make_batch
from palaver.trainers.rollout.branches import ended
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.rollout.replays import again
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.updater import Updater
from tests.trainers.learning import config, learners, policy
from tests.trainers.test_rollout import Waiting
from tests.trainers.toys import SEATS, Lengths, Script

SAMPLING = dict.fromkeys(SEATS, Sampling(max_tokens=4))
DISCOUNT, DECAY = 0.9, 0.4
ALONE = SamplingPlan()


class Limited(Lengths):
    """`Lengths` whose turn `turns` ends it by these flags."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "limited_v0"}

    def __init__(self, turns: int = 2, **flags: Any) -> None:
        super().__init__(turns=turns)
        self.flags = {"truncated": True} | flags

    def transition(self, actions):
        last = self.turn + 1 >= self.turns
        return replace(super().transition(actions), **({"terminated": False} | (self.flags if last else {})))


def scripted(env: TextEnv, plan: SamplingPlan = ALONE):
    return rollout(env, {"a": Script("x"), "b": Script("yy")}, ["t0"], plan, sampling=SAMPLING, seed=0)


def heard(seat: str, *words: str) -> tuple[Message, ...]:
    """The whole conversation of a seat of `Lengths` that has answered with these words."""
    told = [Message("user", f"{seat}: task t0")]
    for text in words:
        told += [Message("assistant", text), Message("user", f"{len(text)} characters")]
    return tuple(told)


def test_a_truncated_episode_keeps_what_its_agents_would_have_answered():
    (found,) = scripted(Limited())
    assert found.stop == "truncated"
    assert found.turns[0].cut_states == {}
    assert found.turns[1].cut_states == {
        "a": CutState("1 characters", heard("a", "x", "x")), "b": CutState("2 characters", heard("b", "yy", "yy")),
    }  # fmt: skip


def test_the_flags_of_pettingzoo_decide():
    """Terminated in the last step has no value, whatever else is true of the agent or of its team."""
    (over,) = scripted(Limited(terminated=True))
    assert (over.stop, over.turns[-1].cut_states) == ("terminated", {})
    (mixed,) = scripted(Limited(terminated=["a"], truncated=["b"]))
    assert (mixed.stop, list(mixed.turns[-1].cut_states)) == ("truncated", ["b"])
    (lost,) = scripted(Limited(unscored=True))
    assert (lost.stop, lost.turns[-1].cut_states) == ("unscored", {})


def test_what_one_step_says():
    def step(terminated, truncated, **info):
        flags = [dict(zip(SEATS, each, strict=True)) for each in (terminated, truncated)]
        return {}, dict.fromkeys(SEATS, 0.0), *flags, dict.fromkeys(SEATS, info)

    assert ended(SEATS, SEATS, step([False] * 2, [False] * 2)) == (None, ())
    assert ended((), SEATS, step([False] * 2, [True] * 2)) == ("truncated", SEATS)
    assert ended((), SEATS, step([True, False], [True, True])) == ("truncated", ("b",))
    assert ended((), SEATS, step([True] * 2, [True] * 2)) == ("terminated", ())
    assert ended(("b",), SEATS, step([False] * 2, [True, False])) == (None, ("a",))
    assert ended((), SEATS, step([False] * 2, [True] * 2, unscored=True)) == ("unscored", ())


def test_stop_above_cuts_and_a_termination_at_the_same_turn_counts_first():
    cut, other = scripted(Lengths(turns=3), SamplingPlan(2, stop_above=0.5))
    assert {each.stop for each in (cut, other)} == {"threshold"}
    assert cut.turns[0].cut_states["a"] == CutState("1 characters", heard("a", "x"))
    assert other.turns[0].cut_states["b"] == CutState("4 characters", heard("b", "yyyy"))
    over, _ = scripted(Lengths(turns=1), SamplingPlan(2, stop_above=0.5))
    assert (over.stop, over.turns[0].cut_states) == ("terminated", {})


class Interrupted(Waiting):
    """`Waiting` up to its second turn, in which `b` waits."""

    def transition(self, actions):
        return replace(super().transition(actions), truncated=self.turn == 1)


def test_an_agent_that_waits_when_it_is_cut_has_all_that_it_has_not_answered():
    (found,) = scripted(Interrupted())
    assert len(found.turns) == 2
    assert found.turns[-1].cut_states["b"] == CutState(
        "b after 1", (Message("user", "b opens"), Message("assistant", "yy"), Message("user", "b after 0\n\nb after 1"))
    )


def test_files_hold_no_states_and_a_turn_is_equal_without_them():
    (found,) = scripted(Limited())
    record = found.to_dict()
    assert all("cut_states" not in turn for turn in record["turns"])
    (repeated,) = again(Limited(), [type(found).from_dict(record)])
    assert repeated.stop == "truncated"
    assert repeated.turns[-1] == replace(found.turns[-1], cut_states={}, completions=repeated.turns[-1].completions)


def judged(name: str, env: TextEnv, shared: bool = False, **changes: Any):
    """A study's judgement of two chains, with critics that expect something; the episodes too."""
    values = {"name": name, "group_size": 2, "turns": "independent", "discount": DISCOUNT, "gae_lambda": DECAY}
    settings = config(algorithm=values | {"credit": "own", "normalize": "none"} | changes)
    one = policy(0)
    players = {"a": one, "b": one if shared else policy(1)}
    study = Updater(chosen(settings.algorithm), settings, learners(players, settings), Distributed("cpu", "fp32"))
    torch.manual_seed(6)
    for critic in study.estimator.critics.values():
        torch.nn.init.normal_(critic.head.weight, std=0.5)
    a = settings.algorithm
    episodes = rollout(
        env, players, ["t0"], SamplingPlan(a.group_size, a.joint, a.turns, a.stop_above), sampling=SAMPLING, seed=2
    )
    return study, study.estimate_advantages(make_batch(episodes)), episodes


def texts(found, agent: str) -> list[str]:
    return [turn.completions[agent].text for turn in found.turns]


def expected_returns(rewards: list[float], values: list[float], after: float) -> list[float]:
    """TD errors by hand, from the end: A_t = r_t + gamma V_{t+1} - V_t + gamma lambda A_{t+1}; G = A + V."""
    returns, advantage, following = [], 0.0, after
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        advantage = reward + DISCOUNT * following - value + DISCOUNT * DECAY * advantage
        returns.insert(0, advantage + value)
        following = value
    return returns


def rows_of(table, found, agent: str) -> list[int]:
    spoken = [turn.completions[agent] for turn in found.turns]
    return [next(n for n, each in enumerate(table.completions) if each is said) for said in spoken]


def check(study, seen, episodes, value_after) -> None:
    """Returns and advantages are those of the equation with this value of the state after the last turn."""
    table, count = seen.batch, 0
    for found in episodes:
        for agent in SEATS:
            rows = rows_of(table, found, agent)
            rewards = [turn.rewards[agent] for turn in found.turns]
            values = seen.value[rows].tolist()
            last = next(n for n, turn in enumerate(table.steps) if turn is found.turns[-1])
            after = float(seen.bootstrap[last, table.agents.index(agent)]) if seen.bootstrap is not None else 0.0
            assert after == pytest.approx(value_after(found, agent), abs=1e-5)
            wanted = expected_returns(rewards, values, after)
            assert table.returns[rows].tolist() == pytest.approx(wanted, abs=1e-9)
            advantage = [g - v for g, v in zip(wanted, values, strict=True)]
            assert table.advantage[rows].tolist() == pytest.approx(advantage, abs=1e-9)
            count += len(rows)
    assert count == len(table)


CASES = [(Limited, {}, 2), (lambda: Lengths(turns=3), {"stop_above": 0.0}, 1)]


@pytest.mark.parametrize(("env", "changes", "turns"), CASES, ids=["limit", "stop_above"])
@pytest.mark.parametrize("shared", [False, True])
def test_own_critics_value_the_prompt_that_would_have_come_next(env, changes, turns, shared):
    study, seen, episodes = judged("iac", env(), shared, **changes)
    assert {len(found.turns) for found in episodes} == {turns}

    def after(found, agent):
        (learner,) = (each for each in study.learners if agent in each.agents)
        ids = tuple(learner.policy.render(heard(agent, *texts(found, agent))))
        return study.estimator.critics[learner.policy.name].values([ids]).item()

    check(study, seen, episodes, after)
    assert seen.bootstrap.abs().max() > 0.01
    for learner in study.learners:  # a critic learns what the policy is compared with
        rows = seen.batch.rows_of(learner.agents)
        assert study.estimator.samples(learner.policy.name, seen).target.tolist() == seen.batch.returns[rows].tolist()


@pytest.mark.parametrize(("env", "changes", "turns"), CASES, ids=["limit", "stop_above"])
def test_a_joint_critic_values_the_joint_conversation_with_the_last_words(env, changes, turns):
    study, seen, episodes = judged("maac", env(), **changes)
    critic = study.estimator.critics["joint"]

    def after(found, agent):
        parts = [f"[{seat} reads]\n{seat}: task t0" for seat in SEATS]
        for turn in found.turns:
            parts += [f"[{seat} says]\n{turn.completions[seat].text}" for seat in SEATS]
            parts += [f"[{seat} reads]\n{len(turn.completions[seat].text)} characters" for seat in SEATS]
        return critic.values([tuple(critic.body.render((Message("user", "\n\n".join(parts)),)))]).item()

    check(study, seen, episodes, after)
    assert {len(found.turns) for found in episodes} == {turns}
    table = seen.batch
    by_agent = joint_returns(table, study.algorithm, study.config.algorithm, seen.value, None, seen.bootstrap)
    assert study.estimator.samples("joint", seen).target.tolist() == pytest.approx(
        by_agent.mean(dim=1).tolist(), abs=1e-9
    )


@pytest.mark.parametrize("name", ["iac", "maac"])
def test_what_terminated_has_nothing_behind_it(name):
    study, seen, episodes = judged(name, Lengths(turns=2))
    assert seen.bootstrap is None
    check(study, seen, episodes, lambda found, agent: 0.0)


def test_the_part_of_the_team_that_terminated_has_nothing_behind_it():
    _, seen, episodes = judged("maac", Limited(1, terminated=["a"], truncated=["b"]))
    for found in episodes:
        (a,), (b,) = (rows_of(seen.batch, found, agent) for agent in SEATS)
        assert seen.batch.returns[a].item() == pytest.approx(found.turns[0].rewards["a"], abs=1e-9)
        assert seen.batch.returns[b].item() != pytest.approx(found.turns[0].rewards["b"], abs=1e-3)


def test_without_values_the_return_is_that_of_the_turns_played():
    _, seen, episodes = judged("magrpo", Limited())
    for found in episodes:
        first, last = [turn.rewards["a"] for turn in found.turns]
        assert seen.batch.returns[rows_of(seen.batch, found, "a")].tolist() == pytest.approx(
            [first + DISCOUNT * last, last]
        )


def test_with_discount_0_nothing_is_read_after_a_cut():
    assert judged("iac", Limited(), discount=0.0)[1].bootstrap is None


class Early(Limited):
    """Truncates `a` after its first turn; `b` goes on to the end."""

    def transition(self, actions):
        return replace(super().transition(actions), **({"truncated": ["a"]} if self.turn == 0 else {}))


@pytest.mark.parametrize(("credit", "a", "b"), [(individual_reward, 4.52, 1.56), (shared_reward, 4.53, 1.54)])
def test_an_agent_cut_while_others_go_on_counts_its_value_and_nothing_after_it(credit, a, b):
    """Rewards .52 and .54, then 0 and .04; values 8 behind `a`'s turn, 4 behind `b`'s last; discount .5.

    Own: .52 + .5 * 8, and .54 + .5 (.04 + .5 * 4). Team, means .53 and .02: .53 + .5 * 8, and .53 + .5 (.02 + .5 * 4).
    """
    table = make_batch(scripted(Early()))
    assert after_cut(table).tolist() == [[False, False], [True, False]]
    settings = config(algorithm={"name": "iac", "discount": 0.5, "gae_lambda": 1.0}).algorithm
    boot = torch.tensor([[8.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    row, value = replace(chosen(settings), credit=credit), torch.zeros(len(table), dtype=torch.float64)
    assert joint_returns(table, row, settings, value, None, boot)[0].tolist() == pytest.approx([a, b], abs=1e-9)


@pytest.mark.parametrize(("name", "told"), [("iac", "cut episodes earlier"), ("maac", "critics of their own")])
def test_what_does_not_fit_the_context_is_refused_in_one_line(name, told):
    study, seen, episodes = judged(name, Limited(1))
    longest = max(map(len, [*seen.inputs, *(each.prompt_ids for each in seen.batch.completions)]))
    for critic in study.estimator.critics.values():
        critic.body.model.config.max_position_embeddings = longest
    with pytest.raises(PolicyError, match=told) as caught:
        study.estimate_advantages(make_batch(episodes))
    assert "\n" not in str(caught.value)


def test_look_ahead_samples_answers_that_nobody_plays():
    """Those of the next turn's own seeds and width, in one batch with the branches that go on."""
    plain, more = (scripted(Limited(), SamplingPlan(2, look_ahead=look)) for look in ((), ("a",)))
    assert plain == more
    for each in more:
        assert [said.text for said in each.turns[-1].cut_states["a"].candidates] == ["x", "xx"]
        assert each.turns[-1].cut_states["b"].candidates == ()
    single = scripted(Limited(), SamplingPlan(2, turns="independent", look_ahead=SEATS))
    assert [len(each.turns[-1].cut_states["b"].candidates) for each in single] == [1, 1]
    writer = Script("x")
    rollout(
        Limited(),
        {"a": writer, "b": Script("y")},
        ["t0"],
        SamplingPlan(2, look_ahead=("a",)),
        sampling=SAMPLING,
        seed=0,
    )
    asked = [[request.conversation for request in calls] for calls in writer.calls]
    assert [len(each) for each in asked] == [1, 2, 4]
    assert asked[2][0] == heard("a", "x", "x")
