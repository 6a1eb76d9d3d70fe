"""Names, options, keys and prices of remote models: `openai:MODEL@URL?option=value`.

Keys come from the environment, go into the `Authorization` header, and nowhere else. Prices are data, never code: they
change. Without one a model counts as free, which a budget in dollars refuses.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palaver.core import ConfigError, Conversation, PolicyError, ToolSchema, did_you_mean
from palaver.scoring import Cost
from palaver.text import first_fault, one_line

SHORTEST = 8  # a shorter key is no secret, and replacing it everywhere would garble texts


class SecretKey:
    """A key that is neither printed nor pickled.

    It is read again where it is unpickled.

    Args:
        variable: of the environment that holds it.
        url: of the server; "" for the client's own default. A key is sent encrypted or to this machine, else not at
            all; a server elsewhere needs one if the way to it is encrypted.

    Raises:
        PolicyError: there must be one and there is none, or it cannot be sent in a header.
    """

    __slots__ = ("_text", "_url", "variable")

    def __init__(self, variable: str, url: str = "") -> None:
        text = os.environ.get(variable, "").strip()
        if not text.isascii() or not text.isprintable() or " " in text:
            raise PolicyError(f"the key in {variable} holds characters that no key has; set it again")
        open_way = url.startswith("http:") and not is_local(url)
        if not text and not url.startswith("http:"):
            raise PolicyError(f"{url or 'the server'} needs a key; set {variable} in the environment")
        self.variable = variable
        self._url = url
        self._text = "" if open_way else text

    def reveal(self) -> str:
        """The key; without one a placeholder, because the client requires a key."""
        return self._text or "none"

    def redact(self, text: str) -> str:
        """Replace the key wherever it occurs in the text."""
        return text.replace(self._text, f"[{self.variable}]") if len(self._text) >= SHORTEST else text

    def __repr__(self) -> str:
        return f"SecretKey({self.variable!r})"

    def __reduce__(self) -> tuple[type[SecretKey], tuple[str, str]]:
        return SecretKey, (self.variable, self._url)


def is_local(url: str) -> bool:
    """Return whether a URL names this machine by a loopback address or as `localhost`."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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


def most_tokens(conversation: Conversation, schema: Mapping[str, Any], tools: Sequence[ToolSchema] = ()) -> int:
    """Upper bound of a prompt's tokens: one for every byte, and those around the messages."""
    texts = [message.content for message in conversation] + ([str(dict(schema))] if schema else [])
    texts += [f"{call.id}{call.name}{call.arguments}" for message in conversation for call in message.calls]
    texts += [f"{tool.name}{tool.description}{tool.parameters}" for tool in tools]
    return sum(len(text.encode("utf-8", "replace")) + MESSAGE_TOKENS for text in texts) + MESSAGE_TOKENS


PREFIX = "openai:"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class Options(BaseModel):
    """Options of a remote model.

    Attributes:
        concurrency: calls under way at a time.
        timeout: seconds of one call, from sending to the last byte.
        deadline: seconds of all questions of one call, attempts and waits included.
        attempts: of one question, the first included.
        backoff: seconds; the wait before attempt k + 1 is drawn from 0 to backoff x 2^(k - 1), 60 at most.
        dollars: most that all calls may cost.
        tokens: most that all calls may read and write.
        price: US dollars for a million tokens read / written; None takes it from the file of `PALAVER_PRICES`.
        key: the environment variable that holds the key.
        length: the server's name for the most tokens of an answer; "" is `max_completion_tokens` for the client's own
            default server and `max_tokens` elsewhere.
        revision: of the model's weights, where a name alone does not fix them; goes into cache keys.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    concurrency: int = Field(8, ge=1, le=1024)
    timeout: float = Field(60.0, gt=0, allow_inf_nan=False)
    deadline: float = Field(600.0, gt=0, allow_inf_nan=False)
    attempts: int = Field(5, ge=1, le=100)
    backoff: float = Field(0.5, ge=0, allow_inf_nan=False)
    dollars: float | None = Field(None, ge=0, allow_inf_nan=False)
    tokens: int | None = Field(None, ge=0)
    price: Price | None = None
    key: str = "OPENAI_API_KEY"
    length: Literal["", "max_tokens", "max_completion_tokens"] = ""
    revision: str = ""


def read_name(name: str) -> tuple[str, str, Options]:
    """Parse `openai:MODEL[@URL][?OPTIONS]` as model, base URL and options.

    "" is the client's own default URL. Without a URL that of `OPENAI_BASE_URL` is taken.

    Raises:
        PolicyError: it is not written so.
    """
    plain, _, query = name.removeprefix(PREFIX).partition("?")
    model, at, url = plain.partition("@http")
    url = f"http{url}" if at else os.environ.get("OPENAI_BASE_URL", "").strip()
    if not model:
        raise PolicyError(f"a remote model is written {PREFIX}MODEL, {PREFIX}MODEL@URL or with ?OPTIONS after it")
    return model, checked(url), read_options(query)


def checked(url: str) -> str:
    """A base URL without a slash at its end.

    Raises:
        PolicyError: it is no http or https URL, or holds a user, a query or a fragment, where keys would be shown.
    """
    try:
        parts = urlsplit(url)
        sound = not url or (parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0)
    except ValueError:
        sound, parts = False, urlsplit("")
    if not sound:
        raise PolicyError("the base URL of a remote model must be like http://127.0.0.1:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise PolicyError("a base URL must hold no user, password, query or fragment: keys come from the environment")
    return url.rstrip("/")


def read_options(query: str) -> Options:
    """Options from `name=value&name=value`.

    `price=0.15/0.6` is dollars for a million tokens read / written.

    Raises:
        PolicyError: an unknown option, or a value that does not fit.
    """
    given: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in Options.model_fields:
            raise PolicyError(
                f"remote models have no option {name[:40]!r}.{did_you_mean(name[:40], Options.model_fields)}"
            )
    if "price" in given:
        read, slash, written = given["price"].partition("/")
        given["price"] = {"prompt": read, "completion": written if slash else read}
    if not _VARIABLE.fullmatch(given.get("key", "x")):
        # whatever was given may be a key: it is not repeated
        raise PolicyError("key= must name the environment variable that holds the key, never be the key itself")
    try:
        return Options.model_validate(given)
    except ValidationError as error:
        raise PolicyError(f"an option of a remote model does not fit: {first_fault(error)}") from None


def price_of(model: str, options: Options) -> Price:
    """Token price of a model: by the options, the file that `PALAVER_PRICES` names, or free.

    Raises:
        PolicyError: there is a budget in dollars and no price.
        ConfigError: the file cannot be read.
    """
    path = os.environ.get("PALAVER_PRICES", "")
    known = options.price or (read_prices(path).get(model) if path else None)
    limited = options.dollars is not None or os.environ.get("PALAVER_DOLLARS", "").strip()
    if known is None and limited:
        raise PolicyError(
            f"a budget in dollars needs the price of {model!r}: add price=READ/WRITTEN, in dollars for a million "
            "tokens, or name a file of prices in PALAVER_PRICES"
        )
    return known or Price()
