from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.serving.app import make_app
from palaver.agents.serving.server import serving
from palaver.cli.commands import serve
from tests.architecture.running import started

ROOT = Path(__file__).parents[2]


@pytest.fixture
def served():
    """The reference of echo-v0 in a process of its own, as a user starts it; its base URL and the process."""
    command = [sys.executable, "-m", "palaver", "serve", "scripted:reference", "--env", "echo-v0", "--port", "0"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # what a background job starts ignores Ctrl-C
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, **pipes, env=env, preexec_fn=heeds) as process:
        line = process.stdout.readline()
        yield line.partition(" at ")[2].partition(";")[0], process


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "PALAVER_SERVE_KEY", "PALAVER_DOLLARS", "PALAVER_TOKENS"):
        monkeypatch.delenv(name, raising=False)


def test_a_team_behind_a_server_scores_as_at_home(palaver, served) -> None:
    url, process = served
    here = palaver("evaluate", "echo-v0", "--team", "scripted:reference", "-n", "4", "--json")
    team = f"openai:scripted:reference@{url}"
    there = palaver("evaluate", "echo-v0", "--team", team, "-n", "4", "--json")
    assert there.code == 0, there.err
    for name in ('"mean"', '"low"', '"high"', '"n"'):
        assert [line for line in there.out.splitlines() if name in line] == [
            line for line in here.out.splitlines() if name in line
        ]
    played = palaver("play", "echo-v0", "--team", f"a1={team},a2=scripted:reference")
    assert played.code == 0, played.err

    game = ("matrix-v1", "game=prisoners-dilemma", "repeats=2", "-n", "2", "--out", "arena")
    met = palaver("arena", *game, "--players", f"away=openai:scripted:reference@{url},first")
    assert met.code == 0, met.err
    assert "away" in met.out

    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors

    gone = palaver("evaluate", "echo-v0", "--team", f"{team}?attempts=1", "-n", "1")
    assert gone.code == 2
    assert "transport" in gone.err
    assert len(gone.err.splitlines()) == 1


def test_a_trained_team_is_served_seat_by_seat(palaver, model) -> None:
    few = ("env.id=echo-v0", "env.tasks=sample[:4]", f"policy.model={model}", "policy.max_tokens=8", "eval.n=2")
    quick = ("team.kind=shared", "algorithm.group_size=2", "train.steps=1", "log.tensorboard=false")
    recipe = Path("mine.yaml")
    recipe.write_text("algorithm: {turns: independent}\n", encoding="utf-8")
    assert palaver("train", recipe, *few, *quick, "--out", "run").code == 0
    home = palaver("evaluate", "echo-v0", "--team", "run:run", "--json")
    served = serve._policies("run:run", "", "", ModelOptions(device="cpu"))
    with serving(make_app(served)) as url:
        team = f"a1=openai:a1@{url},a2=openai:a2@{url}"
        away = palaver(
            "evaluate",
            "echo-v0",
            "--team",
            team,
            "--tasks",
            "sample[:4]",
            "sampling.max_tokens=8",
            "--json",
            "--out",
            "e.jsonl",
        )
    assert away.code == 0, away.err
    there, here = json.loads(away.out), json.loads(home.out)
    assert (there["mean"], there["components"], there["n"]) == (here["mean"], here["components"], here["n"])
    assert '"text": ""' not in Path("e.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["random", "--host", "0.0.0.0"], "add --open"),
        (["random", "--host", "0.0.0.0", "--open"], "set PALAVER_SERVE_KEY"),
        (["human"], "a person cannot be served"),
        (["tiny"], "add --env ENV"),
        (["scripted:reference"], "no scripted policy 'reference'"),
        (["scripted:refrence", "--env", "echo-v0"], "Did you mean 'reference'"),
        (["random", "--env", "echo-v9"], "echo-v0"),
        (["run:nowhere"], "there is no run folder 'nowhere'"),
        (["run:nowhere", "--name", "x"], "leave --name out"),
        (["hf:./nowhere"], "./nowhere"),
    ],
)
def test_what_cannot_be_served(palaver, arguments: list[str], says: str) -> None:
    ran = palaver("serve", *arguments, "--port", "0")
    assert ran.code == 2
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_short_key_is_refused_and_not_shown(palaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALAVER_SERVE_KEY", "short-key")
    ran = palaver("serve", "random", "--port", "0")
    assert ran.code == 2
    assert "16 characters" in ran.err
    assert "short-key" not in ran.err


def test_a_missing_library_is_named(palaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ran = palaver("serve", "random")
    assert (ran.code, "pip install 'palaver[serve]'" in ran.err) == (2, True)
