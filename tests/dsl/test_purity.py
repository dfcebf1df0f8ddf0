"""What Python may compute while compiling: nothing that can differ from run to run, however it is reached."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message

if TYPE_CHECKING:
    from types import FrameType

OUTSIDE = """
import collections, copy, dataclasses, enum, functools, ipaddress, itertools, json, math, operator, os, pathlib, random
import re, secrets, socket, struct, subprocess, threading, time, uuid
from datetime import date, datetime, timedelta
from time import monotonic_ns as stamp

def helper():
    return time.monotonic_ns()

def deep():
    return helper() + 1

def home():
    return os.environ.get("HOME", "")

def catching():
    try:
        return time.time_ns()
    except BaseException:
        return 5

class Config:
    limit = 3

    @property
    def impure(self):
        return random.randrange(9)

    @property
    def home(self):
        return os.environ.get("HOME", "")

    @property
    def pure(self):
        return self.limit * 2

    def method(self):
        return self.limit

    def __add__(self, other):
        return os.getpid()

    def __getitem__(self, index):
        return time.time_ns()

    def __bool__(self):
        return secrets.randbelow(2) == 1

config = Config()

class Moment(datetime):
    pass

class Dice(random.Random):
    pass

dice = Dice(3)
file = open("/dev/null")
file.close()

def clock():
    yield time.time_ns()

def numbers():
    yield 3
    yield 4

class Colour(enum.Enum):
    RED = 1

Point = collections.namedtuple("Point", "x y")

@dataclasses.dataclass(frozen=True)
class Key:
    a: int
    b: int = 4

table = {Key(1): 7}
part = functools.partial(time.time_ns)

words, ordered, last, numbered = {"a", "b", "c"}, ["a", "b"], {"x": 1}, iter((1, 2))
queue, buffer = collections.deque([1, 2]), bytearray(b"ab")

def total():
    return sum(x * 2 for x in range(4)) + math.isqrt(16)

@functools.lru_cache
def cached(n):
    return n * 2
"""

ONCE = "would run once, at compile time, not on each event: "
ABOVE = "call it above the probe and use its result here by name"
CLOCK = f"write now(), nanoseconds of the monotonic clock, or {ABOVE}"
READ = "would be read once, at compile time, not on each event: keep what you need of it in a name"
ORDER = "goes through a set, whose order differs from run to run: give it sorted(…) of the set"
THROUGH = "this goes through a set, whose order differs from run to run: write sorted(…) of the set"
CHANGE = "changes what it is called on, once, at compile time, not on each event: keep in a map what events change"
RANDOM = f"write helpers.get_prandom_u32() or {ABOVE}"

#: An expression, what is said of it, and what the carets stand under if not all of it.
IMPURE: list[tuple[str, str, str]] = [
    ("time.monotonic_ns()", f"time.monotonic_ns() {ONCE}{CLOCK}", ""),
    ("stamp()", f"time.monotonic_ns() {ONCE}{CLOCK}", ""),
    ("int(time.time())", f"time.time() {ONCE}{CLOCK}", "time.time()"),
    ("os.getpid()", f"os.getpid() {ONCE}write pid() or {ABOVE}", ""),
    ("os.getuid()", f"os.getuid() {ONCE}write uid() or {ABOVE}", ""),
    ("threading.get_native_id()", f"threading.get_native_id() {ONCE}write tid() or {ABOVE}", ""),
    ("random.randrange(9)", f"random.randrange() {ONCE}{RANDOM}", ""),
    ("random.randrange(count)", f"random.randrange() {ONCE}{RANDOM}", ""),
    ("random.Random(4).getrandbits(3)", f"random.Random() {ONCE}{RANDOM}", "random.Random(4)"),
    ("secrets.randbelow(4)", f"secrets.randbelow() {ONCE}{RANDOM}", ""),
    ("uuid.uuid4().int", f"uuid.uuid4() {ONCE}{RANDOM}", "uuid.uuid4()"),
    ("datetime.now().year", f"datetime.now() {ONCE}{CLOCK}", "datetime.now()"),
    (
        "operator.methodcaller('now')(datetime).year",
        f"this calls datetime.now(), which {ONCE}{CLOCK}",
        "operator.methodcaller('now')(datetime)",
    ),
    (
        "sum(map(operator.methodcaller('now', tz=None), [datetime]))",
        f"map() calls datetime.now(), which {ONCE}{CLOCK}",
        "…",
    ),
    ("date.today().year", f"date.today() {ONCE}{CLOCK}", "date.today()"),
    ("len(open('/etc/passwd').read())", f"open() {ONCE}{ABOVE}", "open('/etc/passwd')"),
    ("len(pathlib.Path('/x').read_text())", "Path.read_text() calls open(), which " + ONCE + ABOVE, "…"),
    ("len(os.listdir('/'))", f"os.listdir() {ONCE}{ABOVE}", "os.listdir('/')"),
    ("int(input())", f"input() {ONCE}{ABOVE}", "input()"),
    ("time.sleep(1)", f"time.sleep() {ONCE}a probe can't wait, leave it out", ""),
    ("subprocess.run(['true']).returncode", f"subprocess.run() {ONCE}{ABOVE}", "subprocess.run(['true'])"),
    ("socket.if_nametoindex('lo')", f"socket.if_nametoindex() {ONCE}{ABOVE}", ""),
    ("hash('x')", f"hash() {ONCE}{ABOVE}", ""),
    ("len(os.environ['HOME'])", f"os.environ {READ}", "os.environ['HOME']"),
    ("len(list(file))", f"this io.TextIOWrapper {READ}", "list(file)"),
    ("eval('3')", f"eval() {ONCE}{ABOVE}", ""),
    ("'x'.__hash__()", f"__hash__() calls hash(), which {ONCE}{ABOVE}", ""),
    # A set's order.
    ("len(list(words))", f"list() {ORDER}", "list(words)"),
    ("len(tuple(words))", f"tuple() {ORDER}", "tuple(words)"),
    ("len(''.join(words))", f"str.join() {ORDER}", "''.join(words)"),
    ("len('{}'.format(words))", f"str.format() {ORDER}", "'{}'.format(words)"),
    ("len(repr(words))", f"repr() {ORDER}", "repr(words)"),
    ("len([*map(ord, words)])", f"map() {ORDER}", "map(ord, words)"),
    ("len([*enumerate(words)])", f"enumerate() {ORDER}", "enumerate(words)"),
    ("len(max(words, key=len))", f"max() {ORDER}", "max(words, key=len)"),
    ("len(sorted(words, key=len))", f"sorted() {ORDER}", "sorted(words, key=len)"),
    ("len(dict.fromkeys(words))", f"dict.fromkeys() {ORDER}", "dict.fromkeys(words)"),
    ("next(iter(words)) == 'a'", f"iter() {ORDER}", "iter(words)"),
    (
        "functools.reduce(lambda a, b: a + b, words) == 'abc'",
        f"reduce() {ORDER}",
        "functools.reduce(lambda a, b: a + b, words)",
    ),
    (
        "functools.partial(functools.reduce, max)(words) == 'c'",
        f"reduce() {ORDER}",
        "functools.partial(functools.reduce, max)(words)",
    ),
    ("len(next(filter(None, words)))", f"filter() {ORDER}", "filter(None, words)"),
    ("len(next(zip(words, ordered)))", f"zip() {ORDER}", "zip(words, ordered)"),
    ("len([*itertools.chain(words)][0])", f"chain() {ORDER}", "itertools.chain(words)"),
    ("len([*itertools.chain.from_iterable([words])][0])", f"chain.from_iterable() {ORDER}", "…"),
    ("len([*itertools.islice(words, 1)][0])", f"islice() {ORDER}", "itertools.islice(words, 1)"),
    ("len(next(words.__iter__()))", f"set.__iter__() {ORDER}", "words.__iter__()"),
    ("len(next(set.__iter__(words)))", f"set.__iter__() {ORDER}", "set.__iter__(words)"),
    ("collections.Counter(words).most_common(1)[0][1]", f"Counter() {ORDER}", "collections.Counter(words)"),
    ("len(collections.deque(words)[0])", f"deque() {ORDER}", "collections.deque(words)"),
    ("len('%s' % words)", f"mod() {ORDER}", "'%s' % words"),
    ("len('%s' % (words,))", f"mod() {ORDER}", "'%s' % (words,)"),
    ("len(f'{words}')", f"format() {ORDER}", "f'{words}'"),
    ("len(f'{[words]!r}')", f"format() {ORDER}", "f'{[words]!r}'"),
    ("len(str([words]))", f"str() {ORDER}", "str([words])"),
    ("[v for v in words][0] == 'a'", THROUGH, "[v for v in words]"),
    ("[v for v in words | {'d'}][0] == 'a'", THROUGH, "[v for v in words | {'d'}]"),
    ("[v for v in {'a', 'b'}][0] == 'a'", THROUGH, "[v for v in {'a', 'b'}]"),
    ("[v for v in frozenset(ordered)][0] == 'a'", THROUGH, "[v for v in frozenset(ordered)]"),
    ("[i for i, v in enumerate(words) if v == 'a'][0]", f"enumerate() {ORDER}", "…"),
    ("[w for o in ordered for w in words][0] == 'a'", THROUGH, "[w for o in ordered for w in words]"),
    ("len(next(v for v in words))", THROUGH, "(v for v in words)"),
    ("len({v: 1 for v in words})", THROUGH, "{v: 1 for v in words}"),
    ("[[*words][0] for _ in (1,)][0] == 'a'", THROUGH, "[[*words][0] for _ in (1,)]"),
    ("[list(words)[0] for _ in (1,)][0] == 'a'", f"list() {ORDER}", "…"),
    ("max((v for v in words), key=len) == 'a'", THROUGH, "(v for v in words)"),
    ("len(list(map(lambda o: [v for v in words][0], ordered))[0])", THROUGH, "…"),
    # What is there before and after.
    ("len(ordered.pop())", f"pop() {CHANGE}", "ordered.pop()"),
    ("len(words.pop())", f"pop() {CHANGE}", "words.pop()"),
    ("last.setdefault('y', 3)", f"setdefault() {CHANGE}", ""),
    ("last.pop('x')", f"pop() {CHANGE}", ""),
    ("queue.popleft()", f"popleft() {CHANGE}", ""),
    ("buffer.pop()", f"pop() {CHANGE}", ""),
    # However it is reached.
    ("helper()", f"helper() calls time.monotonic_ns(), which {ONCE}{CLOCK}", ""),
    ("deep()", f"deep() calls time.monotonic_ns(), which {ONCE}{CLOCK}", ""),
    ("catching()", f"catching() calls time.time_ns(), which {ONCE}{CLOCK}", ""),
    ("config.impure", f"this calls random.randrange(), which {ONCE}{RANDOM}", ""),
    ("config + 1", f"this calls os.getpid(), which {ONCE}write pid() or {ABOVE}", ""),
    ("config[3]", f"this calls time.time_ns(), which {ONCE}{CLOCK}", ""),
    ("1 if config else 2", f"bool() calls secrets.randbelow(), which {ONCE}{RANDOM}", "config"),
    ("part()", f"time.time_ns() {ONCE}{CLOCK}", ""),
    ("Moment.now().year", f"datetime.now() {ONCE}{CLOCK}", "Moment.now()"),
    ("dice.random() > 0.5", f"random.random() {ONCE}{RANDOM}", "dice.random()"),
    ("len(home())", f"os.environ {READ}", "home()"),
    ("len(config.home)", f"os.environ {READ}", "config.home"),
    ("time.time_ns.__call__()", f"__call__() calls time.time_ns(), which {ONCE}{CLOCK}", ""),
    ("next(clock())", f"next() calls time.time_ns(), which {ONCE}{CLOCK}", ""),
    ("len([time.time() for _ in range(3)])", f"this calls time.time(), which {ONCE}{CLOCK}", "…"),
    ("len(f'{time.time()}')", f"this calls time.time(), which {ONCE}{CLOCK}", "…"),
    ("len(list(map(os.stat, ['/'])))", f"map() calls os.stat(), which {ONCE}{ABOVE}", "map(os.stat, ['/'])"),
    ("max(map(lambda _: time.time_ns(), (1, 2)))", f"max() calls time.time_ns(), which {ONCE}{CLOCK}", ""),
]


@pytest.mark.parametrize(("source", "expected", "place"), IMPURE, ids=[source for source, _, _ in IMPURE])
def test_what_differs_from_run_to_run_is_refused(source: str, expected: str, place: str) -> None:
    """Nothing of it is computed, and the error at its place names what to write instead."""
    with pytest.raises(CompileError) as caught:
        build(f"results[0] = {source}", "count", OUTSIDE)
    words, marked = message(caught.value)
    assert words == expected
    assert marked == (place or source) or (place == "…" and marked in source)


@pytest.mark.parametrize(
    "source",
    [
        "config.pure",
        "config.method()",
        "total()",
        "cached(4)",
        "sum(numbers())",
        "Colour.RED.value + Colour(1).value",
        "Point(1, 2).x",
        "table[Key(1)]",
        "int(ipaddress.ip_address('10.0.0.1'))",
        "socket.htons(80)",
        "socket.inet_aton('1.2.3.4')[0]",
        "len('abc'.upper().split('b'))",
        "struct.unpack('<H', b'ab')[0]",
        "int(re.match('a(.)', 'a5').group(1))",
        "sorted([3, 1, 2], key=lambda x: -x)[0]",
        "len(f'{3:04d}')",
        "len(os.path.join('a', 'b')) + len(pathlib.PurePath('a').name)",
        "timedelta(seconds=3).seconds + datetime(2020, 1, 1).year",
        "functools.reduce(lambda a, b: a * b, [1, 2, 3])",
        "json.loads('[5]')[0] + int.from_bytes(b'ab', 'big')",
        "functools.partial(max, 3)(4)",
        "len(words) + len(sorted(words)) + ('a' in words) + len(max(words)) + len(list({1, 2}))",
        "sum(len(w) for w in words) + any(w == 'a' for w in words) + len([w for w in words])",
        "len({w + 'x' for w in words}) + len(sorted(w + 'x' for w in words)) + len(min(w for w in words))",
        "len(words | {'d'}) + len(words.union({'e'})) + (words == {'a'}) + (words >= {'a'}) + len(frozenset(words))",
        "[words][0] == words and len({'x': words}.get('x')) + len({frozenset(words): 3})",
        "[w for w in sorted(words)].index('b') + [n for n in {1, 2, 3}][0] + len([w for w in {'only'}][0])",
        "isinstance(words, set) + len(copy.copy(words)) + len(f'{len(words)}') + len(dict(a=words))",
        "next(iter((3, 4)))",
    ],
)
def test_what_computes_from_its_arguments_alone_is_known_while_compiling(source: str) -> None:
    """Whatever is pure is folded as before, by Python itself."""
    build(f"for _ in unroll(range({source} * 0 + 1)):\n    results[0] = {source}", "count", OUTSIDE)


def test_a_path_that_is_not_taken_may_be_impure() -> None:
    """A helper is judged by what it calls for the arguments given."""
    outside = "import os\ndef limit(asked):\n    return asked if asked else os.getpid()\n"
    build("results[0] = limit(3)", "", outside)
    with pytest.raises(CompileError, match=r"limit\(\) calls os\.getpid\(\)"):
        build("results[0] = limit(0)", "", outside)


def test_a_profiler_goes_on() -> None:
    """The hook of a profiler that is running is put back."""
    called = []

    def profiler(frame: FrameType, event: str, argument: Any) -> None:
        called.append(event)

    sys.setprofile(profiler)
    try:
        build("results[0] = total()", "", OUTSIDE)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert called
