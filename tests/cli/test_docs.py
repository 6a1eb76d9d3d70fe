from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
COMMANDS = [shlex.split(line, comments=True)[1:] for block in BLOCKS for line in block.splitlines() if line.strip()]
NEEDS_A_RUN = ("runs/longer", "--resume")


def quick(arguments: list[str]) -> bool:
    """Whether it needs neither a training run, a person nor a benchmark that may not be there."""
    trains = arguments[0] == "train" and len(arguments) > 1 and not {"--explain", "--dry-run"} & set(arguments)
    needs_a_run = any(argument.startswith(NEEDS_A_RUN) for argument in arguments)
    return not (trains or needs_a_run or arguments[0] == "bench" or any("human" in a for a in arguments))


def test_the_page_shows_commands():
    assert {arguments[0] for arguments in COMMANDS} == {
        "envs", "play", "train", "evaluate", "report", "doctor", "bench",
    }  # fmt: skip
    assert sum(map(quick, COMMANDS)) >= 12


@pytest.mark.parametrize("arguments", list(filter(quick, COMMANDS)), ids=" ".join)
def test_commands_run_as_written(palaver, arguments):
    ran = palaver(*arguments)
    assert ran.code == 0, ran.err
    assert ran.out
