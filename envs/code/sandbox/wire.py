"""Encoding of values between the trusted side and the program.

JSON with tags, exact builtin types only. A list is a JSON array; everything JSON lacks is an object with one key, its
tag. The classes that can be named are the types of plain values and, as records, those that each side has of its own;
so nothing else can come out, and no code crosses. A frame is four bytes of length and that many bytes of JSON.

Standard library only: this module also runs in the worker, where Palaver is not installed.
"""

from __future__ import annotations

import functools
import json
import socket
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 100
MAX_NODES = 200_000
MAX_LETTERS = 4 << 20
_SMALL = 1 << 62  # longer integers cross as hexadecimal digits, which are read in linear time and without a limit
_MAX_SHARING = 100
_HEADER = 4
_CHUNK = 1 << 16

Fields = dict[str, Any]
Describe = Callable[[Any], tuple[str, Fields] | None]  # an instance as the name of its class and its attributes
Make = Callable[[str, Fields], Any]  # the inverse; raises a MalformedError for a name that is not known


class NotPlainError(ValueError):
    """A value that cannot cross: no builtin, too deep or cyclic, or too large."""


class MalformedError(ValueError):
    """A frame that is not one of ours."""


def _no_record(_value: Any) -> None:
    return None


def encode(value: Any, describe: Describe = _no_record) -> bytes:
    """The JSON of a plain value.

    A value of a subclass of a builtin (Counter, a named tuple, an IntEnum) crosses as that builtin, an instance that
    `describe` knows as a record.

    Raises:
        NotPlainError: nothing of its exact value could be sent.

    >>> encode([1, (2.5, "x"), {3: None}])
    b'[1,{"t":[2.5,"x"]},{"d":[[3,null]]}]'
    """
    return _write(_Tagger(describe).tag(value, 0)).encode("ascii")


def decode(data: bytes, make: Make | None = None) -> Any:
    """The inverse of `encode`, for bytes of any origin.

    Raises:
        MalformedError: the bytes are not such JSON.

    >>> decode(encode([1, (2.5, "x"), {3: None}]))
    [1, (2.5, 'x'), {3: None}]
    """
    try:
        return (_read if make is None else _reader(make))(data.decode("ascii"))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise MalformedError(f"not a value: {type(error).__name__}") from error


def is_fixed(value: Any) -> bool:
    """Return whether a value is certainly immutable; False where that would need a look into it."""
    return value is None or type(value) in _FIXED


_FIXED = frozenset((bool, int, float, str, bytes, complex))


class _Tagger:
    """Encoder of a value as JSON data, with a count.

    The count keeps shared parts from growing without end.
    """

    def __init__(self, describe: Describe) -> None:
        self.nodes = 0
        self.letters = 0
        self.describe = describe

    def tag(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is str:
            return self.text(value)
        if kind is int:
            return value if -_SMALL < value < _SMALL else {"i": self.text(hex(value))}
        if depth > MAX_DEPTH:
            raise NotPlainError("is nested too deeply, or holds itself")
        if kind is list:
            return self.all(value, depth)
        tag = _TAGS.get(kind)
        return tag(self, value, depth) if tag else self.other(value, depth)

    def text(self, value: str) -> str:
        self.letters += len(value)
        if self.letters > MAX_LETTERS:
            raise NotPlainError(f"holds more than {MAX_LETTERS} characters")
        return value

    def other(self, value: Any, depth: int) -> Any:
        for kind, plain in _BASES:
            if issubclass(type(value), kind):
                return self.tag(plain(value), depth)
        if type(value) is type and value in _TYPE_NAMES:
            return {"k": _TYPE_NAMES[value]}
        if record := self.describe(value):
            return {"o": [self.text(record[0]), self.all([[*item] for item in record[1].items()], depth)]}
        raise NotPlainError(f"is of type {type(value).__name__}, which is no plain value")

    def all(self, values: Any, depth: int) -> list[Any]:
        self.nodes += len(values)
        if self.nodes > MAX_NODES:
            raise NotPlainError(f"holds more than {MAX_NODES} values")
        return [self.tag(value, depth + 1) for value in values]


_TAGS: dict[type, Callable[[_Tagger, Any, int], Any]] = {
    tuple: lambda tagger, value, depth: {"t": tagger.all(value, depth)},
    set: lambda tagger, value, depth: {"s": tagger.all(value, depth)},
    frozenset: lambda tagger, value, depth: {"z": tagger.all(value, depth)},
    dict: lambda tagger, value, depth: {"d": tagger.all([[*item] for item in value.items()], depth)},
    bytes: lambda tagger, value, _depth: {"b": tagger.text(value.hex())},
    bytearray: lambda tagger, value, _depth: {"y": tagger.text(value.hex())},
    complex: lambda _tagger, value, _depth: {"c": [value.real, value.imag]},
}

# the builtin's own methods, so that those of a subclass have no say
_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int.__pos__),
    (float, float.__pos__),
    (str, str.__str__),
    (list, lambda value: list(list.__iter__(value))),
    (tuple, lambda value: tuple(tuple.__iter__(value))),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
    (dict, lambda value: dict(dict.items(value))),
    (bytes, lambda value: bytes.__add__(b"", value)),
    (bytearray, lambda value: bytearray(bytearray.__iter__(value))),
    (complex, lambda value: complex(complex.real.__get__(value), complex.imag.__get__(value))),
)


_PLAIN: tuple[type, ...] = (bool, type(None), *(kind for kind, _ in _BASES))
_TYPES = {kind.__name__: kind for kind in _PLAIN}
_TYPE_NAMES = {kind: name for name, kind in _TYPES.items()}


def _untag(make: Make | None, tagged: dict[str, Any]) -> Any:
    if len(tagged) != 1:
        raise MalformedError("an object with other than one key")
    ((tag, body),) = tagged.items()
    if tag == "t" and type(body) is list:
        return tuple(body)
    if tag in _SETS and type(body) is list:
        _check_spread(body)
        return _SETS[tag](body)
    if tag in _TEXTS and type(body) is str:
        return _TEXTS[tag](body)
    if tag == "d" and type(body) is list and all(type(item) is list and len(item) == 2 for item in body):
        _check_spread([key for key, _ in body])
        return dict(body)
    if tag == "c" and type(body) is list and [type(component) for component in body] == [float, float]:
        return complex(*body)
    if tag == "k" and type(body) is str and body in _TYPES:
        return _TYPES[body]
    if tag == "o" and make is not None and type(body) is list and len(body) == 2 and type(body[0]) is str:
        return make(body[0], _fields(body[1]))
    raise MalformedError("an unknown tag, or a body that does not fit it")


def _fields(items: Any) -> Fields:
    """The attributes of a record."""
    if type(items) is list and all(type(item) is list and len(item) == 2 and type(item[0]) is str for item in items):
        return dict(items)
    raise MalformedError("a record without attributes")


def _check_spread(values: list[Any]) -> None:
    """Values made to share one hash would take time quadratic in their number.

    Honest ones hardly ever share it.
    """
    if len(values) > _MAX_SHARING and max(Counter(map(hash, values)).values()) > _MAX_SHARING:
        raise MalformedError("too many values with one hash")


_SETS: dict[str, Callable[[Any], Any]] = {"s": set, "z": frozenset}
_TEXTS: dict[str, Callable[[str], Any]] = {
    "i": lambda digits: int(digits, 16),
    "b": bytes.fromhex,
    "y": bytearray.fromhex,
}


_write = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _reader(make: Make | None) -> Callable[[str], Any]:
    return json.JSONDecoder(object_hook=functools.partial(_untag, make)).decode


_read = _reader(None)


def be_patient(channel: socket.socket, seconds: float) -> None:
    """Set the kernel's time limit of each read or write of this channel; one call serves many."""
    whole_seconds, fraction = divmod(max(seconds, 0.001), 1.0)
    wait = struct.pack("ll", int(whole_seconds), int(fraction * 1e6))
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)


def send(
    channel: socket.socket,
    value: Any,
    max_bytes: int = 0,
    *,
    describe: Describe = _no_record,
    wait: Callable[[], None] | None = None,
) -> None:
    """Write one frame.

    Args:
        channel: where to write.
        value: a plain value.
        max_bytes: the largest frame; 0: any size.
        describe: as for `encode`.
        wait: is called when the other side has not read for as long as the kernel waits, and raises to give up.

    Raises:
        NotPlainError: the value cannot cross.
        OSError: the other side is gone, or (BlockingIOError) does not read.
    """
    body = encode(value, describe)
    if max_bytes and len(body) > max_bytes:
        raise NotPlainError(f"takes {len(body)} bytes, more than the {max_bytes} allowed")
    left = memoryview(len(body).to_bytes(_HEADER, "big") + body)
    while left:
        try:
            left = left[channel.send(left) :]
        except BlockingIOError:
            if wait is None:
                raise
            wait()


def receive(
    channel: socket.socket,
    max_bytes: int = 0,
    *,
    make: Make | None = None,
    wait: Callable[[], None] | None = None,
    check: Callable[[], None] | None = None,
) -> Any:
    """Read one frame, which must be the last.

    Each side waits for the other's answer before it writes again.

    Args:
        channel: where to read.
        max_bytes: the largest frame; 0: any size.
        make: makes the records; None: there are none.
        wait: is called when nothing has come for as long as the kernel waits, and raises to give up.
        check: is called between the pieces of a frame, and raises to give up.

    Raises:
        MalformedError: too long, followed by more, or not a value.
        EOFError: the other side is gone.
        OSError: reading failed, or (BlockingIOError) took too long.
    """
    data = bytearray()
    expected = _HEADER
    while len(data) < expected:
        try:
            chunk = channel.recv(_CHUNK)
        except BlockingIOError:
            if wait is None:
                raise
            wait()
            continue
        if not chunk:
            raise EOFError("the other side is gone")
        if check is not None:
            check()
        data += chunk
        if expected == _HEADER and len(data) >= _HEADER:
            length = int.from_bytes(data[:_HEADER], "big")
            if max_bytes and length > max_bytes:
                raise MalformedError(f"a frame of {length} bytes, more than the {max_bytes} allowed")
            expected += length
    if len(data) > expected:
        raise MalformedError("bytes after the frame")
    return decode(bytes(data[_HEADER:]), make)
