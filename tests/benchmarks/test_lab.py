"""The laboratory: which cells there are, what is run and what is not, and what the table says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from palaver.benchmarks.experiments import runner
from palaver.benchmarks.experiments.matrix_games import fresh, plan, results, study, view
from palaver.benchmarks.experiments.matrix_games.results import Lab, MatrixGameResult, score
from palaver.core import CheckpointError, ConfigError
from palaver.envs.matrix.corpus import LABORATORY
from palaver.trainers.algorithms.base import ALGORITHMS, algorithm
from palaver.trainers.config.loading import load as load_run
from tests.models import byte_tokenizer, tiny_qwen3

DOCS = Path(__file__).resolve().parents[2] / "docs"
TWO = ["lab.games=[xor,two-step]", "lab.algorithms=[magrpo,rae]"]
OPTIMA = {
    "climbing": 11, "penalty": 10, "xor": 1, "two-step": 8, "prisoners-dilemma": 3, "coordination": 1, "qtran": 8,
    "happo": 1,
}  # fmt: skip
RANDOM = {"climbing": -31 / 9, "two-step": (7 + 10 / 4) / 2, "prisoners-dilemma": 9 / 4, "coordination": 1 / 3,
          "penalty": -178 / 9, "qtran": -40 / 9, "happo": 0, "xor": 1 / 2}  # fmt: skip


def test_the_shipped_laboratory_has_every_algorithm_and_every_game(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "a-new-one", ALGORITHMS["magrpo"])
    found = plan.load("lab")
    played = set(ALGORITHMS) - {"cory", "grpo", "adalign", "marshal"}
    assert set(found.algorithms) == played
    assert set(found.columns) == {*LABORATORY, "xor-equal", "xor-roles", "dilemma-own"}
    kinds = {(cell.algorithm, cell.game, cell.seed) for cell in found.cells}
    rows = [algorithm(name) for name in played]
    joint = sum(row.critic == "joint" or row.mixer != "none" or row.pairs for row in rows)  # know the team's pay alone
    apart = sum(row.order == "sequence" for row in rows)  # refused with one policy for all, in two columns
    assert len(kinds) == len(found.cells) == 10 * (len(rows) * (len(LABORATORY) + 3) - joint - 2 * apart)
    for game, optimum in OPTIMA.items():
        assert found.columns[game].optimum == optimum
        assert found.columns[game].random == pytest.approx(RANDOM[game])
    equal = next(cell.config for cell in found.cells if cell.game == "xor-equal")
    assert (equal.team.kind, equal.env.keywords()["role_prompts"]) == ("shared", False)
    assert study.refusals(found) == {}


def test_settings_of_the_algorithm_then_of_the_game_then_overrides(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "lab:\n  games: [twice]\n  algorithms: [magrpo, rae]\n  seeds: 1\n"
        "  settings: {rae: {optim: {lr: 0.2, warmup: 3}, train: {steps: 2}}}\n"
        "  variants: {twice: {env: {game: xor, repeats: 2}, optim: {lr: 0.3}, train: {steps: 9}}}\n"
        "env: {id: matrix-v1}\noptim: {lr: 0.1, weight_decay: 0.5}\n"
    )
    magrpo, rae = (cell.config for cell in plan.load(str(mine), ["train.steps=4", "seed=7"]).cells)
    assert (magrpo.optim.lr, magrpo.optim.warmup, magrpo.optim.weight_decay, magrpo.train.steps) == (0.3, 0, 0.5, 4)
    assert (rae.optim.lr, rae.optim.warmup, rae.seed, rae.algorithm.name) == (0.3, 3, 7, "rae")
    assert plan.load(str(mine)).columns["twice"].optimum == 2


def test_a_recipe_of_a_run_is_no_laboratory(tmp_path):
    (tmp_path / "a.yaml").write_text("train: {steps: 1}")
    with pytest.raises(ConfigError, match="has a section lab"):
        plan.load(str(tmp_path / "a.yaml"))
    with pytest.raises(ConfigError, match="'arxiv-magrpo' is a recipe: palaver train arxiv-magrpo"):
        plan.load("arxiv-magrpo")
    (tmp_path / "b.yaml").write_text("kind: curriculum\nlab: {}")
    with pytest.raises(ConfigError, match="has kind: curriculum, not matrix-games; run it with: palaver experiment"):
        plan.load(str(tmp_path / "b.yaml"))


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("lab.games=[xorr]", "lab.games: there is no 'xorr'. Did you mean 'xor'?"),
        ("lab.algorithms=[magrop]", "lab.algorithms: there is no 'magrop'. Did you mean 'magrpo'?"),
        ("lab.settings.hapo.seed=1", "lab.settings: there is no 'hapo'. Did you mean 'happo'?"),
        ("lab.skip.xor=[hapo]", "lab.skip.xor: there is no 'hapo'"),
        ("lab.games=[]", "lab.games is empty"),
        ("lab.games=xor", "lab.games: "),
        ("lab.seeds=0", "lab.seeds: "),
        ("lab.seed=2", "unknown key 'lab.seed'. Did you mean 'seeds'?"),
        ("lab=3", "lab is a section"),
        ("algorithm.name=rae", "choose with lab.algorithms=[...] in place of algorithm.name"),
        ("env.game=xor", "choose with lab.games=[...] in place of env.game"),
        ("optim.lrr=1", "unknown key 'optim.lrr'"),
        ("env.id=arxiv-v0", "arxiv-v0"),
    ],
)
def test_mistakes_are_found_before_any_work(override, says):
    with pytest.raises(ConfigError) as caught:
        plan.load("lab", [override])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_trainer_refuses_is_told_and_the_rest_is_run(tmp_path):
    refused = study.prepare(plan.load("lab", [*TWO, "lab.settings.magrpo.algorithm.normalize=whiten"]), tmp_path)
    assert {cell.algorithm for cell in refused.refused} == {"magrpo"}
    assert {cell.algorithm for cell in refused.todo} == {"rae"}
    with pytest.raises(ConfigError, match="temperature"):
        study.prepare(plan.load("lab", [*TWO, "policy.temperature=0"]), tmp_path)


def test_a_row_left_out_everywhere():
    reason = "lab.without.rae=no self-play here"
    left = set(ALGORITHMS) - {"rae", "cory", "grpo", "adalign", "marshal"}
    assert set(plan.load("lab", [reason, "lab.games=[xor]"]).algorithms) == left
    with pytest.raises(ConfigError, match=r"lab.algorithms: rae is left out by lab.without: no self-play here"):
        plan.load("lab", [*TWO, reason])
    with pytest.raises(ConfigError, match=r"lab.without: there is no 'raee'"):
        plan.load("lab", ["lab.without.raee=x"])


@pytest.mark.parametrize("kept", sorted((DOCS / "runs" / "lab").rglob("lab.yaml")), ids=lambda path: path.parent.name)
def test_kept_laboratories_can_be_loaded(kept):
    assert plan.load(str(kept)).algorithms == results.load(kept.with_name("lab.json")).algorithms


# --- running ---


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_qwen3(0).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def small(model):
    """Two algorithms in two games, one seed, two steps."""
    of_run = ["policy.force=true", "policy.max_tokens=3", "train.steps=2", "algorithm.group_size=2", "eval.n=2"]
    return [*TWO, f"policy.model={model}", "lab.seeds=1", "lab.cores=2", *of_run]


def run(folder, overrides):
    seen = []
    work = study.prepare(plan.load("lab", overrides), folder)
    lab = study.run(work, {"palaver": "1", "commit": "c", "python": "3", "platform": "p"}, seen.append)
    return lab, seen


def test_a_laboratory(small, tmp_path):
    """All cells are run once, what failed or is missing again, and the table says what the runs say."""
    failing = [*small, "lab.settings.rae.kl={coef: 0.1, reference: 'model:/no/such'}", "lab.skip.two-step=[rae]"]
    lab, seen = run(tmp_path, failing)
    assert len(seen) == 3
    assert {(each.algorithm, each.status) for each in lab.results} == {("magrpo", "done"), ("rae", "failed")}
    assert "/no/such" in lab.score("rae", "xor").error
    assert results.load(tmp_path / "lab.json") == lab
    assert lab.provenance["warm_starts"] == {}  # of a model that does not ship with Palaver
    for each in lab.results[:1]:
        place = tmp_path / "cells" / each.algorithm / each.game / f"seed-{each.seed}"
        lines = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
        assert lab.score("magrpo", each.game).mean == each.after == lines[-1]["mean"]
        assert each.before == lines[0]["mean"]
        assert load_run(str(place / "config.yaml")).train.steps == 2
        assert not (place / "checkpoints").exists()
    assert study.prepare(plan.load(str(tmp_path)), tmp_path).plan.cells[0].config == load_run(
        str(place / "config.yaml")
    )

    (place / "outcome.json").unlink()
    again, seen = run(tmp_path, failing)
    assert sorted((each.algorithm, each.game) for each in seen) == [("magrpo", "xor"), ("rae", "xor")]
    assert again.score("magrpo", "xor").mean == lab.score("magrpo", "xor").mean
    with pytest.raises(ConfigError, match="a run with other settings"):
        study.prepare(plan.load("lab", [*failing, "optim.lr=0.5"]), tmp_path)


@pytest.mark.slow
def test_a_worker_that_dies_takes_its_cell_alone(small, tmp_path):
    cells = plan.load("lab", small).cells
    runs = [SimpleNamespace(config=None, subfolder=Path("0")), SimpleNamespace(config=cells[0].config, subfolder="1")]
    outcomes = [outcome for _, outcome in runner.train_all(runs, tmp_path, 1, lambda _: {}, {}, checkpoints=True)]
    assert "AttributeError" in outcomes[0].error
    assert "its process ended with 1" in outcomes[0].error
    assert outcomes[1].error == ""
    assert outcomes[1].cpu_s > 0
    assert (tmp_path / "1" / "checkpoints").is_dir()
    assert "Traceback" in (tmp_path / "0" / "log.txt").read_text()
    assert [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())] == []


class Hangs:
    def __reduce__(self):
        return time.sleep, (600,)


def test_a_run_that_writes_nothing_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "STALLED_S", 1.5)
    run = SimpleNamespace(config=Hangs(), subfolder="0")
    ((ended, outcome),) = runner.train_all([run], tmp_path, 1, lambda _: {}, {})
    assert (ended, outcome.error) == (run, "it wrote nothing for 1.5 seconds and was ended")
    assert outcome.wall_s < 60


@pytest.mark.slow
@pytest.mark.parametrize(("blow", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_stopped_in_the_middle_and_gone_on(small, tmp_path, blow, code):
    """No worker is left, and what is done is not done again."""
    command = [
        sys.executable,
        "-m",
        "palaver",
        "experiment",
        "matrix-games",
        *small,
        "lab.cores=1",
        "--out",
        str(tmp_path / "x"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        done = _first(tmp_path / "x")
        workers = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(blow)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == code
    assert "Traceback" not in said
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []
    before = done.stat().st_mtime_ns
    again = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr
    assert "4 runs, 1 of them done already" in again.stdout
    assert done.stat().st_mtime_ns == before
    assert len(list((tmp_path / "x").rglob("outcome.json"))) == 4


def _first(folder: Path) -> Path:
    for _ in range(6000):
        if found := list(folder.rglob("outcome.json")):
            return found[0]
        time.sleep(0.02)
    raise AssertionError("no cell was finished")


# --- the table ---


@pytest.fixture
def table():
    columns = {"xor": plan.Column("xor n=2", 1.0, 0.5), "climbing": plan.Column("climbing", 11.0, -31 / 9)}
    found = [
        MatrixGameResult("magrpo", "xor", 0, "done", 0.5, 1.0, 2.0, 60.0),
        MatrixGameResult("magrpo", "xor", 1, "done", 0.5, 0.8, 2.0, 60.0),
        MatrixGameResult("magrpo", "climbing", 0, "done", -3.0, -5.5),
        MatrixGameResult("magrpo", "climbing", 1, "missing"),
        MatrixGameResult("rae", "xor", 0, "failed", error="it <b>broke</b>"),
        MatrixGameResult("rae", "climbing", 0, "done", -3.0, 11.0),
        MatrixGameResult("rae", "climbing", 1, "failed", error="again"),
    ]
    provenance = {"palaver": "1", "commit": "c", "python": "3", "platform": "p"}
    return Lab(("magrpo", "rae"), columns, tuple(found), provenance, 1.5)


def test_scores(table):
    found = table.score("magrpo", "xor")
    assert (found.mean, found.share, found.n) == (pytest.approx(0.9), pytest.approx(0.9), 2)
    assert found.spread == pytest.approx(0.2 / 2**0.5)
    assert found.interval == pytest.approx((0.9 - 1.27062, 0.9 + 1.27062), rel=1e-5)  # t(1) = 12.7062, s / √2 = 0.1
    assert (found.bootstrap, found.agreed, found.modes) == (pytest.approx((0.8, 1.0)), 0, ())
    assert table.score("magrpo", "climbing") == results.AlgorithmScore(-5.5, None, -0.5, 1)
    assert table.score("rae", "xor") == results.AlgorithmScore(None, None, None, 0, "it <b>broke</b>")
    assert table.score("rae", "climbing") == results.AlgorithmScore(11.0, None, 1.0, 1, "again")
    assert score([1.0], plan.Column("x", 0.0, -1.0)).share is None
    assert table.cpu_minutes == 2.0
    assert [each.algorithm for each in table.failed] == ["rae", "rae"]


def test_the_table_for_a_page(table):
    assert view.markdown(table).splitlines() == [
        "|  | xor | climbing |",
        "| --- | ---: | ---: |",
        "| optimum | 1.00 | 11.0 |",
        "| at random | 0.50 | -3.44 |",
        "| **magrpo** | 0.90 [-0.37, 2.17] | -5.50 |",
        "| **rae** | failed | 11.0 some failed |",
    ]


def test_what_a_cell_says_of_its_seeds():
    """The range of penalty is 10 - (-19.8): seeds within 0.6 agree."""
    penalty = plan.Column("penalty k=-100", 10.0, -19.8)
    same, apart = score([2.0, 2.5] * 5, penalty), score([2.0] * 7 + [10.0] * 3, penalty)
    assert view.cell(same) == ("2.25", "10 of 10")
    assert view.cell(apart) == ("4.40", "3 of 10 near 10.0, 7 near 2.00")
    assert view.cell(score([0.0, 4.0, 8.0], penalty)) == ("4.00", "[-5.94, 13.9]")  # t(2) = 4.30265, s / √3 = 2.3094


def test_the_page_and_the_picture(table, tmp_path):
    page, picture = view.write(table, tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "it &lt;b&gt;broke" in text
    assert "<b>broke" not in text
    assert '--share: 90"' in text
    assert "src=" not in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    table.save(tmp_path)
    assert results.load(tmp_path / "lab.json") == table
    (tmp_path / "lab.json").write_text("[]")
    with pytest.raises(CheckpointError, match="holds no results of a laboratory"):
        results.load(tmp_path / "lab.json")


# --- again with other seeds ---


def laboratory(returns, first):
    columns = {"xor": plan.Column("xor n=2", 1.0, 0.5), "qtran": plan.Column("qtran", 8.0, -4.4)}
    found = [
        MatrixGameResult("rae", game, first + n, "done", 0.0, value)
        for game, values in returns.items()
        for n, value in enumerate(values)
    ]
    return Lab(("rae",), columns, tuple(found), {}, 0.0)


def test_fresh_seeds(tmp_path, capsys):
    """XOR: d = 0.1, v = 0.01 / 2 twice, f = 2, half 4.30265 x 0.1; QTRAN: 8 less 0 with no spread."""
    laboratory({"xor": [0.8, 1.0], "qtran": [8.0, 8.0]}, 0).save(tmp_path)
    (tmp_path / "fresh").mkdir()
    laboratory({"xor": [0.9, 1.1], "qtran": [0.0, 0.0]}, 100).save(tmp_path / "fresh")
    files = [str(tmp_path / "lab.json"), str(tmp_path / "fresh" / "lab.json")]
    found = fresh.pairs(*map(results.load, map(Path, files)))
    assert found[0].interval == pytest.approx((0.1 - 4.30265 * 0.02**0.5, 0.1 + 4.30265 * 0.02**0.5), rel=1e-5)
    assert [each.same for each in found] == [True, False]
    assert fresh.main(files) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 of 2 cells (50.0%): the interval of (fresh - printed) contains 0", "rae on qtran: [-8.00, -8.00]",
    ]  # fmt: skip
    assert fresh.main([files[0], files[0]]) == 1
    assert "both laboratories hold seed 0" in capsys.readouterr().err
