"""A toy environment and team for the trainers' tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from palaver import registry
from palaver.core import Completion, Request
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.registry import Spec, register
from tests.models import byte_tokenizer, reversed_byte_tokenizer, tiny_gpt2, tiny_qwen3

SEATS = ("a", "b")


class Lengths(TextEnv):
    """Paid `min(len, 50)/50` each (component `own`) and 0.5 if the other said something (component `other`)."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "lengths_v0"}

    def __init__(self, tasks: str = "sample", turns: int = 1, n: int = 8, render_mode: str | None = None) -> None:
        super().__init__(list(SEATS), [Task(f"t{i}", {}) for i in range(n)], render_mode=render_mode, source=tasks)
        self.turns = self.num_turns = turns

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        return {seat: f"{seat}: task {task.id}" for seat in self.agents}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        parts = {
            seat: {
                "own": min(len(actions[seat]), 50) / 50,
                "other": 0.5 * any(t for s, t in actions.items() if s != seat),
            }
            for seat in self.agents
        }
        heard = {seat: f"{len(actions[seat])} characters" for seat in self.agents}
        return StepResult(
            parts,
            heard,
            terminated=self.turn + 1 >= self.turns,
            metrics={"chars": float(sum(map(len, actions.values())))},
        )


class Letters(Lengths):
    """Paid the share of small letters in what each says: about 0.1 for random bytes."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "letters_v0"}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        small = {seat: sum("a" <= letter <= "z" for letter in text) for seat, text in actions.items()}
        parts = {seat: {"letters": small[seat] / max(1, len(actions[seat]))} for seat in self.agents}
        return StepResult(parts, terminated=True)


class Chain(Lengths):
    """`Lengths` in which a speaks first, then b, and so on."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "chain_v0"}
    first_to_act = SEATS[:1]

    def __init__(self, tasks: str = "sample", turns: int = 2, render_mode: str | None = None) -> None:
        super().__init__(tasks, turns, render_mode=render_mode)

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        return replace(super().transition(actions), can_act=[SEATS[(self.turn + 1) % 2]])


CHAIN = Spec("chain-v0", Chain, agents=SEATS, turns=2)
LETTERS = Spec("letters-v0", Letters, agents=SEATS)
LENGTHS = Spec("lengths-v0", Lengths, agents=SEATS)


def register_toy() -> None:
    """Once per process."""
    import palaver

    for spec in (CHAIN, LENGTHS, LETTERS):
        if spec.id not in palaver.specs():
            register(spec)


def forget_toy() -> None:
    """Leave the registry as it was, for tests that walk it."""
    for spec in (CHAIN, LENGTHS, LETTERS):
        registry._SPECS.pop(spec.id, None)
        registry.registration.parallel_registry.pop(f"{registry.NAMESPACE}/{spec.id}", None)


def save_model(folder: Path, seed: int = 0, **changes: Any) -> str:
    """A random Qwen3 with a byte tokenizer, in the ordinary format."""
    tiny_qwen3(seed, **changes).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


def save_other(folder: Path) -> str:
    """A random GPT-2 that shares nothing with `save_model`'s: architecture, width, vocabulary, order of ids."""
    tiny_gpt2(3, hidden=16, vocab=258, eos_token_id=257).save_pretrained(folder)
    reversed_byte_tokenizer().save_pretrained(folder)
    return str(folder)


class Script:
    """Says `word * (seed-independent index + 1)`: candidate k of a request is `word` k+1 times."""

    def __init__(self, word: str) -> None:
        self.name, self.word = f"script:{word}", word
        self.calls: list[list[Request]] = []

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        self.calls.append(list(requests))
        return [
            [
                Completion(self.word * (k + 1), (1, 2), (3,) * (k + 1), (-0.5,) * (k + 1), (-0.5,) * (k + 1))
                for k, _ in enumerate(r.seeds)
            ]
            for r in requests
        ]
