"""Pokémon battles, one against one, in an embedded simulator (Pokémon Showdown's).

No server is needed. Two sides, `p1` and `p2`, choose at the same time. The task is a match-up of two teams; the seed
decides everything else. It needs Node.js and the simulator: `palaver pokemon install`.

## Observation

With `observation="text"` every text is complete and holds everything the side may know: weather and field,
conditions of both sides, both teams as far as they are known (types, hit points, status, boosts, volatiles, moves with
what is left of their PP, items, abilities, the own stats), what has happened since the last text, and the legal actions
by number. With `observation="vector"` the text holds the same as words and numbers for small networks; see
`palaver.envs.pokemon.vector`, which also reads it. A side that must wait (`can_act` is False) reads so in one line.

`env.view(agent)` is the same as plain data, see `palaver.envs.pokemon.showdown.view`.

## Action

One of the listed actions, in alphabetical order: `move thunderbolt`, `switch starmie`, `lead starmie` at team preview,
`revive starmie`; `move thunderbolt tera` (or `mega`, `zmove`, `dynamax`, ...) where that is possible. Any text is read:
a number of the list, `move 2`, the last move or Pokémon named in a longer answer. For what names none, silence
included, one of the listed actions is drawn, all equally likely; a named move with a gimmick that is not on offer is
played without it. Both are illegal answers: they are counted in `illegal`, cost `penalty`, and the side that gives its
`forfeit`-th in a battle has lost it, before anything is played for that answer. What is drawn depends on the battle's
seed, the side and the step, and leaves the battle's dice alone. `infos` hold `requested` and `executed` (empty where
the battle was forfeited), `env.choices` all of an episode.

A switch may be refused because something unseen traps the Pokémon: that side observes it and chooses again, the other
one waits. The action of a side that waits is ignored; it should be empty, and anything else is counted in `illegal`
too.

## Rewards

`binary` gives 1 for a victory and -1 for a defeat. The two others are weighted sums of named components:

| component | `binary` | `shaped` | `aggressive` |
|---|---|---|---|
| `damage`: the opponent's hit points lost, each Pokémon's as a part of its maximum | | 1 | 1 |
| `health`: own hit points gained, losses negative | | 1 | 1 |
| `status`: conditions given less conditions taken | | 0.5 | |
| `knockouts`: fainted on the other side less fainted on the own | | 1 | 2 |
| `victory` | 1 | 100 | 200 |
| `victory`, of a defeat | -1 | -100 | 0 |
| `illegal`, for each illegal answer | -penalty | -100 penalty | -200 penalty |

A side that forfeits gets the reward as if all its Pokémon had fainted; if both do in one step both have lost. By
default a battle's illegal answers cost at most 10 x 0.05 = half of a victory's reward. So a victory earns more than a
tie, a tie more than a defeat, and none of them more than with a legal action drawn in the illegal one's
place: there is nothing to gain by an illegal answer, and nothing to lose by continuing after one.

## Termination

The battle is over or forfeited, or after `turn_limit` turns of the simulator: a truncation, `infos` say so in `reason`,
neither side has won. No text names the limit: the last ones, and the actions in `infos`, are those of a battle that
continues. If the simulator's process is lost the episode is `unscored`.

The metric `outcome` of the last step is 1 where p1 has won, -1 where p2 has, and 0 else; `turn` counts the simulator's
turns, which are fewer than steps.

## Opponents

Players of the arena (`palaver arena pokemon-v1 --players typed@1,veteran@1`), from every generation's tables. A rule is
never changed; what plays better gets another number. Their rules in full are the docstrings of
`palaver.envs.pokemon.players` and, of the two that look ahead, `palaver.envs.pokemon.players.search`. How strong they
are was measured: see "How strong the heuristics are" in the documentation.

| player | how it chooses |
|---|---|
| `random@1` | any legal action |
| `max_power@1` | the largest base power |
| `typed@1` | power x accuracy x own type x effectiveness; who comes in, by types |
| `simple@1` | that with attack over defence, hazards, boosts, retreats |
| `damage@1` | the largest estimated damage; who comes in, by estimated duels |
| `gym_leader@1` | that with knock-outs first, healing, sleep and other conditions, boosts, emergencies |
| `veteran@1` | the best position after the action, every switch included |
| `search@1` | tries `veteran@1`'s best actions in copies of the battle in which all that is hidden is resampled |
| `oracle@1` | cheats: tries every action in copies of the battle, with all that is hidden but other dice |

## Forks

`env.fork()` is an equal copy with the same dice. Players that look ahead must not see those: `env.fork(seed=...)` has
others.

## Data

`teams` is the source of teams: `sample` (16 for each of gen1ou to gen4ou and gen9ou, made by Palaver),
`generated:K` with a ladder of variation, a folder of Showdown's export texts; `:train` and `:held-out` split a set by
the teams' cores. See `palaver.envs.pokemon.teams`. Every ordered pair of different teams is a task, of sets of more
than 33 teams 16 opponents for each. Formats that draw their own teams (`gen9randombattle`) have 256 tasks.

## Version history

* v0: first version.
* v1: an illegal answer was the first action of the list, in the alphabet's order, at no cost. A battle without illegal
  answers is what it was in v0, to the last reward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from palaver.core import ConfigError, did_you_mean
from palaver.envs.base.arguments import whole_number
from palaver.envs.base.env import MAX_LENGTH, Each, Step, StepResult, TextEnv, as_heard
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.tasks import Task
from palaver.envs.pokemon import replay, rules, vector
from palaver.envs.pokemon.reward import WEIGHTS, Standing, forfeited, score, standing
from palaver.envs.pokemon.showdown import SIDES, Battle, BattleLostError, Setup, Side, SideView, dex, shared_pool
from palaver.envs.pokemon.teams import matchups

TURNS = 300


class SideFeatures(NamedTuple):
    """Features of a side for networks: see `palaver.envs.pokemon.vector`. Shared, so read-only."""

    words: tuple[str, ...]
    numbers: np.ndarray
    slots: tuple[str, ...]


def _offered(keyword: str, value: object, known: Collection[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{keyword}={value!r:.40} is not offered.{did_you_mean(str(value)[:40], known)}")


class PokemonEnv(TextEnv):
    """Battles of one format; see the module's docstring.

    Args:
        format: of Pokémon Showdown, one against one: `gen1ou` to `gen9ou`, `gen1randombattle` to `gen9randombattle`.
        observation: `text`, or `vector` for words and numbers.
        teams: the source of teams.
        reward: `binary`, `shaped` or `aggressive`.
        penalty: of an illegal answer, as a share of a victory's reward.
        forfeit: illegal answers of a side with which it loses the battle; 0: none of them ends it.
        turn_limit: turns after which a battle is cut, 1 to 1000.
        render_mode: `ansi`, `html` (a replay that plays offline in a browser), or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: teams that cannot be read, or none of them legal.
        ShowdownError: no such format, no Node.js, or no simulator; the message says what to do.
    """

    metadata: ClassVar[dict[str, Any]] = {
        **TextEnv.metadata,
        "name": "pokemon_v1",
        "render_modes": ["ansi", "html"],
        "conversation": "fresh",
    }
    competitive = True
    zero_sum = True

    def __init__(
        self,
        format: str = "gen1ou",
        observation: Literal["text", "vector"] = "text",
        teams: str | Path = "sample",
        reward: Literal["binary", "shaped", "aggressive"] = "binary",
        penalty: float = 0.05,
        forfeit: int = 10,
        turn_limit: int = TURNS,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        _offered("observation", observation, ("text", "vector"))
        _offered("reward", reward, WEIGHTS)
        if isinstance(penalty, bool) or not isinstance(penalty, int | float) or not 0 <= penalty <= 1e6:
            raise ConfigError(f"penalty must be a number of 0 or more, got {penalty!r:.40}")
        if not isinstance(format, str):
            raise ConfigError(f"format must be a format's id such as 'gen1ou', got {format!r:.40}")
        self.turn_limit = whole_number("turn_limit", turn_limit, 1, 1000)
        self.penalty, self.forfeit = float(penalty), whole_number("forfeit", forfeit, 0, 1000)
        about = shared_pool().request([["format", format]])[0]
        self.format, self.dex = str(about["id"]), dex.load(about["gen"])
        self.observation, self.weights = observation, WEIGHTS[reward]
        super().__init__(
            SIDES, matchups(teams, self.format), render_mode=render_mode, max_length=max_length, source=teams
        )
        self.battle: Battle | None = None
        self.choices: list[dict[str, dict[str, str]]] = []
        self.observations: dict[str, str] = {}
        self._seed = 0  # of the battle, and of what is drawn in place of illegal answers
        self._wrong: dict[str, int] = {}  # illegal answers in this battle
        self._standing: Mapping[Side, Standing] = {}
        self._seen: dict[str, SideFeatures] = {}
        self._memory: dict[str, vector.FeatureHistory] = {}
        self._planned: dict[Side, rules.Choice] | None = None  # chosen by step_together, which steps many at once

    # --- what others may look at ------------------------------------------------------------------

    def view(self, agent: str) -> SideView:
        """View of a side, as plain data.

        Raises:
            ConfigError: before the first reset, or no such agent.
            BattleLostError: the simulator's process is gone, and this view was not requested before.
        """
        if self.battle is None or agent not in self.possible_agents:
            raise ConfigError(f"there is no view of {agent!r}: reset first; sides are {', '.join(SIDES)}")
        return self.battle.views[cast("Side", agent)]

    def seen(self, agent: str) -> SideFeatures:
        """Words, numbers and slots of a side's view now; worked out once, however many ask.

        Raises:
            ConfigError, BattleLostError: see `view`.
        """
        side_view = self._seen.get(agent)
        if side_view is None:
            view = self.view(agent)
            assert self.battle is not None
            memory = self._memory.setdefault(agent, vector.FeatureHistory(self.dex, self.format))
            side_view = self._seen[agent] = SideFeatures(*memory.look(self.battle.turn, view), vector.slots(view))
        return side_view

    def log(self, whose: Literal["p1", "p2", "all", "input"] = "all") -> list[str]:
        """The battle in the simulator's protocol, as one side saw it or with all secrets."""
        return self.battle.log(whose) if self.battle else []

    # --- the hooks --------------------------------------------------------------------------------

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Start a battle of the task's teams with dice of the instance's generator."""
        self._seed = int(self.rng.integers(2**62))
        if self.battle is not None:
            self.battle.close()
        pair = task["teams"]
        setup = Setup(self.format, self._seed, tuple(pair) if pair else None)
        [self.battle] = shared_pool().start([setup], self.observation == "text")
        self.choices, self._planned, self._wrong = [], None, dict.fromkeys(SIDES, 0)
        self._seen, self._memory = {}, {}
        self._standing = self._stand()
        return self._observations(self.battle)

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Choose for both sides and say what followed."""
        battle = self.battle
        assert battle is not None
        planned, self._planned = self._planned, None
        self._seen = {}
        if planned is None:
            planned = self._plan(actions)
            if not self._gave_up(planned):
                shared_pool().choose([(battle, rules.words(planned))])
        wrong: dict[str, int] = {side: int(side in planned and not planned[side].legal) for side in SIDES}
        gone = self._gave_up(planned)
        self._wrong = {side: self._wrong[side] + wrong[side] for side in SIDES}
        if gone:
            with contextlib.suppress(BattleLostError):  # `lost` holds the reason, below
                battle.finish(None if len(gone) == 2 else SIDES[SIDES[0] in gone])
        self.choices.append(
            {side: {"requested": c.requested, "executed": "" if gone else c.action} for side, c in planned.items()}
        )
        if battle.lost or not (battle.ended or any(battle.legal.values())):
            return StepResult(
                {side: {"victory": 0.0} for side in SIDES},
                illegal=wrong,
                unscored=True,
                reason=battle.lost or "neither side can choose",
            )
        over_limit = not battle.ended and battle.turn > self.turn_limit
        outcome = {"p1": 1.0, "p2": -1.0}.get(battle.winner, 0.0)
        forfeit_text = f"{' and '.join(gone)} forfeited by {self.forfeit} illegal answers" if gone else ""
        return StepResult(
            self._reward_components(battle, wrong, gone),
            observations=self._observations(battle),
            terminated=battle.ended,
            truncated=over_limit,
            metrics={"turn": float(battle.turn)} | ({"outcome": outcome} if battle.ended or over_limit else {}),
            illegal=wrong,
            can_act=[side for side in SIDES if battle.legal[side]],
            reason=f"cut at the limit of {self.turn_limit} turns" if over_limit else forfeit_text,
        )

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """The opponent's next move, and the moves of its active Pokémon, if it has one."""
        foe = SIDES[agent == SIDES[0]]
        battle = self.battle
        return [] if battle is None else rules.questions(foe, battle.views[foe], battle.legal.get(foe, {}), actions)

    @classmethod
    def step_together(
        cls,
        envs: Sequence[TextEnv],
        actions: Sequence[Mapping[str, Any]],
        groups: Sequence[str] = (),
        each: Each = map,
    ) -> list[Step]:
        """One step of each of several instances, with one message to each simulator process."""
        moves: list[tuple[Battle, Mapping[Side, str]]] = []
        for env, action in zip(envs, actions, strict=True):
            if isinstance(env, cls) and env.agents and env.battle is not None:
                env._planned = env._plan({a: as_heard(action.get(a), env.max_length)[0] for a in env.agents})
                if not env._gave_up(env._planned):
                    moves.append((env.battle, rules.words(env._planned)))
        shared_pool().choose(moves)
        return super().step_together(envs, actions, groups, each)

    # --- PettingZoo's and the base's --------------------------------------------------------------

    def fork(self, seed: int | None = None) -> PokemonEnv:
        """An independent copy in the same state.

        Args:
            seed: of its dice and its generator from here on; None: it throws the dice that this one is going to throw.
        """
        with self._lock:
            battle, self.battle = self.battle, None
            try:
                twin = cast("PokemonEnv", super().fork())
            finally:
                self.battle = battle
            if battle is not None:
                twin.battle = battle.fork(seed)
            if seed is not None:
                twin.rng, twin._seed = type(self.rng)(type(self.rng.bit_generator)(seed)), seed
            return twin

    def state(self) -> str:
        """Last observations of both sides: the state of a centralised critic."""
        with self._lock:
            return "\n\n".join(f"[{side}]\n{text}" for side, text in self.observations.items())

    def render(self) -> str | None:
        """The battle so far as a spectator reads it, or (`html`) its replay; None without a mode."""
        with self._lock:
            if self.render_mode is None:
                return None
            lines = self.log() if self.battle and not self.battle.lost else []
            title = f"{self.format}, {self.task.id}"
            return replay.page(title, lines) if self.render_mode == "html" else replay.text(title, lines)

    def close(self) -> None:
        """Let the simulator forget the battle."""
        with self._lock:
            if self.battle is not None:
                self.battle.close()
            self.battle, self.agents = None, []

    # --- inside -----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        battle = state.pop("battle")
        state["battle"] = None if battle is None else (battle.save(), battle.setup)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state["battle"]
        super().__setstate__({**state, "battle": shared_pool().load(*saved) if saved else None})

    def _log_observations(self, observations: Mapping[str, str], agents: Sequence[str]) -> dict[str, str]:
        self.observations = super()._log_observations(observations, agents)
        self._log.clear()  # the simulator keeps the log
        return dict(self.observations)

    def _info(self, agent: str) -> dict[str, Any]:
        return {**super()._info(agent), **(self.choices[-1].get(agent, {}) if self.choices else {})}

    def _plan(self, actions: Mapping[str, str]) -> dict[Side, rules.Choice]:
        assert self.battle is not None
        return {
            side: rules.choose(actions.get(side, ""), legal, self._seed, side, self.turn)
            for side, legal in self.battle.legal.items()
            if legal
        }

    def _gave_up(self, planned: Mapping[Side, rules.Choice]) -> list[Side]:
        """The sides that forfeit the battle with what they say now."""
        wrong = [side for side, choice in planned.items() if not choice.legal]
        return [side for side in wrong if self.forfeit and self._wrong[side] + 1 >= self.forfeit]

    def _stand(self) -> Mapping[Side, Standing]:
        assert self.battle is not None
        return {side: standing(self.battle.views[side]["me"]["team"]) for side in SIDES if self.weights.shaped}

    def _reward_components(
        self, battle: Battle, wrong: Mapping[str, int], gone: Sequence[Side]
    ) -> Mapping[str, Mapping[str, float]]:
        before, self._standing = self._standing, forfeited(self._stand(), gone)
        rewards = score(self.weights, before, self._standing, battle.winner, gone)
        for side, times in wrong.items():
            if times:  # a battle of legal answers has no such component
                rewards[side]["illegal"] = -self.penalty * self.weights.win
        return rewards

    def _observations(self, battle: Battle) -> dict[str, str]:
        """Each side's text."""
        self.legal_actions = {} if battle.ended else {side: list(legal) for side, legal in battle.legal.items()}
        if self.observation == "text":
            return {side: battle.texts[side] for side in SIDES}
        return {side: vector.observation(self.dex, self.format, battle.turn, v) for side, v in battle.views.items()}
