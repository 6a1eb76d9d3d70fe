"""The workflows that are known by name.

Each is data made by a short function; `docs/workflows` has a page of each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from palaver.core import ConfigError, did_you_mean
from palaver.envs.base.arguments import choice, truth, whole_number
from palaver.envs.workflows.graph import MOST_STAGES, Shows, Workflow, WorkflowStage, declared, is_file
from palaver.text import first_fault

MOST_AGENTS = 64
MOST_ROUNDS = 16
AGAIN = "Answer the question again."
VERDICT = "Is this right? End with APPROVE or REJECT."
CHOICE = "Which answer is right? End with its number."


def solvers(agents: int, least: int = 1) -> tuple[str, ...]:
    """`solver1`, `solver2`, and so on.

    Raises:
        ConfigError: not a number of agents.
    """
    return tuple(f"solver{n + 1}" for n in range(whole_number("agents", agents, least, MOST_AGENTS)))


def parallel(agents: int = 2) -> Workflow:
    """Everyone answers once, alone.

    The team's answer is that of the majority, and is shown to none.

    Args:
        agents: how many answer.

    Raises:
        ConfigError: a value that does not fit.
    """
    return Workflow(name="parallel", stages=(WorkflowStage(speakers=solvers(agents)),), final="vote")


def vote(agents: int = 3) -> Workflow:
    """Everyone answers once, alone, and the majority's answer is the team's (self-consistency).

    Args:
        agents: how many vote.

    Raises:
        ConfigError: a value that does not fit.
    """
    return Workflow(name="vote", stages=(WorkflowStage(speakers=solvers(agents)),), final="vote")


def debate(
    agents: int = 2,
    rounds: int = 2,
    contain_self: bool = False,
    shuffle: bool = False,
    mask: bool = False,
    most: int | None = None,
    stop: bool = False,
    agree: float = 1.0,
) -> Workflow:
    """Everyone answers, then in every further round again, having seen the others' last texts.

    Args:
        agents: how many debate.
        rounds: how often each answers.
        contain_self: True shows an agent its own last text as well.
        shuffle: in a random order for each, without names.
        mask: the answers in the texts are hidden, so that only the way to them can convince.
        most: how many texts are shown at most.
        stop: True ends the debate when all agree, or the share `agree` of them.
        agree: that share.

    Raises:
        ConfigError: a value that does not fit.
    """
    for name, value in {"contain_self": contain_self, "shuffle": shuffle, "mask": mask, "stop": stop}.items():
        truth(name, value)
    names = solvers(agents, 2)
    shows = Shows(whose="all" if contain_self else "others", mask=mask, most=most, shuffle=shuffle)
    until, share = ("consensus", agree) if stop else (None, 1.0)
    first = WorkflowStage(speakers=names, until=until, agree=share)
    further = WorkflowStage(speakers=names, shows=shows, ask=AGAIN, until=until, agree=share)
    count = whole_number("rounds", rounds, 1, MOST_ROUNDS)
    return Workflow(name="debate", stages=(first, *[further] * (count - 1)), final="vote")


def summary(agents: int = 3, shuffle: bool = False, mask: bool = False) -> Workflow:
    """All but one propose, then `aggregator` sees all proposals and answers for the team.

    Args:
        agents: how many there are, the aggregator included.
        shuffle: proposals in a random order, without names.
        mask: the answers in the proposals are hidden.

    Raises:
        ConfigError: a value that does not fit.
    """
    proposers = solvers(whole_number("agents", agents, 2, MOST_AGENTS) - 1)
    shows = Shows(shuffle=truth("shuffle", shuffle), mask=truth("mask", mask))
    last = WorkflowStage(speakers=("aggregator",), shows=shows, ask="Answer the question for all.")
    return Workflow(name="summary", stages=(WorkflowStage(speakers=proposers), last), final="aggregator")


def chain(agents: int = 2, rounds: int = 1) -> Workflow:
    """Agents answer in turn.

    Each is shown all texts since its own last one, at first the full transcript.

    Args:
        agents: how many take turns.
        rounds: how often each answers.

    Raises:
        ConfigError: a value that does not fit.
    """
    count, names = whole_number("rounds", rounds, 1, MOST_ROUNDS), solvers(agents)
    if count * len(names) > MOST_STAGES:
        raise ConfigError(f"agents times rounds must be at most {MOST_STAGES} in a chain, got {count * len(names)}")
    further = [
        WorkflowStage(speakers=(name,), shows=Shows(what="new"), ask="Go on, and answer.") for name in names * count
    ]
    return Workflow(name="chain", stages=(WorkflowStage(speakers=names[:1]), *further[1:]), final="last")


def pioneer() -> Workflow:
    """One answers, the other answers knowing that (CORY, arXiv:2410.06101).

    Both answers count alike.
    """
    stages = (
        WorkflowStage(speakers=("pioneer",)),
        WorkflowStage(speakers=("observer",), shows=Shows(), ask="Write your own answer to the question."),
    )
    return Workflow(name="pioneer", stages=stages, final="last")


def verify(rounds: int = 1) -> Workflow:
    """`generator` answers, `verifier` approves or rejects, and `refiner` answers again.

    The last two repeat `rounds` times, or until an approval.

    Args:
        rounds: how often the verifier looks at most.

    Raises:
        ConfigError: a value that does not fit.
    """
    stages = [WorkflowStage(speakers=("generator",))]
    for _ in range(whole_number("rounds", rounds, 1, MOST_ROUNDS)):
        stages += [
            WorkflowStage(
                speakers=("verifier",), kind="verdict", shows=Shows(what="new"), ask=VERDICT, until="approved"
            ),
            WorkflowStage(speakers=("refiner",), shows=Shows(what="new"), ask="Write a better answer."),
        ]
    return Workflow(name="verify", stages=tuple(stages), final="last")


def solver_judge(agents: int = 3, shuffle: bool = False) -> Workflow:
    """All but one answer, then `judge` names the best answer by its number.

    Args:
        agents: how many there are, the judge included.
        shuffle: answers in a random order, so that no place is the better one.

    Raises:
        ConfigError: a value that does not fit.
    """
    names = solvers(whole_number("agents", agents, 2, MOST_AGENTS) - 1)
    shows = Shows(shuffle=truth("shuffle", shuffle))
    picks = WorkflowStage(speakers=("judge",), kind="choice", shows=shows, ask=CHOICE)
    return Workflow(name="solver_judge", stages=(WorkflowStage(speakers=names), picks), final="judge")


def discussion(names: tuple[str, ...] | list[str] = ("background", "method"), rounds: int = 1) -> Workflow:
    """All write a plan, see the others' for `rounds` rounds, and do the task together.

    Args:
        names: of the agents.
        rounds: of plans.

    Raises:
        ConfigError: a value that does not fit.
    """
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"names must be a list of names, got {names!r:.60}")
    names = tuple(names)
    instruction = "Do not write it yet: say in one sentence how you will."
    talks = [WorkflowStage(speakers=names, kind="talk", ask=instruction)]
    talks += [WorkflowStage(speakers=names, kind="talk", shows=Shows(), ask=instruction)] * (
        whole_number("rounds", rounds, 1, MOST_ROUNDS) - 1
    )
    return Workflow(
        name="discussion", stages=(*talks, WorkflowStage(speakers=names, shows=Shows(), ask="Now write it."))
    )


def review(rounds: int = 1) -> Workflow:
    """`coder` writes, `reviewer` criticises, `coder` writes again; `rounds` times.

    Args:
        rounds: of reviews.

    Raises:
        ConfigError: a value that does not fit.
    """
    stages = [WorkflowStage(speakers=("coder",))]
    for _ in range(whole_number("rounds", rounds, 1, MOST_ROUNDS)):
        stages += [
            WorkflowStage(
                speakers=("reviewer",), kind="talk", shows=Shows(), ask="Review this: say what is wrong with it."
            ),
            WorkflowStage(speakers=("coder",), shows=Shows(), ask="Write it again with the review in mind."),
        ]
    return Workflow(name="review", stages=tuple(stages), final="coder")


BUILT_IN: Mapping[str, Callable[..., Workflow]] = {
    "parallel": parallel,
    "vote": vote,
    "debate": debate,
    "summary": summary,
    "aggregate": summary,
    "chain": chain,
    "pioneer": pioneer,
    "verify": verify,
    "solver_judge": solver_judge,
    "discussion": discussion,
    "review": review,
}


def workflow(source: str | Path | Mapping[str, Any] | Workflow, options: Mapping[str, Any] | None = None) -> Workflow:
    """A workflow by name, from a file, from a mapping of its fields, or as it is.

    Args:
        source: a name of `BUILT_IN`, a file that `graph.declared` reads, a mapping, or a `Workflow`.
        options: keywords of the function behind a name; None of them may be given for another source.

    Raises:
        ConfigError: no such workflow, an option that it does not take, or a value that does not fit.
    """
    given = dict(options or {})
    named = not isinstance(source, Workflow | Mapping) and not is_file(source)
    if given and not named:
        raise ConfigError(f"{', '.join(given)} can only be given for a workflow with a name, such as debate")
    if isinstance(source, Workflow):
        return source
    if not named:
        return declared(source)
    name = choice("workflow", source, tuple(BUILT_IN))
    known = inspect.signature(BUILT_IN[name]).parameters
    for option in given:
        if option not in known:
            raise ConfigError(f"the workflow {name} has no option {option!r}.{did_you_mean(option, known)}")
    try:
        return BUILT_IN[name](**given)
    except ValidationError as error:
        raise ConfigError(f"the workflow {name}: {first_fault(error)}") from error
