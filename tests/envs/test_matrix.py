"""The matrix games, played by hand and by the scripted players."""

from __future__ import annotations

import pytest

import palaver
from palaver.core import Message
from palaver.envs.base.scripted import lazy
from palaver.envs.base.transcripts import HOSTILE
from palaver.envs.matrix import games, reference
from palaver.registry import resolve

LEAST = {
    **dict.fromkeys(games.BUILT_IN, 0), "climbing": -30, "penalty": -100, "qtran": -12, "happo": -2,
    "rock-paper-scissors": -1, "matching-pennies": -1,
}  # fmt: skip


STATES = {
    "agents": 2,
    "actions": ["left", "right"],
    "states": {
        "here": {"payoffs": [[[1, -1], [-2, 2]], [[0, 0], [5, -5]]], "next": [["here", "there"], ["there", None]]},
        "there": {"payoffs": [[[7, 1], [3, 2]], [[4, 9], [6, 6]]], "next": "here"},
    },
    "steps": 4,
}


def start(game="climbing", task=0, seed=0, **kwargs):
    env = palaver.make("matrix-v1", game=game, **kwargs)
    observations, infos = env.reset(seed=seed, options={"task": task})
    return env, observations, infos


def say(env, *texts):
    return env.step(dict(zip(env.possible_agents, texts, strict=True)))


def episode(env, policy, seed=0, task=0):
    """The team's return when every seat is played by `policy`, and the metrics of each turn."""
    observations, _ = env.reset(seed=seed, options={"task": task})
    conversations = dict.fromkeys(env.agents, ())
    total, metrics = 0.0, []
    while env.agents:
        for agent in env.agents:
            conversations[agent] += (Message("user", observations[agent]),)
        said = {agent: policy(conversations[agent], seed * 100 + n) for n, agent in enumerate(env.agents)}
        for agent, text in said.items():
            conversations[agent] += (Message("assistant", text),)
        observations, rewards, *_, infos = env.step(said)
        total += sum(rewards.values()) / len(rewards)
        metrics.append(next(iter(infos.values()))["metrics"])
    return total, metrics


@pytest.mark.parametrize(
    ("said", "paid"),
    [
        (("red", "red"), 11),
        (("red", "green"), -30),
        (("Green!", "blue"), 6),
        (("blue", "green"), 0),
        (("blue",) * 2, 5),
    ],
)
def test_climbing(said, paid):
    env, _, infos = start()
    assert infos["a1"]["legal_actions"] == infos["a2"]["legal_actions"] == ["red", "green", "blue"]
    observations, rewards, terminated, truncated, infos = say(env, *said)
    assert rewards == {"a1": paid, "a2": paid}
    assert infos["a1"]["reward_components"] == {"payoff": paid, "illegal": 0.0}
    assert infos["a2"]["metrics"] == {"optimal": float(paid == 11), "regret": 11.0 - paid, "illegal": 0.0}
    assert observations == {"a1": "", "a2": ""}
    assert (set(terminated.values()), set(truncated.values())) == ({True}, {False})
    assert infos["a1"]["legal_actions"] == []
    assert env.max_return == 11


def test_the_prompt_names_game_seat_and_actions():
    _, told, infos = start("two-step", task="wording-1-1", repeats=2)
    assert told["a2"] == (
        "Game: two-step. You are a2.\n"
        "Choose one action. You cannot see what the others choose. Say only its name.\n"
        "Actions: right, left.\n"
        "Round 1 of 2. State: start."
    )
    assert infos["a2"]["legal_actions"] == ["left", "right"]
    assert infos["a2"]["role"] == "a2"


def test_the_two_step_game():
    env, _, _ = start("two-step")
    observations, rewards, terminated, _, infos = say(env, "right", "left")
    assert observations == {"a1": "State: B.", "a2": "State: B."}
    assert (set(rewards.values()), set(terminated.values())) == ({0.0}, {False})
    assert infos["a1"]["legal_actions"] == ["left", "right"]
    _, rewards, terminated, _, _ = say(env, "right", "right")
    assert (set(rewards.values()), set(terminated.values())) == ({8.0}, {True})
    env.reset(options={"task": 0})
    assert say(env, "left", "right")[0]["a2"] == "State: A."
    *_, infos = say(env, "left", "right")
    assert infos["a1"]["metrics"] == {"optimal": 1.0, "regret": 0.0, "illegal": 0.0}  # nothing better from A


def test_to_name_no_action_forfeits_the_round():
    env, _, _ = start("two-step", repeats=2)
    # from the start the rest of the round could have paid as little as 0
    observations, rewards, _, _, infos = say(env, "left", "somewhere")
    assert rewards == {"a1": 0.0, "a2": 0.0}
    assert infos["a1"]["metrics"] == {"optimal": 0.0, "regret": 8.0, "illegal": 1.0}
    assert observations["a1"] == "Round 2 of 2. State: start."
    say(env, "left", "left")
    # in A it pays 7 whatever happens
    _, rewards, terminated, _, infos = say(env, "", "?")
    assert rewards == {"a1": 7.0, "a2": 7.0}
    assert infos["a1"]["reward_components"] == {"payoff": 0.0, "illegal": 7.0}
    assert infos["a1"]["metrics"]["illegal"] == 2.0
    assert set(terminated.values()) == {True}


@pytest.mark.parametrize(("illegal", "paid"), [("minimum", 0.0), (-3, -3.0), (0, 0.0)])
def test_what_is_paid_for_no_action(illegal, paid):
    """A defection earns 5 or 1, as against any action at random; an answer that names none the least, 0."""
    met = set()
    for seed in range(20):
        env, _, _ = start("prisoners-dilemma", seed=seed, illegal=illegal)
        _, rewards, _, _, infos = say(env, "defect", None)
        assert infos["a2"]["reward_components"] == {"payoff": 0.0, "illegal": paid}
        assert (rewards["a2"], infos["a1"]["metrics"]["outcome"]) == (paid, 1.0)
        met.add(rewards["a1"])
    assert met == {1.0, 5.0}
    together, _, _ = start("prisoners-dilemma", shared=True)
    assert say(together, "defect", None)[1] == {"a1": 1.0, "a2": 1.0}, "all share the least where all are paid alike"


def test_an_illegal_answer_is_never_better_than_a_legal_one():
    """In every joint position of a game of states: what it is paid is at most the action that was drawn would pay."""
    env, _, _ = start(STATES)
    for seed in range(40):
        env.reset(seed=seed, options={"task": 0})
        while env.agents:
            state, before = env.position.state, env.game.payoffs[env.position.state]
            _, rewards, *_ = say(env, None, env.game.actions[1][seed % 2])
            own = before.reshape(2, 2, 2)[:, seed % 2]
            assert rewards["a1"] == before[:, 0].min() <= own[:, 0].min()
            assert rewards["a2"] in own[:, 1], (state, rewards)
        assert env.tally.outcome() == -1.0


def test_whoever_names_no_action_ranks_last_in_the_dilemma():
    """`lazy` loses every game against `reference`, who always cooperates, though its return is never negative."""
    for seed in range(20):
        env, _, _ = start("prisoners-dilemma", seed=seed, repeats=5)
        while env.agents:
            *_, infos = say(env, "cooperate", "words that name nothing")
        assert infos["a1"]["metrics"]["outcome"] == 1.0


def test_a_game_that_pays_all_alike_has_no_outcome():
    assert set(say(start()[0], "red", "red")[4]["a1"]["metrics"]) == {"optimal", "regret", "illegal"}
    env, _, _ = start("prisoners-dilemma", repeats=2)
    early = say(env, "defect", "cooperate")[4]["a1"]["metrics"]
    assert set(early) == {"optimal", "regret", "illegal"}, "not before the end"
    assert say(env, "defect", "defect")[4]["a1"]["metrics"]["outcome"] == 1.0


def test_hostile_texts_name_no_action():
    for name in games.BUILT_IN:
        for action in HOSTILE:
            if not (isinstance(action, str) and "right to left" in action):
                env, _, _ = start(name)
                *_, infos = env.step(dict.fromkeys(env.agents, action))
                assert infos["a1"]["metrics"]["illegal"] >= 2
                assert infos["a1"]["reward_components"] == {"payoff": 0.0, "illegal": LEAST[name]}
                assert env.agents == []


def test_each_its_own_or_the_mean():
    assert say(start("prisoners-dilemma")[0], "cooperate", "defect")[1] == {"a1": 0.0, "a2": 5.0}
    env, _, _ = start("prisoners-dilemma", shared=True)
    assert say(env, "cooperate", "defect")[1] == {"a1": 2.5, "a2": 2.5}
    assert env.max_return == 3


def test_rounds():
    env, told, _ = start(repeats=3)
    assert told["a1"].endswith("\nRound 1 of 3.")
    assert env.max_return == 33
    observations, rewards, terminated, _, _ = say(env, "red", "red")
    assert (observations["a1"], rewards["a1"], terminated["a1"]) == ("Round 2 of 3.", 11.0, False)
    assert say(env, "blue", "blue")[0]["a2"] == "Round 3 of 3."
    assert say(env, "green", "green")[2] == {"a1": True, "a2": True}
    assert env.agents == []


def test_feedback_tells_all_the_same():
    env, _, _ = start("prisoners-dilemma", repeats=3, feedback=True)
    observations = say(env, "defect", "cooperate")[0]
    assert observations["a1"] == observations["a2"]
    assert observations["a1"] == "a1 chose defect, a2 chose cooperate. Paid: 5, 0.\nRound 2 of 3."
    assert say(env, "{evil}\nRound 9", "defect")[0]["a1"] == (
        f"a1 said no action, a2 chose defect. Paid: 0, {int(env.tally.returns[1])}.\nRound 3 of 3."
    )


@pytest.mark.parametrize("name", games.BUILT_IN)
def test_without_seats_all_prompts_are_equal(name):
    env, told, _ = start(name, role_prompts=False, show_payoffs=True, feedback=True, repeats=2)
    while env.agents:
        assert len(set(told.values())) == 1
        told = say(env, env.game.actions[0][0], env.game.actions[1][1])[0]
    assert len(set(start(name)[1].values())) == 2


def test_tasks_word_and_order_the_same_game_differently():
    env, _, _ = start()
    seen = {env.reset(options={"task": n})[0]["a1"] for n in range(len(env.tasks))}
    assert len(seen) == len(env.tasks) == 24
    assert {text.rpartition("Actions: ")[2] for text in seen} == {
        "red, green, blue.", "green, blue, red.", "blue, red, green.",
    }  # fmt: skip
    drawn = [env.reset(seed=seed)[1]["a1"]["task_id"] for seed in range(20)]
    assert drawn == [env.reset(seed=seed)[1]["a1"]["task_id"] for seed in range(20)]
    assert len(set(drawn)) > 5


def test_no_wording_names_an_action():
    env, _, _ = start()
    names = {name for game in games.BUILT_IN for actions in games.built_in(game).actions for name in actions}
    for task in env.tasks:
        assert not names & set(task["wording"].lower().replace(".", "").split())


def test_forks_go_different_ways():
    env, _, _ = start("two-step")
    left, right = env.fork(), env.fork()
    assert [say(left, "left", "left")[0]["a1"], say(right, "right", "left")[0]["a1"]] == ["State: A.", "State: B."]
    assert say(env.fork(), "right", "right")[0]["a1"] == "State: B."
    assert say(left, "left", "left")[1]["a1"] == 7.0
    assert say(right, "left", "left")[1]["a1"] == 0.0
    assert left.game is env.game


OUTCOMES = dict.fromkeys(("prisoners-dilemma", "chicken", "stag-hunt", "rock-paper-scissors"), 0.0) | {
    "matching-pennies": 1.0  # all joint actions are best for a team whose rewards cancel, and the first is heads, heads
}


@pytest.mark.parametrize(
    "kwargs", [{}, {"repeats": 3}, {"repeats": 2, "feedback": True, "show_payoffs": True}], ids=str
)
@pytest.mark.parametrize("game", [*games.BUILT_IN, "xor 4", "coordination 3"])
def test_the_reference_reaches_the_optimum(game, kwargs):
    name, _, n = game.partition(" ")
    env = palaver.make("matrix-v1", game=name, agents=int(n) if n else None, **kwargs)
    for task in (0, 5, 23):
        total, metrics = episode(env, reference.reference, task=task)
        assert total == env.max_return
        assert all(turn.items() >= {"optimal": 1.0, "regret": 0.0, "illegal": 0.0}.items() for turn in metrics)
        assert metrics[-1].get("outcome") == OUTCOMES.get(game)


def test_the_reference_reads_other_games_from_the_prompt():
    states = {
        "here": {"payoffs": [[1, 0], [0, [2, -1]]], "next": [["here", None], [None, "there"]]},
        "there": {"payoffs": [[-1, 5], [-2, -2]], "next": "here"},
    }
    game = {"agents": ["ann", "bob"], "actions": ["stay", "leave"], "states": states, "steps": 4}
    # here twice and there twice would be 0.5 + 5 + 0.5 + 5, here first: 1 + 0.5 + 5 + 1
    env = palaver.make("matrix-v1", game=game, show_payoffs=True, repeats=2)
    assert env.max_return == 2 * 11
    assert episode(env, reference.reference)[0] == 22
    assert "A round ends after 4 turns." in env.reset(seed=0)[0]["ann"]
    hidden = palaver.make("matrix-v1", game=game)
    observations, _ = hidden.reset(options={"task": 1})
    assert reference.reference((Message("user", observations["ann"]),), 0) == "leave"  # the first on this task's list


def test_the_optimum_depends_on_the_turns_left():
    game = {"agents": 1, "actions": ["wait", "take"], "steps": 3,
            "states": {"s": {"payoffs": [1, 5], "next": ["s", None]}}}  # fmt: skip
    env = palaver.make("matrix-v1", game=game, show_payoffs=True, repeats=2)
    total, metrics = episode(env, reference.reference)
    assert (total, len(metrics)) == (2 * (1 + 1 + 5), 6)


def test_without_a_seat_the_reference_reaches_what_equal_policies_can():
    returns = [
        episode(palaver.make("matrix-v1", game="xor", role_prompts=False), reference.reference, n)[0]
        for n in range(200)
    ]
    assert 0.4 < sum(returns) / 200 < 0.6  # 1/2, standard error 0.035
    env = palaver.make("matrix-v1", game="climbing", role_prompts=False)
    assert episode(env, reference.reference)[0] == 11


def test_uniform_and_lazy():
    env = palaver.make("matrix-v1", game="coordination", agents=2)
    returns = [episode(env, reference.uniform, n)[0] for n in range(300)]
    assert 0.24 < sum(returns) / 300 < 0.43  # 1/3, standard error 0.027
    assert episode(env, lazy)[1] == [{"optimal": 0.0, "regret": 1.0, "illegal": 2.0}]


@pytest.mark.parametrize("name", ["reference", "uniform", "lazy", "always_first", "always_last", "tit_for_tat"])
@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "hello",
        "Game: x.",
        "Game: xor n=2. You are a9.",
        "Game: xor n=3.\nActions: .",
        "Game: two-step. You are a1.\nState: Z.\nActions: up.",
    ],
)
def test_scripted_players_answer_anything(name, text):
    policy = resolve(palaver.spec("matrix-v1").scripted[name])
    conversation = () if text is None else (Message("user", text),)
    assert isinstance(policy(conversation, 3), str)
