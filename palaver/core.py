"""Shared records of environments, agents and trainers; errors; stable seeds.

Everything here is plain data and free of torch.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from palaver.text import one_line

# --- errors --------------------------------------------------------------------------------------


class PalaverError(Exception):
    """A user error. The message is one line that says what to do; the CLI exits with code 2."""


class PalaverWarning(UserWarning):
    """Unexpected but harmless behaviour. The CLI prints it as one line."""


class ConfigError(PalaverError):
    """An invalid recipe, override or keyword."""


class TaskError(PalaverError):
    """A data set that is missing, empty, or has a row without a needed field."""


class PolicyError(PalaverError):
    """A policy that cannot be loaded or used as requested."""


class ScoringError(PalaverError):
    """Scoring failed for all joint actions, so there is nothing to learn or report."""


class EpisodeLostError(PalaverError):
    """An episode that is lost through no fault of its policies: its process is gone or hangs."""


class CheckpointError(PalaverError):
    """A run folder or checkpoint that cannot be read."""


def refuse(checks: Iterable[tuple[object, str]], error: Callable[[str], Exception] = ConfigError) -> None:
    """Raise an error with the message of the first pair whose condition is true.

    Raises:
        ConfigError: (or `error`) one of the conditions is true.

    >>> refuse([(1 > 2, "one is more than two"), ([], "there are some")])
    """
    for wrong, message in checks:
        if wrong:
            raise error(message)


def need(what: str, extra: str, *libraries: str) -> None:
    """Refuse to go on without libraries that an extra installs; `what` needs them.

    Raises:
        ConfigError: one of them cannot be imported.
    """
    for library in libraries:
        try:
            importlib.import_module(library)
        except ImportError as error:
            raise ConfigError(f"{what} needs {library}; install it with: pip install 'palaver[{extra}]'") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Hint for an unknown name, after a space: the most similar known name, else all of them.

    >>> did_you_mean("arxive-v0", ["arxiv-v0", "tldr-v0"])
    " Did you mean 'arxiv-v0'?"
    """
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(options)}." if options else ""


def load_attribute(path: str, what: str = "", error: type[PalaverError] = ConfigError) -> Any:
    """Load the object named `module:attribute`; `what` precedes the name in the error message.

    Raises:
        ConfigError: (or `error`) the module cannot be imported, or the attribute does not exist.

    >>> load_attribute("math:tau") > 6
    True
    """
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError, SyntaxError) as reason:
        raise error(f"cannot load {what}{path!r} (module:attribute): {one_line(reason)}") from reason


# --- stored files ----------------------------------------------------------------------------------

FORMAT: Final = 2  # of episodes, result rows, run folders, checkpoints and recipes; 1 had other keys


def refuse_format(record: Mapping[str, Any], what: str) -> None:
    """Refuse a stored record of another format than `FORMAT`; one without a format has format 1.

    Raises:
        CheckpointError: the formats differ; the message begins with `what`.

    >>> refuse_format({"format": FORMAT}, "the row")
    """
    if (found := record.get("format", 1)) != FORMAT:
        raise CheckpointError(
            f"{what} has format {one_line(str(found), 40)}, and this version of Palaver reads format {FORMAT}: "
            "make it again, or read it with the version that made it"
        )


# --- conversations -------------------------------------------------------------------------------

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str


Conversation = tuple[Message, ...]
Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a policy.

    Attributes:
        temperature: divides the logits; 0 means greedy.
        top_p: nucleus mass in (0, 1]; 1 keeps everything.
        top_k: number of most likely tokens kept; 0 keeps everything.
        max_tokens: maximum tokens of one completion, the end token included.
        stop: strings that end a completion; the stop string itself is not part of the text.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        finite = 0 <= self.temperature < math.inf
        refuse(
            [
                (not finite, f"temperature must be 0 (greedy) or more, and finite, got {self.temperature}"),
                (not 0 < self.top_p <= 1, f"top_p must be in (0, 1], got {self.top_p}"),
                (self.top_k < 0, f"top_k must be 0 (off) or more, got {self.top_k}"),
                (self.max_tokens < 1, f"max_tokens must be 1 or more, got {self.max_tokens}"),
                ("" in self.stop, f"stop must hold no empty string, which every text contains, got {self.stop}"),
            ]
        )

    @property
    def truncated(self) -> bool:
        """True if top-k or top-p truncates the distribution."""
        return self.top_p < 1 or self.top_k > 0


@dataclass(frozen=True, slots=True)
class Request:
    """Request for `len(seeds)` independent completions in one conversation.

    The n samples of a request share its prompt. A seed determines a sample's text, independently of its batch.
    """

    agent: str
    conversation: Conversation
    seeds: tuple[int, ...] = (0,)
    sampling: Sampling = Sampling()


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a policy.

    Attributes:
        text: the action in the environment.
        prompt_ids: token ids of the rendered conversation (empty for policies without tokens).
        token_ids: the sampled ids, end token included where one was sampled.
        logprobs: log pi(token) under the model's full softmax at temperature 1, one per sampled token.
        sample_logprobs: log-probability under the distribution drawn from (temperature, top-k, top-p).
        version: number of updates of the policy.
        finish: "stop" if the policy ended by itself, "length" if it was cut at max_tokens.
    """

    text: str
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    sample_logprobs: tuple[float, ...] = ()
    version: int = 0
    finish: Finish = "stop"


# --- episodes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CutState:
    """State of an agent after a step that cut its episode, in which no agent has acted.

    Attributes:
        observation: the newest observation.
        conversation: the conversation that the agent would have answered; it ends with the newest observation.
        candidates: answers sampled for it and not played, for algorithms that compare actions of the next state.
    """

    observation: str
    conversation: Conversation
    candidates: tuple[Completion, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One `env.step`.

    Attributes:
        index: 0 for the first turn.
        node: unique name of this joint step in its rollout; the parent's name is a prefix.
        parent: the node of the turn before, "" at the root.
        group: key shared by the joint steps that are compared with each other.
        choice: agent -> index of its completion among the candidates of its group; without the agents whose candidates
            are not compared here.
        observations: agent -> its new observation before it acted.
        completions: agent -> its completion (only agents that could act).
        rewards: agent -> reward, of every agent of the episode; 0 for those that have left.
        components: agent -> named parts that sum to the reward.
        metrics: named metrics of the joint action that are not reward.
        reason: explanation of the reward in one line; "" if the environment gives none.
        legal: agent -> its legal actions, for agents that could act if actions are enumerable.
        executed: agent -> the action that its completion was parsed to, if the environment reports it.
        illegal: agent -> number of illegal moves in its completion, of those with any, if the environment reports it.
        aside: True for an alternative that the episode did not take, played to measure the effect of one message.
        cut_states: agent -> its state after this turn, of the agents whose episode was cut here. Used in training, not
            written to files, and no part of a comparison of turns.
    """

    index: int
    node: str
    parent: str
    group: str
    choice: Mapping[str, int]
    observations: Mapping[str, str]
    completions: Mapping[str, Completion]
    rewards: Mapping[str, float]
    components: Mapping[str, Mapping[str, float]]
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    legal: Mapping[str, Sequence[str]] = field(default_factory=dict)
    executed: Mapping[str, str] = field(default_factory=dict)
    illegal: Mapping[str, int] = field(default_factory=dict)
    aside: bool = False
    cut_states: Mapping[str, CutState] = field(default_factory=dict, compare=False, repr=False)

    @property
    def team_reward(self) -> float:
        """Mean reward over all agents of the episode; the common reward if it is shared."""
        return sum(self.rewards.values()) / max(1, len(self.rewards))


Stop = Literal["terminated", "truncated", "threshold", "pruned", "unscored"]


@dataclass(frozen=True, slots=True)
class Episode:
    """Record of one episode of a rollout, root to leaf.

    Attributes:
        env: id of the environment.
        task: id of the task.
        seed: of the episode.
        turns: in order.
        stop: how it ended. After `truncated` and `threshold` the last state has a value (`Turn.cut_states`), after
            `terminated` its value is 0; `unscored` if the scoring of the last turn failed: its reward is meaningless.
        team: agent -> name of its policy.
    """

    env: str
    task: str
    seed: int
    turns: tuple[Turn, ...]
    stop: Stop
    team: Mapping[str, str] = field(default_factory=dict)

    @property
    def scored(self) -> bool:
        """True unless scoring failed, which makes the rewards meaningless."""
        return self.stop != "unscored"

    def team_return(self, discount: float = 1.0) -> float:
        """Discounted sum of the team reward: sum_t discount^t r_t."""
        return sum(discount**turn.index * turn.team_reward for turn in self.turns)

    def to_dict(self, tokens: bool = False) -> dict[str, Any]:
        """Return plain data for a JSON line; token ids and log-probs only with `tokens=True`."""
        return {"format": FORMAT} | _shallow_dict(self) | {"turns": [_turn_record(turn, tokens) for turn in self.turns]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Episode:
        """Restore what `to_dict` returned.

        Raises:
            CheckpointError: the record has another format.
        """
        if {attribute.name for attribute in fields(cls)} <= record.keys():  # else it is no episode of any format
            refuse_format(record, "the episode")
        turns = tuple(
            Turn(**turn | {"completions": {a: _completion_from_record(c) for a, c in turn["completions"].items()}})
            for turn in record["turns"]
        )
        return cls(**{name: value for name, value in record.items() if name != "format"} | {"turns": turns})


def only_scored(episodes: Sequence[Episode], where: str) -> list[Episode]:
    """Episodes that could be scored.

    Raises:
        ScoringError: there is none.
    """
    scored = [episode for episode in episodes if episode.scored]
    if episodes and not scored:
        reason = next(
            (turn.reason for episode in episodes for turn in episode.turns[-1:] if turn.reason), "no reason given"
        )
        raise ScoringError(f"none of the {len(episodes)} episodes {where} could be scored: {reason}")
    return scored


_OMITTED_IF_EMPTY = ("legal", "executed", "illegal", "aside")
_TOKEN_FIELDS = ("prompt_ids", "token_ids", "logprobs", "sample_logprobs")


def _shallow_dict(record: Any) -> dict[str, Any]:
    """Fields by name. `dataclasses.asdict` would copy every token of every episode."""
    return {attribute.name: getattr(record, attribute.name) for attribute in fields(record)}


def _turn_record(turn: Turn, tokens: bool) -> dict[str, Any]:
    record = {
        name: value
        for name, value in _shallow_dict(turn).items()
        if name != "cut_states" and (value or name not in _OMITTED_IF_EMPTY)
    }
    completions = {agent: _completion_record(completion, tokens) for agent, completion in turn.completions.items()}
    return record | {"completions": completions}


def _completion_record(completion: Completion, tokens: bool) -> dict[str, Any]:
    record = _shallow_dict(completion)
    if tokens:
        return record
    text_fields = {name: value for name, value in record.items() if name not in _TOKEN_FIELDS}
    return text_fields | {"tokens": len(completion.token_ids)}


def _completion_from_record(record: Mapping[str, Any]) -> Completion:
    values: dict[str, Any] = {name: value for name, value in record.items() if name != "tokens"}
    return Completion(**values | {name: tuple(value) for name, value in values.items() if isinstance(value, list)})


# --- seeds ---------------------------------------------------------------------------------------


def stable_seed(*keys: object) -> int:
    """63-bit seed from the text of any keys, equal in every process and for any PYTHONHASHSEED.

    >>> stable_seed(0, "rollout", 3) == stable_seed(0, "rollout", 3) != stable_seed(0, "rollout", 4)
    True
    """
    text = "\x1f".join(str(key) for key in keys)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1
