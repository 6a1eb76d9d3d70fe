"""Encoding of conversations as prompt ids, and decoding of sampled ids.

The tokenizer's chat template is applied with the generation prompt and, if it takes `enable_thinking`, without a
thinking section. Without a template, every message is its content followed by a newline, and the tokenizer adds the
special tokens that it puts in front of any text (a begin-of-sequence token for some models).

Messages are untrusted. Text in a message that spells a token of the tokenizer or a mark of the template (`<|im_end|>`
written by a user or by a model), also after the tokenizer's normalisation, is encoded letter by letter as ordinary
text, so it cannot close its message. Until then a placeholder stands for it: its index between two `MARK`s.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jinja2.exceptions import TemplateError

from palaver.agents.base.control_tokens import is_control, is_own, literals
from palaver.core import Conversation, Message, PolicyError
from palaver.text import one_line

MARK = "\ue000"  # a private-use character, which is removed from messages first
CACHE_SIZE = 256  # conversations
_PLACEHOLDER = re.compile(f"{MARK}([0-9]+){MARK}")


class Renderer:
    """Encoder of conversations for one tokenizer.

    Args:
        tokenizer: of transformers.
        chat: see `palaver.agents.llm.model.options.ModelOptions`.

    Raises:
        PolicyError: `template` without a chat template.
    """

    def __init__(self, tokenizer: Any, chat: str = "auto") -> None:
        self.tokenizer = tokenizer
        self._cache: dict[Conversation, list[int]] = {}  # rollouts and critics repeat prompts
        has_template = bool(getattr(tokenizer, "chat_template", None))
        if chat == "template" and not has_template:
            raise PolicyError("chat='template' needs a tokenizer with a chat template; use chat='plain' or 'auto'")
        self.uses_template = has_template and chat != "plain"
        added = tokenizer.added_tokens_decoder
        self._special_ids = {token_id for token_id, token in added.items() if token.special} - {tokenizer.unk_token_id}
        self._normalise = _normaliser(tokenizer)
        special = {token.content for token in added.values() if token.special}
        marks = {token.content for token in added.values() if not token.content.isspace()}
        if self.uses_template:
            marks |= set(literals(str(tokenizer.chat_template)))
        control_marks = {mark for mark in marks if is_control(mark) and not is_own(mark)}
        self._any_token = self._matcher(special | marks)
        self._control_token = self._matcher(special | control_marks)

    def ids(self, conversation: Conversation) -> list[int]:
        """Prompt ids of a conversation.

        Raises:
            PolicyError: it is empty, or the chat template refuses it.
        """
        if not conversation:
            raise PolicyError("an empty conversation cannot be answered")
        key = tuple(conversation)
        token_ids = self._cache.get(key)
        if token_ids is None:
            messages, replaced = self._messages(conversation)
            prompt = self._apply_template(messages) if self.uses_template else self._plain(messages)
            token_ids = self._encode(prompt, replaced)
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = token_ids
        if not token_ids:
            raise PolicyError("this conversation cannot be answered: the chat template makes no tokens of it")
        return list(token_ids)

    def ids_with_answer(self, conversation: Conversation) -> list[int]:
        """Ids of a conversation that ends with an answer, for a model that scores it.

        They include what the chat template puts behind the answer; without one, the tokenizer's end token.

        Raises:
            PolicyError: it is empty, or the chat template refuses it.
        """
        if not conversation:
            raise PolicyError("an empty conversation cannot be read")
        messages, replaced = self._messages(conversation)
        if self.uses_template:
            return self._encode(self._apply_template(messages, generation_prompt=False), replaced)
        token_ids = self._encode(self._plain(messages), replaced)
        end_id = self.tokenizer.eos_token_id
        return token_ids if end_id is None else [*token_ids, end_id]

    def answer(self, text: str) -> list[int]:
        """Ids of an answer by another author, as this model would generate it, end token included."""
        messages, replaced = self._messages((Message("assistant", text),))
        token_ids = self._encode_pieces(messages[0]["content"], replaced, special=False)
        end_ids = self.end_tokens()
        eos_id = self.tokenizer.eos_token_id
        return [*token_ids, *([eos_id] if eos_id in end_ids else sorted(end_ids)[:1])]

    def text(self, token_ids: Sequence[int]) -> str:
        """Text of sampled ids, without special tokens."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def end_tokens(self) -> set[int]:
        """Ids of the tokenizer's end token and of the one with which the template closes an answer."""
        end_ids = {self.tokenizer.eos_token_id} - {None}
        if self.uses_template:
            answer = _placeholder(0)
            messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}]
            _, _, after = self._apply_template(messages, generation_prompt=False).partition(answer)
            first = self._control_token.match(after.lstrip())
            if first:
                end_ids.add(self.tokenizer.convert_tokens_to_ids(first.group()))
        return end_ids

    def _messages(self, conversation: Conversation) -> tuple[list[dict[str, str]], list[str]]:
        """Messages with placeholders for text that spells a token, and the replaced texts."""
        replaced: list[str] = []
        messages = [
            {"role": message.role, "content": self._replace_tokens(message.content, message.role, replaced)}
            for message in conversation
        ]
        return messages, replaced

    def _replace_tokens(self, content: str, role: str, replaced: list[str]) -> str:
        """Put placeholders where `content` spells a token; append the text of each to `replaced`.

        In an assistant's messages only control tokens are replaced: its template may look for marks such as
        `</think>`, which are tokens without being control tokens. Where a mark appears only in the normalised
        text, each letter that the normalisation changes is replaced alone, so that it joins with none.
        """
        content = content.encode("utf-8", "replace").decode("utf-8").replace(MARK, "")
        matcher = self._control_token if role == "assistant" else self._any_token

        def replace(text: str) -> str:
            replaced.append(text)
            return _placeholder(len(replaced) - 1)

        content = matcher.sub(lambda match: replace(match.group()), content)
        if not matcher.search(self._normalise(content)):
            return content
        pieces = _PLACEHOLDER.split(content)  # text, number, text, ..., text
        for index, piece in enumerate(pieces):
            if index % 2:
                pieces[index] = _placeholder(int(piece))
            else:
                letters = (letter if self._normalise(letter) == letter else replace(letter) for letter in piece)
                pieces[index] = "".join(letters)
        return "".join(pieces)

    def _matcher(self, tokens: Iterable[str]) -> re.Pattern[str]:
        """Pattern of any of the tokens, plain or normalised, the longest first; for none, no match."""
        spellings = {*tokens, *(self._normalise(token).strip("\u2581 ") for token in tokens)} - {""}
        longest_first = sorted(map(re.escape, spellings), key=len, reverse=True)
        return re.compile("|".join(longest_first) or r"(?!)")

    def _apply_template(self, messages: list[dict[str, str]], generation_prompt: bool = True) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=generation_prompt, enable_thinking=False
                )
            )
        except (TemplateError, TypeError, IndexError, ValueError) as error:
            raise PolicyError(
                f"the chat template refuses this conversation ({one_line(error)}); try chat='plain'"
            ) from error

    @staticmethod
    def _plain(messages: list[dict[str, str]]) -> str:
        return "".join(f"{message['content']}\n" for message in messages)

    def _encode(self, text: str, replaced: list[str]) -> list[int]:
        """Ids of a rendered conversation; without a template, special tokens in front.

        The end token that some tokenizers append is removed, for an answer must follow.
        """
        token_ids = self._encode_pieces(text, replaced, special=not self.uses_template)
        if not self.uses_template and len(token_ids) > 1 and token_ids[-1] == self.tokenizer.eos_token_id:
            return token_ids[:-1]
        return token_ids

    def _encode_pieces(self, text: str, replaced: list[str], special: bool) -> list[int]:
        """Ids of a text with placeholders, behind special tokens if requested."""
        token_ids: list[int] = []
        for index, piece in enumerate(_PLACEHOLDER.split(text)):  # text, number, text, ..., text
            if index % 2:
                token_ids += self._encode_letters(replaced[int(piece)])
            elif piece or (index == 0 and special):
                token_ids += self._encode_text(piece, special and index == 0)
        return token_ids

    def _encode_text(self, text: str, special: bool) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=special))

    def _encode_letters(self, text: str) -> list[int]:
        """Ids of each letter by itself, without special tokens."""
        token_ids = (token_id for letter in text for token_id in self._encode_text(letter, False))
        return [token_id for token_id in token_ids if token_id not in self._special_ids]


def _placeholder(index: int) -> str:
    return f"{MARK}{index}{MARK}"


def _normaliser(tokenizer: Any) -> Callable[[str], str]:
    """Normalisation that the tokenizer applies before it looks for tokens; NFKC if unknown."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return lambda text: unicodedata.normalize("NFKC", text)
    normaliser = backend.normalizer
    return (lambda text: text) if normaliser is None else normaliser.normalize_str
