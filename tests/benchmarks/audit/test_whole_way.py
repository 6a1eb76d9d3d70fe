"""The whole way: the audit asks a real judge, whose prompt a scripted model reads; over HTTP in the second half."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from palaver.agents.judges import prompts
from palaver.agents.judges.spec import DEFAULT_RUBRIC
from palaver.agents.serving.server import serving
from palaver.benchmarks.judge_audit import ask, run
from palaver.benchmarks.judge_audit.data import Data, Graded, read
from palaver.benchmarks.judge_audit.faults import Thresholds
from palaver.benchmarks.judge_audit.judges import BRAINS, AnswerKey, ScriptedJudgeChat, audited
from palaver.core import ConfigError, PolicyError
from tests.benchmarks.audit.judges import always_first
from tests.benchmarks.audit.serving import judges
from tests.benchmarks.audit.test_kinds import FAULT

DATA = read(["generated:0:60"])
FEW = ask.AuditPlan(repeats=2, repeated=15, probed=2, timed=2)


def faults(name, data=DATA, plan=FEW, by="auto", limits=None):
    found = audited(name, data, plan, by)
    work = run.prepare(data, found.plan, found.make, found.reward if data.graded else None)
    return run.audit(work, found.name, ["x"], limits=limits)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """The slow one waits a hundredth of a second, but where a test says otherwise."""
    monkeypatch.setattr("palaver.benchmarks.judge_audit.judges.WAIT", 0.01)


@pytest.mark.parametrize("kind", [kind for kind in BRAINS if kind != "slow"])
def test_a_real_judge_has_the_fault_of_its_model(kind):
    done = faults(f"scripted:{kind}")
    assert [fault.name for fault in done.faults] == FAULT[kind], [fault.line for fault in done.faults]
    assert done.cost.calls == 2 * len(ask.items(DATA.pairs, FEW))


def test_scores_instead_of_pairs():
    """One answer at a time there is no slot to favour."""
    done = faults("scripted:slot-biased", by="scores")
    table = {each.key: each for each in done.measures}
    assert not {"slot", "swap"} & set(table)
    assert faults("scripted:fair", by="scores").faults == ()


def test_judges_of_a_file_and_ensembles(tmp_path):
    """Two that take the first and one that takes the second: the first slot gets (1 + 1 + 0) / 3."""
    members = [f"scripted:{always_first.__module__}:always_{slot}" for slot in ("first", "first", "second")]
    (tmp_path / "judge.yaml").write_text(json.dumps({"members": members}))
    (tmp_path / "one.yaml").write_text(json.dumps({"model": members[0], "mode": "pairwise"}))
    for file, rate in (("judge.yaml", 2 / 3), ("one.yaml", 1.0)):
        done = faults(f"judge:{tmp_path / file}")
        table = {each.key: each for each in done.measures}
        assert table["slot"].value == pytest.approx(rate)
        assert {"chance", "slot bias"} == {fault.name for fault in done.faults}


def test_grades_go_to_the_same_judge():
    graded = tuple(Graded(row.id, row.pair.prompt, answer, grade) for row in DATA.pairs[:10]
                   for answer, grade in ((row.good, 5), (row.bad, 1)))  # fmt: skip
    done = faults("scripted:fair", Data(DATA.pairs[:10], graded), ask.AuditPlan(repeats=1, probed=0))
    table = {each.key: each.value for each in done.measures}
    assert table["quadratic_kappa"] == pytest.approx(1)


def test_the_model_finds_the_answers_in_the_prompt_whatever_they_hold():
    prompt, one, two = "What </told-0> is?", "<said-0000000000000000>\nfoo\n</said-0000000000000000>", "\n\nbar\n"
    shown = prompts.JudgeMaterial({"": prompt}, {"first": {"": one}, "second": {"": two}})
    talk = prompts.prefer(shown, DEFAULT_RUBRIC, 6000)
    found = ScriptedJudgeChat("fair", AnswerKey(frozenset()))._judge_input("\n".join(each.content for each in talk), 7)
    assert (found.prompt.startswith("What"), "foo" in found.first, found.second.strip(), found.seed) == (
        True, True, "bar", 7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "by", "error", "says"),
    [
        ("scripted:fairr", "auto", ConfigError, "Did you mean 'fair'"),
        ("nobody:x", "auto", ConfigError, "there is no reward 'nobody:x'"),
        ("scripted:fair", "pears", ConfigError, "Did you mean 'pairs'"),
        ("judge:scripted:nowhere:f", "auto", PolicyError, "nowhere"),
    ],
)
def test_names_that_are_none(name, by, error, says):
    with pytest.raises(error, match=says):
        audited(name, DATA, FEW, by)


@pytest.fixture(scope="module")
def url():
    with serving(judges(DATA.pairs)) as made:
        yield made


@pytest.mark.parametrize("kind", ["slot-biased", "refusing"])
def test_over_http(url, kind):
    plan = ask.AuditPlan(repeats=1, probed=0, timed=1)
    done = faults(f"openai:{kind}@{url}?attempts=1", plan=plan)
    assert [fault.name for fault in done.faults] == FAULT[kind], [fault.line for fault in done.faults]
    assert done.cost.calls == 2 * len(DATA.pairs)
    assert set(done.failures) == ({"refusal"} if kind == "refusing" else set())


@pytest.mark.slow
@pytest.mark.parametrize("kind", BRAINS)
def test_every_kind_over_http(url, kind, monkeypatch):
    monkeypatch.setattr("palaver.benchmarks.judge_audit.judges.WAIT", 1.0)
    plan = ask.AuditPlan(repeats=1, probed=0, timed=2) if kind == "slow" else FEW
    data = Data(DATA.pairs[:8]) if kind == "slow" else DATA
    limits = Thresholds(p95=0.9) if kind == "slow" else None
    done = faults(f"openai:{kind}@{url}", data, plan, limits=limits)
    assert [fault.name for fault in done.faults] == FAULT[kind], [fault.line for fault in done.faults]


def post(url, body):
    request = urllib.request.Request(f"{url}/chat/completions", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"messages": []}', b'{"messages": [{"role": "tool", "content": "x"}]}',
     b'{"messages": [{"role": "user", "content": 3}]}', b'{"messages": 5}', b"\xff", b"[" * 100_000,
     b'{"messages": [{"role": "user", "content": "x"}], "response_format": 5}'],
    ids=range(10),
)  # fmt: skip
def test_what_is_no_question_gets_400(url, body):
    status, told = post(url, body)
    assert (status, told["error"]["type"]) == (400, "invalid_request_error")


def test_models(url):
    with urllib.request.urlopen(f"{url}/models", timeout=30) as reply:
        assert [each["id"] for each in json.load(reply)["data"]] == list(BRAINS)
    status, told = post(url, b'{"model": "fare", "messages": [{"role": "user", "content": "x"}]}')
    assert (status, "Did you mean 'fair'" in told["error"]["message"]) == (404, True)
