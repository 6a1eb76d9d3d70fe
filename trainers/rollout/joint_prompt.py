"""Joint prompts: observations and completions of all agents as one text, for joint critics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from palaver.agents.base.policy import LanguageModel
from palaver.core import Conversation, Message, PolicyError
from palaver.envs.base.env import TextEnv
from palaver.trainers.objectives.token_values import Ids, speaker_label
from palaver.trainers.rollout.batch import Batch

JOINT = "what the critic of the team reads"
OWN_CRITICS = "take an algorithm whose agents have critics of their own"


def joint_text(batch: Batch, step: int, after: bool = False) -> str:
    """Observations and completions of all agents before joint step `step`, labelled by agent.

    With `after` that step's completions follow, and the observations of the agents that it cut.
    """
    path = [step]
    while (above := int(batch.parent[path[-1]])) >= 0:
        path.append(above)
    parts = []
    for index in reversed(path):
        turn = batch.steps[index]
        parts += _read(turn.observations)
        if index != step or after:
            parts += [f"[{agent} says]\n{completion.text}" for agent, completion in turn.completions.items()]
    if after:
        parts += _read({agent: state.observation for agent, state in batch.steps[step].cut_states.items()})
    return "\n\n".join(parts)


def _read(observations: Mapping[str, str]) -> list[str]:
    return [f"[{agent} reads]\n{text}" for agent, text in observations.items() if text]


def joint_ids(batch: Batch, body: LanguageModel) -> list[Ids]:
    """Token ids of the joint conversation of every joint step (J), rendered by `body`.

    Raises:
        PolicyError: a conversation does not fit the context of the model.
    """
    return _rendered([joint_text(batch, step) for step in range(len(batch.steps))], body)


def joint_ids_after(batch: Batch, steps: Sequence[int], body: LanguageModel) -> list[Ids]:
    """Token ids of the joint conversation after each of these joint steps, which cut agents.

    Raises:
        PolicyError: a conversation does not fit the context of the model.
    """
    return _rendered([joint_text(batch, step, after=True) for step in steps], body)


def own_ids_after(conversations: Sequence[Conversation], body: LanguageModel) -> list[Ids]:
    """Token ids of the conversations of agents after a cut, rendered by `body`.

    Raises:
        PolicyError: a conversation does not fit the context of the model.
    """
    ids = [tuple(body.render(conversation)) for conversation in conversations]
    refuse_longer(ids, body, "the conversation after an episode was cut", "cut episodes earlier")
    return ids


def _rendered(texts: Sequence[str], body: LanguageModel) -> list[Ids]:
    ids = [tuple(body.render((Message("user", text),))) for text in texts]
    refuse_longer(ids, body)
    return ids


def refuse_long_joint(
    env: TextEnv, body: LanguageModel, max_tokens: Mapping[str, int], turns: int, *, tokens: bool = False
) -> int:
    """Check that the longest possible joint conversation fits the context of the joint critic.

    Args:
        env: environment, of whose tasks the initial observations are read.
        body: policy whose trunk the critic has.
        max_tokens: agent -> maximum tokens of a completion.
        turns: turns of an episode; completions of the last are read for values of tokens, and after a truncation
            (`joint_ids_after`), where their length is checked during the run.
        tokens: True if every token has a value.

    Returns:
        Tokens of the longest sequence that the critic may have to read.

    Raises:
        PolicyError: initial observations with the longest completions do not fit the context of the model.
    """
    scratch, max_length = env.fork(), 0
    for task in env.tasks:
        observations, infos = scratch.reset(seed=0, options={"task": task.id})
        length = len(body.render((Message("user", "\n\n".join(_read(observations))),)))
        first = {agent: longest for agent, longest in max_tokens.items() if infos[agent].get("can_act", True)}
        grown = min(turns - 1, 1) * sum(first.values()) + max(turns - 2, 0) * sum(max_tokens.values())
        if tokens:  # the last token of the last completion is not read
            last = first if turns == 1 else max_tokens
            grown += max(len(speaker_label(agent, body)) + longest - 1 for agent, longest in last.items())
        if length + grown > body.context:
            until = "to the end" if tokens else "until the last turn"
            grows = f" and may grow by {grown} {until}" * (grown > 0)
            raise _too_long(f"{JOINT} of task {task.id!r} has {length} tokens{grows}", body)
        max_length = max(max_length, length + grown)
    return max_length


def refuse_longer(sequences: Sequence[Ids], body: LanguageModel, what: str = JOINT, remedy: str = OWN_CRITICS) -> None:
    """Check that sequences fit the context of a critic.

    Args:
        sequences: any number of them.
        body: policy whose trunk the critic has.
        what: the sequences, as the error names them.
        remedy: advice if neither data nor completions can be shorter.

    Raises:
        PolicyError: a sequence does not fit the context of the model.
    """
    longest = max(map(len, sequences), default=0)
    if longest > body.context:
        raise _too_long(f"{what} has grown to {longest} tokens", body, remedy)


def _too_long(what: str, body: LanguageModel, remedy: str = OWN_CRITICS) -> PolicyError:
    return PolicyError(
        f"{what}, but the context of {body.name!r} holds {body.context}: shorten the data, lower policy.max_tokens, "
        f"or {remedy}"
    )
