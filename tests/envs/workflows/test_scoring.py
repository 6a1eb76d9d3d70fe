"""A scorer that is handed in: rhymes in place of sums; one that fails; another environment's reward as a share."""

from __future__ import annotations

from typing import ClassVar

import pytest

import palaver
from palaver.core import ConfigError
from palaver.envs.base.checks import check
from palaver.envs.base.tasks import Task
from palaver.envs.workflows.builtin import workflow
from palaver.envs.workflows.env import WorkflowEnv
from palaver.envs.workflows.other import OtherEnv
from palaver.envs.workflows.reward_scheme import RewardScheme
from palaver.envs.workflows.scoring import EnvScorer, Marks

TASKS = [Task("moon", {"word": "moon"}), Task("hat", {"word": "hat"})]


class Rhymes:
    """1 for another word with the same last two letters; fails where it is told to."""

    def question(self, task, seat):
        return f"{seat}, what rhymes with {task['word']}?"

    def score(self, task, texts):
        found = {seat: float(text != task["word"] and text[-2:] == task["word"][-2:]) for seat, text in texts.items()}
        return Marks(found, {"letters": 3.0}, "by ear", unscored="fail" in texts.values())

    def key(self, text):
        return text.strip().lower()

    def hide(self, text):
        return "..."

    def formed(self, text):
        return " " not in text


class RhymeEnv(WorkflowEnv):
    metadata: ClassVar = {**WorkflowEnv.metadata, "name": "rhymes_v0"}

    def __init__(self, name="debate", **options):
        super().__init__(
            workflow(name, options), Rhymes(), TASKS, RewardScheme(format=0.5, who="own"), shown=50, source="",
            render_mode=None, max_length=400,
        )  # fmt: skip


def test_any_scorer():
    env = RhymeEnv(mask=True)
    told, _ = env.reset(options={"task": "moon"})
    assert told["solver2"] == "solver2, what rhymes with moon?"
    told, rewards, *_, infos = env.step({"solver1": "soon", "solver2": "a spoon"})
    assert rewards == {"solver1": 1.0, "solver2": 0.5}
    assert told["solver2"] == "solver1 said:\n> ...\n\nAnswer the question again."
    assert infos["solver1"]["metrics"]["letters"] == 3.0
    assert infos["solver1"]["reason"] == "by ear"


@pytest.mark.parametrize("name", ["debate", "summary", "verify", "solver_judge", "chain"])
def test_it_keeps_the_contract(name):
    check(lambda: RhymeEnv(name))


def test_what_could_not_be_scored_is_not_worth_0():
    env = RhymeEnv()
    env.reset(options={"task": "moon"})
    _, rewards, terminated, truncated, infos = env.step({"solver1": "soon", "solver2": "fail"})
    assert infos["solver1"]["unscored"] is True
    assert not any(terminated.values())
    assert all(truncated.values())
    assert rewards == {"solver1": 0.0, "solver2": 0.0}
    assert not env.agents


def test_the_score_is_a_share_of_the_most():
    found = workflow("parallel")
    scorer = EnvScorer("coding-mini-v0", "sample[:1]", {}, found)
    (task,) = scorer.inner.tasks
    assert scorer.agents == ("coder",)
    marks = scorer.score(task, {"solver1": "def f(xs): return aux(xs)\ndef aux(xs): return [", "solver2": ""})
    alone = palaver.make("coding-mini-v0", agents=1, tasks="sample[:1]")
    alone.reset(options={"task": task.id})
    paid = alone.step({"coder": "def f(xs): return aux(xs)\ndef aux(xs): return ["})[1]["coder"]
    assert marks.scores == {"solver1": pytest.approx(paid / 2), "solver2": 0.0}
    assert scorer.key(" a\n b ") == "a b"
    assert scorer.hide("a b") == "(2 words, hidden)"
    assert scorer.formed("x")
    assert not scorer.formed(" ")


def test_copies_do_not_share_the_inner_environment():
    env = OtherEnv(tasks="sample[:2]")
    env.reset(options={"task": 0})
    twin = env.fork()
    assert twin.scorer.inner is not env.scorer.inner
    assert twin.scorer.inner.tasks is env.scorer.inner.tasks


def test_an_environment_that_pays_nothing_has_no_share():
    with pytest.raises(ConfigError, match="has a maximum return of"):
        EnvScorer("arxiv-v0", "sample[:1]", {"weights": dict.fromkeys(WEIGHTS, 0.0)}, workflow("discussion"))


WEIGHTS = ("length", "ratio", "unique", "transitions", "overlap")
