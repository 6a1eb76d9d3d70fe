"""Judges by name: a chat, a rubric and a way of asking, alone or as an ensemble."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Sequence

from palaver.agents.base.chat import Answer, Chat, Question
from palaver.agents.judges import modes
from palaver.agents.judges.asking import VERSION, AnswerCache, Asker
from palaver.agents.judges.spec import EnsembleSpec, JudgeSpec, read_spec
from palaver.agents.make_policy import parse_policy
from palaver.core import Conversation, PolicyError, load_attribute, need
from palaver.plugins import load_code
from palaver.scoring import AnswerPair, Cost, Preference, RewardPlacement, Score, ScoringRequest

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
        function = load_code(policy.source, "the scripted judge ", PolicyError)
        if not callable(function):
            raise PolicyError(f"the scripted judge {policy.source!r} is not a function of (conversation, seed)")
        return ScriptedChat(function, name)
    kind, extra = (REMOTE, "judge") if policy.kind == "openai" else (LOCAL, "train")
    need(repr(name), extra, error=PolicyError)
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


class Ensemble:
    """The mean of its members' scores.

    A case that a member could not score is scored by none. The metrics of a verdict hold `spread`, the largest
    difference between members, and where there is a judge held out its score `holdout` and `holdout_gap`, the mean less
    that score.

    Args:
        members: whose mean counts.
        holdout: is queried, and does not count; its failure loses nothing.
        name: of the reward.
        placement: of the score in an environment's reward.
        failure_limit: share of unscored cases above which a run stops.
    """

    component = "judge"
    most = 1.0

    def __init__(
        self,
        members: Sequence[Judge],
        holdout: Judge | None = None,
        name: str = "judge:ensemble",
        placement: RewardPlacement | None = None,
        failure_limit: float = 0.2,
    ) -> None:
        self.members, self.holdout, self.name = tuple(members), holdout, name
        self.placement, self.failure_limit = placement or RewardPlacement(), failure_limit

    def ready(self) -> None:
        """Load every model.

        Raises:
            PolicyError: one does not exist or cannot be loaded.
        """
        for judge in self._all():
            judge.ready()

    def score(self, cases: Sequence[ScoringRequest]) -> list[Score]:
        """See `Reward.score`.

        Raises:
            PolicyError, ConfigError, ScoringError: as `Judge.score`.
        """
        scores = [judge.score(cases) for judge in self._all()]
        return [self._verdict(case_scores) for case_scores in zip(*scores, strict=True)]

    def compare(self, pairs: Sequence[AnswerPair]) -> list[Preference]:
        """See `Comparer.compare`: the mean of the members' preferences.

        The hold-out judge is not queried.

        Raises:
            PolicyError, ScoringError: as `Judge.compare`.
        """
        preferences = [judge.compare(pairs) for judge in self.members]
        return [_preference(pair_preferences) for pair_preferences in zip(*preferences, strict=True)]

    def metrics(self) -> dict[str, float]:
        """The means of what the judges tell of themselves."""
        judge_metrics = [judge.metrics() for judge in self._all()]
        names = dict.fromkeys(name for metrics in judge_metrics for name in metrics)
        return {name: sum(metrics.get(name, 0.0) for metrics in judge_metrics) / len(judge_metrics) for name in names}

    def _all(self) -> list[Judge]:
        return [*self.members, *([self.holdout] if self.holdout else [])]

    def _verdict(self, given: Sequence[Score]) -> Score:
        votes = given[: len(self.members)]
        cost = sum((verdict.cost for verdict in given), Cost())
        scores = [verdict.score for verdict in votes if verdict.score is not None]
        if len(scores) < len(votes):
            return Score(None, cost=cost, failure=next(verdict.failure for verdict in votes if verdict.score is None))
        mean = sum(scores) / len(scores)
        metrics = {"spread": max(scores) - min(scores)}
        if self.holdout and given[-1].score is not None:
            metrics |= {"holdout": given[-1].score, "holdout_gap": mean - given[-1].score}
        names = [name for name in votes[0].criteria if all(name in verdict.criteria for verdict in votes)]
        criteria = {name: sum(verdict.criteria[name] for verdict in votes) / len(votes) for name in names}
        return Score(mean, criteria, votes[0].reason, cost, metrics=metrics)


def _preference(given: Sequence[Preference]) -> Preference:
    cost = sum((preference.cost for preference in given), Cost())
    failed = next((preference.failure for preference in given if preference.first is None), "")
    if failed:
        return Preference(None, cost=cost, failure=failed)

    def mean(values: Sequence[float | None]) -> float:
        return sum(value for value in values if value is not None) / len(given)

    orders = (
        mean([preference.orders[0] for preference in given]),
        mean([preference.orders[1] for preference in given]),
    )
    return Preference(mean([preference.first for preference in given]), orders, given[0].reason, cost)


def make_judge(name: str) -> Judge | Ensemble:
    """The judge called `name`; its models are loaded when they are first needed.

    Args:
        name: `MODEL?key=value&...` or `FILE.yaml?key=value&...`; an optional prefix is `judge:`.

    Raises:
        ConfigError: the file cannot be read, or an option is unknown or does not fit.
    """
    text = name.removeprefix("judge:")
    spec, called = read_spec(text), f"judge:{text}"
    if not isinstance(spec, EnsembleSpec):
        return Judge(spec, called)
    find = functools.cache(make_chat)  # members of one model share it
    members = [Judge(member, find=find) for member in spec.members]
    holdout = Judge(spec.holdout, find=find) if spec.holdout else None
    return Ensemble(members, holdout, called, spec.placement, spec.failures)
