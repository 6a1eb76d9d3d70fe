"""Replay of recorded episodes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from palaver.core import Conversation, Episode, Turn
from palaver.envs.base.env import TextEnv
from palaver.trainers.rollout.branches import Branch, Joint, start, step_all, with_turn_rewards


def again(env: TextEnv, episodes: Sequence[Episode], workers: int = 1) -> list[Episode]:
    """Replay recorded episodes: the recorded texts are the actions, rewards are computed again.

    Turns hold the observations of the replay, so that they show where the record no longer matches. Texts of agents
    that are no longer alive are ignored, and turns after the end are left out. An episode that the environment does not
    end is `truncated` if its record was ended by the environment, else it stops as recorded.

    Args:
        env: is forked, never stepped itself.
        episodes: as saved; token ids are not needed. All advance in lockstep.
        workers: threads that step environments.

    Raises:
        TaskError: the environment has no such task.
    """
    branches = [_reopened(env, episode) for episode in episodes]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        for turn_index in range(max((len(episode.turns) for episode in episodes), default=0)):
            going = [n for n, branch in enumerate(branches) if not branch.stop and turn_index < len(episodes[n].turns)]
            joints = [_repeated(branches[n], episodes[n].turns[turn_index]) for n in going]
            stepped = step_all(joints, pool.map if workers > 1 else map) if joints else []
            for n, branch in zip(going, stepped, strict=True):
                branches[n] = branch
    return [_closed(with_turn_rewards(branch), episode) for branch, episode in zip(branches, episodes, strict=True)]


def rebuilt(env: TextEnv, episode: Episode, turns: int) -> Branch:
    """Rebuild the branch of an episode before turn `turns` from its recorded texts.

    Raises:
        TaskError: the environment has no such task.
    """
    branch = _reopened(env, episode)
    for turn in episode.turns[:turns]:
        (branch,) = step_all([_repeated(branch, turn)], map)
    return branch


def _reopened(env: TextEnv, episode: Episode) -> Branch:
    fork = env.fork()
    observations, infos = start(fork, episode.task, episode.seed)
    root = episode.turns[0].node.partition("/")[0] if episode.turns else "0"
    conversations: dict[str, Conversation] = dict.fromkeys(fork.possible_agents, ())
    return Branch(fork, episode.task, episode.seed, root, root, 0, root, conversations, observations, {}, infos)


def _repeated(branch: Branch, turn: Turn) -> Joint:
    completions = {agent: text for agent, text in turn.completions.items() if agent in branch.env.agents}
    return Joint(branch, turn.node, turn.group, dict(turn.choice), completions, turn.aside)


def _closed(branch: Branch, episode: Episode) -> Episode:
    stop = branch.stop or ("truncated" if episode.stop in ("terminated", "unscored") else episode.stop)
    return Episode(episode.env, episode.task, episode.seed, branch.turns, stop, episode.team)
