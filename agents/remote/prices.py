"""Prices of tokens, and estimates of their number where a server does not report it.

Prices are data, never code: they change. Without one a model counts as free, which a budget in dollars refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palaver.core import ConfigError, Conversation
from palaver.scoring import Cost
from palaver.text import first_fault, one_line

BYTES_A_TOKEN = 4
MESSAGE_TOKENS = 16  # more than the chat templates in use put around a message


class Price(BaseModel):
    """US dollars for a million tokens, read (`prompt`) and written (`completion`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: float = Field(0.0, ge=0, allow_inf_nan=False)
    completion: float = Field(0.0, ge=0, allow_inf_nan=False)

    def cost(self, prompt_tokens: int, completion_tokens: int) -> Cost:
        """Dollars of one call.

        (prompt tokens x prompt price + completion tokens x completion price) / 10^6.
        """
        dollars = (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6
        return Cost(prompt_tokens, completion_tokens, dollars, 1)


def read_prices(path: Path | str) -> dict[str, Price]:
    """Read model -> price from a YAML or JSON file.

    An example is `{some-model: {prompt: 0.15, completion: 0.6}}`.

    Raises:
        ConfigError: it cannot be read, or holds something else.
    """
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise ConfigError(f"the prices in {str(path)!r} must be written as MODEL: {{prompt: X, completion: Y}}")
        return {str(model): Price.model_validate(price) for model, price in data.items()}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read the prices in {str(path)!r}: {one_line(error)}") from error
    except ValidationError as error:
        raise ConfigError(f"the prices in {str(path)!r} do not fit: {first_fault(error, 'a price')}") from error


def estimated_tokens(text: str) -> int:
    """Estimated number of tokens of a text: one for every four bytes of UTF-8, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)


def most_tokens(conversation: Conversation, schema: Mapping[str, Any]) -> int:
    """Upper bound of a prompt's tokens: one for every byte, and those around the messages."""
    texts = [message.content for message in conversation] + ([str(dict(schema))] if schema else [])
    return sum(len(text.encode("utf-8", "replace")) + MESSAGE_TOKENS for text in texts) + MESSAGE_TOKENS
