"""Programs that give back, leave in their arguments, or raise what is hard to handle; drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

# feed back what came: alone, wrapped, multiplied, as a key, after the program has changed it, through `map`
TESTS = """
class Node:
    def __init__(self, value):
        self.value = value

def nested(value):
    for _ in range(30):
        value = [value]
    return value

def kept(value):
    candidate(value)
    return value

def check(candidate_):
    global candidate
    candidate = candidate_
    assert candidate(candidate(1)) == "no"
    assert candidate([candidate(1), [candidate(2)]]) == "no"
    assert candidate(nested(candidate(1))) == "no"
    assert candidate([candidate(1)] * 3, key=candidate(2)) == "no"
    assert candidate(kept([1, [2], {3: [4]}])) == "no"
    assert candidate(kept({"a": {}, "b": [1]})) == "no"
    assert candidate(kept(Node([1]))) == "no"
    assert {candidate(1): 2} == "no"
    assert not list(map(candidate, [1]))
    assert [] != list(zip([1], map(candidate, [1]))) == "no"
    assert str(candidate(1)) + repr(candidate(2)) == "no"
    assert sorted([candidate(1), candidate(2)]) == "no"
    assert {}[candidate(1)]
    assert len(candidate(1)) < 0
"""

PROGRAM = """
import array, collections, dataclasses, datetime, decimal, enum, fractions, types, weakref

class Plain: pass
class Node:
    def __init__(self, value): self.value = value
class Liar:
    __class__ = int
    def __eq__(self, other): return True
    def __hash__(self): return 7
    def __repr__(self): return 10 ** 9 * "x"
    def __reduce__(self): return (exec, ("raise SystemExit",))
    def __len__(self): return -1
    def __iter__(self): return self
    def __next__(self): return self
class Broken:
    def __getattribute__(self, name): raise KeyboardInterrupt
    def __eq__(self, other): raise SystemExit
    def __hash__(self): raise MemoryError
    def __repr__(self): raise StopIteration
class Int(int):
    def __eq__(self, other): return True
    def __hash__(self): return 1
    def __index__(self): raise ValueError
    def __pos__(self): return self
class Str(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
    def __str__(self): return self
class List(list):
    def __iter__(self): return iter(int, 1)
    def __len__(self): return 10 ** 9
class Dict(dict):
    def items(self): return iter(int, 1)
    def __missing__(self, key): return self
class Float(float):
    def __pos__(self): raise OverflowError
class Meta(type):
    def __eq__(cls, other): return True
    __hash__ = type.__hash__
class Made(metaclass=Meta): pass
class Colour(enum.IntEnum): RED = 1
Point = collections.namedtuple("Point", "x y")
@dataclasses.dataclass
class Data: x: object = None
class End(StopIteration): pass
class Own(Exception):
    def __str__(self): return 10 ** 5 * "y"
class Worse(Exception):
    def __str__(self): raise StopIteration
    args = property(lambda self: 1 / 0)

def deep(n, make=lambda x: [x]):
    value = 1
    for _ in range(n): value = make(value)
    return value
def cyclic(kind):
    if kind == 0:
        value = []; value.append(value)
    elif kind == 1:
        value = {}; value[1] = value
    elif kind == 2:
        value = ([],); value[0].append(value)
    else:
        value = Node(None); value.value = value
    return value
def node(n):
    value = Node(1)
    for _ in range(n): value = Node(value)
    return value
def gen():
    yield 1
    raise SystemExit
def endless(x): return endless(x)

HERE
"""

ATOMS = (
    "None", "True", "0", "-1", "2 ** 64", "10 ** 4301", "-(10 ** 60000)", "0.0", "-0.0", "float('nan')", "float('inf')",
    "5e-324", "complex('nan+infj')", "''", "'x' * 70000", "'\\ud800'", "'\\udcff\\0'", "chr(0x10ffff)", "b''",
    "b'\\xff' * 300", "bytearray(3)", "range(5)", "range(10 ** 18)", "gen()", "iter([1])", "map(str, [1])", "lambda: 0",
    "print", "len", "int", "type(None)", "object", "type", "Plain", "Meta", "Made", "Made()", "list[int]", "Plain()",
    "Node(1)", "Node(Plain())", "node(20)", "node(60)", "node(200)", "Liar()", "Broken()", "Int(3)", "Str('no')",
    "List([1])", "Dict(a=1)", "Float(2)", "Colour.RED", "Point(1, 2)", "Data()", "collections", "Ellipsis",
    "NotImplemented", "memoryview(b'x')", "slice(3)", "decimal.Decimal('1.1')", "fractions.Fraction(1, 3)",
    "datetime.date(2000, 1, 1)", "array.array('i', [1])", "collections.deque([1])", "collections.Counter('aab')",
    "collections.defaultdict(list, a=[1])", "collections.OrderedDict(a=1)", "types.SimpleNamespace(a=1)",
    "weakref.ref(Plain)", "ValueError('x')", "StopIteration(3)", "{1: 2}.keys()", "{1}", "frozenset({frozenset()})",
    "cyclic(0)", "cyclic(1)", "cyclic(2)", "cyclic(3)", "endless", "{}.__class__", "__import__('sys')", "f", "1j", "()",
    "{n * (2 ** 61 - 1) for n in range(300)}", "{n * (2 ** 61 - 1): n for n in range(90)}", "[float('nan')] * 5",
    "['no'] * 1000",
)  # fmt: skip
LARGE = (
    "[None] * 199990", "[None] * 200001", "[[]] * 70000", "'y' * (1 << 20)", "dict.fromkeys(range(70000))",
    "dict.fromkeys(range(50000))", "list(range(100_000))", "'z' * (1 << 23)", "bytes(1 << 19)", "{*range(60_000)}",
)  # fmt: skip
DEEP = (30, 48, 64, 68, 69, 70, 90, 95, 96, 97, 98, 99, 100, 101, 500, 100_000)
MAKES = (
    "lambda x: [x]", "lambda x: (x,)", "lambda x: {1: x}", "lambda x: [x, x]", "lambda x: frozenset([x])",
    "lambda x: {(x,): 1}" , "lambda x: Node(x)", "lambda x: {'k': [x]}",
)  # fmt: skip
WRAPS = (
    "[{}]", "({},)", "{{'a': {}}}", "[{}, {}]", "{{{}}}", "{{{}: 1}}", "Node({})", "List([{}])", "Dict(a={})",
    "Point({}, 1)", "[{}] * 40", "Data({})", "{}", "{}", "{}",
)  # fmt: skip
RAISES = (
    "StopIteration", "StopIteration({})", "StopAsyncIteration({})", "End({})", "GeneratorExit({})", "SystemExit({})",
    "KeyboardInterrupt({})", "KeyError({})", "ValueError({})", "OSError(2, {})",
    "UnicodeDecodeError('x', b'', 0, 1, 'y')",
    "ExceptionGroup('x', [ValueError({})])", "AssertionError({})", "IndexError({})", "AttributeError({})", "Own({})",
    "Worse({})", "RecursionError({})", "MemoryError({})", "BlockingIOError({})", "BrokenPipeError({})", "Warning({})",
    "EOFError({})", "type('TestsFault', (Exception,), {{}})({})", "type('StopTests', (BaseException,), {{}})({})",
    "ImportError({})", "NameError({})", "SyntaxError({})", "NotImplementedError({})",
)  # fmt: skip
LEAVES = (
    "args[0].append({})", "args[0][:] = [{}] * 3", "args[0][1][0] = {}", "args[0][2][3] = {}", "args[0]['a'] = {}",
    "args[0].clear()", "args[0].value = {}", "args[0].__dict__['v'] = {}", "args[0].value.append({})",
    "args[0]['b'].append(args[0])", "args[0].append(args[0])", "vars(args[0])[{}] = 1", "args[0].__class__ = Plain",
)  # fmt: skip


def programs(count: int, seed: int, large: bool) -> Iterator[str]:
    """Programs that return, leave in an argument or raise a value; the first return each atom alone.

    Args:
        count: of programs; smaller sets begin larger ones.
        seed: of the draws.
        large: whether there are values of 60,000 parts and more among them, which take seconds.
    """
    draw = random.Random(seed)
    atoms = ATOMS + LARGE if large else ATOMS
    for number in range(count):
        body = _returned(atoms[number]) if number < len(atoms) else _body(draw, _value(draw, atoms))
        yield PROGRAM.replace("HERE", f"def f(*args, **named):\n{body}")


def _value(draw: random.Random, atoms: Sequence[str]) -> str:
    deep = draw.random() < 0.25
    value = f"deep({draw.choice(DEEP)}, {draw.choice(MAKES)})" if deep else draw.choice(atoms)
    for _ in range(draw.choice((0, 0, 1, 2, 3))):
        wrap = draw.choice(WRAPS)
        value = wrap.format(*[value] * wrap.replace("{{", "").count("{}"))
    return value


def _returned(value: str) -> str:
    return f"    return {value}"


def _body(draw: random.Random, value: str) -> str:
    kind = draw.random()
    if kind < 0.55:
        return _returned(value)
    if kind < 0.75:
        return f"    raise {draw.choice(RAISES).format(value)}"
    leave = draw.choice(LEAVES).format(value)
    return f"    try: {leave}\n    except (AttributeError, IndexError, KeyError, TypeError): pass\n{_returned(value)}"
