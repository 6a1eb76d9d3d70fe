"""A judge: a chat, a rubric and a way of asking, as a reward and as a comparer."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence

from palaver.agents.base.chat import Chat
from palaver.agents.judges import modes
from palaver.agents.judges.asking import Asker
from palaver.agents.judges.cache import VERSION, AnswerCache
from palaver.agents.judges.chats import ScriptedChat, make_chat
from palaver.agents.judges.spec import JudgeSpec
from palaver.scoring import AnswerPair, Preference, Score, ScoringRequest


class Judge:
    """Scores cases and compares pairs by querying a chat.

    Attributes:
        name: as rewards are called.
        spec: what it is.
        placement: of its score in an environment's reward.
        failure_limit: share of unscored cases above which a run stops.
        most: the largest score.

    Args:
        spec: what it is.
        name: as rewards are called; "" makes one of the spec.
        chat: answers; None loads the spec's model when it is first needed.
        cache: of answers; None takes the shared one, unless the spec wants none or the chat is scripted.
        find: loads a model by name.
    """

    component = "judge"
    most = 1.0

    def __init__(
        self,
        spec: JudgeSpec,
        name: str = "",
        chat: Chat | None = None,
        cache: AnswerCache | None = None,
        find: Callable[[str], Chat] = make_chat,
    ) -> None:
        self.spec = spec
        self.name = name or f"judge:{spec.model}"
        self.placement = spec.placement
        self.failure_limit = spec.failures
        self._make: Callable[[], Chat] = (lambda: chat) if chat else (lambda: find(spec.model))
        self._cache = cache
        self._bench: modes.Bench | None = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Fingerprint of twelve hexadecimal digits.

        It changes with everything that a score depends on, except the model's weights.
        """
        spec_json = self.spec.model_dump_json(exclude={"calls", "cache", "asks", "failures"})
        return hashlib.sha256(f"{VERSION} {spec_json}".encode()).hexdigest()[:12]

    def ready(self) -> None:
        """Load the model.

        Raises:
            PolicyError: it does not exist or cannot be loaded.
        """
        self._load()

    def score(self, cases: Sequence[ScoringRequest]) -> list[Score]:
        """See `Reward.score`.

        Raises:
            PolicyError: the model cannot be loaded.
            ConfigError: mode=listwise, and a group is too large.
            ScoringError: the cache cannot be used.
        """
        return modes.MODES[self.spec.mode](self._load(), cases) if cases else []

    def compare(self, pairs: Sequence[AnswerPair]) -> list[Preference]:
        """See `Comparer.compare`; each pair is shown in both orders, whatever the judge's mode is.

        Raises:
            PolicyError: the model cannot be loaded.
            ScoringError: the cache cannot be used.
        """
        request_pairs = [
            (
                ScoringRequest("", {"": pair.prompt}, {"": pair.first}),
                ScoringRequest("", {"": pair.prompt}, {"": pair.second}),
            )
            for pair in pairs
        ]
        return modes.prefer(self._load(), request_pairs) if pairs else []

    def metrics(self) -> dict[str, float]:
        """The share of questions that the cache answered, and of answers that could not be read."""
        return self._bench.asker.metrics() if self._bench else {}

    def _load(self) -> modes.Bench:
        with self._lock:
            if self._bench is None:
                spec, chat = self.spec, self._make()
                cached = spec.cache and not isinstance(chat, ScriptedChat)
                cache = self._cache or (AnswerCache() if cached else None)
                self._bench = modes.Bench(spec, Asker(chat, cache, spec.asks, spec.calls, spec.sample))
            return self._bench
