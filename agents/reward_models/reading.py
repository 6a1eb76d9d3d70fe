"""Text of a joint action for a reward model: one conversation, with a label per agent.

The same function makes the texts that a model is trained on and those that it scores. Free of torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from palaver.core import Conversation, Message
from palaver.scoring import ScoringRequest


def conversation(case: ScoringRequest) -> Conversation:
    """Conversation of the agents' observations and completions.

    One agent's words are left as they are, as models of single conversations were trained to read them. Those of a team
    are put under labels, in order of the agents' names:

        user:       [a reads] ...  [b reads] ...
        assistant:  [a says] ...   [b says] ...

    Words are untrusted: a line that spells a label loses its brackets, so that no agent can speak for another.
    """
    agents = sorted({*case.observations, *case.completions})
    if len(agents) <= 1:
        prompt, answer = ("".join(texts.values()) for texts in (case.observations, case.completions))
        return Message("user", prompt), Message("assistant", answer)
    # what looks like any agent's label, whatever its case
    names = "|".join(map(re.escape, agents))
    spelt = re.compile(rf"\[\s*((?:{names})\s+(?:reads|says))\s*\]", re.IGNORECASE)
    return Message("user", _joined(case.observations, "reads", spelt)), Message(
        "assistant", _joined(case.completions, "says", spelt)
    )


def _joined(parts: Mapping[str, str], verb: str, spelt: re.Pattern[str]) -> str:
    return "\n\n".join(f"[{agent} {verb}]\n" + spelt.sub(r"(\1)", parts[agent]) for agent in sorted(parts))
