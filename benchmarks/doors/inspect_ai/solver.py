"""Solver that plays an episode with Inspect's models."""

from __future__ import annotations

import json
from collections.abc import Sequence

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Model,
    ModelOutput,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolCall, ToolInfo
from inspect_ai.util import collect

from palaver import core
from palaver.benchmarks.doors.asynchronous import play_episode
from palaver.benchmarks.doors.inspect_ai.transcripts import EPISODE, messages_of
from palaver.envs.base.env import TextEnv
from palaver.text import without_surrogates


@solver  # type: ignore[untyped-decorator]
def play_environment(env: TextEnv) -> Solver:
    """Play the sample's task with the model of each agent's role.

    The messages are all agents' turns, in order; the store holds the episode.

    Args:
        env: is forked for every sample.
    """

    async def solve(state: TaskState, _: Generate) -> TaskState:
        models = {agent: get_model(role=agent) for agent in env.possible_agents}

        async def answer(requests: Sequence[core.Request]) -> list[core.Completion]:
            completions: list[core.Completion] = await collect(*(_answer(models[r.agent], r) for r in requests))
            return completions

        names = {agent: str(model) for agent, model in models.items()}
        place, seed = state.metadata["place"], state.metadata["seed"]
        episode = await play_episode(env, answer, str(state.sample_id), names, seed=seed, place=place)
        state.messages = messages_of(episode)
        last = state.messages[-1].text if state.messages else ""
        state.output = ModelOutput.from_content(str(state.model), last)
        state.store.set(EPISODE, json.dumps(episode.to_dict()))
        state.completed = True
        return state

    return solve


async def _answer(model: Model, request: core.Request) -> core.Completion:
    """Answer of a model; its calls of tools are kept if tools are offered."""
    tools = [ToolInfo(**tool.to_dict()["function"]) for tool in request.tools]
    output = await model.generate([_message(each) for each in request.conversation], tools=tools)
    called = output.message.tool_calls or [] if output.choices and tools else []
    calls = tuple(core.ToolCall(call.id, call.function, json.dumps(call.arguments)) for call in called)
    return core.Completion(
        output.completion, finish="length" if output.stop_reason == "max_tokens" else "stop", calls=calls
    )


def _message(message: core.Message) -> ChatMessage:
    """Inspect's form of a message."""
    content = without_surrogates(message.content)
    if message.role == "assistant":
        calls = [ToolCall(id=call.id, function=call.name, arguments=_arguments(call)) for call in message.calls]
        return ChatMessageAssistant(content=content, tool_calls=calls or None)
    if message.role == "tool":
        return ChatMessageTool(content=content, tool_call_id=message.call_id)
    return (ChatMessageSystem if message.role == "system" else ChatMessageUser)(content=content)


def _arguments(call: core.ToolCall) -> dict[str, object]:
    """Arguments of a call; those that are no object, as a model may write them, are left out."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}
