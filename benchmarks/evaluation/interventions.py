"""Episodes played as they are, and again with other texts in place of messages.

The tasks, seeds and random numbers are the same. A message is a completion that another agent's next observation holds
word for word. Its sender keeps its own text in its conversation, so that only the others are affected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from palaver.agents.base.policy import Policy
from palaver.core import Message, Request, Sampling, stable_seed
from palaver.envs.base.env import Step, TextEnv
from palaver.envs.base.questions import truth_of
from palaver.episodes import Episode
from palaver.text import one_line
from palaver.trainers.rollout.branches import Branch, Joint, first_joint
from palaver.trainers.rollout.episodes import EpisodeRunner, Queries, StepAll, complete, record, starts

Place = tuple[int, int, str]  # episode, turn, agent
FEWEST = 2  # letters of a text that can be recognised in an observation


@dataclass(frozen=True)
class Players:
    """A team in an environment.

    Attributes:
        env: is forked.
        team: agent -> its policy.
        sampling: agent -> how it samples.
        tasks: ids of the tasks.
        seed: of every draw.
    """

    env: TextEnv
    team: Mapping[str, Policy]
    sampling: Mapping[str, Sampling]
    tasks: Sequence[str]
    seed: int = 0


@dataclass(frozen=True)
class Played:
    """Episodes of a condition, and facts of single agents in them: (episode, holder, words)."""

    episodes: list[Episode]
    facts: frozenset[tuple[int, str, tuple[str, ...]]]


def play(players: Players, edits: Mapping[Place, str]) -> Played:
    """Play every task once, with other texts in some places."""
    own: dict[str, dict[str, str]] = {}  # node -> agent -> the text that it keeps in its conversation
    facts: set[tuple[int, str, tuple[str, ...]]] = set()

    def queries(branch: Branch) -> Queries:
        for agent in branch.env.agents:
            if branch.can_act(agent):
                seeds = (stable_seed(players.seed, branch.root, len(branch.turns), agent),)
                legal = branch.legal_actions(agent)
                conversation, answered = branch.conversations[agent], branch.answered(agent)
                request = Request(agent, conversation, seeds, players.sampling[agent], (), legal, answered)
                yield players.team[branch.role(agent, players.team)], request

    def play_turn(live: list[Branch], step_together: StepAll) -> list[Branch]:
        joints = []
        for branch, candidates in zip(live, complete(live, queries), strict=True):
            facts.update((int(branch.root), *fact) for fact in _held(branch.env))
            joint = first_joint(branch, candidates)
            places = {agent: (int(branch.root), len(branch.turns), agent) for agent in joint.completions}
            own[joint.node] = {a: c.text for a, c in joint.completions.items() if places[a] in edits}
            texts = {a: replace(c, text=edits.get(places[a], c.text)) for a, c in joint.completions.items()}
            joints.append(replace(joint, completions=texts))
        return step_together(joints)

    ends = EpisodeRunner(play_turn, partial(_keeping, own=own)).run_all(
        starts(players.env, players.tasks, players.seed)
    )
    names = {agent: policy.name for agent, policy in players.team.items()}
    return Played([record(branch, names) for branch in ends], frozenset(facts))


def _keeping(joint: Joint, _step: Step, branch: Branch, own: Mapping[str, Mapping[str, str]]) -> Branch:
    """Put the texts that agents wrote back into their conversations, and into the record."""
    kept = own[joint.node]
    if not kept:
        return branch
    conversations = dict(branch.conversations)
    for agent, text in kept.items():
        past = list(conversations[agent])
        for n in range(len(past) - 1, -1, -1):
            if past[n].role == "assistant":
                past[n] = Message("assistant", text)
                break
        conversations[agent] = tuple(past)
    last = branch.turns[-1]
    texts = {a: replace(c, text=kept.get(a, c.text)) for a, c in last.completions.items()}
    return replace(branch, conversations=conversations, turns=(*branch.turns[:-1], replace(last, completions=texts)))


def _held(env: TextEnv) -> list[tuple[str, tuple[str, ...]]]:
    """Holder and words of each fact that the environment would ask for now."""
    asked = [question for agent in env.agents for question in env.questions(agent, {})]
    return [
        (question.about, tuple(sorted(truth_of(question).weights)))
        for question in asked
        if question.kind == "slots" and question.truth is not None and not question.options
    ]


def messages_of(episodes: Sequence[Episode]) -> dict[Place, str]:
    """Completions that another agent's next observation holds."""
    sent: dict[Place, str] = {}
    for index, episode in enumerate(episodes):
        for turn, following in zip(episode.turns, episode.turns[1:], strict=False):
            for agent, completion in turn.completions.items():
                if any(readers_of(completion.text, agent, following.observations)):
                    sent[index, turn.index, agent] = completion.text
    return sent


def readers_of(text: str, sender: str, observations: Mapping[str, str]) -> Iterator[str]:
    """Other agents whose observation holds a text."""
    line = one_line(text)
    if len(line) >= FEWEST:
        yield from (a for a, seen in observations.items() if a != sender and line in one_line(seen, 100_000))


def shuffled(sent: Mapping[Place, str], count: int) -> dict[Place, str]:
    """Each message replaced by that of the next episode that has one of the same agent and turn."""
    found = {}
    for episode, turn, agent in sent:
        others = ((episode + shift) % count for shift in range(1, count))
        found[episode, turn, agent] = next((sent[n, turn, agent] for n in others if (n, turn, agent) in sent), "")
    return found
