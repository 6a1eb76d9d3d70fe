"""Encoding of conversations as prompt ids, and decoding of sampled ids.

The tokenizer's chat template is applied with the generation prompt and, if it takes `enable_thinking`, without a
thinking section. Without a template, every message is its content followed by a newline, and the tokenizer adds the
special tokens that it puts in front of any text (a begin-of-sequence token for some models).

Messages are untrusted. Text in a message that spells a token of the tokenizer or a mark of the template (`<|im_end|>`
written by a user or by a model), also after the tokenizer's normalisation, is encoded letter by letter as ordinary
text, so it cannot close its message. Until then a placeholder stands for it: its index between two `MARK`s.

Tools are shown, called and answered in the template's own form where it has one and accepts the conversation. Else in a
plain form: a line for each tool in front of the first message, calls as `palaver.utils.tool_calls` writes them
behind the text of an answer, and results as messages of the role `tool`, or of a user, within `<tool_response>`, where
the template knows no such role. No text of a message can pose as a call or a result: its marks are encoded letter by
letter too.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from jinja2.exceptions import TemplateError

from palaver.agents.base.control_tokens import is_control, is_own, literals
from palaver.core import Conversation, Message, PolicyError, ToolCall, ToolSchema
from palaver.text import one_line
from palaver.utils.tool_calls import CLOSE, OPEN, UNNAMED, tool_line, written

MARK = "\ue000"  # a private-use character, which is removed from messages first
CACHE_SIZE = 256  # conversations
_PLACEHOLDER = re.compile(f"{MARK}([0-9]+){MARK}")
RESULT, RESULT_END = "<tool_response>", "</tool_response>"
DEEPEST = 50  # levels of a call's arguments
Tools = tuple[ToolSchema, ...]


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
        self._cache: dict[tuple[Conversation, Tools], list[int]] = {}  # rollouts and critics repeat prompts
        has_template = bool(getattr(tokenizer, "chat_template", None))
        if chat == "template" and not has_template:
            raise PolicyError("chat='template' needs a tokenizer with a chat template; use chat='plain' or 'auto'")
        self.uses_template = has_template and chat != "plain"
        added = tokenizer.added_tokens_decoder
        self._special_ids = {token_id for token_id, token in added.items() if token.special} - {tokenizer.unk_token_id}
        self._normalise = _normaliser(tokenizer)
        special = {token.content for token in added.values() if token.special}
        marks = {token.content for token in added.values() if not token.content.isspace()}
        marks |= {OPEN, CLOSE, RESULT, RESULT_END}
        if self.uses_template:
            marks |= set(literals(str(tokenizer.chat_template)))
        control_marks = {mark for mark in marks if is_control(mark) and not is_own(mark)}
        self._any_token = self._matcher(special | marks)
        self._control_token = self._matcher(special | control_marks)

    def ids(self, conversation: Conversation, tools: Tools = ()) -> list[int]:
        """Prompt ids of a conversation in which these tools may be called.

        Raises:
            PolicyError: it is empty, or the chat template refuses it.
        """
        if not conversation:
            raise PolicyError("an empty conversation cannot be answered")
        key = (tuple(conversation), tools)
        token_ids = self._cache.get(key)
        if token_ids is None:
            token_ids = self._encode(*self._rendered(conversation, tools))
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
        token_ids = self._encode(*self._rendered(conversation, generation_prompt=False))
        end_id = None if self.uses_template else self.tokenizer.eos_token_id
        return token_ids if end_id is None else [*token_ids, end_id]

    def answer(self, text: str) -> list[int]:
        """Ids of an answer by another author, as this model would generate it, end token included."""
        replaced: list[str] = []
        content = self._replace_tokens(text, "assistant", replaced)
        token_ids = self._encode_pieces(content, replaced, special=False)
        end_ids = self.end_tokens()
        eos_id = self.tokenizer.eos_token_id
        return [*token_ids, *([eos_id] if eos_id in end_ids else sorted(end_ids)[:1])]

    def text(self, token_ids: Sequence[int]) -> str:
        """Text of sampled ids, without special tokens."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def continuation(self, text: str, last: int | None) -> list[int]:
        """Ids between an answer and the next one.

        They are the end of the answer's message, a user's message, and the generation prompt. The answer's own ids stay
        as they were sampled, where `ids` would encode its text again.

        Args:
            text: content of the user's message.
            last: last id of the answer, which is not repeated where it is the end token.

        Raises:
            PolicyError: the chat template refuses such a conversation.
        """
        answer, replaced = _placeholder(0), [""]
        content = self._replace_tokens(text, "user", replaced)
        turns = [("user", "?"), ("assistant", answer), ("user", content)]
        messages = [{"role": role, "content": shown} for role, shown in turns]
        rendered = self._apply_template(messages) if self.uses_template else f"{answer}\n{content}\n"
        token_ids = self._encode_pieces(rendered.partition(answer)[2], replaced, special=False)
        if last in self.end_tokens() and last in token_ids:
            end = token_ids.index(last)
            if not self.tokenizer.decode(token_ids[:end]).strip():  # some templates write a space in front of it
                return token_ids[end + 1 :]
        return token_ids

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

    def _rendered(
        self, conversation: Conversation, tools: Tools = (), generation_prompt: bool = True
    ) -> tuple[str, list[str]]:
        """Text of a conversation with placeholders, and the replaced texts.

        Raises:
            PolicyError: the chat template refuses it.
        """
        replaced: list[str] = []
        with_tools = bool(tools) or any(message.calls or message.role == "tool" for message in conversation)
        if with_tools and self._calls_tools:
            schemas = [tool.to_dict() for tool in tools] or None
            try:
                return self._apply_template(
                    self._own_form(conversation, replaced), generation_prompt, schemas
                ), replaced
            except PolicyError:  # as one that allows a single call in an answer
                replaced.clear()
        messages = self._plain_form(conversation, tools, replaced)
        if self.uses_template:
            return self._apply_template(messages, generation_prompt), replaced
        return "".join(f"{message['content']}\n" for message in messages), replaced

    @cached_property
    def _calls_tools(self) -> bool:
        """True if the template shows tools, their calls and results."""
        if not self.uses_template:
            return False
        description, argument, result = "what-it-does", "what-is-asked", "what-is-answered"
        call = ToolCall("call00000", "tool", json.dumps({"text": argument}))
        talk = (Message("user", "?"), Message("assistant", "", (call,)), Message("tool", result, call_id=call.id))
        schema = ToolSchema("tool", description, '{"type": "object", "properties": {"text": {"type": "string"}}}')
        try:
            shown = self._apply_template(self._own_form(talk, []), tools=[schema.to_dict()])
        except PolicyError:
            return False
        return all(text in shown for text in (description, argument, result))

    @cached_property
    def _tool_role(self) -> str:
        """Role of results in the plain form: `tool`, or `user` if the template knows no other."""
        if not self.uses_template:
            return "user"
        ask, answer = {"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}
        shown = []
        for role in ("tool", "user"):
            try:
                shown.append(self._apply_template([ask, answer, {"role": role, "content": _placeholder(0)}]))
            except PolicyError:
                return "user"
        return "tool" if shown[0] != shown[1] and _placeholder(0) in shown[0] else "user"

    def _own_form(self, conversation: Conversation, replaced: list[str]) -> list[dict[str, Any]]:
        """Messages of OpenAI's protocol, as templates with tools read them."""
        messages = []
        names = {call.id: call.name for message in conversation for call in message.calls}
        for message in conversation:
            content = self._replace_tokens(message.content, message.role, replaced)
            entry: dict[str, Any] = {"role": message.role, "content": content}
            if message.calls:
                entry["tool_calls"] = [self._own_call(call, replaced) for call in message.calls]
            if message.role == "tool":
                id, name = self._replace_within([message.call_id, names.get(message.call_id) or UNNAMED], replaced)
                entry |= {"tool_call_id": id, "name": name}
            messages.append(entry)
        return messages

    def _own_call(self, call: ToolCall, replaced: list[str]) -> dict[str, Any]:
        """A call of OpenAI's protocol.

        Arguments that are no object, or too deep, become the text of one.
        """
        try:
            arguments = self._replace_within(json.loads(call.arguments), replaced)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            arguments = {"text": self._replace_tokens(call.arguments, "tool", replaced)}
        id, name = self._replace_within([call.id, call.name or UNNAMED], replaced)
        return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _replace_within(self, value: Any, replaced: list[str], depth: int = 0) -> Any:
        """`_replace_tokens` in all texts of JSON data.

        Raises:
            RecursionError: it nests deeper than templates can be trusted with.
        """
        if depth > DEEPEST:
            raise RecursionError
        if isinstance(value, str):
            return self._replace_tokens(value, "tool", replaced)
        if isinstance(value, dict):
            keys, parts = (self._replace_within(list(some), replaced, depth + 1) for some in (value, value.values()))
            return dict(zip(keys, parts, strict=True))
        return [self._replace_within(v, replaced, depth + 1) for v in value] if isinstance(value, list) else value

    def _plain_form(self, conversation: Conversation, tools: Tools, replaced: list[str]) -> list[dict[str, Any]]:
        """Messages with tools, calls and results in their texts.

        Results that follow each other are one message.
        """
        messages: list[dict[str, Any]] = []
        for role, group in groupby(conversation, key=lambda message: message.role):
            contents = []
            for message in group:
                content = self._replace_tokens(message.content, message.role, replaced)
                calls = (ToolCall(c.id, *self._replace_within([c.name, c.arguments], replaced)) for c in message.calls)
                if role == "tool" and self._tool_role == "user":
                    content = f"{RESULT}{content}{RESULT_END}"
                contents.append(f"{content}{written(calls)}")
            if role == "tool":
                messages.append({"role": self._tool_role, "content": "\n".join(contents)})
            else:
                messages += ({"role": role, "content": content} for content in contents)
        if tools:
            messages[0]["content"] = "\n".join([*map(tool_line, tools), messages[0]["content"]])
        return messages

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

    def _apply_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    list(messages),
                    tools=tools,
                    tokenize=False,
                    add_generation_prompt=generation_prompt,
                    enable_thinking=False,
                )
            )
        except (TemplateError, TypeError, IndexError, ValueError) as error:
            raise PolicyError(
                f"the chat template refuses this conversation ({one_line(error)}); try chat='plain'"
            ) from error

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
