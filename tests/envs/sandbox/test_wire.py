"""What crosses comes back as the same value of the exact builtin type; what is no plain value is refused."""

from __future__ import annotations

import collections
import enum
import json
import math
import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaver.envs.code.sandbox import wire

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
keys = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
keys |= st.tuples(keys, keys) | st.frozensets(keys, max_size=3)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.sets(keys, max_size=4)
    ),
    max_leaves=20,
)


def same(a, b):
    """Equal in value and in the exact type of every part, with nan equal to nan and 0.0 different from -0.0."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if type(a) is complex:
        return same(a.real, b.real) and same(a.imag, b.imag)
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return same(list(a), list(b)) and all(same(a[key], b[key]) for key in a)
    return a == b


@settings(max_examples=60, deadline=None)
@given(values)
def test_round_trip(value):
    assert same(wire.decode(wire.encode(value)), value)


class Colour(enum.IntEnum):
    RED = 3


class Liar(int):
    def __eq__(self, other):
        return True

    def __pos__(self):
        return 42

    __hash__ = int.__hash__


Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, 3),
        (Liar(7), 7),
        (Pair(1, 2), (1, 2)),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.OrderedDict([(2, 1), (1, 2)]), {2: 1, 1: 2}),
        (collections.defaultdict(list, {1: [2]}), {1: [2]}),
        (type("S", (str,), {"__str__": lambda self: "other"})("own"), "own"),
        (type("F", (float,), {})(-0.0), -0.0),
        (type("L", (list,), {"__iter__": lambda self: iter([9])})([1]), [1]),
        (type("D", (dict,), {"items": lambda self: [(9, 9)]})({1: 2}), {1: 2}),
        (type("B", (bytes,), {})(b"x"), b"x"),
        (type("C", (complex,), {})(1, 2), 1 + 2j),
        (bytearray(b"xy"), bytearray(b"xy")),
    ],
    ids=repr,
)
def test_a_subclass_crosses_as_its_builtin(value, plain):
    assert same(wire.decode(wire.encode(value)), plain)


@pytest.mark.parametrize("value", [10**6000, -(10**6000), 1 << 62, -(1 << 62), (1 << 62) - 1], ids=hash)
def test_integers_of_any_length(value):
    assert wire.decode(wire.encode(value)) == value


@pytest.mark.parametrize("text", ["\ud800", "\0", "\u2028", "é", '"\\'])
def test_texts_of_any_kind(text):
    assert wire.decode(wire.encode(text)) == text


def cycle():
    made = []
    made.append(made)
    return made


def nest(depth):
    made = 0
    for _ in range(depth):
        made = [made]
    return made


def unfolding():
    made = [1]
    for _ in range(60):
        made = [made, made]
    return made


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "type object"),
        (len, "type builtin_function_or_method"),
        ((n for n in ()), "type generator"),
        (range(3), "type range"),
        ([1, {2: print}], "type builtin_function_or_method"),
        (cycle(), "holds itself"),
        (nest(200), "nested too deeply"),
        (unfolding(), "more than 200000 values"),
        ("x" * (5 << 20), "more than 4194304 characters"),
        (b"x" * (3 << 20), "more than 4194304 characters"),
        (1 << (5 << 22), "more than 4194304 characters"),
        (collections.deque([1]), "type deque"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 50 else "value",
)
def test_refused(value, reason):
    with pytest.raises(wire.NotPlainError, match=reason):
        wire.encode(value)


def test_a_nest_at_the_limit_crosses():
    assert wire.decode(wire.encode(nest(100))) == nest(100)


COLLIDING = [n * (2**61 - 1) + 1 for n in range(5000)]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"x", b"[1", b"[1]]", b"\xff\xfe", b'{"t":1}', b'{"t":[1],"l":[2]}', b"{}", b'{"q":[1]}', b'{"d":[1]}',
        b'{"d":[[1]]}', b'{"d":[["ab","c","d"]]}', b'{"d":["ab"]}', b'{"s":[[1]]}', b'{"d":[[[1],2]]}', b'{"b":"0"}',
        b'{"b":[0]}', b'{"i":"xyz"}', b'{"i":7}', b'{"c":[1,2]}', b'{"c":[1.0]}', b'{"y":"zz"}', b'{"__reduce__":[]}',
        b"9" * 5000, b"[" * 100_000 + b"]" * 100_000, b'{"t":' * 5000,
        json.dumps({"s": COLLIDING}).encode(), json.dumps({"d": [[n, 0] for n in COLLIDING]}).encode(),
    ],
    ids=lambda data: repr(data[:24]),
)  # fmt: skip
def test_malformed(data):
    began = time.monotonic()
    with pytest.raises(wire.MalformedError):
        wire.decode(data)
    assert time.monotonic() - began < 1


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode()))
def test_any_bytes_give_a_plain_value_or_an_error(data):
    try:
        value = wire.decode(data)
    except wire.MalformedError:
        return
    wire.encode(value)


def test_many_values_of_one_set_are_no_collision():
    many = set(range(50_000)) | {str(n) for n in range(20_000)}
    assert wire.decode(wire.encode(many)) == many


@pytest.fixture
def channel():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_frames(channel):
    ours, theirs = channel
    for value in ({1: (2, "x")}, "y" * 300_000, None):
        writer = threading.Thread(target=wire.send, args=(ours, value))
        writer.start()
        assert wire.receive(theirs) == value
        writer.join(60)


@pytest.mark.parametrize("sent", [b"\0\0\0\2[]x", b"\0\0\0\2xx", b"\0\0\1\0", b"\xff\xff\xff\xff"])
def test_a_frame_that_is_none(channel, sent):
    ours, theirs = channel
    ours.sendall(sent)
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises((wire.MalformedError, EOFError)):
        wire.receive(theirs, max_bytes=1000)


def test_a_frame_that_never_ends(channel):
    ours, theirs = channel
    wire.be_patient(theirs, 0.05)
    ours.sendall(b"\0\0")
    began = time.monotonic()
    with pytest.raises(BlockingIOError):
        wire.receive(theirs, began + 0.05)
    assert 0.03 < time.monotonic() - began < 1


def test_a_value_above_the_limit_is_not_sent(channel):
    with pytest.raises(wire.NotPlainError, match="takes 12 bytes, more than the 11"):
        wire.send(channel[0], "x" * 10, max_bytes=11)
