"""Every wait for a process, a thread or a result has a limit: `timeout=` or the argument that means it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, files, tree

RUNS = {f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output")}
NEVER = {  # these take no limit
    "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "multiprocessing.Pool", "os.popen",
    "os.system", "os.wait", "os.wait3", "os.wait4", "os.waitid", "os.waitpid", "pty.spawn", "subprocess.getoutput",
    "subprocess.getstatusoutput", "ProcessPoolExecutor", "futures.ProcessPoolExecutor",
}  # fmt: skip
NEEDED = {"communicate": 2, "wait": 1, "join": 1, "result": 1, "connection.wait": 2, "futures.wait": 2}
LAST = {name.rpartition(".")[2] for name in (*RUNS, *NEVER, *NEEDED, "subprocess.Popen")}
# what every such call looks like: nine files of ten need not be parsed
SUSPECT = re.compile(
    r"subprocess|ProcessPool|multiprocessing\.Pool|spawn\(|\.join\((?:\)|None|timeout)"
    r"|\.(?:communicate|wait|result|waitpid|wait3|wait4|waitid|popen|system)\("
)
WITHOUT = {
    ("agents/remote/chat.py", "future.result"): "a remote call has a deadline of its own; Ctrl-C ends the wait",
    ("agents/remote/chat.py", "task.result"): "of tasks that asyncio.wait has given back as done",
    ("palaver/utils/workers.py", "connection.wait"): "the thread of a worker that ends it with its parent",
    ("envs/code/sandbox/worker.py", "os.waitpid"): "for what it has killed; its examiner kills a worker that is late",
    ("tests/trainers/test_run_processes.py", "os.waitpid"): "with WNOHANG, in a loop that has a limit",
    ("tests/docs/forked.py", "os.waitpid"): "with WNOHANG, in a loop that kills a call that is late",
    (
        "palaver/cli/groups/pokemon.py",
        "server.wait",
    ): "a server runs until Ctrl-C; it is looked at several times a second",
    ("trainers/run/loop.py", "run.distributed.wait"): "for the other processes of a run, with the limit of torch",
    ("trainers/run/loop.py", "self.session.distributed.wait"): "likewise",
    ("trainers/league_loop.py", "self.session.distributed.wait"): "likewise",
}


def unlimited(module: ast.Module) -> list[tuple[int, str]]:
    """(line, name) of every call that may wait for ever."""
    nodes = [node for node in ast.walk(module) if isinstance(node, ast.Await | ast.With | ast.ImportFrom | ast.Call)]
    awaited = {id(node.value) for node in nodes if isinstance(node, ast.Await)}
    blocks = {id(item.context_expr) for node in nodes if isinstance(node, ast.With) for item in node.items}
    found = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "subprocess":
            found.append((node.lineno, "from subprocess import"))  # this test knows its functions by their full names
        elif isinstance(node, ast.Call) and _last(node.func) in LAST:
            name = ast.unparse(node.func)
            closes = name == "subprocess.Popen" and id(node) in blocks  # the end of the block waits
            if name in NEVER or closes or (not _limited(node, name) and id(node) not in awaited):
                found.append((node.lineno, name))
    return found


def _last(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _limited(call: ast.Call, name: str) -> bool:
    limit = next((keyword.value for keyword in call.keywords if keyword.arg == "timeout"), None)
    if name not in RUNS:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in NEEDED:
            return True
        needed = NEEDED.get(name, NEEDED[call.func.attr])
        limit = limit or (call.args[needed - 1] if len(call.args) >= needed else None)
    return limit is not None and not (isinstance(limit, ast.Constant) and limit.value is None)


@pytest.mark.parametrize("part", ["package", "tests"])
def test_every_wait_has_a_limit(part):
    paths = files() if part == "package" else [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py")]
    found = [
        f"{path}:{line}: {name}"
        for path in paths
        if SUSPECT.search((ROOT / path).read_text(encoding="utf-8"))
        for line, name in unlimited(tree(path))
        if (path.as_posix(), name) not in WITHOUT
    ]
    assert found == []


@pytest.mark.parametrize(("path", "name"), WITHOUT)
def test_every_exception_is_needed(path, name):
    assert name in {each for _, each in unlimited(tree(Path(path)))}


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(['x'], check=True)",
        "subprocess.run(['x'], timeout=None)",
        "subprocess.check_output(['x'])",
        "from subprocess import run",
        "with subprocess.Popen(['x']) as process: pass",
        "process.wait()",
        "process.wait(None)",
        "process.wait(timeout=None)",
        "self.process.communicate(b'x')",
        "child.join()",
        "future.result()",
        "connection.wait([pipe])",
        "os.waitpid(3, 0)",
        "os.system('x')",
        "multiprocessing.Pool(3)",
        "ProcessPoolExecutor(3)",
        "pty.spawn('x')",
        "async def f(): await asyncio.create_subprocess_exec('x')",
    ],
)
def test_a_wait_without_a_limit_is_noticed(code):
    assert len(unlimited(ast.parse(code))) == 1
    assert SUSPECT.search(code)


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(['x'], timeout=LIMIT)",
        "process.wait(3)",
        "process.communicate(b'x', 3)",
        "process.communicate(timeout=3)",
        "', '.join(words)",
        "child.join(60)",
        "connection.wait([pipe], 1.0)",
        "async def f(): await bell.wait()",
    ],
)
def test_a_wait_with_a_limit_is_not(code):
    assert unlimited(ast.parse(code)) == []
