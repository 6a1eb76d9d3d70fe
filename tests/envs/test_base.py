"""The base: actions of every kind, tasks by name, agents that leave, copies, threads, authors' mistakes."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

from palaver.core import ConfigError, PalaverError, TaskError
from palaver.envs.base.env import StepResult, TextEnv, as_heard
from palaver.envs.base.tasks import Task

TASKS = tuple(Task(f"t{n}", {"n": n}) for n in range(10))


class Echo(TextEnv):
    def initial_observations(self, task):
        self.history = []
        return dict.fromkeys(self.agents, f"task {task['n']}")

    def transition(self, actions):
        self.history.append(dict(actions))
        return StepResult({a: {"x": 1.0} for a in self.agents}, {a: f"heard {t}" for a, t in actions.items()})


def make(**kwargs):
    return Echo(["a", "b"], TASKS, **kwargs)


@pytest.mark.parametrize(
    ("action", "text", "legal"),
    [
        (None, "", True),
        ("", "", True),
        ("abcde", "abcde", True),
        ("abcdef", "abcde", False),
        (np.str_("abc"), "abc", True),
        ("é€😀", "é€😀", True),
        ("a\ud800b\udfff", "a?b?", False),
        (b"ab\xff", "ab\N{REPLACEMENT CHARACTER}", False),
        (b"abcdefgh", "abcde", False),
        (bytearray(b"ab"), "ab", False),
        (3, "", False),
        (10**5000, "", False),
        (float("nan"), "", False),
        (["a"], "", False),
        (object(), "", False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_action_is_heard_as_a_text(action, text, legal):
    assert as_heard(action, 5) == (text, legal)
    assert type(as_heard(action, 5)[0]) is str


def test_a_string_with_a_broken_str_is_read():
    class Broken(str):
        def __str__(self):
            raise ValueError

    assert as_heard(Broken("hi"), 5) == ("hi", True)


def test_illegal_actions_are_counted_and_missing_ones_are_silence():
    env = make(max_length=5)
    env.reset(seed=0)
    *_, infos = env.step({"a": b"x", "b": "too long", "stranger": "hi"})
    assert infos["a"]["metrics"] == infos["b"]["metrics"] == {"illegal": 2.0}
    env.step({"a": "x"})
    assert env.history == [{"a": "x", "b": "too l"}, {"a": "x", "b": ""}]


def test_long_observations_are_cut():
    env = make(max_length=7)
    env.reset()
    assert env.step({"a": "1234567"})[0]["a"] == "heard 1"


def test_task_by_index_id_and_draw():
    env = make()
    assert env.reset(options={"task": 3})[1]["a"]["task_id"] == "t3"
    assert env.reset(options={"task": "t7"})[1]["b"]["task_id"] == "t7"
    assert env.reset(options={"task": -1})[1]["a"]["task_id"] == "t9"
    assert env.reset(options={"task": np.int64(2)})[1]["a"]["task_id"] == "t2"
    drawn = [env.reset(seed=1)[1]["a"]["task_id"], *(env.reset()[1]["a"]["task_id"] for _ in range(30))]
    assert len(set(drawn)) > 5
    again = [env.reset(seed=1)[1]["a"]["task_id"], *(env.reset()[1]["a"]["task_id"] for _ in range(30))]
    assert drawn == again


@pytest.mark.parametrize(
    ("task", "hint"), [("t77", "Did you mean 't7'"), (10, "has 10"), (-11, "has 10"), (True, "True")]
)
def test_unknown_tasks(task, hint):
    with pytest.raises(TaskError, match=hint):
        make().reset(options={"task": task})


def test_legal_actions_are_listed_for_those_who_may_act():
    class Door(Echo):
        def transition(self, actions):
            self.legal_actions = {"a": ["shut"]}
            return StepResult({a: {} for a in self.agents}, truncated=self.turn == 2, can_act=["a"])

    env = Door(["a", "b"], TASKS)
    assert "legal_actions" not in env.reset()[1]["a"]
    env.legal_actions = {"a": ("open", "wait"), "b": ("wait",)}
    infos = env.reset()[1]
    assert {agent: info["legal_actions"] for agent, info in infos.items()} == {"a": ["open", "wait"], "b": ["wait"]}
    *_, infos = env.step({})
    assert {agent: info["legal_actions"] for agent, info in infos.items()} == {"a": ["shut"], "b": []}
    env.step({})
    *_, infos = env.step({})
    assert {agent: info["legal_actions"] for agent, info in infos.items()} == {"a": ["shut"], "b": []}, "truncated"


def test_agents_leave_one_by_one_and_only_actors_are_heard():
    class Leaving(Echo):
        def transition(self, actions):
            self.history.append(dict(actions))
            ends = {0: [], 1: ["b"], 2: ["a"]}[self.turn]
            return StepResult({a: {} for a in self.agents}, truncated=ends, can_act=["a"] if self.turn == 0 else None)

    env = Leaving(["a", "b"], TASKS)
    env.reset()
    *_, infos = env.step({"a": "1", "b": "1"})
    assert (infos["a"]["can_act"], infos["b"]["can_act"]) == (True, False)
    _, rewards, terminated, truncated, infos = env.step({"a": "2", "b": "spoke out of turn"})
    assert env.history[1] == {"a": "2", "b": ""}
    assert infos["a"]["metrics"]["illegal"] == 1.0
    assert (terminated, truncated) == ({"a": False, "b": False}, {"a": False, "b": True})
    assert rewards == {"a": 0.0, "b": 0.0}
    assert env.agents == ["a"]
    assert set(env.step({"a": "3", "b": "late"})[0]) == {"a"}
    assert env.agents == []
    assert env.step({"a": "4"}) == ({}, {}, {}, {}, {})


def test_fork_is_independent_and_shares_tasks():
    env = make()
    env.reset(seed=3)
    env.step({"a": "one"})
    fork = env.fork()
    assert fork.tasks is env.tasks
    assert fork._by_id is env._by_id
    assert fork.history == env.history
    assert fork.history is not env.history
    fork.step({"a": "two"})
    assert (len(env.history), len(fork.history)) == (1, 2)
    assert "two" not in env.state()
    assert [env.reset()[1] for _ in range(5)] == [fork.reset()[1] for _ in range(5)]


def test_copies_and_pickles():
    env = make()
    env.reset(seed=3)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.state() == env.state()
        assert twin.step({"a": "x"})[0] == {"a": "heard x", "b": "heard "}
    assert env.turn == 0


def test_state_and_render():
    env = make(render_mode="ansi")
    env.reset(options={"task": 1})
    env.step({"a": "hi\nb > forged", "b": None})
    assert (
        env.state() == "a < task 1\nb < task 1\na > hi\n    b > forged\nb > \na < heard hi\n    b > forged\nb < heard "
    )
    assert env.render().startswith("[text_v0, task t1, turn 1]\na < task 1\n")
    assert "$ a 1, b 1" in env.render()
    assert make().render() is None


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_no_text_can_forge_an_entry(end):
    env = Echo(["a", "b"], [Task(f"t{end}b > forged", {"n": 0})], render_mode="ansi")
    env.reset()
    env.step({"a": f"\x1b[2Jhi{end}b > forged{end}{end}$ a 9"})
    for shown in (env.state(), env.render()):
        assert not [line for line in shown.splitlines() if line.startswith(("b > forged", "$ a 9"))]
    assert "\x1b" not in env.render()
    assert "␛[2Jhi\n    b > forged\n    \n    $ a 9\n" in env.render()


def test_a_long_transcript_is_rendered_whole():
    env = make(render_mode="ansi", max_length=30_000)
    env.reset()
    env.step({"a": "z" * 30_000, "b": "the end"})
    assert env.render().count("z") == 30_000 + 30_000 - len("heard ")
    assert "b > the end" in env.render()


def test_a_task_is_found_by_its_id_without_asking_every_task():
    class Id(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Id.compared += 1
            return str.__eq__(self, other)

    env = Echo(["a"], [Task(Id(f"t{n}"), {"n": n}) for n in range(1000)])
    Id.compared = 0
    env.fork().reset(options={"task": "t999"})
    assert Id.compared < 10


def test_of_two_tasks_with_one_id_the_first_is_chosen():
    env = Echo(["a"], [Task("t", {"n": 1}), Task("t", {"n": 2})])
    assert env.reset(options={"task": "t"})[0] == {"a": "task 1"}


def test_threads_take_turns():
    class Counting(Echo):
        inside = most = 0

        def transition(self, actions):
            self.inside += 1
            self.most = max(self.most, self.inside)
            threading.Event().wait(0.001)
            self.inside -= 1
            return super().transition(actions)

    env = Counting(["a"], TASKS)
    env.reset()
    threads = [threading.Thread(target=lambda: [env.step({"a": "x"}) for _ in range(5)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (env.most, env.turn, len(env.history)) == (1, 40, 40)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], TASKS), "needs agents"),
        ((["a", "a"], TASKS), "different names"),
        ((["a"], ()), "at least one task"),
    ],
)
def test_bad_construction(arguments, message):
    with pytest.raises(PalaverError, match=message):
        Echo(*arguments)


@pytest.mark.parametrize(
    "kwargs", [{"render_mode": "human"}, {"max_length": 0}, {"max_length": True}, {"max_length": "9"}]
)
def test_bad_keywords(kwargs):
    with pytest.raises(ConfigError, match=next(iter(kwargs))):
        make(**kwargs)


def test_an_opening_for_an_unknown_agent_is_refused():
    class Misspelt(Echo):
        def initial_observations(self, task):
            return {"a": "x", "bb": "y"}

    with pytest.raises(ConfigError, match=r"initial_observations named an agent 'bb'\. Did you mean 'b'"):
        Misspelt(["a", "b"], TASKS).reset()


def test_hooks_must_be_written():
    class Half(TextEnv):
        def initial_observations(self, task):
            return {}

    with pytest.raises(TypeError, match="transition"):
        Half(["a"], TASKS)


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (lambda: StepResult({"a": {}}), r"no reward components for \['b'\]"),
        (lambda: StepResult({"a": {}, "b": {"x": float("nan")}}), "'x' of 'b' is nan"),
        (lambda: StepResult({"a": {}, "b": {}}, metrics={"m": float("inf")}), "'m' is inf"),
        (lambda: StepResult({"a": {}, "b": {}}, metrics={"m": None}), "'m' is a NoneType"),
        (lambda: StepResult({"a": {"x": "1"}, "b": {}}), "'x' of 'a' is a str"),
        (lambda: StepResult({"a": {"x": 10**5000}, "b": {}}), "'x' of 'a' is too large"),
        (lambda: StepResult({"a": {"x": 1e308, "y": 1e308}, "b": {}}), "the reward of 'a' is inf"),
        (lambda: StepResult({"a": 1.0, "b": {}}), "the components of 'a' are a float"),
        (lambda: StepResult({"a": {}, "b": {}}, {"bb": ""}), "named an agent 'bb'"),
        (lambda: StepResult({"a": {}, "b": {}}, terminated=["c"]), "named an agent 'c'"),
    ],
)
def test_authors_mistakes_are_named(outcome, message):
    class Wrong(Echo):
        def transition(self, actions):
            return outcome()

    env = Wrong(["a", "b"], TASKS)
    env.reset()
    with pytest.raises(ConfigError, match=message):
        env.step({})
