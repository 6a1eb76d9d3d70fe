"""Control tokens of chat templates: marks of turns, roles, tools and ends, found in texts.

A server's tokenizer is not known here, so a text is searched for the marks of all known families: ChatML, Llama 2 to
4, Mistral, Gemma, Phi, Zephyr, Command R, DeepSeek, Qwen, GLM, GPT-OSS (harmony), Granite, EXAONE, MiniMax, T5, BERT.
It is read as a tokenizer may read it: full width, accents and what has no width make no difference.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence

_LOOKS = str.maketrans(
    dict.fromkeys("\u2039\u3008\u27e8", "<")
    | dict.fromkeys("\u01c0\u2223\u23d0\u2502\u2503\u2758", "|")
    | {"\u2581": "_"}
)
_ANGLED = (
    r"s|[be]os|pad|unk|mask|cls|sep|[se]op|eot|[be]os_token|eop_token|mask_token|(?:start|end)_of_(?:turn|image|audio)|"
    r"(?:image|audio)_soft_token|image|img_context|think|thinking|thought|tools?|tool_(?:calls?|responses?|results?|output)|"
    r"function_(?:calls?|results?)|function=\w{1,60}|arg_(?:key|value)|system|user|assistant|human|bot|unused_?\d+|"
    r"extra_id_\d+|reserved_\d+|reserved_special_token_\d+|special_\d+|0x[0-9a-f]{2}|fim_\w{1,20}|"
    r"(?:seed|minimax):\w{1,40}|longcat_\w{1,40}"
)
_SQUARE = (
    r"inst|available_tools|tool_(?:calls?|results?|content)|system_prompt|model_settings|img_(?:break|end)|begin_audio|"
    r"call_id|gmask|smask|unused_token_\d+|unused\d+|control_\d+|@[be]os@"
)
_CAPITAL = (
    "MASK|CLS|SEP|PAD|UNK|BOS|EOS|PREFIX|MIDDLE|SUFFIX|IMG|AUDIO|ARGS|THINK|REF"  # small ones index arrays in code
)
OPENING = (
    rf"<(?=\||/?[\w ]{{1,40}}\|>|(?i:/?(?:{_ANGLED})>|</?sys>>|/?sys>>))"
    rf"|\[(?=(?i:/?(?:{_SQUARE})\])|/?(?:{_CAPITAL})\]|\|\w{{1,40}}\|\]|e~\[)|\](?=~!?b[\[\]])"
)
"""Matches, in a folded text, the character with which a control token begins."""

_OPENING = re.compile(OPENING)
_OWN = re.compile(r"</?(?:think|thinking|thought)>")
_LITERAL = re.compile(r"<<?[^<>\s'\"{}]{1,60}>>?|\[[^\[\]\s'\"{}]{1,60}\]")


def fold(text: str) -> tuple[str, Sequence[int]]:
    """Text as a tokenizer that normalises may read it, and the origin of each character.

    The origin is an index into the given text.
    """
    if text.isascii():
        return text, range(len(text))
    folded = [_fold(character) for character in text]
    return "".join(folded), [index for index, piece in enumerate(folded) for _ in piece]


def is_control(token: str) -> bool:
    """Return whether a token looks like one that a template puts between texts."""
    return _OPENING.match(fold(token)[0]) is not None


def is_own(token: str) -> bool:
    """Return whether a token marks thoughts within an answer.

    A template looks for such a token in earlier answers.
    """
    return _OWN.fullmatch(token) is not None


def literals(template: str) -> Iterator[str]:
    """Marks that occur literally in the source of a chat template, whether tokens or not.

    Llama 2's `[INST]`, for example, is not a token.
    """
    return (match.group() for match in _LITERAL.finditer(template) if is_control(match.group()))


@functools.lru_cache(4096)
def _fold(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character).translate(_LOOKS)
    return "".join(char for char in parts if unicodedata.category(char) not in ("Mn", "Me", "Cf"))
