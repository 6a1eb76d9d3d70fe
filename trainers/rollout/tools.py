"""Calls of tools within a turn: an agent that calls is queried again with the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from palaver.agents.base.policy import Policy, act_batched
from palaver.core import Completion, Message, Request, ToolStep, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.base.tools import MOST_CALLS, call_tools

Query = tuple[TextEnv, Policy, Request]


def act_with_tools(queries: Sequence[Query]) -> list[list[Completion]]:
    """Answer requests in one batch per policy or shared engine, and execute calls of tools.

    All candidates of a request call the tools of the same environment, which calls do not change. After `MOST_CALLS`
    calls an agent is not offered the tools again, and what it calls nevertheless is dropped. An agent
    whose results do not fit the context of its model acts with the text of its last answer.

    Returns:
        One list per query, one completion per seed; answers with calls are its `steps`.
    """
    completions = act_batched([(policy, request) for _, policy, request in queries])
    offered = [bool(request.tools) for _, _, request in queries]
    while calling := [(i, k) for i, row in enumerate(completions) for k, c in enumerate(row) if c.calls and offered[i]]:
        following: list[tuple[int, int, tuple[ToolStep, ...], Request]] = []
        for i, k in calling:
            steps = _executed(queries[i], completions[i][k])
            request = _continued(queries[i][2], k, steps)
            if getattr(queries[i][1], "fits", _always)(request):
                following.append((i, k, steps, request))
            else:  # the answer that called is the action
                completions[i][k] = replace(completions[i][k], calls=())
        answers = act_batched([(queries[i][1], request) for i, _, _, request in following])
        for (i, k, steps, request), (last,) in zip(following, answers, strict=True):
            completions[i][k] = replace(last, steps=steps, calls=last.calls if request.tools else ())
    return completions


def _always(_: Request) -> bool:
    """Policies that do not say otherwise read conversations of any length."""
    return True


def _executed(query: Query, completion: Completion) -> tuple[ToolStep, ...]:
    """Steps of a completion after its calls."""
    env, _, request = query
    before = sum(len(step.results) for step in completion.steps)
    results = call_tools(env.tools(request.agent), completion.calls, before)
    messages = tuple(
        Message("tool", result.content, call_id=call.id) for call, result in zip(completion.calls, results, strict=True)
    )
    faults = tuple(result.fault for result in results if result.fault)
    return (*completion.steps, ToolStep(replace(completion, steps=()), messages, faults))


def _continued(request: Request, index: int, steps: Sequence[ToolStep]) -> Request:
    """Request of candidate `index` after these steps."""
    messages = (message for step in steps for message in (*step.completion.messages, *step.results))
    seed = stable_seed(request.seeds[index], "tool", len(steps))
    called = sum(len(step.results) for step in steps)
    tools = request.tools if called < MOST_CALLS else ()
    return replace(request, conversation=(*request.conversation, *messages), seeds=(seed,), tools=tools)
