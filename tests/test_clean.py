from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from palaver.text import clean, one_line

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)


def test_what_acts_on_a_terminal_becomes_visible():
    assert clean("\x1b[2J\x07\x00") == "\u241b[2J\u2407\u2400"
    assert clean("a\x7fb\x9bc") == "a\u2421b\ufffdc"


def test_what_turns_or_breaks_text_becomes_visible():
    assert clean("x\u202eevil\u2066\u2028\ufeff") == "x\ufffdevil\ufffd\ufffd\ufffd"


def test_lone_surrogates_can_be_written():
    assert clean("a\ud800b").encode("utf-8") == "a\ufffdb".encode()


def test_newlines_and_tabs_stay():
    assert clean("a\r\nb\rc\n\td") == "a\nb\nc\n\td"
    assert one_line("a\r\nb\n\n\tc ") == "a b c"


def test_long_text_is_cut_and_says_so():
    assert clean("x" * 12_010, 10) == "x" * 10 + " … [12,000 more characters]"
    assert clean("x" * 10, 10) == "x" * 10


@given(ANY_TEXT)
def test_any_text_comes_out_without_controls(text: str):
    shown = clean(text)
    shown.encode("utf-8")
    assert {unicodedata.category(c) for c in shown.replace("\n", "").replace("\t", "")}.isdisjoint({"Cc", "Cs"})
    assert clean(shown) == shown
