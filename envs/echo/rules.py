"""The rules of the echo game. Pure: texts in, numbers and words out."""

from __future__ import annotations

from palaver.envs.writing.text import words

LONGEST = 24  # characters of a word that is passed on


def first_word(text: str) -> str:
    """The first word of a text, lower case and cut at 24 characters; "" if it has none.

    >>> first_word("- Amber, please"), first_word("...")
    ('amber', '')
    """
    return next(iter(words(text)), "")[:LONGEST]


def judge(target: str, text: str) -> dict[str, float]:
    """Reward components of one text: `echo` and `brevity`.

    `echo` is 1 if the target is one of its words, `brevity` 0.5 if it is the only one.

    >>> judge("amber", "Amber!"), judge("amber", "the amber one"), judge("amber", "ambers")
    ({'echo': 1.0, 'brevity': 0.5}, {'echo': 1.0, 'brevity': 0.0}, {'echo': 0.0, 'brevity': 0.0})
    """
    spoken_words = [word[:LONGEST] for word in words(text)]
    return {"echo": float(target in spoken_words), "brevity": 0.5 * float(spoken_words == [target])}


def next_target(text: str, own_word: str) -> str:
    """Next target of an agent: the first word of its neighbour's text.

    After silence it is the agent's own word.
    """
    return first_word(text) or own_word
