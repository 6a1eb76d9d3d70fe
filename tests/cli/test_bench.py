"""`palaver bench`: help, mistakes, and a run over the sandbox."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from palaver.benchmarks.performance.gpu import right
from palaver.benchmarks.performance.pokemon.speed import compared


@pytest.mark.parametrize(
    ("name", "example"), [("step", "step setting=C"), ("teams", "teams size=145M"), ("gpu", "gpu --stage 1 --out")]
)
def test_help(palaver, name, example):
    ran = palaver("bench", name, "--help")
    assert ran.code == 0
    assert f"palaver bench {example}" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("setting=E",), "there is no setting 'E'"),
        ((f"peer_python={sys.executable}",), "both peer_python and peer_script"),
        ((f"peer_python={sys.executable}", "peer_script=nowhere.py"), "peer_script: there is no file"),
        (("device=tpu9",), "failed while measuring"),
        (("steps=0",), "steps"),
    ],
)
def test_mistakes(palaver, arguments, message):
    ran = palaver("bench", "step", "setting=A", "prompts=1", "repeats=1", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_sandbox_help(palaver):
    ran = palaver("bench", "sandbox", "--help")
    assert ran.code == 0
    assert "palaver bench sandbox data=HumanEval.jsonl.gz" in ran.out


def _data(folder, rows=3):
    row = {"prompt": "def f(x):\n", "canonical_solution": "    return x\n", "entry_point": "f"}
    path = folder / "rows.jsonl"
    lines = (row | {"task_id": str(n), "test": f"def check(g):\n    assert g({n}) == {n % 2}"} for n in range(rows))
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_the_solutions_of_a_data_set_are_counted(palaver, tmp_path):
    path = _data(tmp_path)
    rows = [*path.read_text().splitlines(), '{"task_id": "bare", "prompt": "def f(x):\\n", "entry_point": "f"}']
    path.write_text("\n".join([*rows, rows[0].replace("canonical_solution", "other").replace('"0"', '"bare"')]))
    ran = palaver("bench", "sandbox", f"data={path}", "once=true", "workers=1", "--json")
    if ran.code == 2:
        pytest.skip(ran.err)
    report = json.loads(ran.out)
    assert (report["rows"], report["passed"], report["tests"], report["without_solution"]) == (5, 2, 3, 1)
    assert report["scored_zeros"] == {"2": "fail: 0 of 1; f(2) returned 2"}
    assert list(report["left_out"]) == ["bare"]
    assert report["unscored"] == {}
    assert "scored zeros: 1\n  2: fail: 0 of 1" in palaver("bench", "sandbox", f"data={path}", "once=true").out
    assert "name it: data=FILE" in palaver("bench", "sandbox", "once=true").err


def test_sandbox(palaver, tmp_path):
    ran = palaver("bench", "sandbox", f"data={_data(tmp_path)}", "programs=4", "workers=2", "--json")
    if ran.code == 2:
        pytest.skip(ran.err)
    report = json.loads(ran.out)
    assert (report["programs"], report["tests"], report["passed"], report["workers"]) == (3, 3, 2, 2)
    times = ("cold_ms", "once_s", "median_ms", "p90_ms", "per_second", "steps_per_second")
    assert all(report[name] > 0 for name in times)
    assert report["mode"] in ("bubblewrap", "landlock")


def test_sandbox_of_the_built_in_programs(palaver):
    ran = palaver("bench", "sandbox", "programs=1", "workers=1")
    if ran.code == 2:
        pytest.skip(ran.err)
    assert "5 of 5 pass all their tests (18 in all)" in ran.out
    assert "programs a second, 1 at a time" in ran.out
    assert "in steps      " in ran.out


def test_sandbox_mistakes(palaver, tmp_path):
    ran = palaver("bench", "sandbox", "data=nowhere.jsonl")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no file" in ran.err
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "p", "test": "t", "entry_point": "f"}')
    ran = palaver("bench", "sandbox", f"data={path}")
    assert ran.code == 2
    assert "canonical_solution" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("size=80",), "there is no size '80'. Did you mean '80M'?"),
        (("kinds=solo",), "there is no kind of team 'solo'"),
        (("agents=1",), "agents"),
        (("--out", "."), "--out '.' is a folder; name a file"),
        (("size=Qwen3-0.6B", "agents=4000"), "GiB are free"),
    ],
)
def test_mistakes_about_teams(palaver, arguments, message):
    ran = palaver("bench", "teams", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_pokemon_help(palaver):
    ran = palaver("bench", "pokemon", "--help")
    assert ran.code == 0
    assert "palaver bench pokemon formats=gen1ou" in ran.out


def test_pokemon(palaver):
    few = ("seconds=0.3", "repeats=2", "warm=0", "battles=2", "processes=1")
    ran = palaver("bench", "pokemon", "formats=gen1randombattle", *few, "peers=false", "--json")
    if ran.code == 2:
        pytest.skip(ran.err)
    found = json.loads(ran.out)["formats"]["gen1randombattle"]["palaver"]
    assert len(found["rounds"]) == 2
    assert found["ratio"] == found["cpu_ratio"] == 1
    rates = sorted(each["turns"] / each["seconds"] for each in found["rounds"])
    assert found["turns_per_second"] == pytest.approx(sum(rates) / 2)


def test_pokemon_refuses_what_cannot_be_measured(palaver):
    ran = palaver("bench", "pokemon", "formats=gen1oh", "peers=false", "warm=0", "seconds=0.1")
    assert (ran.code, ran.out) == (2, "")
    assert "gen1oh" in ran.err or "Node.js" in ran.err or "palaver pokemon install" in ran.err


def test_pokemon_endurance(palaver, tmp_path):
    few = ("formats=gen1randombattle", "endurance=5", "block=2", "battles=2")
    ran = palaver("bench", "pokemon", *few, "--out", tmp_path / "long.json")
    if ran.code == 2:
        pytest.skip(ran.err)
    report = json.loads((tmp_path / "long.json").read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["long.json"]
    done = [row["battles"] for row in report["rows"]]
    assert done == sorted(done)
    assert len(done) == 3
    assert 5 <= done[-1] <= 8  # two may end in the same step
    assert all(row["python_mb"] > 20 and row["simulator_mb"] > 20 for row in report["rows"])
    assert report["provenance"]["palaver"]
    assert "the last to the first: speed x" in ran.out


def test_first_against_last():
    row = {"turns_per_second": 100.0, "python_cpu_ms": 1.0, "simulator_cpu_ms": 3.0, "python_mb": 90.0}
    last = {"turns_per_second": 80.0, "python_cpu_ms": 2.0, "simulator_cpu_ms": 3.0, "python_mb": 95.0}
    found = compared([{**row, "simulator_mb": 200.0}, {**last, "simulator_mb": 190.0}])
    assert found == {"turns_per_second": 0.8, "cpu_ms_per_turn": 1.25, "python_mb": 5.0, "simulator_mb": -10.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("endurance=100",), "play two blocks of 1000 battles or more"),
        (("endurance=9", "formats=[gen1ou,gen2ou]"), "name one by formats="),
        (("endurance=2000", "--out", "."), "--out '.' is a folder; name a file"),
    ],
)
def test_endurance_mistakes(palaver, arguments, message):
    ran = palaver("bench", "pokemon", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_a_sampler_that_misreports_is_found(palaver, monkeypatch):
    """Log-probs off by a thousandth: drift fails, all else goes on, and the exit code is 1."""
    monkeypatch.setattr(right, "TRAINED", {})
    sampled = right._drift
    monkeypatch.setattr(right, "_drift", lambda *args: sampled(*args) + 1e-3)
    ran = palaver("bench", "gpu", "--stage", "1", "--out", "right.jsonl", "--device", "cpu")
    assert ran.code == 1
    assert "FAIL  drift, fp32, plain, packed" in ran.out
    assert "outside of their bounds: drift, fp32, plain, packed, " in ran.err
    assert json.loads(Path("right.jsonl").read_text().splitlines()[-1])["name"] == "resume: losses"


@pytest.mark.parametrize(
    ("arguments", "message"), [(("--stage", "5", "--out", "x"), "'--stage'"), (("--stage", "1"), "--out")]
)
def test_a_stage_and_a_file_are_named(palaver, arguments, message):
    ran = palaver("bench", "gpu", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
