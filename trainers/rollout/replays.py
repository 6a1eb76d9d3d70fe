"""Replays of recorded episodes: their texts are the actions, rewards are computed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode, Turn
from palaver.trainers.rollout.branches import Branch, Joint, start, step_all, with_turn_rewards
from palaver.trainers.rollout.episodes import EpisodeRunner, StepAll, record


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

    def at_end(branch: Branch) -> Branch:
        episode = episodes[int(branch.root)]
        if branch.stop or len(branch.turns) < len(episode.turns):
            return branch
        return replace(branch, stop="truncated" if episode.stop in ("terminated", "unscored") else episode.stop)

    def play_turn(live: list[Branch], step_together: StepAll) -> list[Branch]:
        joints = [_repeated(branch, episodes[int(branch.root)].turns[len(branch.turns)]) for branch in live]
        return [at_end(branch) for branch in step_together(joints)]

    begun = (at_end(start(env.fork(), e.task, e.seed, str(n))) for n, e in enumerate(episodes))
    ends = EpisodeRunner(play_turn, workers=workers).run_all(begun)
    return [
        replace(record(with_turn_rewards(branch), episode.team), env=episode.env)
        for branch, episode in zip(ends, episodes, strict=True)
    ]


def rebuilt(env: TextEnv, episode: Episode, turns: int) -> Branch:
    """Rebuild the branch of an episode before turn `turns` from its recorded texts."""
    root = episode.turns[0].node.partition("/")[0] if episode.turns else "0"
    branch = start(env.fork(), episode.task, episode.seed, root)
    for turn in episode.turns[:turns]:
        (branch,) = step_all([_repeated(branch, turn)])
    return branch


def _repeated(branch: Branch, turn: Turn) -> Joint:
    completions = {agent: text for agent, text in turn.completions.items() if agent in branch.env.agents}
    return Joint(branch, turn.node, turn.group, dict(turn.choice), completions, turn.aside)
