"""Text encoders: features for action values and mixers. Encoders are not trained."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from palaver.core import ConfigError, Conversation

Pair = tuple[Conversation, str]  # an agent's conversation, and an action in it
_WORD = re.compile(r"\w+")


class Encoder(Protocol):
    """Encoder of texts to features.

    Attributes:
        state: S, width of a state's features.
        action: F, width of the features of an action with its conversation.
        one_hot: True if exactly one feature is 1, so that a linear layer is a table.
        held: number of weights of a model that it holds.
    """

    state: int
    action: int
    one_hot: bool
    held: int

    def states(self, texts: Sequence[str]) -> Tensor:
        """(n, S)."""
        ...

    def actions(self, pairs: Sequence[Pair]) -> Tensor:
        """(n, F)."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """State that later features depend on; none unless overridden."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: ARG002 - for those that have a state
        """Restore what `state_dict` returned."""
        return


def conversation_text(conversation: Conversation) -> str:
    """A conversation as one text, each message under its role."""
    return "\n".join(f"[{message.role}] {message.content}" for message in conversation)


class OneHotEncoder:
    """One-hot features, with an index per text in the order in which texts are first seen.

    Args:
        size: maximum number of texts, of states and of actions each.
    """

    one_hot = True
    held = 0

    def __init__(self, size: int) -> None:
        self.state = self.action = size
        self._states: dict[str, int] = {}
        self._actions: dict[str, int] = {}

    def states(self, texts: Sequence[str]) -> Tensor:
        """(n, S).

        Raises:
            ConfigError: there are more texts than the table has rows.
        """
        return self._rows(self._states, texts)

    def actions(self, pairs: Sequence[Pair]) -> Tensor:
        """(n, F).

        Raises:
            ConfigError: as `states`.
        """
        return self._rows(
            self._actions, [f"{conversation_text(conversation)}\n> {action}" for conversation, action in pairs]
        )

    def state_dict(self) -> dict[str, Any]:
        """The texts in their order."""
        return {"states": list(self._states), "actions": list(self._actions)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._states = {text: row for row, text in enumerate(state["states"])}
        self._actions = {text: row for row, text in enumerate(state["actions"])}

    def _rows(self, known: dict[str, int], texts: Sequence[str]) -> Tensor:
        rows = [known.setdefault(text, len(known)) for text in texts]
        if len(known) > self.state:
            raise ConfigError(
                f"the table of {self.state} texts is full: raise algorithm.mixer.features, or set "
                "algorithm.mixer.encoder=words, which needs no row for each text"
            )
        return torch.nn.functional.one_hot(torch.tensor(rows, dtype=torch.long), self.state).float()


class Words(Encoder):
    """Unit vector of hashed words and bigrams; of an action with that of its conversation.

    The sign of a feature is hashed too, so that collisions cancel in the mean: Weinberger et al., arXiv 0902.2206.

    Args:
        width: width of a text's vector.
    """

    one_hot = False
    held = 0

    def __init__(self, width: int) -> None:
        self.state, self.action = width, 2 * width

    def states(self, texts: Sequence[str]) -> Tensor:
        """(n, S)."""
        return torch.stack([hashed(text, self.state) for text in texts])

    def actions(self, pairs: Sequence[Pair]) -> Tensor:
        """(n, F)."""
        both = [
            (hashed(conversation_text(conversation), self.state), hashed(action, self.state))
            for conversation, action in pairs
        ]
        return torch.stack([torch.cat(vectors) for vectors in both])


@functools.lru_cache(maxsize=4096)
def hashed(text: str, width: int) -> Tensor:
    """(width,) signed counts of words and bigrams, of length 1; 0 for a text without words."""
    words = _WORD.findall(text.casefold())
    vector = torch.zeros(width)
    for term in (*words, *map(" ".join, itertools.pairwise(words))):
        digest = hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest()
        bucket = int.from_bytes(digest, "big")
        vector[(bucket >> 1) % width] += 1.0 if bucket & 1 else -1.0
    unit: Tensor = vector / vector.norm().clamp(min=1e-6)
    return unit
