"""The text space."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
from gymnasium.spaces import Text

from palaver.envs.base.spaces import UnicodeText


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        ("", True),
        ("abcd", True),
        ("abcde", False),
        ("é😀\n\x00", True),
        ("\ud800", False),
        ("a\udfffb", False),
        (b"ab", False),
        (None, False),
        (3, False),
        ("\ue000\ud7ff", True),
    ],
)
def test_contains(value, inside):
    assert (value in UnicodeText(4)) is inside


def test_is_a_text_space_with_a_short_repr():
    space = UnicodeText(100_000)
    assert isinstance(space, Text)
    assert repr(space) == "UnicodeText(100000)"
    assert space == UnicodeText(100_000)
    assert space != UnicodeText(7)
    assert space != Text(100_000)
    assert len({space, UnicodeText(100_000)}) == 1


def test_samples_are_printable_and_repeat_in_every_process():
    space = UnicodeText(200, seed=42)
    samples = [space.sample() for _ in range(50)]
    assert all(sample in space for sample in samples)
    assert all(c == "\n" or " " <= c <= "~" for sample in samples for c in sample)
    code = (
        "from palaver.envs.base.spaces import UnicodeText as U; s = U(200, seed=42); "
        "print([s.sample() for _ in range(50)])"
    )
    for hash_seed in ("0", "7"):
        command, env = [sys.executable, "-c", code], {"PYTHONHASHSEED": hash_seed}
        printed = subprocess.check_output(command, env=env, text=True, timeout=120)
        assert printed == f"{samples}\n"


def test_copies_have_their_own_generator():
    space = UnicodeText(50, seed=1)
    for twin in (copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        here = [space.sample() for _ in range(3)]
        assert [twin.sample() for _ in range(3)] == here
        space.seed(1)
