"""Result rows and agents in focus."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from palaver.benchmarks.evaluation import results as rows
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, measure, to_row
from palaver.benchmarks.evaluation.focal import FocalRound
from palaver.benchmarks.evaluation.results import fingerprint
from palaver.core import CheckpointError, ConfigError, PolicyError, Sampling
from palaver.scoring import Cost
from tests.envs.rewards import Length

ECHO = EvaluationConfig("echo-v0", team="a1=scripted:reference,a2=scripted:lazy", n=4, samples=2, seed=7)


def focused(*focal, **changes):
    own = {"keywords": {"shared": False}, "seatings": tuple(FocalRound((seat,)) for seat in focal), **changes}
    return measure(EvaluationConfig(**{**ECHO.__dict__, **own}))


def test_a_row_is_what_was_written(tmp_path):
    result, episodes = measure(ECHO)
    row = to_row(result, episodes, "half asleep", tmp_path)
    assert rows.load(tmp_path / "echo-v0--half-asleep.json") == row
    assert (row.version, row.seed, row.samples, row.tasks, row.n) == (0, 7, 2, 4, 8)
    assert set(row.by_task) == {"echo-00", "echo-01", "echo-02", "echo-03"}
    assert row.commit == row.made_with["commit"]
    assert {"torch", "pettingzoo"} <= set(row.made_with["libraries"])
    found, sha256 = rows.read_episodes(tmp_path / row.episodes.file)
    assert (sha256, len(found)) == (row.episodes.sha256, row.episodes.n)
    assert found == episodes


def test_pay_without_an_end_has_no_most(tmp_path):
    result, episodes = measure(EvaluationConfig(**{**ECHO.__dict__, "max_reward": float("inf")}))
    assert to_row(result, episodes, "endless", tmp_path).max_reward is None


def test_what_a_judge_took_is_kept(tmp_path):
    result, episodes = measure(EvaluationConfig(**{**ECHO.__dict__, "keywords": {"reward": Length()}}))
    row = to_row(result, episodes, "judged", tmp_path)
    assert row.scoring == dict(result.scoring) != {}
    assert measure(ECHO)[0].scoring == {}


def test_equal_episodes_are_equal_bytes(tmp_path):
    result, episodes = measure(ECHO)
    files = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        to_row(result, episodes, "x", folder)
        files.append((folder / "echo-v0--x.jsonl.gz").read_bytes())
    assert files[0] == files[1]
    assert gzip.decompress(files[0]).count(b"\n") == 8


def test_the_config_hash_knows_what_decides_a_result():
    base = measure(ECHO)[0].config
    assert measure(ECHO)[0].config == base

    def other(**changes):
        return measure(EvaluationConfig(**{**ECHO.__dict__, **changes}))[0].config

    changed = [
        other(seed=8), other(n=3), other(samples=1), other(keywords={"shared": True}), other(team="scripted:lazy"),
        other(sampling=Sampling(temperature=0.5)), other(seatings=(FocalRound(("a1",)),)),
    ]  # fmt: skip
    assert len({base, *changed}) == 8


def test_focal_agents_by_hand():
    # not shared: a1 answers rightly and earns 1.5 in each of 3 turns, a2 is silent and earns nothing
    result, episodes = focused("a1", "a2")
    assert result.focal.by_seating == {"a1": 4.5, "a2": 0.0}
    assert (result.focal.mean, result.focal.low, result.focal.high) == (2.25, 2.25, 2.25)  # a task's seatings first
    assert (result.mean, result.n, len(episodes)) == (2.25, 16, 16)
    both, _ = measure(EvaluationConfig(**{**ECHO.__dict__, "seatings": (FocalRound(("a1", "a2")),)}))
    assert both.focal.by_seating == {"a1+a2": 2.25}


def test_partners_fill_the_other_seats():
    seatings = (FocalRound(("a1",), {"a2": "scripted:lazy"}), FocalRound(("a2",), {"a1": "random"}))
    setting = EvaluationConfig("echo-v0", {"shared": False}, "scripted:reference", 3, seatings=seatings)
    result, episodes = measure(setting)
    assert episodes[0].team == {"a1": "scripted:reference", "a2": "scripted:lazy"}
    assert episodes[-1].team == {"a1": "random", "a2": "scripted:reference"}
    assert result.policies == {"a1": "scripted:reference | random", "a2": "scripted:lazy | scripted:reference"}
    assert result.focal.by_seating == {"a1": 4.5, "a2": 4.5}
    assert result.mean < 4.5


def test_a_partner_with_other_weights_is_refused():
    seating = FocalRound(("a1",), {"a2": "random"}, {"a2": "0123"})
    with pytest.raises(PolicyError, match="has other weights for 'a2'"):
        measure(EvaluationConfig("echo-v0", team="random", n=2, seatings=(seating,)))


def test_a_fingerprint_is_of_the_numbers():
    torch = pytest.importorskip("torch")

    class Held:
        name = "held"

        def __init__(self, *values):
            self.values = values

        def parameters(self):
            return [torch.nn.Parameter(torch.tensor(value)) for value in self.values]

    assert fingerprint(Held([1.0, 2.0])) == fingerprint(Held([1.0, 2.0]))
    assert len({fingerprint(each) for each in (Held([1.0, 2.0]), Held([1.0, 2.5]), Held([1.0], [2.0]))}) == 3
    assert fingerprint(measure) == ""


def test_rivals_need_somebody_in_focus():
    with pytest.raises(ConfigError, match=r"--focal a1 --team a1=POLICY,a2=OPPONENT.*palaver arena matrix-v1"):
        measure(EvaluationConfig("matrix-v1", {"game": "prisoners-dilemma"}, "random"))
    seating = (FocalRound(("a1",)),)
    dilemma = EvaluationConfig("matrix-v1", {"game": "prisoners-dilemma"}, "scripted:reference", 2, seatings=seating)
    assert measure(dilemma)[0].focal.mean == measure(dilemma)[0].focal.mean
    with pytest.raises(PolicyError, match="no agent 'a3' to be focal"):
        measure(EvaluationConfig("echo-v0", team="random", seatings=(FocalRound(("a3",)),)))


@pytest.mark.parametrize("team", ["p1=simple@1,p2=random", "net:runs/student"])
def test_players_of_the_arena_are_sent_there(team):
    with pytest.raises(ConfigError, match="palaver arena pokemon-v1 --players"):
        measure(EvaluationConfig("pokemon-v1", team=team, seatings=(FocalRound(("p1",)),)))


class Counting:
    def __init__(self, **spent):
        self.cost = Cost(**spent)

    def spent(self):
        return self.cost


def test_what_remote_policies_spent_is_added_once():
    one, two = Counting(prompt_tokens=10, completion_tokens=4, dollars=0.5, calls=1), Counting(dollars=0.25, calls=2)
    found = rows.spent_by({"a": one, "b": one, "c": two, "d": object()})
    assert found == rows.Spent(prompt_tokens=10, completion_tokens=4, dollars=0.75, calls=3)
    assert rows.spent_by({"a": object()}) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "holds no JSON"),
        ("[]", "holds no result row"),
        ('{"format": 2}', "env: field required"),
        ('{"format": 2, "label": "x", "envy": 1}', "r.json: "),
    ],
)
def test_what_is_no_row_is_one_line(tmp_path, text, says):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        rows.load(path)


def test_a_row_of_another_format_is_refused(tmp_path):
    path = tmp_path / "r.json"
    path.write_text('{"label": "x"}')
    with pytest.raises(CheckpointError, match=r"r.json has format 1, and this version of Palaver reads format 2"):
        rows.load(path)


def test_a_row_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    result, episodes = measure(ECHO)
    with pytest.raises(ConfigError, match="cannot write"):
        to_row(result, episodes, "x", Path(tmp_path / "file" / "folder"))
    assert json.loads(result.model_dump_json())["env"] == "echo-v0"
