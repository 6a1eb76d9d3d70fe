"""`palaver bench step`: its help, and mistakes."""

from __future__ import annotations

import sys

import pytest


def test_help(palaver):
    ran = palaver("bench", "step", "--help")
    assert ran.code == 0
    assert "palaver bench step --setting C" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--setting", "E"), "there is no setting 'E'"),
        (("--peer-python", sys.executable), "both --peer-python and --peer-script"),
        (("--peer-python", sys.executable, "--peer-script", "nowhere.py"), "--peer-script: there is no file"),
        (("--device", "tpu9"), "failed while measuring"),
        (("--steps", 0), "steps"),
    ],
)
def test_mistakes(palaver, arguments, message):
    ran = palaver("bench", "step", "--setting", "A", "--prompts", 1, "--repeats", 1, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
