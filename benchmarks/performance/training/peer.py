"""Run a peer's benchmark script under its own Python, and measure its updates' memory.

    PEER_PYTHON peer.py [--memory] [--model JSON] [--device D] SCRIPT FLAGS ...

The script must offer `main(flags)`, which prints its report as the last line, one JSON object; none ships with Palaver,
and `docs/benchmarks.md` says what one needs for the other options. With `--memory` a last line
`{"update_peak_bytes": ...}` follows, null if the trainer's update cannot be measured. Nothing of Palaver is imported:
the peer's environment need not have it.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> None:
    """Run the script that the command line names."""
    parser = argparse.ArgumentParser(description="run a peer's benchmark script")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--model", type=json.loads, help="keywords of a Qwen3Config in place of the script's model")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("script", type=Path)
    args, flags = parser.parse_known_args()
    folder = Path(__file__).resolve().parent
    sys.path[:] = [
        entry for entry in sys.path if Path(entry or ".").resolve() != folder
    ]  # our file names are not theirs
    watch = PeakMemory(args.device)
    script = _load(args.script)
    if args.model:
        _replace_model(script, args.model, args.dtype)
    if args.device != "cpu" or (args.memory and watch.possible and hasattr(script, "build")):
        _replace_build(script, args.device, watch if args.memory and watch.possible else None)
    script.main(flags)
    if args.memory:
        print(json.dumps({"update_peak_bytes": max(watch.rises) if watch.rises else None}))


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _replace_model(script: ModuleType, keywords: dict[str, Any], dtype: str) -> None:
    """Let the script build a model of another shape than its flags can name."""

    def build(args: Any, tokenizer: Any, seed: int) -> Any:
        del args, tokenizer
        import torch
        from transformers import Qwen3Config, Qwen3ForCausalLM

        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(Qwen3Config(**keywords))
        return model.to(torch.bfloat16) if dtype == "bf16" else model

    script.tiny_qwen3 = build  # type: ignore[attr-defined]


def _replace_build(script: ModuleType, device: str, watch: Any) -> None:
    """Let the script's trainer run on `device`, and `watch` its updates."""
    build = script.build

    def built(*args: Any, **keywords: Any) -> Any:
        if device != "cpu":
            kind = script.MAGRPOConfig
            keywords["config_cls"] = lambda **given: kind(**{**given, "agent_devices": device})
        built_objects = build(*args, **keywords)
        if watch is not None:
            _watch(built_objects[0], watch)
        return built_objects

    script.build = built  # type: ignore[attr-defined]


def _watch(trainer: Any, watch: Any) -> None:
    if not all(hasattr(trainer, name) for name in ("_update_from_samples", "agents", "optimizers")):
        return
    update = trainer._update_from_samples

    def watched(agent: int, samples: Any) -> Any:
        with watch.update(trainer.agents[agent], trainer.optimizers[agent]):
            return update(agent, samples)

    trainer._update_from_samples = watched


_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """Measures the memory of updates.

    It is the memory allocated by torch on a GPU, elsewhere the resident memory of the process.

    Attributes:
        rises: bytes per update above weights, gradients and optimiser state.
    """

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")
        self.rises: list[int] = []

    @property
    def possible(self) -> bool:
        """True on a GPU, or on Linux, whose kernel keeps a high-water mark that can be reset."""
        return self.cuda or (sys.platform == "linux" and _CLEAR.exists())

    @contextmanager
    def update(self, model: Any, optimizer: Any) -> Iterator[None]:
        """Measure the body as one update of `model`.

        The first is skipped, as it creates the optimiser's state. Missing gradients are allocated inside.
        """
        absent = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad and p.grad is None)
        counts, start = bool(optimizer.state), self.start()
        yield
        if counts:
            self.rises.append(self.highest() - start - absent)

    def start(self) -> int:
        """Reset the high-water mark; returns the bytes in use."""
        if self.cuda:
            import torch

            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            return int(torch.cuda.memory_allocated())
        ctypes.CDLL(None).malloc_trim(0)  # free memory not returned to the system would hide a rise
        _CLEAR.write_text("5")  # proc(5): resets the peak resident set size
        return _kilobytes("VmRSS") * 1024

    def highest(self) -> int:
        """Return the maximum of bytes in use since `start`."""
        if self.cuda:
            import torch

            return int(torch.cuda.max_memory_allocated())
        return _kilobytes("VmHWM") * 1024


def _kilobytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


if __name__ == "__main__":
    main()
