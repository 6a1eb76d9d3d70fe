"""Records of episodes: turns, root to leaf, as they are written to files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

from palaver.core import FORMAT, Completion, Conversation, Message, ScoringError, ToolCall, ToolStep, refuse_format

V = TypeVar("V")


def inference_role(agent: str) -> str:
    """Name in a team of the policy that answers an agent's questions, if not the acting one."""
    return f"{agent}_inference"


def is_role(name: str) -> bool:
    """Return whether a name is that of a policy that answers questions (`inference_role`)."""
    return name.endswith(inference_role(""))


def roles_in(team: Mapping[str, object], agents: Iterable[str]) -> list[str]:
    """Names of the team's policies that answer questions of these agents (`inference_role`)."""
    return [role for role in map(inference_role, agents) if role in team]


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
        asked: agents whose completion answers a question about another agent, where agents are asked (`infer`).
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
    asked: Sequence[str] = field(default_factory=list)
    aside: bool = False
    cut_states: Mapping[str, CutState] = field(default_factory=dict, compare=False, repr=False)

    def by_role(self) -> Turn:
        """Turn whose answers to questions are those of roles, with the rewards of their agents."""
        roles = {agent: inference_role(agent) for agent in self.rewards}

        def moved(values: Mapping[str, V]) -> dict[str, V]:
            return {roles[agent] if agent in self.asked else agent: value for agent, value in values.items()}

        def doubled(values: Mapping[str, V]) -> dict[str, V]:
            return {**values, **{role: values[agent] for agent, role in roles.items() if agent in values}}

        return replace(
            self,
            choice=moved(self.choice),
            completions=moved(self.completions),
            rewards=doubled(self.rewards),
            cut_states=doubled(self.cut_states),
        )

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

    def by_role(self) -> Episode:
        """Episode whose answers to questions are those of roles; itself if its team has none.

        For training such a turn is one of the agent's role, which differs from the agent by its policy alone. Every
        role has the rewards of its agent, so that means over agents are as before.
        """
        if not roles_in(self.team, self.turns[0].rewards if self.turns else ()):
            return self
        return replace(self, turns=tuple(turn.by_role() for turn in self.turns))

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


_OMITTED_IF_EMPTY = ("legal", "executed", "illegal", "asked", "aside")
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
    calls, steps = record.pop("calls"), record.pop("steps")
    if calls:
        record["calls"] = [_shallow_dict(call) for call in calls]
    if steps:
        record["steps"] = [
            {
                "completion": _completion_record(step.completion, tokens),
                "results": [{"call_id": result.call_id, "content": result.content} for result in step.results],
                "faults": list(step.faults),
            }
            for step in steps
        ]
    if tokens:
        return record
    text_fields = {name: value for name, value in record.items() if name not in _TOKEN_FIELDS}
    return text_fields | {"tokens": len(completion.token_ids)}


def _completion_from_record(record: Mapping[str, Any]) -> Completion:
    values: dict[str, Any] = {name: value for name, value in record.items() if name != "tokens"}
    calls = tuple(ToolCall(**call) for call in values.pop("calls", ()))
    steps = tuple(_step_from_record(step) for step in values.pop("steps", ()))
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Completion(**values | lists, calls=calls, steps=steps)


def _step_from_record(record: Mapping[str, Any]) -> ToolStep:
    results = tuple(Message("tool", **result) for result in record["results"])
    return ToolStep(_completion_from_record(record["completion"]), results, tuple(record["faults"]))
