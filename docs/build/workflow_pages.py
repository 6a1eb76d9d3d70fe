"""Pages of the workflows, `docs/workflows/*.md`, written from their graphs and an episode of each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.maths.mini.env import MathsMiniEnv
from palaver.envs.maths.reference import muddler, reference
from palaver.envs.workflows.builtin import BUILT_IN
from palaver.envs.workflows.graph import Shows, Workflow, WorkflowStage
from palaver.markdown import markdown_table

FOLDER = Path(__file__).resolve().parents[1] / "workflows"
NAMES = tuple(name for name, make in BUILT_IN.items() if name == make.__name__)  # the others are second names
PLAYED = 16  # episodes, one for each of the first problems of the sample
KINDS = {
    "answer": "answers the task; scored",
    "talk": "says something; not scored",
    "verdict": "approves or rejects the last answer; scored",
    "choice": "names one of the answers shown by its number; scored by it",
}
UNTIL = {"consensus": "the answers agree", "approved": "the verdict approves"}
FINALS = {"vote": "the majority of the agents' last answers", "last": "the last answer"}
_OPTION = re.compile(r"^    (\w+): (.+?)(?=^    \w+: |\Z)", re.MULTILINE | re.DOTALL)
Script = Callable[[Conversation, int], str]
Turn = tuple[int, str, Conversation, str]  # index, agent, its conversation, its completion


def page(name: str) -> str:
    """The whole page of a built-in workflow, as Markdown."""
    workflow_fn = BUILT_IN[name]
    doc = inspect.getdoc(workflow_fn) or ""
    flow = workflow_fn()
    parts = [
        f"# {name}",
        "<!-- written by `python -m docs.build`; do not edit -->",
        re.split(r"\n\n(?:Args|Raises):", doc)[0],
        _facts(flow),
        "## Turns",
        _turns(flow),
        "## Options",
        _options(workflow_fn, doc),
        "## What a task costs",
        _costs(name),
        "## An episode",
        _episode(name),
        "See [workflows](../workflows.md) for rewards, comparison groups, and how to declare your own.",
    ]
    return "\n\n".join(parts) + "\n"


def _facts(flow: Workflow) -> str:
    shared = ", ".join(str(turn + 1) for turn in sorted(flow.shared_prompt_turns())) or "none"
    return markdown_table(
        ("", ""),
        [
            ("Agents", ", ".join(f"`{agent}`" for agent in flow.agents)),
            ("Turns", f"{len(flow.stages)}"),
            ("The team's answer", FINALS.get(flow.final, f"that of `{flow.final}`")),
            ("Turns with the same prompt in every episode of a task", shared),
        ],
    )


def _turns(flow: Workflow) -> str:
    rows = [
        (
            str(index),
            ", ".join(f"`{agent}`" for agent in stage.speakers),
            f"{stage.kind}: {KINDS[stage.kind]}",
            _visible(stage.shows),
            stage.ask or "–",
            _ends(stage),
        )
        for index, stage in enumerate(flow.stages, start=1)
    ]
    return markdown_table(("turn", "agents", "kind", "sees", "instruction", "ends the episode if"), rows)


def _visible(shows: Shows | None) -> str:
    if shows is None:
        return "the task"
    whose = {"others": "the others'", "all": "all", "": ""}.get(str(shows.whose), " and ".join(shows.whose) + "'s")
    return f"{whose} {'last texts' if shows.what == 'last' else 'texts since it last spoke'}"


def _ends(stage: WorkflowStage) -> str:
    return UNTIL[stage.until] if stage.until else "–"


def _options(workflow_fn: Callable[..., Workflow], doc: str) -> str:
    known = inspect.signature(workflow_fn).parameters
    if not known:
        return "None."
    section = doc.partition("Args:\n")[2].partition("\nRaises:")[0]
    descriptions = {name: " ".join(text.split()) for name, text in _OPTION.findall(section)}
    return markdown_table(
        ("option", "default", "meaning"),
        [(f"`{name}`", f"`{p.default!r}`", descriptions[name]) for name, p in known.items()],
    )


def _costs(name: str) -> str:
    """Table of texts and words per episode, counted on the sample of `maths-mini-v0`."""
    rows = []
    for script in (reference, muddler):
        played = [list(episode(name, index, script)) for index in range(PLAYED)]
        written = [sum(len(completion.split()) for *_, completion in turns) for turns in played]
        read = [sum(_words(conversation) for _, _, conversation, _ in turns) for turns in played]
        texts = fmean(len(turns) for turns in played)
        rows.append((f"`scripted:{script.__name__}`", f"{texts:.1f}", f"{fmean(written):.0f}", f"{fmean(read):.0f}"))
    lines = (
        f"Means over the first {PLAYED} sample problems of [maths-mini-v0](../envs/maths-mini-v0.md), the sum over "
        "all agents. Words read count the whole conversation in every turn of an agent, as a model reads it."
    )
    return f"{markdown_table(('team', 'texts', 'words written', 'words read'), rows)}\n\n{lines}"


def _words(conversation: Conversation) -> int:
    return sum(len(message.content.split()) for message in conversation)


def _episode(name: str) -> str:
    """Transcript of muddlers on a problem on which they disagree."""
    lines, flow = [], BUILT_IN[name]()
    turns = list(episode(name, _disputed_problem(name), muddler))
    for index, agent, conversation, completion in turns:
        kind = flow.stages[index].kind
        lines += [f"turn {index + 1}, {agent} observes", _indented(conversation[-1].content)]
        lines += [f"turn {index + 1}, {agent}: {kind}", _indented(completion)]
    played = f"palaver play maths-mini-v0 workflow={name} --team scripted:muddler"
    return (
        "The scripted team `muddler`, which errs in one step of five and follows the others, on a sample problem of "
        f"maths-mini-v0:\n\n```text\n{chr(10).join(lines)}\n```\n\nThe same with rewards: `{played}`."
    )


def _disputed_problem(name: str) -> int:
    """Index of the first problem on which the muddlers disagree, 0 if there is none."""
    for index in range(PLAYED):
        answers = {
            completion.rpartition("####")[2].strip()
            for *_, completion in episode(name, index, muddler)
            if "####" in completion
        }
        if len(answers) > 1:
            return index
    return 0


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def episode(name: str, index: int, script: Script) -> Iterator[Turn]:
    """Play an episode of `maths-mini-v0` in a workflow with its defaults; yields its turns.

    Args:
        name: of the workflow.
        index: of the problem, in the sample.
        script: writes every agent's text, from its conversation and a seed.
    """
    env = MathsMiniEnv(workflow=name)
    observations, infos = env.reset(seed=index, options={"task": index})
    conversations: dict[str, Conversation] = dict.fromkeys(env.agents, ())
    while env.agents:
        completions: dict[str, str] = {}
        for agent in (agent for agent in env.agents if infos[agent]["can_act"]):
            conversations[agent] = (*conversations[agent], Message("user", observations[agent]))
            completions[agent] = script(
                conversations[agent], stable_seed("workflow pages", name, index, env.turn, agent)
            )
            yield env.turn, agent, conversations[agent], completions[agent]
            conversations[agent] = (*conversations[agent], Message("assistant", completions[agent]))
        observations, *_, infos = env.step(completions)


def wanted() -> dict[Path, str]:
    """Return the page of every built-in workflow."""
    return {FOLDER / f"{name}.md": page(name) for name in NAMES}
