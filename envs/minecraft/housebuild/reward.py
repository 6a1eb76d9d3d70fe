"""Reward of a house. Pure.

`published` is the reward of CoMLRL's HouseBuild (OpenMLRL/LLM_Collab_Minecraft, `house_build/rewards`): the share of
all cells, air included, that are as planned, less the spiders' penalty.
"""

from __future__ import annotations

from typing import Literal, get_args

from palaver.envs.minecraft.world import Difference

RewardName = Literal["published", "iou"]
REWARD_NAMES: tuple[str, ...] = get_args(RewardName)


def components(difference: Difference, cells: int, penalty: float, reward_config: RewardName) -> dict[str, float]:
    """Reward components `match` and `iou`.

    `match` = m / cells, m the cells as planned; `iou` = the blocks as planned over those of either world.

    Args:
        difference: of the world from the plan.
        cells: of the world.
        penalty: of the spiders.
        reward_config: the keyword `reward`, which selects the component.

    Returns:
        The component, and `spiders`, 0 or less.
    """
    share = {"match": difference.same / cells} if reward_config == "published" else {"iou": difference.iou}
    return {**share, "spiders": 0.0 - penalty}
