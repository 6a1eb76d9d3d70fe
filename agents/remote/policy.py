"""Policy that samples from a server over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from palaver.agents.base.chat import Question
from palaver.agents.remote.chat import RemoteChat
from palaver.core import Completion, Request
from palaver.scoring import Cost


class RemotePolicy:
    """Queries a server once for every seed.

    An answer that fails after all attempts ends the work with one line: an empty text in its place would be scored, and
    learnt from, as if the model had generated it. Texts come without token ids, so such a policy cannot be trained.
    """

    def __init__(self, chat: RemoteChat, name: str = "") -> None:
        self.chat = chat
        self.name = name or chat.name

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One list per request, one completion per seed.

        All are sent at once, as the chat's limits allow.

        Raises:
            PolicyError: the server did not answer one of them, or the budget or the deadline ended.
        """
        questions = [
            Question(request.conversation, request.sampling, seed) for request in requests for seed in request.seeds
        ]
        answers = self.chat.insist(questions)
        completions = (Completion(answer.text, finish=answer.finish) for answer in answers)
        return [[next(completions) for _ in request.seeds] for request in requests]

    def spent(self) -> Cost:
        """On all calls so far."""
        return self.chat.spent()
