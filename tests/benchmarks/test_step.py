"""`palaver bench step`: the same work on both sides, counted and timed as documented."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from palaver.benchmarks.performance.step import StepBenchmark, median, run
from palaver.benchmarks.performance.training import limit, toy
from palaver.benchmarks.performance.training.peer import PeakMemory
from palaver.benchmarks.performance.training.settings import (
    SETTINGS,
    BenchmarkError,
    MeasurementOrder,
    ModelShape,
    Peer,
    setting,
)
from palaver.core import ConfigError

MIB = 1 << 20
linux = pytest.mark.skipif(not PeakMemory("cpu").possible, reason="needs the kernel's high-water mark")

PEER = """
import json

class Agent:
    def parameters(self):
        return []

class Optimizer:
    state = {0: {}}

class Trainer:
    agents, optimizers = [Agent()], [Optimizer()]
    def _update_from_samples(self, agent, samples):
        bytearray(b"x") * (100 << 20)

MAGRPOConfig, tiny_qwen3 = dict, None

def build(args, config_cls=MAGRPOConfig):
    Trainer.device = config_cls(agent_devices="cpu")["agent_devices"]
    return Trainer(), None

def main(flags):
    trainer, _ = build(flags)
    trainer._update_from_samples(0, [1])
    print("step 1 done")
    system = f"fake on {trainer.device} " + " ".join(flags)
    print(json.dumps({"system": system, "sec_per_step_mean": 3.0, "cpu_sec_per_step": 2.0,
                      "share_of_wall": {"generate": 0.5, "reward": 0.0, "update": 0.25},
                      "per_step": {"padded_tokens": 256.0}}))
"""


@pytest.fixture
def peer(tmp_path):
    script = tmp_path / "fake_peer.py"
    script.write_text(PEER)
    return Peer(sys.executable, str(script))


def test_the_settings_are_those_of_the_peers_readme():
    shapes = {n: (s.hidden, s.layers, s.vocab, s.new_tokens) for n, s in SETTINGS.items()}
    assert shapes["A"] == (64, 2, 258, 32)
    assert shapes["B"] == (128, 2, 16_000, 64)
    assert shapes["C"] == (256, 4, 8_192, 64)
    assert shapes["D"] == (64, 2, 151_936, 64)
    assert shapes["Qwen3-0.6B"] == (1024, 28, 151_936, 256)
    # the parameter counts that the peer's own script prints for A and C
    for name, parameters in (("A", 90_624), ("C", 4_459_264)):
        assert sum(p.numel() for p in toy.model(setting(name), "cpu", 0).parameters()) == parameters


def test_the_peers_flags_name_the_same_work(peer):
    found = peer.run(setting("C"), MeasurementOrder("C", 8, steps=3, threads=2, device="cpu"))
    words = found["name"].split()
    flags = dict(zip(words[3::2], words[4::2], strict=True))
    assert flags == {
        "--hidden": "256", "--layers": "4", "--vocab": "8192", "--max-new-tokens": "64", "--threads": "2",
        "--warmup": "1", "--steps": "4",
    }  # fmt: skip


def test_the_peers_report_is_read(peer):
    found = peer.run(setting("A"), MeasurementOrder("A", 1, 1, 1, "cpu"))
    assert (found["spent_s"], found["wall_s"], found["tokens"]) == (2.0, 3.0, 256.0)
    assert found["stages"] == {"generate": 1.0, "update": 0.5, "rest": 0.5}


def test_on_a_gpu_the_wall_counts_and_the_peers_trainer_goes_there(peer):
    found = peer.run(setting("Qwen3-0.6B"), MeasurementOrder("Qwen3-0.6B", 1, 1, 1, "cuda"))
    assert found["spent_s"] == 3.0
    assert found["name"].startswith("fake on cuda")


@linux
def test_the_peers_memory_is_measured_in_its_process(peer):
    found = peer.run(setting("A"), MeasurementOrder("A", 1, 1, 1, "cpu", memory=True))
    assert found["update_peak_bytes"] == pytest.approx(100 * MIB, rel=0.1)


@pytest.mark.parametrize(
    ("shown", "hidden"),
    [
        ("def _update_from_samples", "def update"),
        ("agents, optimizers =", "agents, others ="),
        ("def build", "def make"),
    ],
)
def test_a_peer_whose_updates_cannot_be_watched_is_timed_without_memory(tmp_path, shown, hidden):
    script = tmp_path / "fake_peer.py"
    body = PEER.replace(shown, hidden).replace("trainer._update_from_samples(0, [1])", "pass")
    script.write_text(body.replace("build(flags)", "make(flags)") if hidden == "def make" else body)
    order = MeasurementOrder("A", 1, 1, 1, "cpu", memory=True)
    assert Peer(sys.executable, str(script)).run(setting("A"), order) == {"update_peak_bytes": None}
    assert Peer(sys.executable, str(script)).run(setting("A"), replace(order, memory=False))["spent_s"] == 2.0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise SystemExit('no such library')", "no such library"),
        ('build = None\ndef main(flags): print(\'{"system": "x"}\')', "lacks a number: 'sec_per_step_mean'"),
        ("build = None\ndef main(flags): print('{cut')", "not JSON"),
        ("build = None\ndef main(flags): pass", "lacks a number"),
    ],
)
def test_a_broken_peer_is_told_in_one_line(tmp_path, body, message):
    script = tmp_path / "broken.py"
    script.write_text(body)
    with pytest.raises(BenchmarkError, match=message) as raised:
        Peer(sys.executable, str(script)).run(setting("A"), MeasurementOrder("A", 1, 1, 1, "cpu"))
    assert "\n" not in str(raised.value)


RISES = """
import json, sys
import torch
from palaver.benchmarks.performance.training.peer import PeakMemory

early = sys.argv[1] == "True"
model = torch.nn.Linear(3072, 3072, bias=False)  # 36 MiB: malloc gives blocks past 32 MiB back at once
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
watch = PeakMemory("cpu")
for _ in range(3):
    with watch.update(model, optimizer):
        if early:  # the gradients of the update before are still there when it starts
            optimizer.zero_grad()
        model(torch.ones(1, 3072)).sum().backward()
        torch.full((100 * 2**20 // 4,), 1.0)
        optimizer.step()
        if not early:
            optimizer.zero_grad()
print(json.dumps(watch.rises))
"""


@linux
@pytest.mark.parametrize("early", [True, False])
def test_the_rise_leaves_weights_gradients_and_moments_out(early):
    # In a process of its own, as a peer runs: a heap that other tests have filled may keep freed gradients.
    done = subprocess.run([sys.executable, "-c", RISES, str(early)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rises = json.loads(done.stdout)
    assert len(rises) == 2, "the first makes the moments"
    assert rises == pytest.approx([100 * MIB] * 2, abs=10 * MIB)


def test_the_work_is_counted_as_by_hand():
    # layer: q, o 4*6 each, k, v 4*3 each, three products of 4*5 -> 132 weights; head 4*10; 2 layers
    tiny = ModelShape("tiny", hidden=4, layers=2, heads=2, kv_heads=1, head_dim=3, inner=5, vocab=10, new_tokens=7)
    found = limit.work(tiny, prompts=2, prompt_tokens=10, answer_tokens=6, longest=7)
    assert found.prefill_flops == 2 * (10 * 2 * 264 + 4 * 2 * 6 * 100 / 2 + 2 * 40)
    seen = 6 * (10 + 3)
    assert found.decode_flops == 8 * (6 * 2 * 304 + 4 * 2 * 6 * seen)
    assert found.decode_bytes == 2 * 7 * 304 * 4 / 2 + 8 * seen * (2 * 2 * 3 * 4)
    assert found.optimizer_bytes == 2 * 28 * 304 / 2
    once = 10 * 2 * 264 + 4 * 2 * 6 * 100 / 2
    assert found.update_flops == 3 * (2 * once + 8 * (6 * 2 * 304 + 4 * 2 * 6 * seen))
    seconds = found.seconds(limit.Machine(flops=1e6, bytes=1e3))
    assert seconds["generate"] == pytest.approx(found.prefill_flops / 1e6 + found.decode_bytes / 1e3)


def test_the_counted_weights_are_the_models():
    s = setting("C")
    model = toy.model(s, "cpu", 0)
    products = [m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear)]
    assert limit.work(s, 1, 0, 0, 0).optimizer_bytes == 2 * 28 * sum(products)


def test_the_toy_pays_for_the_ratio_and_every_token_has_a_text():
    env = toy.LengthRatio(3)
    told, _ = env.reset(options={"task": "002"})
    assert told["long"] == "Task 002: describe the garden. describe the garden. \nLong"
    _, rewards, ended, _, _ = env.step({"short": "xxx", "long": "xxxxxxxxx"})  # (9+1)/(3+1) = 2.5, so 1 - 0.5/2
    assert rewards == {"short": 0.75, "long": 0.75}
    assert all(ended.values())
    words = toy.tokenizer(300)
    assert len(words) == 300
    assert words.decode([299]) == "w299"
    assert len(words.encode("describe the garden.")) == 20


def test_the_median_run_keeps_its_stages_together():
    runs = [{"spent_s": s, "stages": {"generate": g}} for s, g in ((4.0, 3.0), (1.0, 0.5), (2.0, 1.0))]
    found = median(runs)
    assert (found["spent_s"], found["stages"], found["runs"]) == (2.0, {"generate": 1.0}, [4.0, 1.0, 2.0])
    even = median(runs[:2])
    assert even["spent_s"] == 2.5
    assert even["stages"]["generate"] == pytest.approx(1.25), "the faster run's half of its time"


@pytest.mark.slow
def test_measured_and_printed(capsys, peer):
    lines: list[str] = []
    paths = {"peer_python": peer.python, "peer_script": peer.script}
    run(StepBenchmark(setting="A", prompts=1, repeats=1, steps=1, **paths), as_json=True, log=lines.append)
    report = json.loads(capsys.readouterr().out)
    (result,) = report["results"]
    ours = result["ours"]
    assert (result["setting"], result["prompts"], report["device"], report["threads"]) == ("A", 1, "cpu", 1)
    assert ours["spent_s"] == pytest.approx(sum(ours["stages"].values()))
    assert min(ours["stages"].values()) > 0
    assert 8 < ours["tokens"] <= 2 * 4 * 32
    assert ours["trained"] == 1.0
    assert ours["prompt_tokens"] == 58.5, "the peer counts 117 for both agents"
    assert result["times_faster"] == pytest.approx(2.0 / ours["spent_s"])
    assert all(0 < share < 1 for share in result["share_of_limit"].values())
    assert lines == ["setting A, B=1, 1 of 1", "setting A, the peer, 1 of 1", "setting A, memory of the update"]


def test_tables(capsys, monkeypatch, peer):
    monkeypatch.setattr(MeasurementOrder, "run", lambda self: FOUND | {"update_peak_bytes": 3 * MIB})
    monkeypatch.setattr(Peer, "run", lambda self, chosen, order: THEIRS | {"update_peak_bytes": 12 * MIB})
    few = {"prompts": 8, "repeats": 2, "steps": 1}
    run(StepBenchmark(setting=("B", "D"), **few), as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line[:2] in ("B ", "D ")]
    cells = ["8", "250.0", "40/50/10", "50/20", "1,234", "3"]
    assert lines == [[name, *cells, "-", "-", "-"] for name in "BD"]
    run(StepBenchmark(setting="B", **few, peer_python=peer.python, peer_script=peer.script), as_json=False)
    shown = capsys.readouterr().out
    assert [line.split()[-3:] for line in shown.splitlines() if line[:2] == "B "] == [["1,000.0", "12", "4.0x"]]
    assert "peer: fake" in shown


FOUND = {
    "spent_s": 0.25, "stages": {"generate": 0.1, "update": 0.125, "rest": 0.025}, "tokens": 512.0,
    "limit": {"generate": 0.05, "update": 0.025}, "tokens_per_s": 1234.0, "machine": {"flops": 1e11, "bytes": 1e10},
}  # fmt: skip
THEIRS = {"name": "fake", "spent_s": 1.0, "stages": {}, "tokens": 512.0}


def test_setting_names_are_hinted():
    with pytest.raises(ConfigError, match=r"Did you mean 'Qwen3-0.6B'"):
        setting("Qwen3-0.6")


def test_a_process_that_cannot_start_is_a_mistake(tmp_path):
    script = tmp_path / "s.py"
    script.write_text("")
    order = MeasurementOrder("A", 1, 1, 1, "cpu")
    with pytest.raises(BenchmarkError, match="could not measure"):
        Peer(str(script), str(script)).run(replace(setting("A")), order)
