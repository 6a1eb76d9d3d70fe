from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from palaver.cli import main, output
from tests.models import byte_tokenizer, tiny_qwen3


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small model with random weights."""
    folder = tmp_path_factory.mktemp("model")
    tiny_qwen3().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def palaver(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path) -> Callable[..., Ran]:
    """Runs the command in an empty folder, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.console, "_width", 160)

    def run(*arguments: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return run
