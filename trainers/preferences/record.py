"""Preference record: the better and the worse of two joint actions on one task.

Free of torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from palaver.agents.reward_models.reading import conversation
from palaver.scoring import ScoringRequest

ALONE = "agent"  # the one agent of pairs that name none


@dataclass(frozen=True, slots=True)
class PreferenceRecord:
    """The better and the worse of two joint actions on one task.

    Attributes:
        task: id of the task; pairs of one task are never on both sides of a split.
        observations: agent -> all its observations when it acted, equal for both.
        chosen: agent -> its completion in the better one. Untrusted text, as all below.
        rejected: agent -> its completion in the worse one.
        margin: difference in value, in the source's units; None if the source gives none.
        source: `file`, `env:ID`, or the name of the judge.
    """

    task: str
    observations: Mapping[str, str]
    chosen: Mapping[str, str]
    rejected: Mapping[str, str]
    margin: float | None = None
    source: str = "file"

    def cases(self) -> tuple[ScoringRequest, ScoringRequest]:
        """The better and the worse joint action as cases of a reward model."""
        return ScoringRequest(self.task, self.observations, self.chosen), ScoringRequest(
            self.task, self.observations, self.rejected
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a JSON line: the joint texts, for any trainer, and each agent's own."""
        (prompt, chosen), (_, rejected) = (conversation(case) for case in self.cases())
        agents = {
            agent: {"prompt": self.observations[agent], "chosen": self.chosen[agent], "rejected": self.rejected[agent]}
            for agent in self.observations
        }
        return {
            "task": self.task,
            "source": self.source,
            "margin": self.margin,
            "prompt": prompt.content,
            "chosen": chosen.content,
            "rejected": rejected.content,
            "agents": agents,
        }
