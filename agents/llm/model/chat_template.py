"""From a conversation to prompt ids, and from sampled ids back to text.

With a chat template the tokenizer's own is used, ready for the assistant's answer and, where the template knows the
switch, without a thinking section. Without one, every message is its content followed by a newline, and the tokenizer
adds whatever it puts in front of any text (a begin-of-sequence token for some models).

Text is data. What spells a token of the tokenizer or a mark of the template inside a message (`<|im_end|>` written by a
user or by a model), also after the tokenizer's own normalisation, is encoded letter by letter as ordinary text, so it
cannot close the message that holds it.
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

MARK = "\ue000"  # a private-use character brackets the placeholders; it is removed from messages first
KNOWN = 256  # conversations whose ids are kept
_STAND_IN = re.compile(f"{MARK}([0-9]+){MARK}")


class Renderer:
    """Encodes conversations for one tokenizer."""

    def __init__(self, tokenizer: Any, chat: str = "auto") -> None:
        self.tokenizer = tokenizer
        self._known: dict[Conversation, list[int]] = {}  # siblings, evaluations and critics ask for the same prompts
        has_template = bool(getattr(tokenizer, "chat_template", None))
        if chat == "template" and not has_template:
            raise PolicyError("chat='template' needs a tokenizer with a chat template; use chat='plain' or 'auto'")
        self.template = has_template and chat != "plain"
        added = tokenizer.added_tokens_decoder
        self._special_ids = {id for id, token in added.items() if token.special} - {tokenizer.unk_token_id}
        self._normalise = _normaliser(tokenizer)
        special = {token.content for token in added.values() if token.special}
        others = {token.content for token in added.values() if not token.content.isspace()}
        others |= set(literals(str(tokenizer.chat_template))) if self.template else set()
        self._any_token = self._matcher(special | others)
        self._control_token = self._matcher(
            special | {mark for mark in others if is_control(mark) and not is_own(mark)}
        )

    def ids(self, conversation: Conversation) -> list[int]:
        """Prompt ids of a conversation.

        Raises:
            PolicyError: it is empty, or the chat template refuses it.
        """
        if not conversation:
            raise PolicyError("an empty conversation cannot be answered")
        token_ids = self._known.get(key := tuple(conversation))
        if token_ids is None:
            messages, stand_ins = self._messages(conversation)
            token_ids = self._encode(self._template(messages) if self.template else self._plain(messages), stand_ins)
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[key] = token_ids
        if not token_ids:
            raise PolicyError("this conversation cannot be answered: the chat template makes no tokens of it")
        return list(token_ids)

    def closed(self, conversation: Conversation) -> list[int]:
        """Ids of a conversation that ends with an answer, to be read and not to be answered.

        With a chat template all that it puts behind the answer belongs to them; without one the tokenizer's end token.

        Raises:
            PolicyError: it is empty, or the chat template refuses it.
        """
        if not conversation:
            raise PolicyError("an empty conversation cannot be read")
        messages, stand_ins = self._messages(conversation)
        if self.template:
            return self._encode(self._template(messages, answering=False), stand_ins)
        end = self.tokenizer.eos_token_id
        return [*self._encode(self._plain(messages), stand_ins), *([] if end is None else [end])]

    def answer(self, text: str) -> list[int]:
        """Ids of an answer by another author, as this model would generate it, end token included."""
        messages, stand_ins = self._messages((Message("assistant", text),))
        ids: list[int] = []
        for index, piece in enumerate(_STAND_IN.split(messages[0]["content"])):
            if piece:
                ids += self._letters(stand_ins[int(piece)]) if index % 2 else self._tokens(piece, False)
        ends = self.end_tokens()
        eos = self.tokenizer.eos_token_id
        return [*ids, *([eos] if eos in ends else sorted(ends)[:1])]

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of sampled ids, without control tokens."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def end_tokens(self) -> set[int]:
        """The tokenizer's end token, and the token that closes an assistant's message.

        The second is that of the chat template.
        """
        tokens = {self.tokenizer.eos_token_id} - {None}
        if self.template:
            answer = f"{MARK}0{MARK}"
            messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}]
            _, _, after = self._template(messages, answering=False).partition(answer)
            first = self._control_token.match(after.lstrip())
            if first:
                tokens.add(self.tokenizer.convert_tokens_to_ids(first.group()))
        return tokens

    def _messages(self, conversation: Conversation) -> tuple[list[dict[str, str]], list[str]]:
        """Messages with placeholders for text that spells a token, and the text of each."""
        stand_ins: list[str] = []
        return [
            {"role": message.role, "content": self._neutralise(message.content, message.role, stand_ins)}
            for message in conversation
        ], stand_ins

    def _neutralise(self, content: str, role: str, stand_ins: list[str]) -> str:
        """Put a placeholder where the text spells a token.

        Neither the template nor the tokenizer sees a token then. In an assistant's messages only control tokens are
        replaced: its template may look for marks such as `</think>`, which are tokens without being control tokens.
        Where a mark appears only in the normalised text, each letter that the normalisation changes is encoded alone,
        so that it joins with none.
        """
        content = content.encode("utf-8", "replace").decode("utf-8").replace(MARK, "")
        matcher = self._control_token if role == "assistant" else self._any_token

        def stand_in(spelt: str) -> str:
            stand_ins.append(spelt)
            return f"{MARK}{len(stand_ins) - 1}{MARK}"

        content = matcher.sub(lambda match: stand_in(match.group()), content)
        if not matcher.search(self._normalise(content)):
            return content
        pieces = _STAND_IN.split(content)
        for index, piece in enumerate(pieces):
            changed = (letter if self._normalise(letter) == letter else stand_in(letter) for letter in piece)
            pieces[index] = f"{MARK}{piece}{MARK}" if index % 2 else "".join(changed)
        return "".join(pieces)

    def _matcher(self, tokens: Iterable[str]) -> re.Pattern[str]:
        """Matches any of the tokens, as it is and as it is normalised, the longest first.

        Nothing if there are none.
        """
        spelt = {*tokens, *(self._normalise(token).strip("\u2581 ") for token in tokens)} - {""}
        longest_first = sorted(map(re.escape, spelt), key=len, reverse=True)
        return re.compile("|".join(longest_first) or r"(?!)")

    def _template(self, messages: list[dict[str, str]], answering: bool = True) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=answering, enable_thinking=False
                )
            )
        except (TemplateError, TypeError, IndexError, ValueError) as error:
            raise PolicyError(
                f"the chat template refuses this conversation ({one_line(error)}); try chat='plain'"
            ) from error

    @staticmethod
    def _plain(messages: list[dict[str, str]]) -> str:
        return "".join(f"{message['content']}\n" for message in messages)

    def _encode(self, text: str, stand_ins: list[str]) -> list[int]:
        special = not self.template
        if not stand_ins:
            return self._strip_end(self._tokens(text, special))
        ids: list[int] = []
        for index, piece in enumerate(_STAND_IN.split(text)):  # text, number, text, number, ..., text
            if index % 2:
                ids += self._letters(stand_ins[int(piece)])
            elif piece or (index == 0 and special):
                ids += self._tokens(piece, special and index == 0)
        return self._strip_end(ids)

    def _tokens(self, text: str, special: bool) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=special))

    def _letters(self, text: str) -> list[int]:
        return [token for letter in text for token in self._tokens(letter, False) if token not in self._special_ids]

    def _strip_end(self, ids: list[int]) -> list[int]:
        """A tokenizer that closes every text would otherwise make the model answer after its end."""
        if not self.template and len(ids) > 1 and ids[-1] == self.tokenizer.eos_token_id:
            return ids[:-1]
        return ids


def _normaliser(tokenizer: Any) -> Callable[[str], str]:
    """Return the normaliser that a tokenizer applies to a text before it looks for tokens.

    SentencePiece's where the tokenizer does not expose its own.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return lambda text: unicodedata.normalize("NFKC", text)
    normaliser = backend.normalizer
    return (lambda text: text) if normaliser is None else normaliser.normalize_str
