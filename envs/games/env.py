"""One environment for all games in extensive form: texts in, actions of the game out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import ConfigError
from palaver.envs.base.env import MAX_LENGTH, StepResult, TextEnv
from palaver.envs.base.exact import ExactGame
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.tasks import Generate, Task, read_tasks
from palaver.envs.games.game import PLAYERS, CardGame, ExtensiveGame
from palaver.envs.games.solve import exact_game
from palaver.envs.matrix.rules import Tally, action_index

MOST_PENALTY = 1e6


class GameEnv(TextEnv):
    """A game of two players who act in turns.

    Attributes:
        game: its rules, of the class or set before `__init__`.
        sample: file of its built-in tasks, or what makes them.

    Args:
        tasks: `sample`, or a path; a slice may follow.
        penalty: cost of an illegal answer, 0 or more; None is the span between the game's largest win and loss.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "conversation": "fresh"}
    competitive = True
    zero_sum = True
    shared_prompt_turns = (0,)
    game: ExtensiveGame[Any]
    sample: Path | Generate

    def __init__(
        self,
        tasks: str | Path = "sample",
        penalty: float | None = None,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        game = self.game
        self.max_return = game.highest
        self.penalty = game.highest - game.lowest if penalty is None else _penalty(penalty)
        loaded, _ = read_tasks(tasks, lambda task: game.start(task["deal"]), sample=self.sample, fields={"deal": str})
        super().__init__(PLAYERS, loaded, render_mode=render_mode, max_length=max_length, source=tasks)
        self.position = game.start(self.tasks[0]["deal"])
        self.tally = Tally.of(len(PLAYERS))

    def exact_game(self) -> ExactGame | None:
        """The game, where its tree is small."""
        return exact_game(self.game) if self.game.small else None

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Deal, and prompt the player who acts first."""
        self.position, self.tally = self.game.start(task["deal"]), Tally.of(len(PLAYERS))
        prompts = self._prompts()
        self.first_to_act = tuple(prompts)
        return prompts

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Make the move of the player whose turn it is."""
        player = self.game.mover(self.position)
        assert player is not None
        legal = self.game.actions(self.position)
        chosen = action_index(actions[PLAYERS[player]], legal)
        action = legal[int(self.rng.integers(len(legal))) if chosen is None else chosen]
        self.position = self.game.after(self.position, action)
        over = self.game.mover(self.position) is None
        payoff = self.game.payoff(self.position) if over else 0.0
        costs = [self.penalty if chosen is None and n == player else 0.0 for n in range(len(PLAYERS))]
        parts = [
            {"payoff": sign * payoff + 0.0, "illegal": 0.0 - cost}
            for sign, cost in zip(self.game.signs, costs, strict=True)
        ]
        answers = [chosen if n == player else 0 for n in range(len(PLAYERS))]
        self.tally = self.tally.add(answers, [part["payoff"] for part in parts])
        observations = self._results() if over else self._prompts()
        return StepResult(
            dict(zip(PLAYERS, parts, strict=True)),
            observations,
            terminated=over,
            metrics={"outcome": self.tally.outcome()} if over and self.zero_sum else {},
            illegal={PLAYERS[player]: int(chosen is None)},
            can_act=() if over else tuple(observations),
        )

    def _prompts(self) -> dict[str, str]:
        """The prompt of the player to act, whose legal actions `infos` then list."""
        player = self.game.mover(self.position)
        assert player is not None
        self.legal_actions = {PLAYERS[player]: self.game.actions(self.position)}
        return {PLAYERS[player]: self.game.prompt(self.position, player)}

    def _results(self) -> dict[str, str]:
        self.legal_actions = {}
        return {agent: self.game.result(self.position, player) for player, agent in enumerate(PLAYERS)}


class CardGameEnv(GameEnv):
    """A game of cards; the players can be asked about each other's card."""

    game: CardGame[Any]

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:  # noqa: ARG002 - known before
        """The card of the other player."""
        return [card_question(self.game, self.position, PLAYERS.index(agent))]


def card_question(game: CardGame[Any], state: Any, player: int) -> InferenceQuestion:
    """The question to a player for the other's card."""
    other = PLAYERS[1 - player]
    held = game.card(state, 1 - player)
    return InferenceQuestion(other, f"Which card has {other}?", "choice", game.cards, (held,))


def _penalty(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_PENALTY:
        raise ConfigError(f"penalty must be a number from 0 to {MOST_PENALTY:g}, got {value!r:.40}")
    return float(value)
