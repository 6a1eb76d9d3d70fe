"""A cheap call of every command, and what counts as a success where an extra is not installed."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from palaver.trainers.trajectories.files import Writer
from tests.trainers.battles.made import battle

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = "core"  # the install without extras
NAMED = re.compile(r"pip install 'palaver\[([a-z-]+)\]'")
STEP = "train.steps=1 train.prompts_per_step=1 eval.n=1 eval.samples=1 algorithm.group_size=2"
GAME = "matrix-v1 game=prisoners-dilemma repeats=2"
PEER = "http://127.0.0.1:9/v1"  # where nothing listens


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a command.

    Attributes:
        text: its arguments.
        until: text of its output at which it is interrupted, for a server.
        refusal: part of the line that may end it although nothing is missing.
        codes: exit codes of a success.
        simulator: True if it needs the simulator of Pokémon battles.
    """

    text: str
    until: str = ""
    refusal: str = ""
    codes: tuple[int, ...] = (0,)
    simulator: bool = False


# in this order, in one folder with what `prepare` puts there
CALLS = (
    Call("--version"),
    Call("envs"),
    Call("envs build-mini-v0 --json"),
    Call("play echo-v0 --team scripted:reference"),
    Call("evaluate echo-v0 --team random -n 2 --out episodes.jsonl"),
    Call("play arxiv-v0 --team tiny"),
    Call("play textarena/KuhnPoker-v0 --team scripted:brackets"),
    Call("evaluate gsm8k-v0 tasks=rg:chain_sum:4:7 --team scripted:lazy"),
    Call("train"),
    Call("train arxiv-magrpo --explain"),
    Call("train arxiv-magrpo --dry-run"),
    Call(f"train arxiv-magrpo {STEP} --out trained"),
    Call(f"train arxiv-magrpo {STEP} log.wandb=offline --out logged"),
    Call(f"train matrix-vdn {STEP} --out values"),
    Call("evaluate echo-v0 --team random -n 2 --row rows --label again"),
    Call("evaluate coding-mini-v0 --team scripted:reference -n 1"),
    Call("evaluate maths-mini-v0 --team tiny -n 1"),
    Call("evaluate arxiv-v0 --team run:runs/a -n 1", refusal="checkpoint"),
    Call("evaluate maths-stubborn-v2 --team scripted:reference"),
    Call(f"evaluate arxiv-v0 --team recipe:arxiv-magrpo+{STEP.replace(' ', '+')} -n 1"),
    Call("evaluate arxiv-v0 --team random -n 1 reward=rm:nowhere", refusal="nowhere"),
    Call(f"evaluate arxiv-v0 --team random -n 1 reward=judge:openai:m@{PEER}?attempts=1", refusal="could be scored"),
    Call("evaluate arxiv-v0 --team scripted:reference tasks=hf:nowhere/nothing", refusal="nowhere/nothing"),
    Call("evaluate arxiv-v0 --team scripted:reference tasks=tasks.parquet", refusal="tasks.parquet"),
    Call(f"evaluate echo-v0 --team openai:m@{PEER}?attempts=1 -n 1", refusal="transport"),
    Call(f"arena {GAME} --players legal,first --games 2 --out arena"),
    Call(f"arena {GAME} --players legal,first --games 2 --dry-run"),
    Call(f"arena {GAME} --players tiny,first --games 2 --dry-run", refusal="tiny"),
    Call(f"arena {GAME} --players net:nowhere,first --games 2 --dry-run", refusal="nowhere"),
    Call("leaderboard write rows --out board"),
    Call("leaderboard submit rows/echo-v0--random.json --submitter Ann --out submissions"),
    Call("leaderboard verify rows/echo-v0--random.json"),
    Call("leaderboard write rows --measure --only echo-v0 --work work --out board"),
    Call("compare runs"),
    Call("report runs/a runs/b --out runs"),
    Call("view runs/a --out page.html"),
    Call("view battles --out battles.html"),
    Call("doctor", codes=(0, 1)),
    Call("doctor --json", codes=(0, 1)),
    Call("serve scripted:reference --env echo-v0 --port 0", until="serving"),
    Call("serve tiny --env arxiv-v0 --port 0", until="serving"),
    Call("export trl echo-v0 --agent a1 --out exported"),
    Call("export openenv echo-v0 --agent a1 --out served"),
    Call("export verifiers echo-v0 --out roles"),
    Call("export inspect episodes.jsonl --out logs/echo.eval"),
    Call("results rescore rows/echo-v0--random.json"),
    Call("results analyse trained --tasks 1 --contexts 1 --alternatives 2 --replays 1"),
    Call("results analyse rows/echo-v0--random.json --messages --tasks 2"),
    Call("results sweep matrix-drmas --over optim.lr=[1e-4,1e-3] --halve 2 --dry-run"),
    Call("results sweep matrix-drmas --over optim.lr=3", refusal="optim.lr"),
    Call("results card runs/a --data runs/a/episodes/eval-000130.jsonl --out cards"),
    Call("experiment matrix-games lab.games=[xor] lab.algorithms=[magrpo] lab.seeds=1 --dry-run"),
    Call("experiment matrix-games lab.games=[xor] lab.algorithms=[magrpo] lab.seeds=1 train.steps=1 --out lab"),
    Call("experiment matrix-games --explain"),
    Call("experiment reasoning --dry-run --seeds 1"),
    Call("experiment reasoning --explain"),
    Call("experiment marlhf"),
    Call("experiment marlhf arxiv-marlhf --explain"),
    Call("experiment marlhf arxiv-marlhf --dry-run"),
    Call("experiment marlhf reward-model pairs.file=pairs.jsonl fit.epochs=1 --out rm"),
    Call("experiment curriculum run"),
    Call("experiment curriculum run gen1ou-nano --explain"),
    Call("experiment curriculum run gen1ou-nano --dry-run --no-rehearse", simulator=True),
    Call("experiment curriculum ablate nowhere.yaml --vary lr=1,2 --out ablated", refusal="nowhere.yaml"),
    Call("experiment curriculum report curriculum"),
    Call("judge audit scripted:fair -n 4 --probes 1 --repeats 1 --timed 1 --out audit"),
    Call("judge audit scripted:fair -n 4 --probes 1 --repeats 1 --timed 1 --json"),
    Call("judge audit rm:rm -n 4 --probes 0 --dry-run"),
    Call(f"judge audit judge:openai:m@{PEER} -n 4 --probes 0 --dry-run"),
    Call("judge audit judge:hf:model -n 4 --probes 0 --dry-run", refusal="'model'"),
    Call("judge ask scripted:fair --prompt 1 --answer x --answer y"),
    Call("judge ask rm:./nowhere --prompt 1 --answer x", refusal="nowhere"),
    Call(f"judge ask judge:openai:m@{PEER}?attempts=1 --prompt 1 --answer x"),
    Call("pokemon install", simulator=True),
    Call("pokemon serve --port 0", until="listening", simulator=True),
    Call("pokemon ladder typed@1 --explain"),
    Call("pokemon ladder typed@1 --games 1 --opponent poke-env:RandomPlayer", simulator=True),
    Call("pokemon battles show battles"),
    Call("pokemon battles show battles --battle 0"),
    Call("pokemon battles import-metamon replays --out imported", codes=(1,)),
    Call("pokemon clone battles --out cloned --explain"),
    Call("pokemon clone battles --out cloned epochs=1", refusal="5 words and 3 numbers", simulator=True),
    Call("bench step --explain"),
    Call("bench step setting=A prompts=1 repeats=1 steps=1 memory=false"),
    Call("bench sandbox programs=4 workers=1"),
    Call("bench gpu --stage 4 --out gpu.jsonl"),
    Call("bench teams --explain"),
    Call("bench teams size=0.1M kinds=[one] steps=1 repeats=1 agents=2 group=2"),
    Call("bench pokemon --explain"),
    Call("bench pokemon formats=gen1ou seconds=0.1 repeats=1 warm=1 processes=1 battles=1 peers=false", simulator=True),
    Call(f"demo --act 1 {STEP} --out demo"),
)


def prepare(folder: Path) -> None:
    """Put into an empty folder what the calls read: two runs, rows, battles, a replay, preferences."""
    for seed, name in enumerate("ab"):
        shutil.copytree(ROOT / f"docs/runs/arxiv-magrpo/seed-{seed}", folder / "runs" / name)
    shutil.copytree(ROOT / "docs/runs/battler", folder / "curriculum", ignore=shutil.ignore_patterns("ablation*"))
    (folder / "rows").mkdir()
    for path in (ROOT / "docs/leaderboard/rows").glob("echo-v0--random.*"):
        shutil.copy(path, folder / "rows")
    with Writer(folder / "battles") as writer:
        for n in range(4):
            writer.add(*battle(n))
    (folder / "replays").mkdir()
    (folder / "replays/gen1ou-1_1500_a_b_vs_c_08-12-2019_WIN.json.lz4").write_bytes(b"")
    rows = [{"prompt": f"q{n % 4}", "chosen": f"yes {n}!", "rejected": f"no {n}"} for n in range(16)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "tasks.parquet").write_bytes(b"")


def extras() -> dict[str, frozenset[str]]:
    """Extra -> it and those that it includes; `core` includes itself alone."""
    declared: dict[str, list[str]] = PROJECT["optional-dependencies"]

    def included(name: str) -> frozenset[str]:
        own = ",".join(re.findall(r"palaver\[(.+?)\]", " ".join(declared[name])))
        return frozenset({name}).union(*map(included, filter(None, own.split(","))))

    return {CORE: frozenset({CORE})} | {name: included(name) for name in declared}


def judged(call: Call, code: int, err: str, installed: frozenset[str]) -> tuple[str, bool]:
    """A word for the end of a call, and True if it is as it should be.

    Args:
        call: that has ended.
        code: its exit code.
        err: what it wrote to stderr.
        installed: the extras it had.
    """
    if "Traceback (most recent call last)" in err:
        return "traceback", False
    if code in call.codes:
        return "ok", True
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    if code != 2 or len(lines) != 1:
        return f"exit {code}", False
    named = NAMED.findall(lines[0])
    if named:
        return f"needs {named[0]}", not installed & set(named)
    return "refused", bool(call.refusal) and call.refusal in lines[0]
