"""An environment in which one of three agents acts at a time, all are rewarded, and one leaves early."""

from __future__ import annotations

from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task

AGENTS = ("a", "b", "c")


class Relay(TextEnv):
    """Turn t: c acts in turns 1 and 4, a in turns 0 and 3, b in turn 2; turn 5 has no actor. b leaves after turn 3."""

    order = ("a", "c", "b", "a", "c", "", "a")

    def __init__(self, render_mode=None, max_length=16_384, conversation="continued"):
        super().__init__(AGENTS, [Task("one", {}), Task("two", {})], render_mode=render_mode, max_length=max_length)
        self.metadata = {**self.metadata, "name": "relay_v0", "conversation": conversation}

    first_to_act = ("a",)

    def initial_observations(self, task):
        return {agent: f"{task.id} {int(self.rng.integers(1000))}" for agent in self.agents}

    def transition(self, actions):
        turn = self.turn
        heard = next((text for text in actions.values() if text), "")
        bonus = {agent: 0.1 * (n + 1) * 2.0**-turn for n, agent in enumerate(AGENTS)}
        return StepResult(
            {a: {"length": len(heard) / 7, "turn": bonus[a]} for a in self.agents},
            dict.fromkeys(self.agents, f"turn {turn}: {heard}"),
            terminated=turn == 6 or (["b"] if turn == 3 else False),
            truncated=["c"] if turn == 4 else False,
            can_act=[self.order[turn + 1]] if turn < 6 and self.order[turn + 1] else (),
        )
