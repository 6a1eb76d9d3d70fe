"""Builders write one word in blocks, in Minecraft's commands, unseen by each other.

Letters are five by five cells. Each builder has blocks of its own, all of which are to be used, and blocks that share a
side must look different: so builders do best by alternating like the fields of a chess board, each filling half of the
cells. The rules are those of CoMLRL's StrBuild, simulated in plain Python: no game is needed.

## Observation

At the start the builder's number, the command, the word, the cells of its letters row by row, and the builder's blocks:

    You are builder 1 of 2 who write one word in blocks at once, unseen by each other. Answer with commands alone, ...
    /setblock x y z block
    The word is L. The world goes from 0 0 0 to 4 4 0, y is up, and holds only air. Builder 1's commands are ...
    The cells to fill, in each row by x; all else stays air:
    y=4: 0
    y=3: 0
    y=2: 0
    y=1: 0
    y=0: 0 to 4
    Your blocks: oak_planks, stone; air empties. Use each of them; what shares a side must not look alike.
    You have 150 commands a turn.
    There are 4 turns; after each the world is emptied.

Prompts are of 570 to 700 characters for the public words; cut as Qwen's tokenizer cuts a text first (digits, spaces
before them, and words apart) they are 185 to 288 pieces, 227 on average; hard words take up to 371.

After each turn but the last: the reward, the published IoU, what the reward was made of, how many of one's own commands
were rejected and why the first three, and by `feedback`

* `score`: nothing more;
* `position`: the first `limit` cells that are to be filled or emptied;
* `perfect`: all of them, and all neighbours that look alike.

## Action

Any text, read as in [housebuild-v0](housebuild-v0.md#action). The one command is `/setblock x y z block`; what follows
the block is passed over. A block must be one of the builder's own, or `air`. The builders' commands are carried out
builder by builder, so later builders overwrite earlier ones.

## Rewards

All agents receive the same reward in every turn:

* `coverage`: 2 times the share of the letters' cells that hold a block, whichever;
* `extra`: -1.5 times the share of all other cells that hold a block;
* `adjacent`: -1 times the share, of the pairs of blocks that share a side, of those that look alike. Alike are, as
  published, all planks and wood; stone, cobblestone and whatever ends with `_stone` or `_stone_bricks`; all concrete;
  and any block with itself;
* `palette`: -0.25 for each builder of whose blocks one is not used, by any builder.

A turn's reward is 2 at most and never less than -2.5 - 0.25 n with n builders. A silent team loses what `palette`
takes.

Metrics that are no reward: `iou`, covered cells over the letters' cells and the others that hold a block; `complete`, 1
if it is 1; `coverage`, `extra_ratio`, `adjacent_ratio`, `palettes_unused`; `covered`, `missing`, `extra`, in cells;
`placed_twice`, cells where several builders placed a block; `commands`, `rejected`, `illegal`.

## Termination

After `num_turns` turns. A finished word does not end the episode; recipes stop it by `stop_above`, as published.

## Data

`tasks="sample"` are 64 words made here (seed 0), `tasks="generated:7:128"` 128 of seed 7; a slice may follow, and all
words of one source differ, so `generated:7:128[:96]` and `generated:7:128[96:]` make a split. `difficulty` is `easy`
(one letter; there are 26), `medium` (two) or `hard` (three to five).

The public words are `str_build/dataset/data.csv` in OpenMLRL/LLM_Collab_Minecraft, ten words of one to four letters;
published runs train on the first eight and evaluate on the last two. A file needs `string`, letters and spaces, which
also names the task.

By default the first two builders have the published blocks, `oak_planks` and `stone`, `white_concrete` and `obsidian`,
the third and fourth `bricks` and `glass`, `gold_block` and `ice`; more builders begin again. `palettes` gives others.

`scripted:reference` builders take turns like the fields of a chess board and earn 2 on every public word, the most
there is; `scripted:twins` all fill everything (1.75, for two), `scripted:lazy` are silent (-0.5).

## Differences from the publication

Rules, letters and rewards are those of OpenMLRL/LLM_Collab_Minecraft, `str_build`; the prompts are our own, and
feedback comes as a new message instead of a rewritten prompt. Published prompts may leave out the letters' cells, and
published `position_feedback` then lists all of them; ours always shows them at the start, and `position` lists wrong
cells. The colours that the published `perfect_feedback` requests use only one block of each of two builders, which
costs 0.5; ours lists cells and names neighbours that look alike. Published code knows one or two agents.

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from palaver.core import ConfigError
from palaver.envs.base.arguments import choice, whole_number
from palaver.envs.minecraft import feedback as wording
from palaver.envs.minecraft.commands import Terms
from palaver.envs.minecraft.env import MAX_LENGTH, MOST_AGENTS, BuildingEnv, Built
from palaver.envs.minecraft.strbuild import data, reward
from palaver.envs.minecraft.strbuild.data import Difficulty, Palettes
from palaver.envs.minecraft.strbuild.reward import Measures, texture
from palaver.envs.minecraft.world import AIR, AIR_NAME, Cells, Palette, box_of, codes
from palaver.text import one_line


def opening(
    word: str, target: Cells, index: int, shares: Sequence[int], palette: Palette, turns: int, persistent: bool
) -> str:
    """The first observation of the agent with this number, counted from 0."""
    east, top = target.shape[0] - 1, target.shape[1] - 1
    n = len(shares)
    role = f"You are builder {index + 1} of {n} who write one word in blocks at once, unseen by each other."
    lines = [
        f"{role if n > 1 else 'You write a word in blocks.'} Answer with commands alone, one a line:",
        "/setblock x y z block",
        f"The word is {word}. The world goes from 0 0 0 to {east} {top} 0, y is up, and holds only air."
        + (" Builder 1's commands are carried out first; later ones overwrite." if n > 1 else ""),
        "The cells to fill, in each row by x; all else stays air:",
        runs(target[:, :, 0] != AIR),
        f"Your blocks: {', '.join(palette)}; air empties. Use each of them; what shares a side must not look alike.",
        f"You have {shares[index]} commands a turn.",
    ]
    if turns > 1:
        lines.append(
            f"There are {turns} turns; after each the world {'stays as it is' if persistent else 'is emptied'}."
        )
    return "\n".join(lines)


def runs(cells: NDArray[np.bool_]) -> str:
    """Rows of cells from the top, `y=4: 0 to 4, 7`; rows without any are left out.

    `cells` is of shape (x, y).
    """
    lines = []
    for y in reversed(range(cells.shape[1])):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], cells[:, y], [False]]))).reshape(-1, 2)
        ranges = [str(low) if high - low == 1 else f"{low} to {high - 1}" for low, high in edges.tolist()]
        if ranges:
            lines.append(f"y={y}: {', '.join(ranges)}")
    return "\n".join(lines)


def measured(measures: Measures) -> str:
    """Measures of the reward."""
    return (
        f"Covered {measures.coverage:.2f} of the letters and {measures.extra_ratio:.2f} of the rest; "
        f"{measures.adjacent_ratio:.2f} of the sides between blocks have the same look; "
        f"builders who left a block unused: {measures.unused}."
    )


def difference(target: Cells, built: Cells, palette: Palette) -> str:
    """All cells that are to be filled or emptied, and all neighbours that look alike."""
    wanted, stands = target[:, :, 0] != AIR, built[:, :, 0] != AIR
    parts = [
        f"{what}:\n{rows}" if (rows := runs(cells)) else f"{what}: none."
        for what, cells in (("Cells to fill", wanted & ~stands), ("Cells to empty", stands & ~wanted))
    ]
    looks = ["", *map(texture, palette)]
    grid = built[:, :, 0].tolist()
    pairs = [
        f"{x} {y} and {x + right} {y + up}"
        for x, column in enumerate(grid)
        for y, code in enumerate(column)
        for right, up in ((1, 0), (0, 1))
        if code and x + right < len(grid) and y + up < len(column) and looks[grid[x + right][y + up]] == looks[code]
    ]
    return "\n".join([*parts, f"Neighbours that look alike: {'; '.join(pairs) or 'none'}."])


Feedback = Literal["score", "position", "perfect"]
BLOCKS: Palettes = (("oak_planks", "stone"), ("white_concrete", "obsidian"), ("bricks", "glass"), ("gold_block", "ice"))
MOST = 1_000_000  # of a keyword that counts


class StrBuildEnv(BuildingEnv):
    """Write a word in blocks; see the module's docstring for rules and rewards.

    Args:
        tasks: `sample`, `generated:SEED:COUNT`, a path, or `hf:NAME:SPLIT`; a slice may follow.
        agents: how many build.
        num_turns: turns of an episode.
        feedback: the mode of feedback after a turn.
        limit: how many cells a feedback lists.
        persistent: True if a turn continues with the world of the turn before.
        difficulty: of generated words, `easy`, `medium` or `hard`; None is `medium`.
        palettes: the blocks of each builder; None is the published ones.
        spacing: empty columns between letters.
        max_commands: commands of a turn, of all builders together.
        render_mode: `ansi`, `rgb_array` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**BuildingEnv.metadata, "name": "strbuild_v0"}
    shape_only: ClassVar[bool] = True
    best: ClassVar[float] = reward.COVERAGE

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 2,
        num_turns: int = 4,
        feedback: Feedback = "position",
        limit: int = 20,
        persistent: bool = False,
        difficulty: Difficulty | None = None,
        palettes: Sequence[Sequence[str]] | None = None,
        spacing: int = 2,
        max_commands: int = 300,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        self.feedback = choice("feedback", feedback, get_args(Feedback))
        self.limit = whole_number("limit", limit, 1, MOST)
        self.palettes = _palettes(palettes, whole_number("agents", agents, 1, MOST_AGENTS))
        loaded_tasks, plans = data.load(tasks, self.palettes, whole_number("spacing", spacing, 0, 100), difficulty)
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

    def prompt(self, index: int) -> str:
        """Agent, word, cells and blocks."""
        word, blocks = self.task["string"].strip().upper(), self.palettes[index]
        return opening(word, self.target, index, self.shares, blocks, self.num_turns, self.persistent)

    def terms(self, index: int) -> Terms:
        """Single blocks of the agent's own."""
        allowed = {block: codes(self.palette)[block] for block in (*self.palettes[index], AIR_NAME)}
        return Terms("setblock", box_of(self.target.shape), allowed, self.shares[index])

    def rewards(self, built: Built) -> dict[str, float]:
        """Coverage, less what is extra, alike or unused."""
        self.measured = reward.measure(self.built, self.palette, built.difference, self.palettes)
        return reward.components(self.measured)

    def measure(self, _built: Built) -> dict[str, float]:
        """The shares that the reward is made of."""
        measures = self.measured
        return {
            "coverage": measures.coverage,
            "extra_ratio": measures.extra_ratio,
            "adjacent_ratio": measures.adjacent_ratio,
            "palettes_unused": float(measures.unused),
        }

    def feedback_text(self, index: int, built: Built, reward: float) -> str:
        """Reward and its measures, rejections, and the feedback of the mode."""
        parts = [
            wording.score(self.turn + 1, self.num_turns, reward, built.difference.shape_iou),
            measured(self.measured),
            wording.rejections(built.readings[index]),
        ]
        if self.feedback == "position":
            parts.append(wording.shape_positions(self.target, self.built, self.limit))
        elif self.feedback == "perfect":
            parts.append(difference(self.target, self.built, self.palette))
        return "\n".join(part for part in parts if part)


def _palettes(given: object, agents: int) -> tuple[Palette, ...]:
    """The blocks of each builder.

    Raises:
        ConfigError: not one list of block names for each builder.
    """
    if given is None:
        return tuple(BLOCKS[n % len(BLOCKS)] for n in range(agents))
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != agents:
        raise ConfigError(
            f"palettes must list the blocks of each of {agents} builders, got {one_line(repr(given), 60)}"
        )
    palettes = []
    for agent_palette in given:
        listed = isinstance(agent_palette, Sequence) and not isinstance(agent_palette, str)
        named = agent_palette if listed and all(isinstance(b, str) for b in agent_palette) else ()
        blocks = tuple(dict.fromkeys(b.removeprefix("minecraft:") for b in named if b != AIR_NAME))
        if not blocks or not all(len(b.split()) == 1 and "," not in b and ";" not in b for b in blocks):
            raise ConfigError(
                f"palettes: a builder needs a list of one block or more, got {one_line(repr(agent_palette), 60)}"
            )
        palettes.append(blocks)
    return tuple(palettes)
