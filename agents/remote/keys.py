"""Keys come from the environment, go into the `Authorization` header, and nowhere else."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from palaver.core import PolicyError

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
