"""A simulator that is missing, crashes, hangs or is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from palaver.core import PalaverError
from palaver.envs.pokemon.showdown import BattleLostError, BattlePool, Setup, ShowdownError, install
from palaver.envs.pokemon.showdown.worker import BattleWorker
from tests.envs.pokemon.battles import play

RANDOM = "gen1randombattle"


@pytest.fixture
def fresh_node():
    install.find_node.cache_clear()
    yield
    install.find_node.cache_clear()


def test_a_killed_process_loses_its_battles_and_is_replaced(pool):
    del pool  # there is a simulator
    with BattlePool(1) as own:
        lost, other = own.start([Setup(RANDOM, seed) for seed in (1, 2)])
        os.kill(lost.worker.process.pid, signal.SIGKILL)
        with pytest.raises(BattleLostError, match="signal 9"):
            lost.choose({"p1": "default", "p2": "default"})
        own.choose([(lost, {"p1": "default"}), (other, {"p1": "default"})])
        assert "signal 9" in lost.lost
        assert "signal 9" in other.lost
        for ask in (lambda: other.log(), lambda: other.fork(), lambda: lost.save(), lambda: lost.finish(None)):
            with pytest.raises(BattleLostError):
                ask()
        [new] = own.start([Setup(RANDOM, 1)])
        assert new.worker is not lost.worker
        play(new, random.Random(0))
        assert new.ended


def test_a_battle_that_starts_in_a_dying_process_starts_again(pool):
    del pool
    with BattlePool(1) as own:
        [first] = own.start([Setup(RANDOM, 1)])
        os.kill(first.worker.process.pid, signal.SIGSTOP)
        own._patience = 1.0
        [second] = own.start([Setup(RANDOM, 2)])
        assert second.turn == 1
        assert second.worker is not first.worker
        assert first.worker.lost.startswith("the simulator did not answer within 1 second")


def test_a_process_that_hangs_is_killed(pool):
    del pool
    with BattlePool(1) as own:
        [battle] = own.start([Setup(RANDOM, 1)])
        own._patience = 0.5
        os.kill(battle.worker.process.pid, signal.SIGSTOP)
        with pytest.raises(BattleLostError, match=r"did not answer within 0\.5 seconds"):
            battle.choose({"p1": "default", "p2": "default"})
        assert battle.worker.process.poll() is not None


def test_a_battle_that_breaks_loses_itself_alone(pool):
    broken, other = pool.start([Setup(RANDOM, seed) for seed in (1, 2)])
    text = broken.save().replace('"requestState":"move"', '"requestState":"move","turnLoop":1')
    bad = pool.load(text, broken.setup)
    with pytest.raises(BattleLostError, match="not a function"):
        bad.choose({"p1": "default", "p2": "default"})
    other.choose({"p1": "default", "p2": "default"})
    assert other.turn == 2
    assert not other.lost


def test_a_process_that_cannot_start(tmp_path):
    with pytest.raises(ShowdownError, match="cannot be started"):
        BattleWorker(tmp_path / "none", tmp_path)
    worker = BattleWorker(Path(sys.executable), tmp_path)  # Python reads no JavaScript
    with pytest.raises(BattleLostError, match=r"exit code 1: .*SyntaxError"):
        worker.receive(worker.send([["drop"]]), 20.0)


def test_the_process_ends_with_us(pool):
    del pool
    code = (
        "from palaver.envs.pokemon.showdown import *; import os;"
        "b = BattlePool(1).start([Setup('gen1randombattle')])[0]; print(b.worker.process.pid, flush=True); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    pid = int(done.stdout)
    for _ in range(200):
        if not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes():
            return
        signal.sigtimedwait([], 0.05)
    raise AssertionError(f"the process {pid} goes on")


# --- what is not installed ---------------------------------------------------------------------------


def test_no_node(monkeypatch, fresh_node, tmp_path):
    monkeypatch.setattr(install.shutil, "which", lambda _: None)
    monkeypatch.setattr(install.util, "find_spec", lambda _: None)
    monkeypatch.delenv(install.VARIABLE, raising=False)
    with pytest.raises(ShowdownError, match=r"pip install 'palaver\[node\]'.*palaver pokemon install$") as raised:
        install.find_node()
    assert isinstance(raised.value, PalaverError)
    assert "\n" not in str(raised.value)
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path))
    with pytest.raises(ShowdownError, match="Node"):
        install.install()
    assert list(tmp_path.iterdir()) == []


def test_an_old_node(monkeypatch, fresh_node, tmp_path):
    old = tmp_path / "node"
    old.write_text("#!/bin/sh\necho v18.19.1\n")
    old.chmod(0o755)
    monkeypatch.setenv(install.VARIABLE, str(old))
    with pytest.raises(ShowdownError, match=r"Node.js 20 or newer.*is version 18.19.1"):
        install.find_node()
    old.write_text("#!/bin/sh\necho v22.1.0\n")
    assert install.find_node().version == "22.1.0"


def test_no_package(monkeypatch, fresh_node, tmp_path):
    new = tmp_path / "node"
    new.write_text("#!/bin/sh\necho v22.1.0\n")
    new.chmod(0o755)
    monkeypatch.setenv(install.VARIABLE, str(new))
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path))
    with pytest.raises(ShowdownError, match=r"is not installed in .*; run: palaver pokemon install$"):
        BattlePool()


@pytest.mark.parametrize("works", [True, False])
def test_install(monkeypatch, tmp_path, works):
    """With an npm that makes what npm would make, or fails."""
    npm = tmp_path / "npm"
    npm.write_text(
        "#!/bin/sh\n[ -f package-lock.json ] || exit 3\necho \"$@\" > arguments\n"
        + ("mkdir -p node_modules/pokemon-showdown/dist/sim && touch node_modules/pokemon-showdown/dist/sim/index.js\n"
           if works else "echo 'npm error network: no such host' >&2; exit 1\n")
    )  # fmt: skip
    npm.chmod(0o755)
    monkeypatch.setattr(install, "find_node", lambda: install.NodeInterpreter(tmp_path / "node", "22.1.0", (str(npm),)))
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path / "cache"))
    if not works:
        with pytest.raises(ShowdownError, match="npm could not install the simulator: npm error network"):
            install.install()
        assert list((tmp_path / "cache" / "showdown").iterdir()) == []
        return
    assert not install.present()
    assert install.install() == install.package() == install.folder() / "node_modules" / "pokemon-showdown"
    assert "--ignore-scripts" in (install.folder() / "arguments").read_text()
    assert install.folder().name.startswith("0.11.11-")
    npm.write_text("#!/bin/sh\nexit 1\n")
    install.install()  # nothing to do
    assert [path.name for path in (tmp_path / "cache" / "showdown").iterdir()] == [install.folder().name]


def test_the_lock_names_no_registry():
    lock = (Path(install.__file__).parent / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert '"node_modules/pokemon-showdown"' in lock
    assert f'"pokemon-showdown": "{install.version()}"' in lock
