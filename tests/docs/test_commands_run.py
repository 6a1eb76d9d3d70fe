"""Every command that the documentation shows runs where `make demo` installed Palaver, at short settings."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import ROOT
from tests.calls import Call, extras, judged
from tests.calls import prepare as prepare_calls
from tests.docs import test_textarena_page as textarena_page
from tests.docs.commands import NOT_RUN, SHORT, Shown, everywhere
from tests.docs.test_own_pages import write_files
from tests.extras import build, install

COMMANDS = everywhere()
COMPARED = ROOT / "docs" / "runs" / "comparison"
MARLHF = ROOT / "benchmarks" / "experiments" / "marlhf" / "arxiv-marlhf.yaml"
DEMO = "PALAVER_DEMO"  # the Python of an installation of palaver[demo]; without it one is made
LIMIT_S = 10_000.0  # of all commands, in two processes at a time, on a busy machine
QUICK = "train.prompts_per_step=1 algorithm.group_size=2 eval.n=2 eval.samples=1 log.tensorboard=false train.steps=1"
STOCK = (  # commands whose files others read
    f"train arxiv-magrpo {QUICK} --out runs/longer",
    f"train build-magrpo {QUICK} --out runs/build-0",
    f"train kuhn-league {QUICK} --out runs/kuhn",
    "evaluate arxiv-v0 --team random -n 4 --row rows --label random --out episodes.jsonl",
    "evaluate echo-v0 --team random -n 4 --row rows --label mine",
    "leaderboard submit rows/echo-v0--mine.json --submitter Ann --out submissions",
    "arena pokemon-v1 observation=vector --players typed@1,random@1 --games 8 --record battles/first",
    "pokemon clone battles/first --out runs/student epochs=1",
)
NAMES = (
    *("runs/longer", "runs/build-0", "rows", "submissions", "episodes.jsonl", "episodes.jsonl.gz", "pairs.jsonl"),
    *("battles/first", "battles/stand-in", "runs/battles", "runs/new", "runs/old", "runs/student", "replays"),
    *("runs/other", "runs/magrpo-0", "runs/magrpo-1", "runs/ippo-0", "runs/cory-1", "runs/battler", "runs/kuhn"),
    *("HumanEval.jsonl.gz", "mbpp.jsonl", "runs/marlhf"),
)


def in_demo(python: Path, chains: list[tuple[Path, list[dict[str, Any]]]]) -> list[list[Any]]:
    """Outcomes of the calls of all chains, in processes of this Python."""
    for folder, _ in chains:
        folder.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200", "BROWSER": "true"}
    command = [python, "-P", ROOT / "tests" / "docs" / "forked.py", "2"]
    order = json.dumps([(str(folder), calls) for folder, calls in chains])
    done = subprocess.run(
        command, input=order, cwd=ROOT / "docs", env=environment, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0
    return json.loads(done.stdout)


def stock(folder: Path, python: Path) -> None:
    """Make the files that readers have before they call a command."""
    prepare_calls(folder)
    for name in ("runs", "rows", "battles"):
        shutil.rmtree(folder / name)
    (outcomes,) = in_demo(python, [(folder, [{"arguments": command.split()} for command in STOCK])])
    assert [err for code, err, _ in outcomes if code] == []
    shutil.copytree(folder / "runs/longer", folder / "runs/other")
    for name in ("battles/stand-in", "runs/battles", "runs/new", "runs/old"):
        shutil.copytree(folder / "battles/first", folder / name)
    (folder / "episodes.jsonl.gz").write_bytes(gzip.compress((folder / "episodes.jsonl").read_bytes()))
    kept = {"runs/magrpo-0": "magrpo-1", "runs/magrpo-1": "magrpo-2", "runs/ippo-0": "ippo-3", "runs/cory-1": "cory-1"}
    for name, of in kept.items():
        shutil.copytree(COMPARED / of, folder / name)
        if of != "cory-1":  # it has an environment of its own
            shutil.copytree(COMPARED / of, folder / "compared" / Path(name).name)
    battler, left = ROOT / "docs" / "runs" / "battler", shutil.ignore_patterns("ablation*")
    shutil.copytree(battler, folder / "runs" / "battler", ignore=left)
    (folder / "runs" / "marlhf").mkdir()
    shutil.copy(MARLHF, folder / "runs" / "marlhf" / "marlhf.yaml")
    pair = {"prompt": "Write.", "chosen": "This is good.", "rejected": "bad"}
    pairs = [{"task": str(n), "agents": {"background": pair, "method": pair}} for n in range(16)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)), encoding="utf-8")
    human = {"task_id": "HumanEval/0", "prompt": 'def f(x):\n    """Double."""\n', "entry_point": "f"}
    human |= {"canonical_solution": "    return 2 * x\n", "test": "def check(f):\n    assert f(2) == 4\n"}
    (folder / "HumanEval.jsonl.gz").write_bytes(gzip.compress(json.dumps(human).encode()))
    mbpp = {"task_id": 2, "text": "Write a function f that doubles.", "code": "def f(x):\n    return 2 * x"}
    mbpp |= {"test_list": ["assert f(2) == 4"], "test_setup_code": "", "challenge_test_list": []}
    (folder / "mbpp.jsonl").write_text(json.dumps(mbpp), encoding="utf-8")


def copies(command: Shown, made: Path) -> list[tuple[str, str]]:
    """What a command reads, from the stock or the repository, with its name in the reader's folder."""
    words, found = command.short(), []
    read = [
        word for before, word in zip(["", *words], words, strict=False) if before not in ("--out", "--record", "--keep")
    ]
    text = " ".join(read)
    for name in NAMES:
        if re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w.-])", text.replace("run:", "").replace("net:", "")):
            found.append((str(made / name), name))
    if words[:2] == ["compare", "runs"]:
        found.append((str(made / "compared"), "runs"))
    for word in read:
        if word.startswith("docs/") and (ROOT / word).exists():
            whole = "docs/leaderboard" if word.startswith("docs/leaderboard/") else word
            found.append((str(ROOT / whole), whole))
    if words[0] == "leaderboard" and not {"rows", "submit", "verify"} & set(words):
        found.append((str(ROOT / "docs" / "leaderboard"), "docs/leaderboard"))
    return found


def place(command: Shown) -> tuple[Path, str]:
    """Commands of one section follow each other in one folder; of some pages all do."""
    return command.page, "" if command.page.name.startswith(("own-", "promises")) else command.section


def calls(commands: list[Shown], made: Path) -> list[dict[str, Any]]:
    """Calls of a folder; a run that the page shows twice has another place the second time."""
    found: list[dict[str, Any]] = []
    taken: set[str] = set()
    for command in commands:
        words = command.short()
        if words[0] == "train" and "--out" in words:
            at = words.index("--out") + 1
            words[at] += "-again" * (words[at] in taken)
            taken.add(words[at])
        text = "A short answer.\n\n" if "human" in command.text else ""
        found.append({"arguments": words, "copies": copies(command, made), "until": command.until, "input": text})
    return found


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> Path:
    """The Python of an installation as `make demo` makes it."""
    if DEMO in os.environ:
        return Path(os.environ[DEMO])
    folder = tmp_path_factory.mktemp("demo")
    try:
        return install("demo", build(folder), folder)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"palaver[demo] cannot be installed here: {error}")


def test_what_is_not_run_has_a_reason():
    reasons = {command.text: command.reason for command in COMMANDS if command.reason}
    assert len(COMMANDS) > 350
    assert len(reasons) <= 50, reasons
    unused = {part for part in NOT_RUN if not any(part in " ".join(command.words) for command in COMMANDS)}
    assert unused == set()
    unmatched = {pattern for pattern, _ in SHORT if not any(re.search(pattern, c.text) for c in COMMANDS)}
    assert unmatched == set()


def test_settings_are_shortened_and_nothing_else():
    command = Shown(ROOT / "README.md", "", ("train", "arxiv-grpo", "train.steps=300", "algorithm.group_size=4"))
    assert command.short() == [
        *("train", "arxiv-grpo", "algorithm.group_size=4", "train.steps=1", "eval.n=1", "eval.samples=1"),
        *("log.tensorboard=false", "train.prompts_per_step=1"),
    ]
    command = Shown(ROOT / "README.md", "", ("arena", "matrix-v1", "--games", "1000", "--jobs", "2"))
    assert command.short() == ["arena", "matrix-v1", "--games", "2", "--jobs", "2"]


@pytest.mark.parametrize(
    "page", sorted({command.page for command in COMMANDS if command.extra}), ids=lambda page: page.name
)
def test_a_page_names_the_extra_of_its_commands(page):
    text = page.read_text(encoding="utf-8")
    needed = {command.extra for command in COMMANDS if command.page == page and command.extra and not command.reason}
    assert {extra for extra in needed if f"palaver[{extra}]" not in text and f"`{extra}`" not in text} == set()


def test_the_runner(tmp_path):
    (tmp_path / "stock").mkdir()
    (tmp_path / "stock" / "mine.jsonl").write_text("{}")
    calls = [
        {"arguments": ["envs"]},
        {"arguments": ["play", "nowhere-v0"]},
        {
            "arguments": ["results", "rescore", "mine.jsonl"],
            "copies": [(str(tmp_path / "stock" / "mine.jsonl"), "mine.jsonl")],
        },
    ]
    ((one, two, three),) = in_demo(Path(sys.executable), [(tmp_path / "chain", calls)])
    assert (one[0], two[0], three[0]) == (0, 2, 2)
    assert "nowhere-v0" in two[1]
    assert "line 1" in three[1]


@pytest.mark.slow
@pytest.mark.timeout(10_600)
def test_every_command_runs_in_a_demo_installation(demo, tmp_path, pool):
    made = tmp_path / "stock"
    stock(made, demo)
    groups = [list(group) for _, group in groupby((c for c in COMMANDS if not c.reason), place)]
    chains = [(tmp_path / f"{n}-{group[0].page.stem}", calls(group, made)) for n, group in enumerate(groups)]
    for (folder, _), group in zip(chains, groups, strict=True):
        folder.mkdir()
        if group[0].page.name.startswith("own-"):
            write_files(folder)
        if group[0].page == textarena_page.PAGE:
            textarena_page.write_files(folder)
    wrong = {}
    for group, (folder, made_calls), outcomes in zip(groups, chains, in_demo(demo, chains), strict=True):
        for command, made_call, (code, err, _) in zip(group, made_calls, outcomes, strict=True):
            word, right = judged(Call(command.text), code, err, extras()["demo"])
            if not right or (word == "ok") == bool(command.extra):
                name = f"{command.page.name}: {command.text}"
                wrong[name] = f"{word}: {made_call['arguments']} in {folder}: {err[-1500:]}"
    assert wrong == {}, "\n\n".join(f"{name}\n{text}" for name, text in wrong.items())
