"""Environments whose agents are asked about each other: who is asked, what leaks, what is rewarded."""

from __future__ import annotations

import json

import pytest

import palaver
from palaver.core import ConfigError
from palaver.envs.base import checks
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.infer_spec import InferSpec
from palaver.envs.base.inference_wrapper import InferenceWrapper
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.reward_wrapper import RewardWrapper
from palaver.envs.base.tasks import Task
from palaver.envs.base.transcripts import HOSTILE, babble
from palaver.envs.base.wrappers import own_env, rewarded
from tests.envs.rewards import Length

MATRIX = {"game": "prisoners-dilemma", "repeats": 2, "feedback": True}
ENVS = [
    ("matrix-v1", MATRIX),
    ("matrix-v1", {**MATRIX, "fresh": True}),
    ("kuhn-v0", {}),
    ("leduc-v0", {}),
    ("hidden-profile-v0", {"form": "tiny"}),
    ("build-mini-v0", {}),
    ("arxiv-v0", {}),
    ("coding-mini-v0", {}),
    ("maths-mini-v0", {"workflow": "debate"}),
    ("hanabi-v0", {"form": "small"}),
    ("housebuild-v0", {"num_turns": 2}),
    ("strbuild-v0", {"num_turns": 2}),
    ("deal-or-no-deal-v0", {}),
    ("negotiation-v0", {"messages": 2}),
    ("trust-and-split-v0", {"rounds": 2}),
]
MODES = [
    {"when": "after"},
    {"when": "before"},
    {"when": "after", "order": 2, "alpha": 0.5},
    {"when": "before", "order": 2, "alpha": 0.5},
]


class Toy(TextEnv):
    """Two turns; each agent says a colour and is asked for the other's; books its rewards by turn at the end."""

    def __init__(self):
        super().__init__(["a", "b"], [Task("t", {})])
        self.num_turns, self.max_return = 2, 2.0

    def initial_observations(self, task):
        return {"a": "a opens", "b": "b opens"}

    def questions(self, agent, actions):
        other = "b" if agent == "a" else "a"
        said = actions.get(other, "")
        truth = (said,) if said in ("red", "blue") else None
        return [InferenceQuestion(other, "Which colour?", "choice", ("red", "blue"), truth)]

    def transition(self, actions):
        if "broken" in actions.values():
            return StepResult({agent: {"good": 0.0} for agent in self.agents}, unscored=True)
        last = self.turn == 1
        same = float(len(set(actions.values())) == 1)
        earned = {agent: [{"good": 0.25}, {"good": same - 0.25}] for agent in self.agents} if last else None
        return StepResult(
            {agent: {"good": same if last else 0.0} for agent in self.agents},
            {} if last else {"a": "a again", "b": "b again"},
            last,
            metrics={"m": 1.0, "solved": same},
            turn_rewards=earned,
        )


def toy(**settings):
    return InferenceWrapper(Toy(), InferSpec(**settings))


def observed(env, seed, answer, actions=babble):
    """Observations of the environment's own turns, and questions, when every question is answered by `answer`."""
    observations, _ = env.reset(seed=seed)
    own, asked, turn = [], [], 0
    while env.agents:
        if getattr(env, "_open", {}):
            asked.append(observations)
            joint = {agent: answer(agent) for agent in env.agents}
        else:
            own.append(dict(observations))
            joint = {agent: actions(observations, turn, agent) for agent in env.agents}
            turn += 1
        observations, *_ = env.step(joint)
    return [*own, observations], asked


# --- what leaks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("infer", MODES, ids=json.dumps)
@pytest.mark.parametrize(("id", "kwargs"), ENVS, ids=[f"{id}{n}" for n, (id, _) in enumerate(ENVS)])
def test_a_guess_changes_no_other_observation(id, kwargs, infer):
    plain, _ = observed(palaver.make(id, **kwargs), 5, lambda _: "")
    runs = [
        observed(palaver.make(id, **kwargs, infer=infer), 5, answer)
        for answer in (lambda _: "J 0.3, Q 0.2", lambda agent: f"SECRET of {agent}", lambda _: HOSTILE[7])
    ]
    for own, asked in runs:
        assert [{a: t for a, t in seen.items() if t} for seen in own] == [
            {a: t for a, t in seen.items() if t} for seen in plain
        ]
        assert "SECRET" not in json.dumps(asked)
    silent = {"coding-mini-v0", "build-mini-v0", "matrix-v1", "maths-mini-v0", "housebuild-v0", "strbuild-v0"}
    assert any(asked for _, asked in runs) or id in silent


@pytest.mark.parametrize(
    ("id", "kwargs"),
    [
        ("hanabi-v0", {"form": "mini"}),
        ("deal-or-no-deal-v0", {"messages": 0}),
        ("negotiation-v0", {"messages": 1}),
        ("trust-and-split-v0", {"rounds": 1}),
    ],
)
def test_a_question_about_what_is_hidden_reads_alike_in_every_task(id, kwargs):
    env = palaver.make(id, **kwargs)
    agent, asked = env.possible_agents[0], set()
    for task in range(12):
        env.reset(options={"task": task})
        asked.add(tuple((q.about, q.text, q.options) for q in env.questions(agent, {})))
    assert len(asked) == 1


def test_questions_of_cards_give_away_no_card():
    for order in (1, 2):
        env = palaver.make("kuhn-v0", infer={"when": "before", "order": order})
        texts = set()
        for task in range(6):
            observations, _ = env.reset(options={"task": task})
            texts |= {text.partition("Guess:")[2] for text in observations.values()}
        assert texts == {"", " Which card has p2?\nAnswers: J, Q, K. A probability may follow an answer."}


# --- the episode ---------------------------------------------------------------------------------


def test_after_acting_the_turn_of_guesses_comes_before_the_outcome():
    env = toy(alpha=2.0)
    assert env.num_turns == 4
    assert env.max_return == 2 + 2 * 4
    assert env.reset(seed=0)[0] == {"a": "a opens", "b": "b opens"}
    observations, rewards, ends, _, infos = env.step({"a": "red", "b": "blue"})
    assert observations["a"] == "Guess: Which colour?\nAnswers: red, blue. A probability may follow an answer."
    assert rewards == {"a": 0.0, "b": 0.0}
    assert not any(ends.values())
    assert infos["a"]["legal_actions"] == ["red", "blue"]
    observations, rewards, _, _, infos = env.step({"a": "blue 0.75", "b": "neither"})
    assert observations == {"a": "a again", "b": "b again"}
    assert rewards == pytest.approx({"a": 2 * (0.875 - 0.5), "b": 2 * (-1 - 0.5)})
    assert infos["a"]["reward_components"] == {"inference": rewards["a"]}
    assert infos["a"]["metrics"]["inference/accuracy"] == 0.5
    assert infos["a"]["metrics"]["inference/unreadable"] == 0.5
    _, rewards, ends, _, infos = env.step({"a": "red", "b": "red"})
    assert rewards == {"a": 1.0, "b": 1.0}
    assert (infos["a"]["metrics"], any(ends.values())) == ({"illegal": 0.0}, False)
    _, rewards, ends, _, infos = env.step({"a": "red", "b": "red"})
    assert all(ends.values())
    assert env.agents == []
    assert infos["a"]["metrics"]["solved"] == 1.0  # of the last turn
    booked = [sum(parts.values()) for parts in infos["a"]["turn_rewards"]]
    assert booked == pytest.approx([0.25, 0.75, 0.75, 1.0])
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_before_acting_a_guess_about_an_action_is_rewarded_when_it_is_known():
    env = toy(when="before", alpha=1.0)
    observations, infos = env.reset(seed=0)
    assert observations["a"].startswith("a opens\n\nGuess: Which colour?")
    observations, rewards, _, _, infos = env.step({"a": "blue", "b": "blue"})
    assert observations == {"a": "a opens", "b": "b opens"}
    assert rewards == {"a": 0.0, "b": 0.0}
    observations, rewards, _, _, infos = env.step({"a": "red", "b": "blue"})
    assert rewards == {"a": 0.5, "b": -1.5}
    assert infos["b"]["reward_components"] == {"good": 0.0, "inference": -1.5}
    assert observations["a"].startswith("a again\n\nGuess")


def test_what_names_no_action_is_no_truth():
    env = toy(alpha=1.0)
    env.reset(seed=0)
    observations, *_ = env.step({"a": "red", "b": "mauve"})
    assert observations["a"] == ""
    assert observations["b"].startswith("Guess")


def test_second_order_asks_for_the_guess_about_oneself():
    env = toy(alpha=1.0, order=2)
    assert env.num_turns == 6
    env.reset(seed=0)
    env.step({"a": "red", "b": "red"})
    observations, rewards, *_ = env.step({"a": "red", "b": "blue 0.75"})
    assert rewards == pytest.approx({"a": 0.5, "b": 2 * 0.25 - (0.75**2 + 0.25**2) - 0.5})
    assert observations["a"].startswith("Guess: b was asked about you, a: Which colour? The answer of b?")
    assert "0.75" not in json.dumps(observations)
    _, rewards, _, _, infos = env.step({"a": "blue 0.75", "b": "blue"})
    assert rewards == pytest.approx({"a": 0.75**2 + 0.25**2 - 0.5, "b": -1 - 0.5})
    assert infos["a"]["metrics"]["inference2/accuracy"] == pytest.approx((0.75 + 0) / 2)


def test_an_action_that_could_not_be_scored_ends_the_episode_without_questions():
    env = toy()
    env.reset(seed=0)
    *_, truncated, infos = env.step({"a": "broken", "b": "red"})
    assert all(truncated.values())
    assert infos["a"]["unscored"]
    assert env.agents == []


@pytest.mark.parametrize("infer", MODES, ids=json.dumps)
@pytest.mark.parametrize(("id", "kwargs"), ENVS[:6], ids=[f"{id}{n}" for n, (id, _) in enumerate(ENVS[:6])])
def test_the_contract_holds(id, kwargs, infer):
    def make():
        return palaver.make(id, **kwargs, infer=infer)

    for part in (
        checks.check_attributes, checks.check_spaces, checks.check_observations, checks.check_determinism,
        checks.check_rewards, checks.check_infos, checks.check_hostile, checks.check_fork, checks.check_render,
        checks.check_options, checks.check_leaving, checks.check_end,
    ):  # fmt: skip
        part(make)


def test_only_named_agents_are_asked():
    env = toy(agents=("b",))
    env.reset(seed=0)
    observations, _, _, _, infos = env.step({"a": "red", "b": "blue"})
    assert observations["a"] == ""
    assert [infos[agent]["can_act"] for agent in "ab"] == [False, True]
    with pytest.raises(ConfigError, match="no agent 'c'"):
        toy(agents=("c",))


def test_an_environment_without_questions_is_refused():
    for id in ("echo-v0", "connect4-v0"):
        with pytest.raises(ConfigError, match="has no questions about its agents"):
            palaver.make(id, infer=True)
    assert not isinstance(palaver.make("echo-v0", infer=False), InferenceWrapper)


def test_a_judge_scores_the_actions_and_no_guess():
    reward = Length()
    env = InferenceWrapper(RewardWrapper(Toy(), reward), InferSpec(alpha=1.0))
    assert rewarded(env) is env.inner
    assert type(own_env(env)) is Toy
    env.reset(seed=0)
    _, rewards, *_ = env.step({"a": "red", "b": "red"})
    before = dict(rewards)
    _, rewards, *_ = env.step({"a": "red", "b": "blue"})
    assert rewards == {"a": 0.5, "b": -1.5}
    assert before["a"] == before["b"] != 0.0


@pytest.mark.parametrize(
    ("id", "kwargs", "actions", "about", "truth"),
    [
        ("matrix-v1", {}, {"a1": "red", "a2": "Blue!"}, "a2", ("blue",)),
        ("build-mini-v0", {}, {"builder1": "", "builder2": None}, "builder2", ("2", "5")),
        ("coding-mini-v0", {}, {"aux": "", "main": "def f(xs):\n    return [aux(x) for x in xs]"}, "main", ("map",)),
        ("arxiv-v0", {}, {"background": "", "method": "We sort."}, "method", ("We sort.",)),
        ("maths-mini-v0", {"workflow": "debate"}, {"solver1": "", "solver2": "so #### 12"}, "solver2", ("12",)),
    ],
)
def test_environments_know_the_truth_about_the_other(id, kwargs, actions, about, truth):
    env = palaver.make(id, **kwargs)
    observations, _ = env.reset(seed=1)
    if id == "build-mini-v0":
        plan = observations["builder1"].splitlines()[1:]
        actions = {"builder1": "", "builder2": f"{plan[1]}\n{plan[4].partition('. ')[2]}\nfill 9 9 9 9 9 9 stone"}
    agents = [agent for agent in env.possible_agents if agent != about]
    actions = dict.fromkeys(env.possible_agents, "") | actions
    (question,) = [q for q in env.questions(agents[0], actions) if q.about == about]
    assert question.truth == truth
    (unknown,) = [q for q in env.questions(agents[0], {}) if q.about == about]
    assert unknown.truth is None
    assert (unknown.text, unknown.options) == (question.text, question.options)


@pytest.mark.parametrize(
    ("id", "kwargs", "turns", "hidden", "truths"),
    [
        ("hanabi-v0", {"form": "mini"}, 0, {"deck": "b2 r1 b1 b1 r1 r1 r2 r2 b1 b2"}, [("blue 2",), ("red 1",)]),
        (
            "deal-or-no-deal-v0", {}, 0, {"counts": [1, 2, 3], "p1": [1, 3, 1], "p2": [7, 0, 1]},
            [("7",), ("0",), ("1",)],
        ),
        ("negotiation-v0", {}, 0, {"cost": 20, "value": 59}, [("50-59",)]),
        ("negotiation-v0", {}, 0, {"cost": 20, "value": 940}, [("940-959",)]),
        ("trust-and-split-v0", {"rounds": 1}, 0, {"hands": "rs"}, [("scissors",)]),
        ("trust-and-split-v0", {"rounds": 1}, 2, {"hands": "rs"}, [("scissors",), ("7",)]),
    ],
)  # fmt: skip
def test_what_is_hidden_from_the_first_agent_is_the_truth(tmp_path, id, kwargs, turns, hidden, truths):
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"id": "t", **hidden}) + "\n")
    env = palaver.make(id, tasks=str(tmp_path / "tasks.jsonl"), **kwargs)
    env.reset(seed=0)
    for _ in range(turns):
        env.step(dict.fromkeys(env.agents, "hello"))
    agent, other = env.possible_agents
    actions = {agent: "", other: "<coins_to_self> 7.0 </coins_to_self>"}
    assert [question.truth for question in env.questions(agent, actions)] == truths
    assert {question.about for question in env.questions(agent, actions)} == {other}
    between = {agent: "", other: "<coins_to_self> 7.5 </coins_to_self>"}
    assert [question.truth for question in env.questions(agent, between)][1:2] in ([], [None], truths[1:2])


def test_values_that_no_choice_can_list_are_not_asked_for(tmp_path):
    (tmp_path / "tasks.jsonl").write_text('{"id": "t", "counts": [1, 1, 1], "p1": [1, 1, 1], "p2": [64, 1, 1]}\n')
    env = palaver.make("deal-or-no-deal-v0", tasks=str(tmp_path / "tasks.jsonl"))
    assert list(env.questions("p1", {})) == []


@pytest.mark.parametrize(
    ("id", "task", "line", "text", "options", "truth"),
    [
        (
            "housebuild-v0", {"inventory": {"A": "air", "B": "stone"}, "bbox": {"from": [5, -2, 0], "to": [7, -1, 1]},
            "target_spec": {"layers": [{"y": 0, "rows": ["BBA", "ABA"]}, {"y": 1, "rows": ["AAA", "BAA"]}]}},
            "fill 5 -2 0 5 -2 1 stone", "At which x does builder2 build in the layer y=-2?", ("5", "6"), ("5",),
        ),
        (
            "strbuild-v0", {"string": "L"},
            "setblock 0 0 0 obsidian\nsetblock 3 0 0 obsidian\nsetblock 3 1 0 obsidian",
            "At which x does builder2 build in the layer y=0?", ("0", "1", "2", "3", "4"), ("0", "3"),
        ),
    ],
)  # fmt: skip
def test_builders_are_asked_where_the_other_builds(tmp_path, id, task, line, text, options, truth):
    (tmp_path / "tasks.json").write_text(json.dumps([{"task_id": "t", **task}]))
    env = palaver.make(id, tasks=str(tmp_path / "tasks.json"))
    env.reset(seed=0)
    first, *rest = env.questions("builder1", {"builder1": line, "builder2": line})
    assert (first.about, first.text, first.options, first.truth) == ("builder2", text, options, truth)
    assert rest[0].truth is None  # nothing of its own on a cell of the plan
    assert [q.text for q in env.questions("builder1", {})] == [first.text, *(q.text for q in rest)]
    assert not any(q.truth for q in env.questions("builder1", {"builder1": line, "builder2": ""}))


def test_the_fact_of_a_teammate_is_asked_for_at_the_final_vote():
    env = palaver.make("hidden-profile-v0", form="tiny", rounds=1)
    env.reset(seed=1)
    for _ in range(2):
        assert env.questions("p1", {}) == []
        env.step(dict.fromkeys(env.agents, "amber"))
    assert [q.truth for q in env.questions("p1", {})] == [(fact,) for fact in env.task["hidden_information"][1:]]
