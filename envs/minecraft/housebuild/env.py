"""Builders raise one house from one plan, in Minecraft's commands, unseen by each other.

All see the plan. Each may use only some of the material, so no builder can build the house alone; building twice wastes
it. The rules are those of CoMLRL's HouseBuild, simulated in plain Python: no game is needed.

## Observation

At the start the builder's number, the commands, the world's corners, the plan, the builder's limits and the spiders:

    You are builder 1 of 2 who build one house at once, unseen by each other. Answer with commands alone, one a line:
    /fill x1 y1 z1 x2 y2 z2 block
    /kill
    The world goes from 0 0 0 to 4 4 3, y is up, and holds only air. Builder 1's commands are carried out first; ...
    The plan, in each layer x1 z1 x2 z2 block; all else is air:
    y=0: 0 0 4 3 polished_andesite
    y=1 to 2: 0 0 1 0 bricks; 3 0 4 0 bricks; ...
    You have 300 commands a turn.
    You may fill, in cells a turn: 15 polished_andesite, 29 bricks, 15 red_concrete; air without limit.
    Spiders attack with 2 + 1 + 3 against a health of 5: unless somebody sends /kill, 0.1 is lost.
    There are 4 turns; after each the world is emptied.

The plan comes as rectangles, layer by layer, equal neighbours together. Prompts are of 1,350 to 1,505 characters for
the public houses, 740 to 900, 1,270 to 1,630 and 1,960 to 2,360 for easy, medium and hard ones. Cut as Qwen's tokenizer
cuts a text first (digits, spaces before them, and words apart) the public ones are 566 to 646 pieces, 606 on average,
the others 290, 625 and 1,018; names of blocks are cut further, by about a tenth of all. The published prompts of the
same houses are of 1,107 to 1,234 tokens.

After each turn but the last: the reward and the published IoU, how many of one's own commands were rejected and why the
first three, and by `feedback`

* `score`: nothing more;
* `position`: the first `limit` wrong cells, with their blocks and those of the plan;
* `position_modification`: the first `limit` commands of one cell each that would mend the world;
* `perfect`: all wrong cells with what belongs there, as rectangles per layer;
* `rect_modification`: one's own commands that were carried out, and the plan's rectangles that hold a wrong cell, of
  the layers that one owns: with two builders and seven layers 0 to 2 and 2 to 6
  (`palaver.envs.minecraft.housebuild.rules.band`);
* `resource_schedule`: one's own commands that were carried out, what is left of one's limits, and the largest
  rectangles with a wrong cell that this would reach for.

## Action

Any text. If it holds a pair of markdown fences, what the first pair encloses counts, less a line that names a language.
Every line is a command, less one bullet or number; empty lines are passed over.

* `/fill x1 y1 z1 x2 y2 z2 block` fills the box between two corners, in any order. `/` and `minecraft:` may be left out
  or written. `air` empties. A block must be one of the plan's.
* `/kill`, whatever follows, kills the spiders.

Rejected, with a reason, are: commands past the builder's share of `max_commands` (the first builder has the remainder;
rejected ones take none of it), other commands, missing words, coordinates that are no absolute whole numbers (`~1`),
blocks that are not in the plan, corners outside of the world, fill modes (`hollow`), and fills that would pass the
builder's limit for the block. Every rejected command adds 1 to the metric `illegal`.

The builders' commands are carried out builder by builder, so later builders overwrite earlier ones.

## Resources

Of a block of which the plan holds c cells, each of n builders may fill ceil(c / n) + floor(c / 2n) cells in a turn,
counted by the volume of its fills, whether they change anything or not. `limited=False` lifts the limits. In a world
that stays (`persistent=True`) they hold for all turns together.

## Rewards

All agents receive the same reward in every turn:

* `match` (with `reward="published"`): the share of all cells that are as planned, air included;
* `iou` (with `reward="iou"`): the blocks as planned over the cells that hold a block in plan or world;
* `spiders`: -0.1 * min(1, D / health) if no builder sent `/kill` in this turn, D the sum of the spiders' attack values.
  They are drawn for each task from `attack`, both ends included, always the same for the same task. In a world that
  stays the spiders stay dead.

A turn's reward is 1 at most and -0.1 at least. The published reward counts air: an empty world earns 0.29 to 0.50 on
the ten public houses (0.39 on average), less the spiders. Comparisons of methods should report the IoU as well, or
train on `reward="iou"`, which is 0 for an empty world.

Metrics that are no reward: `iou`, as published: the cells with any block in both worlds over those with one in either;
`block_iou`, the same if only the right block counts; `match`; `complete`, 1 if every cell is as planned; `covered`,
`wrong` (another block), `missing`, `extra`, in cells; `placed_twice`, cells where several builders placed a block;
`commands`, `rejected`, `killed`, `illegal`.

A reward of 600 commands in a world of 6 x 7 x 7 (read, built, compared) takes 0.43 to 0.49 ms on one core of a busy
machine; commands in another form than `/fill 0 0 0 1 1 1 block` with single digits take some microseconds each.

## Termination

After `num_turns` turns. A finished house does not end the episode; recipes stop it by `stop_above`, as published.

## Data

`tasks="sample"` are 64 houses made here (seed 0), `tasks="generated:7:128"` 128 of seed 7; a slice may follow, and all
houses of one source differ, so `generated:7:128[:96]` and `generated:7:128[96:]` make a split. `difficulty` is `easy`
(4 to 5 cells wide, three blocks), `medium` (like the public ones: posts, windows, a roof of three kinds) or `hard` (two
storeys, 8 to 10 cells wide).

The public houses are `house_build/dataset/data.json` in OpenMLRL/LLM_Collab_Minecraft, ten of which several are near
duplicates; published runs train on the first eight and evaluate on the last two. A file needs `inventory`, letter ->
block, and `target_spec` with `layers`, a list of `y` and `rows` (a row along x, rows along z); `task_id` names a task,
and `bbox` places the world, which otherwise begins at 0, its layers at their own y.

`scripted:reference` shares the house out and ends with every cell as planned, on any house: the limits of n builders
together are never less than the plan holds, and a box may be cut down to single cells
(`palaver.envs.minecraft.blueprint`). `scripted:twins` all build the whole house as far as their limits go,
`scripted:lazy` are silent. Two of each on the ten public houses, in one turn:

| team | reward | IoU | commands |
|---|---|---|---|
| `scripted:reference` | 1.000 | 1.000 | 21.9 |
| `scripted:twins` | 0.737 | 0.577 | 27.4 |
| `scripted:lazy` | 0.303 | 0.000 | 0 |

## Differences from the publication

Rules and rewards are those of OpenMLRL/LLM_Collab_Minecraft, `house_build`; the prompts are our own, and feedback comes
as a new message instead of a rewritten prompt. Published code knows one or two agents, and no spiders for one; here any
number builds and spiders are for all. Published attack values are drawn once a run, here once a task. Published
`position_feedback` lists all cells of the plan, ours the wrong ones. A coordinate is an optional sign and digits (the
publication takes all that Python's `int` takes).

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from palaver.core import ConfigError
from palaver.envs.base.arguments import choice, truth, whole_number
from palaver.envs.base.tasks import Task
from palaver.envs.minecraft import feedback as wording
from palaver.envs.minecraft.blueprint import layers
from palaver.envs.minecraft.commands import ParsedCommands, Terms
from palaver.envs.minecraft.env import MAX_LENGTH, BuildingEnv, BuildTarget, Built
from palaver.envs.minecraft.housebuild import data, rules
from palaver.envs.minecraft.housebuild.data import Difficulty
from palaver.envs.minecraft.housebuild.rules import RewardName, components
from palaver.envs.minecraft.world import AIR_NAME, box_of, codes, name
from palaver.text import one_line


def opening(
    plan: BuildTarget,
    index: int,
    shares: Sequence[int],
    turns: int,
    persistent: bool,
    limits: Mapping[int, int],
    spiders: rules.Spiders,
) -> str:
    """The first observation of the agent with this number, counted from 0.

    A change of these words bumps the version.
    """
    low, high = (" ".join(map(str, corner)) for corner in box_of(plan.target.shape, plan.origin))
    n = len(shares)
    role = f"You are builder {index + 1} of {n} who build one house at once, unseen by each other."
    lines = [
        f"{role if n > 1 else 'You build a house.'} Answer with commands alone, one a line:",
        "/fill x1 y1 z1 x2 y2 z2 block",
        *(["/kill"] if spiders.attacks else []),
        f"The world goes from {low} to {high}, y is up, and holds only air."
        + (" Builder 1's commands are carried out first; later ones overwrite." if n > 1 else ""),
        "The plan, in each layer x1 z1 x2 z2 block; all else is air:",
        layers(plan.target, plan.palette, plan.origin),
        f"You have {shares[index]} commands a turn.",
    ]
    if limits:
        held = ", ".join(f"{max_blocks} {name(code, plan.palette)}" for code, max_blocks in limits.items())
        span = "in all turns together" if persistent and turns > 1 else "a turn"
        lines.append(f"You may fill, in cells {span}: {held}; {AIR_NAME} without limit.")
    if spiders.attacks:
        lines.append(
            f"Spiders attack with {' + '.join(map(str, spiders.attacks))} against a health of {spiders.health}: "
            f"unless somebody sends /kill, {spiders.penalty:g} is lost."
        )
    if turns > 1:
        after = "the world stays as it is" if persistent else "the world is emptied"
        lines.append(f"There are {turns} turns; after each {after}.")
    return "\n".join(lines)


Feedback = Literal["score", "position", "perfect", "position_modification", "rect_modification", "resource_schedule"]
MOST = 1_000_000  # of a keyword that counts


class HouseBuildEnv(BuildingEnv):
    """Build a house from its plan; see the module's docstring for rules and rewards.

    Args:
        tasks: `sample`, `generated:SEED:COUNT`, a path, or `hf:NAME:SPLIT`; a slice may follow.
        agents: how many build.
        num_turns: turns of an episode.
        feedback: the mode of feedback after a turn.
        limit: how many cells, commands or rectangles a feedback lists.
        persistent: True if a turn continues with the world of the turn before.
        reward: `published` counts every cell as planned, air included; `iou` for blocks alone.
        difficulty: of generated houses, `easy`, `medium` or `hard`; None is `medium`.
        limited: True limits the builders' material.
        max_commands: commands of a turn, of all builders together.
        spiders: how many.
        attack: the least and the largest attack value of a spider.
        health: of the players.
        render_mode: `ansi`, `rgb_array` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**BuildingEnv.metadata, "name": "housebuild_v0"}

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 2,
        num_turns: int = 4,
        feedback: Feedback = "score",
        limit: int = 20,
        persistent: bool = False,
        reward: RewardName = "published",
        difficulty: Difficulty | None = None,
        limited: bool = True,
        max_commands: int = 600,
        spiders: int = 3,
        attack: tuple[int, int] = (1, 3),
        health: int = 5,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        self.feedback = choice("feedback", feedback, get_args(Feedback))
        self.limit = whole_number("limit", limit, 1, MOST)
        choice("reward", reward, get_args(RewardName))
        self.reward_config = reward
        self.limited = truth("limited", limited)
        self.spider_count = whole_number("spiders", spiders, 0, 1000)
        self.attack = _attack(attack)
        self.health = whole_number("health", health, 1, MOST)
        if feedback == "resource_schedule" and not limited:
            raise ConfigError("feedback='resource_schedule' needs limited=True: without limits there is no schedule")
        loaded_tasks, plans = data.load(tasks, difficulty)
        super().__init__(
            loaded_tasks,
            plans,
            agents=agents,
            num_turns=num_turns,
            persistent=persistent,
            max_commands=max_commands,
            source=tasks,
            render_mode=render_mode,
            max_length=max_length,
        )
        self._limits: list[dict[int, int]] = []
        self._spiders = rules.Spiders((), self.health)
        self._killed = False

    def initial_observations(self, task: Task) -> dict[str, str]:
        """New material and new spiders, and the plan for all."""
        limits = rules.resource_limits(self.plans[task.id], len(self.shares)) if self.limited else {}
        self._limits = [dict(limits) for _ in self.shares]
        self._spiders = rules.spiders(task.id, self.spider_count, self.attack, self.health)
        self._killed = False
        return super().initial_observations(task)

    def prompt(self, index: int) -> str:
        """Agent, plan, limits and spiders."""
        plan, limits = self.plans[self.task.id], self._limits[index]
        return opening(plan, index, self.shares, self.num_turns, self.persistent, limits, self._spiders)

    def terms(self, index: int) -> Terms:
        """Fills with the blocks of the plan, as far as the limits go, and `/kill`."""
        world = box_of(self.target.shape, self.origin)
        return Terms("fill", world, codes(self.palette), self.shares[index], self._limits[index], kill=True)

    def settle(self, readings: Sequence[ParsedCommands]) -> None:
        """Update the state of the spiders and, in a world that stays, the material left."""
        self._killed = any(parsed.kills for parsed in readings) or (self._killed and self.persistent)
        if self.persistent:
            for limits, reading in zip(self._limits, readings, strict=True):
                for code, used in reading.used.items():
                    limits[code] -= used

    def rewards(self, built: Built) -> dict[str, float]:
        """The share of cells or of blocks as planned, less what the spiders cost."""
        penalty = 0.0 if self._killed else self._spiders.penalty
        return components(built.difference, self.target.size, penalty, self.reward_config)

    def measure(self, built: Built) -> dict[str, float]:
        """The published share of cells as planned, and whether the spiders are dead."""
        return {"match": built.difference.same / self.target.size, "killed": float(self._killed)}

    def feedback_text(self, index: int, built: Built, reward: float) -> str:
        """Reward and IoU, rejections, and the feedback of the mode."""
        reading = built.readings[index]
        parts = [
            wording.score(self.turn + 1, self.num_turns, reward, built.difference.shape_iou),
            wording.rejections(reading),
            *self._details(index, reading),
        ]
        return "\n".join(part for part in parts if part)

    def _details(self, index: int, reading: ParsedCommands) -> list[str]:
        world = (self.target, self.built, self.palette, self.origin)
        if self.feedback == "score":
            return []
        if self.feedback == "position":
            return [wording.positions(*world, self.limit)]
        if self.feedback == "position_modification":
            return [wording.modifications(*world, self.limit)]
        if self.feedback == "perfect":
            return [wording.everything(*world)]
        accepted_lines = wording.accepted(reading, self.palette, self.origin)
        plan = self.plans[self.task.id]
        height = self.target.shape[1]
        if self.feedback == "rect_modification":
            low, high = rules.band(index, len(self.shares), height)
            wrong = rules.wrong_rectangles(plan, self.built, low, high)
            heading = f"Wrong rectangles in your layers {low + self.origin[1]} to {high + self.origin[1]}"
            return [accepted_lines, wording.rectangles(wrong, self.palette, heading, self.limit)]
        left = {
            code: max_blocks - reading.used[code] * (not self.persistent)
            for code, max_blocks in self._limits[index].items()
        }
        wrong = [cuboid for cuboid in rules.wrong_rectangles(plan, self.built, 0, height - 1) if cuboid.code]
        chosen = rules.schedule(wrong, left)
        held = ", ".join(f"{cells} {name(code, self.palette)}" for code, cells in left.items())
        return [
            accepted_lines,
            f"What was left of your limits: {held}.",
            wording.rectangles(chosen, self.palette, "Wrong rectangles that this would reach for", self.limit),
        ]


def _attack(given: object) -> tuple[int, int]:
    """The least and the largest attack value.

    Raises:
        ConfigError: they are no such pair.
    """
    pair = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if len(pair) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MOST for n in pair):
        raise ConfigError(f"attack must be two whole numbers of 0 or more, got {one_line(repr(given), 60)}")
    if pair[0] > pair[1]:
        raise ConfigError(f"attack must begin with the least value, got {list(pair)}")
    return pair
