"""Chats of judges by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palaver.agents.base.chat import Answer, Chat, Question
from palaver.agents.make_policy import parse_policy
from palaver.core import Conversation, PolicyError, load_attribute
from palaver.scoring import Cost

REMOTE = "palaver.agents.remote.chat:RemoteChat"
LOCAL = "palaver.agents.llm.policies.local_chat:LocalChat"


def make_chat(name: str) -> Chat:
    """The chat called `name`.

    Args:
        name: `openai:MODEL`, with a URL and options as in docs/remote.md; `hf:NAME_OR_PATH`, or a bare name or path;
            `scripted:module:function` for a function of (conversation, seed) that returns the answer's text.

    Raises:
        PolicyError: it does not exist or cannot be loaded.
    """
    policy = parse_policy(name)
    if policy.kind == "scripted":
        function = load_attribute(policy.source, "the scripted judge ", PolicyError)
        if not callable(function):
            raise PolicyError(f"the scripted judge {policy.source!r} is not a function of (conversation, seed)")
        return ScriptedChat(function, name)
    kind = REMOTE if policy.kind == "openai" else LOCAL
    chat: Chat = load_attribute(kind, f"what answers for {name!r}: ", PolicyError).named(name)
    return chat


class ScriptedChat:
    """Answers with `function(conversation, seed)`, which returns a text or an `Answer`."""

    revision = ""

    def __init__(self, function: Callable[[Conversation, int], str | Answer], name: str = "scripted") -> None:
        self.name = name
        self.function = function

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """One call of the function a question."""
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Answer:
        answer = self.function(question.conversation, question.seed)
        return answer if isinstance(answer, Answer) else Answer(str(answer), cost=Cost(calls=1))
