"""Names from installed packages and `module:attribute`, and files that name code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from palaver import plugins
from palaver.agents.base.rewards import MODELS
from palaver.agents.make_policy import FORMS
from palaver.core import ConfigError
from tests.installed import install

pytestmark = pytest.mark.timeout(600)  # processes that import torch, on machines that do much else

CANARY = """
from pathlib import Path
Path("canary").touch()
from palaver.envs.echo.env import EchoEnv as Env, reference as answer
def judge(conversation, seed): return "Score: 1"
def texts(n, seed): return []
def score(request): return 1.0
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return install(tmp_path_factory.mktemp("site"))


SCRIPT = """
import json, sys
sys.path[:] = [path for path in sys.path if path]  # as in the script `palaver`, without the working folder
from palaver.cli import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as ended:
        print(f"exit code {ended.code or 0}", flush=True)
"""


def ended(site, folder, *commands):
    """Exit code and text of each command, in one process with the sample plug-in installed."""
    env = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "160"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(commands)], cwd=folder, env=env, text=True, timeout=280,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    *parts, rest = re.split(r"^exit code (\d+)\n", done.stdout, flags=re.MULTILINE)
    assert (len(parts), rest) == (2 * len(commands), ""), done.stdout
    return list(zip(map(int, parts[1::2]), parts[::2], strict=True))


@pytest.fixture
def commands(site, tmp_path):
    """Runs commands in an empty folder: exit codes, and all that they wrote."""

    def run(*commands):
        codes, written = zip(*ended(site, tmp_path, *commands), strict=True)
        return list(codes), "".join(written)

    return run


@pytest.fixture
def command(commands):
    """Runs one command that succeeds, and returns what it wrote."""

    def run(*arguments):
        codes, written = commands(arguments)
        assert codes == [0], written
        return written

    return run


def test_no_kind_of_a_policy_or_reward_is_a_module():
    assert {*FORMS, *MODELS} <= plugins.KINDS


def test_forms():
    assert [plugins.is_code(name) for name in ("a:b", "a.b:C", "a.b:C.d", "_x:y1")] == [True] * 4
    others = ("arxiv-v0", "hf:gpt2", "run:a", "rg:sum", "a:", ":b", "a:b c", "a/b:c", "a:1", "C:\\x:y", "a:b:c", "")
    assert [name for name in others if plugins.is_code(name)] == []


def test_a_command_allows_the_names_within_its_arguments(monkeypatch):
    monkeypatch.delenv(plugins.ALLOWED, raising=False)
    with plugins.restricted(["--team", "a=scripted:json.decoder:loads,b=math:tau", "x=1"]):
        assert plugins.load_code("math:tau") > 6
        with pytest.raises(ConfigError, match="--trust"):
            plugins.load_code("math:pi")
        with pytest.raises(ConfigError, match=r"cannot load 'json\.decoder:loads'"):  # allowed, and not there
            plugins.load_code("json.decoder:loads")
    assert plugins.load_code("math:pi") > 3
    with plugins.restricted(["--trust"]):
        assert plugins.load_code("math:e") > 2
    assert plugins.ALLOWED not in os.environ


def test_every_group(site, tmp_path):
    always = ("evaluate", "crossing-v0", "--team", "always")
    shown = {
        ("envs",): "crossing-v0",
        ("train", "crossing-median", "--explain"): "magrpo-median",
        ("play", "crossing-v0", "--team", "a1=always:left,a2=scripted:keep-right"): "reward 1.000 of 1",
        (*always, "reward=brevity?limit=2"): "brevity    1.000",
        (*always, "reward=brevity?limit=1"): "brevity    0.000",
        (*always, "reward=+0.5*palaver_crossing.reward:silence"): "silence    -1.000",
        ("arena", "matrix-v1", "game=prisoners-dilemma", "--players", "keep-left,legal", "--games", "2"): "keep-left",
    }
    for (code, written), text in zip(ended(site, tmp_path, *shown), shown.values(), strict=True):
        assert (code, text in written) == (0, True), written


@pytest.mark.slow
def test_train_evaluate_and_compare(command, tmp_path):
    command("train", "crossing-median", "train.steps=2", "--out", "runs/a")
    command("train", "crossing-median", "train.steps=2", "algorithm.name=magrpo", "--out", "runs/b")
    config = yaml.safe_load((tmp_path / "runs/a/config.yaml").read_text())
    assert (config["algorithm"]["name"], config["algorithm"]["group_size"]) == ("magrpo-median", 8)  # its settings
    command("evaluate", "crossing-v0", "--team", "run:runs/a", "--row", "rows", "--label", "trained")
    assert "magrpo-median" in command("compare", "runs/a", "runs/b")
    command("leaderboard", "rows", "--out", "board")


MISTAKES = [
    (("envs", "crossing-v1"), "Did you mean 'crossing-v0'?"),
    (("train", "crossing-median", "algorithm.name=magrpo-medan"), "Did you mean 'magrpo-median'?"),
    (("train", "crossing-medan"), "Did you mean 'crossing-median'?"),
    (("evaluate", "crossing-v0", "--team", "always", "reward=brevty"), "there is no reward 'brevty'"),
    (
        ("evaluate", "crossing-v0", "--team", "always", "reward=brevity?limt=1"),
        "unexpected keyword argument 'limt'",
    ),
    (("evaluate", "crossing-v0", "--team", "palaver_crossing.env:PLACES"), "is no policy"),
    (("envs", "palaver_crossing.env:RULES"), "is neither a palaver.Spec nor a class or function"),
    (("envs", "nowhere:Env"), "No module named 'nowhere'"),
    (("evaluate", "crossing-v0", "--team", "always", "reward=palaver_crossing.env:RULES"), "is no reward"),
    (
        ("train", "crossing-median", "algorithm.name=palaver_crossing.env:RULES"),
        "is no palaver.trainers.algorithms",
    ),
    (("train", "crossing-median", "policy.model=always"), "has no weights to train"),
    (("train", "crossing-median", "env.tasks=file.jsonl"), "has no keyword 'tasks'"),
]


@pytest.fixture(scope="module")
def mistakes(site, tmp_path_factory):
    commands = [arguments for arguments, _ in MISTAKES]
    return dict(zip(commands, ended(site, tmp_path_factory.mktemp("mistakes"), *commands), strict=True))


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes(mistakes, arguments, message):
    code, written = mistakes[arguments]
    assert code == 2, written
    assert message in " ".join(written.split())


HOSTILE = {
    "env.id": "evil:Env",
    "algorithm.name": "evil:answer",
    "policy.demonstrations": "evil:texts",
    "env.reward": "evil:score",
    "team.frozen.a1": "scripted:evil:answer",
    "eval.opponent": "scripted:evil:answer",
}


KEYS = (*HOSTILE, "env.reward=judge", "env.expert", "env.inner")
QUICK = ("env.id", "algorithm.name", "env.reward")


@pytest.mark.parametrize("key", [pytest.param(key, marks=[] if key in QUICK else pytest.mark.slow) for key in KEYS])
def test_a_recipe_from_elsewhere_runs_no_code(commands, tmp_path, key):
    """Nor does the folder of a run with that recipe."""
    (tmp_path / "evil.py").write_text(CANARY, encoding="utf-8")
    text = {
        "env.reward=judge": "env: {id: echo-v0, reward: 'judge:scripted:evil:judge'}",
        "env.expert": "env: {id: coophumaneval-v0, expert: 'evil:answer'}",
        "env.inner": "env: {id: workflow-v0, env: 'evil:Env'}",
    }.get(key)
    if text is None:
        recipe: dict[str, object] = {"base": "matrix-rae" if key == "eval.opponent" else "matrix-magrpo-3", "format": 2}
        place = recipe
        *parts, last = key.split(".")
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = HOSTILE[key]
        text = yaml.safe_dump(recipe)
    (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
    run = tmp_path / "runs" / "y"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(text, encoding="utf-8")
    (run / "metrics.jsonl").write_text('{"kind": "train", "step": 1}\n', encoding="utf-8")
    train = ["train", "recipe.yaml", "train.steps=1", "eval.n=1", "--out", "runs/x"]
    uses = [["report", "runs/y"], ["view", "runs/y"], ["compare", "runs/y"], ["train", "--resume", "runs/y"]]
    codes, written = commands(train, *uses, ["evaluate", "matrix-v1", "--team", "run:runs/y"])
    assert codes[0] == 2, written
    assert plugins.TRUST in written
    assert not (tmp_path / "canary").exists()
    commands([*train, plugins.TRUST])
    assert (tmp_path / "canary").exists()  # so the file does run code, if trusted


def test_a_row_from_elsewhere_runs_no_code(commands, tmp_path):
    (tmp_path / "evil.py").write_text(CANARY, encoding="utf-8")
    commands(["evaluate", "echo-v0", "--team", "random", "--n", "2", "--row", "rows", "--label", "x"])
    (path,) = (tmp_path / "rows").glob("*.json")
    row = json.loads(path.read_text())
    row |= {
        "env": "evil:Env",
        "team": "scripted:evil:answer",
        "policies": dict.fromkeys(row["policies"], "evil:answer"),
        "commit": "0" * 40,
    }
    path.write_text(json.dumps(row), encoding="utf-8")
    _, written = commands(["leaderboard", "rows", "--out", "board"], ["results", "rescore", str(path)])
    assert "Traceback" not in written
    assert written.count("'evil:Env' is code that a file names") == 2, written
    assert not (tmp_path / "canary").exists()
