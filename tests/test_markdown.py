"""Any text in Markdown, read back by a parser: one element of its kind, with the text as it was."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from palaver.markdown import code, code_block, link, markdown_table, prose
from palaver.text import clean, one_line

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = [
    "ends`", "`begins", "``", "`", "a`b``c```d", "\\", "a\\|b", "|", "||`|", "a\nb\r\n| x | y |", "<b>x</b>",
    "<script>alert(1)</script>", "](javascript:alert(1))", "[x](javascript:alert(1))", "![x](http://a.test/y.png)",
    "<http://a.test>", "&lt;&#96;", "*a* **b** __c__ ~~d~~", "[x][y]", "[x]: http://a.test", "\u202e\x1b[31m", "$x^2$",
    "# head", "- item", "1. one", "> quote", "---", "```\nx", "", " ", "a  b", "x]", "[",
    "\\`", "\\]", "\\[", "\\](", "\ud800",
]  # fmt: skip
TEXTS = st.one_of(
    st.text("`\\|<>[]()*_~&!$#;:-=+. \n\tabx1", max_size=40),
    st.text(st.characters(exclude_categories=()), max_size=40),
    st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join),
)


def inline(markdown: str) -> list[Token]:
    """The elements of the only paragraph."""
    tokens = READER.parse(markdown)
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    return list(tokens[1].children or [])


def cells(markdown: str) -> list[list[Token]]:
    """The elements of each cell of a page that is one table."""
    tokens = READER.parse(markdown)
    assert [token.type for token in tokens if token.level == 0] == ["table_open", "table_close"]
    return [list(token.children or []) for token in tokens if token.type == "inline"]


def all_examples(test):
    for text in HOSTILE:
        test = example(text)(test)
    return given(TEXTS)(test)


@all_examples
def test_a_code_span_is_one_element_with_the_text(text):
    expected = ("code_inline", one_line(text, 1000))
    (span,) = inline(f"x {code(text)}")[1:]
    assert (span.type, span.content.strip()) == expected
    before, within, after = cells(markdown_table(["a", "b", "c"], [["1", code(text), "3"]]))[3:]
    assert ([token.content for token in before], [token.content for token in after]) == (["1"], ["3"])
    assert [(token.type, token.content.strip()) for token in within] == [expected]


@all_examples
def test_prose_is_text_and_nothing_else(text):
    for elements in (
        inline(f"x {prose(text)} x"),
        *cells(markdown_table(["", "x"], [["x", f"x {prose(text)} x"]]))[-1:],
        list(READER.parse(f"## x {prose(text)} x\n")[1].children or []),
    ):
        assert {token.type for token in elements} == {"text"}
        assert "".join(token.content for token in elements).split() == ["x", *one_line(text, 1000).split(), "x"]


@all_examples
def test_a_link_leads_to_its_file_under_its_text(text):
    first, *labels, last = inline(link(f"x{text}", f"rows/{clean(text)}.json"))
    assert (first.type, last.type, {token.type for token in labels}) == ("link_open", "link_close", {"text"})
    assert "".join(token.content for token in labels) == one_line(f"x{text}", 1000)
    assert str(first.attrs["href"]).startswith("rows/")
    first, *_, last = inline(link("x", f"{clean(text)}:x"))
    assert ":" not in str(first.attrs["href"])


@all_examples
def test_a_block_of_code_is_one_element_with_the_text(text):
    (block,) = READER.parse(code_block(text, "bash"))
    assert (block.type, block.info) == ("fence", "bash")
    assert block.content == f"{clean(text)}\n" or not clean(text)


@pytest.mark.parametrize(
    "text", ["arxiv-v0", "palaver --env x", "0.5 [0.1, 0.9]", "2,000", "a.b:c@1", "54 of 60 (90 %)"]
)
def test_ordinary_words_stay_as_they_are(text):
    assert prose(text) == text
    assert code(text) == f"`{text}`"


def test_long_texts_are_cut_inside_their_span():
    (span,) = inline(code("`" * 50, 20))
    assert span.content == f"{'`' * 20} … [30 more characters]"
