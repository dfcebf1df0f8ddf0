"""Python run while compiling: what cannot differ from one run to the next is computed, all else is refused.

A program that computed `time.monotonic_ns()` while compiling would count with one number for ever, without a word.
Functions written in Python are followed into what they call; what is built in is asked for its name. The interpreter's
profiling hook tells of both, so that it makes no difference how a call comes about: by a helper, a property, an
operator, a generator.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pyebpf.collector import collector_paused
from pyebpf.dataclass import dataclass
from pyebpf.dsl import changes, guarded, limits, set_order, unguarded
from pyebpf.dsl.source import ORIGINALS
from pyebpf.dsl.steps import ABOVE, COUNTING, MAX_STEPS, TooMuch, ticker_of
from pyebpf.dsl.text_of import called_method, text_of, words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType, FrameType

    from _typeshed import TraceFunction

R = TypeVar("R")

#: Modules of the standard library that compute from their arguments alone, those written in C among them.
_PURE = words(
    """
    _abc _bisect _collections _collections_abc _contextvars _csv _datetime _decimal _elementtree _functools _hashlib
    _heapq _json _md5 _operator _pickle _sha1 _sha2 _sha256 _sha3 _sha512 _blake2 _sre _statistics _string _struct
    _stat _typing _weakrefset abc base64 binascii bisect builtins cmath codecs collections colorsys copy copyreg
    dataclasses datetime decimal difflib enum errno fnmatch fractions functools hashlib heapq html importlib inspect
    ipaddress itertools json keyword math numbers operator quopri re reprlib shlex sre_compile sre_constants
    sre_parse stat statistics string stringprep struct textwrap types typing unicodedata urllib weakref zlib
    zoneinfo _weakref _pydatetime _pydecimal _codecs _strptime calendar
    """
)

#: Functions of some other modules that are as pure.
_PURE_NAMES: Mapping[str, frozenset[str]] = {
    "socket": words(
        "htons htonl ntohs ntohl inet_aton inet_ntoa inet_pton inet_ntop CMSG_LEN CMSG_SPACE "
        "_intenum_converter IntFlag AddressFamily SocketKind"
    ),
    "os": words(
        "fspath fsencode fsdecode major minor makedev strerror _fspath encode decode "
        "_path_normpath _path_splitroot _path_splitroot_ex"
    ),
    "io": words("BytesIO StringIO text_encoding"),
    "sys": words("intern setprofile getsizeof getrecursionlimit"),
    "ctypes": words("sizeof alignment"),
    "signal": frozenset(["Signals", "strsignal", "_int_to_enum"]),
    "time": frozenset(),
    "uuid": words("UUID __init__ __int__ __str__ __eq__ __hash__ bytes hex int"),
}

#: Modules of Python's that are looked into, as the author's own are.
_FOLLOWED = frozenset(["posixpath", "ntpath", "genericpath", "pathlib"])

#: Impure functions of modules that are otherwise pure.
_IMPURE_NAMES: Mapping[str, frozenset[str]] = {
    "builtins": words("input print breakpoint exit quit help __import__ eval exec compile"),
    "datetime": frozenset(["now", "utcnow", "today", "fromtimestamp", "astimezone", "timestamp"]),
    "urllib": frozenset(["urlopen", "urlretrieve"]),
}

#: The result of these differs from run to run, or tells of the compiler; what is computed by their help need not.
_ADDRESSES = frozenset(["hash", "id", "dir", "vars", "locals", "globals"])

_CLOCK = "now(), nanoseconds of the monotonic clock,"
_REMEDIES: Mapping[str, str] = {
    **dict.fromkeys(
        words(
            "time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns time.time time.time_ns "
            "time.clock_gettime time.clock_gettime_ns datetime.now datetime.utcnow datetime.today date.today"
        ),
        _CLOCK,
    ),
    "os.getpid": "pid()",
    "os.getuid": "uid()",
    "os.getgid": "gid()",
    "os.gettid": "tid()",
    "os.sched_getcpu": "cpu()",
    **dict.fromkeys(["threading.get_native_id", "threading.get_ident", "_thread.get_native_id"], "tid()"),
    **dict.fromkeys(["_thread.get_ident"], "tid()"),
}
#: By its name a method that may answer otherwise in another run: an `operator.methodcaller` does not tell of what.
_BY_METHOD = {
    each.rpartition(".")[2]: each for each in (*_REMEDIES, *(f"datetime.{name}" for name in _IMPURE_NAMES["datetime"]))
}
_RANDOM = ("random.", "secrets.", "os.urandom", "os.getrandom", "uuid.")
_PRIVATE = {"posix": "os", "nt": "os", "_io": "io", "_socket": "socket", "_random": "random"}
_PRIVATE |= {"_datetime": "datetime", "_pydatetime": "datetime", "_thread": "threading", "_ctypes": "ctypes"}
_PRIVATE |= {"_signal": "signal", "_uuid": "uuid", "_sitebuiltins": "builtins"}

#: Types whose operators and methods run no code of the author's.
_PLAIN = frozenset([int, str, bytes, bool, float, complex, range, slice, type(None), type(Ellipsis)])
_CONTAINERS = frozenset([tuple, list, set, frozenset])
_HARMLESS = _PLAIN | _CONTAINERS | {dict}
_CHEAP = frozenset([len, ord, chr, abs, isinstance, callable])

#: Steps of a call that is judged, which takes that much longer than a line.
_CALL = 12


class Impure(Exception):
    """A computation asked for what differs from run to run. `name` is what it called."""

    def __init__(self, name: str, *, is_call: bool = True) -> None:
        super().__init__(name)
        self.name = name
        self.is_call = is_call

    def message(self, outer: str) -> str:
        """Words for the author; `outer` is the function that the probe calls, if it has a name there."""
        once = "would run once, at compile time, not on each event"
        if self.name == "os.environ" or not self.is_call:
            shown = self.name if self.name == "os.environ" else f"this {self.name}"
            return f"{shown} would be read once, at compile time, not on each event: keep what you need of it in a name"
        instead = _REMEDIES.get(self.name) or ("helpers.get_prandom_u32()" if self.name.startswith(_RANDOM) else "")
        remedy = "call it above the probe and use its result here by name"
        if self.name == "time.sleep":
            remedy = "a probe can't wait, leave it out"
        elif instead:
            remedy = f"write {instead} or {remedy}"
        direct = outer.rpartition(".")[2] == self.name.rpartition(".")[2]
        return (
            f"{self.name}() {once}: {remedy}"
            if direct
            else (f"{f'{outer}()' if outer else 'this'} calls {self.name}(), which {once}: {remedy}")
        )


class Unordered(Impure):
    """A computation depends on the order of a set."""

    def message(self, outer: str) -> str:  # noqa: ARG002 - all say which call it is
        """Words for the author."""
        if not self.name:
            return "this goes through a set, whose order differs from run to run: write sorted(…) of the set"
        return f"{self.name}() goes through a set, whose order differs from run to run: give it sorted(…) of the set"


def impure_call(function: object, *, result: bool = True) -> str:
    """Name of a callable that may answer otherwise in another run; empty for what is pure, or followed when it runs.

    `result` tells whether what it returns is used as it is.
    """
    if isinstance(function, partial):
        return next((name for each in (function.func, *function.args) if (name := impure_call(each))), "")
    if isinstance(function, MethodType):
        # A pure method of a base class reads what the object is made of: `get` of os.environ.
        name = _impure_object(function.__self__)
        if name:
            return name
        function = function.__func__
    if method := called_method(function):
        return _BY_METHOD.get(method, "")
    if isinstance(function, MethodWrapperType) and function.__name__ == "__call__":
        return impure_call(function.__self__, result=result)
    if result and text_of(function) == "__hash__":
        return "hash"
    if isinstance(function, type):
        root = _root(text_of(function, "__module__"))
        return "" if root in _FOLLOWED or _allows(root, function.__name__) else _shown(root, function.__name__)
    if isinstance(function, FunctionType):
        root = _root(text_of(function, "__module__"))
        return "" if root in _FOLLOWED or _allows(root, function.__name__) else _shown(root, function.__qualname__)
    if not isinstance(function, (BuiltinFunctionType, MethodDescriptorType)):
        return _impure_object(function)
    name = function.__name__
    owner = getattr(function, "__objclass__", None) or getattr(function, "__self__", None)
    if owner is None or isinstance(owner, ModuleType):
        root = _root(text_of(function, "__module__") or text_of(owner))
        if root == "builtins" and name in _ADDRESSES:
            return name if result else ""
        # What is compiled and not Python's own can't be looked into.
        known = root in sys.stdlib_module_names and _allows(root, name)
        return "" if known else _shown(root, name)
    type_ = owner if isinstance(owner, type) else type(owner)
    type_ = next((each for each in type_.__mro__ if name in vars(each)), type_)  # the author's may only inherit it
    root = _root(text_of(type_, "__module__"))
    return "" if _allows(root, name, type_.__name__) else _shown(root, f"{type_.__name__}.{name}")


def _impure_object(value: object) -> str:
    """Name of the type of a value that is a piece of the running system: an open file, a socket, a lock."""
    type_ = type(value)
    root = _root(text_of(type_, "__module__"))
    if root in sys.stdlib_module_names and root not in _FOLLOWED and not _allows(root, type_.__name__):
        return _shown(root, type_.__name__)
    return ""


def _root(module: str) -> str:
    root = module.partition(".")[0]
    return _PRIVATE.get(root, root)


def _allows(root: str, name: str, owner: str = "") -> bool:
    """Whether a name of a module, or of a type of that module, is pure, or no module of Python's has it."""
    if root in _PURE or root not in sys.stdlib_module_names:
        return name not in _IMPURE_NAMES.get(root, ())
    allowed = _PURE_NAMES.get(root, frozenset())
    return name in allowed or owner in allowed


def _shown(root: str, name: str) -> str:
    if root == "os" and name.partition(".")[0] == "_Environ":
        return "os.environ"
    if (root, name) == ("io", "open"):
        return name
    if root == "random":
        name = name.removeprefix("Random.")
    # datetime.datetime.now is known as datetime.now.
    # The type's own name stands before it: datetime.now is what people write.
    return name if root == "builtins" or (root == "datetime" and "." in name) else f"{root}.{name}"


class Watch:
    """Profiling and tracing hooks: they refuse at the first call of what is impure, and when there are too many steps.

    `frames` tells which may do as they like.
    """

    def __init__(self) -> None:
        self.refused: Impure | TooMuch | None = None
        self.frames = [False]
        self.ticker = ticker_of(MAX_STEPS, self.too_many_steps)
        #: What is known of code, by its identity: itself and its names; whether its frames are trusted, whether a call
        #: is a step, whether its lines are, and what it must not be called for, but by what is trusted.
        self.kinds: dict[int, _Kind] = {}
        #: The author's functions that were called, compiled anew.
        self.anew: dict[FunctionType, FunctionType] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            kind = self.kinds.get(id(frame.f_code))
            if kind is None or kind.names is not frame.f_globals:
                kind = self.kinds[id(frame.f_code)] = _kind(frame)
            if kind.counts:
                next(self.ticker)
            if kind.impure is not None and not self.frames[-1]:
                self.refuse(kind.impure)
            if kind.trusted and kind.counts and frame.f_code.co_argcount and not self.frames[-1]:
                # Whose method this is: `get` of os.environ is a Mapping's.
                name = _impure_object(frame.f_locals[frame.f_code.co_varnames[0]])
                if name:
                    self.refuse(Impure(name, is_call=False))
            if kind.unguarded:
                self.count(3)  # it takes as long as these
                refused = unguarded.refused_code(frame.f_code, frame.f_globals, frame.f_locals)
                if refused is not None:
                    self.refuse(refused)
            self.frames.append(kind.trusted)
        elif event == "return":
            if len(self.frames) > 1:
                self.frames.pop()
            kind = self.kinds.get(id(frame.f_code))
            if kind is not None and kind.unguarded:
                self.bounded(unguarded.check_size, argument)
                if type(argument) in limits.SIZED:  # what a generator makes, something else may put together
                    self.count(limits.size(argument) >> 3)
        elif event == "c_call" and not self.frames[-1]:
            name = impure_call(argument, result=False)
            if name:
                self.refuse(Impure(name))
            kind = self.kinds.get(id(frame.f_code))
            if kind is not None and kind.unguarded:
                refused = unguarded.refused_call(argument, frame.f_code)
                if refused is not None:
                    self.refuse(refused)

    def trace(self, frame: FrameType, _: str, __: object) -> TraceFunction | None:
        """The tracing hook, called where a function begins."""
        kind = self.kinds.get(id(frame.f_code))
        if kind is None or kind.names is not frame.f_globals:
            kind = self.kinds[id(frame.f_code)] = _kind(frame)
        if not kind.traced:
            return None
        frame.f_trace_opcodes = unguarded.spins(frame.f_code)
        return self.trace_sizes if kind.unguarded and unguarded.grows(frame.f_code) else self.trace_line

    def trace_sizes(self, frame: FrameType, event: str, __: object) -> TraceFunction:
        """The tracing hook of the lines of a function that Python itself calls, and that may make large values."""
        next(self.ticker)
        if event in ("line", "return"):
            self.count(self.bounded(unguarded.check_grown, frame) >> 1)
        return self.trace_sizes

    def trace_line(self, _: FrameType, event: str, __: object) -> TraceFunction:
        """The tracing hook of the lines of a function that loops."""
        if event in ("line", "opcode"):
            next(self.ticker)
        return self.trace_line

    def count(self, steps: int) -> None:
        """Count steps; those beyond the limit are refused."""
        if self.refused is not None:
            raise self.refused
        if steps:
            next(islice(self.ticker, steps - 1, steps))

    def too_many_steps(self) -> NoReturn:
        """Refuse one step more."""
        if self.refused is not None:
            raise self.refused
        self.refuse(
            TooMuch(
                f"this takes more than {MAX_STEPS:,} steps, calls and iterations, which are too many to run at compile "
                f"time: {ABOVE}"
            )
        )

    def check_call(
        self, function: Callable[..., object], arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> tuple[Callable[..., object], Sequence[object], Mapping[str, object]]:
        """Look at a call that a guarded function makes; return it with what it is given guarded."""
        self.count(_CALL)
        new = self.anew.get(function) if type(function) is FunctionType else None
        known = new is not None or (type(function) is BuiltinFunctionType and function in _CHEAP)
        if known and not keywords and all(type(each) in _HARMLESS for each in arguments):
            return new or function, arguments, keywords
        self.count(_CALL)  # what follows takes as long again
        for each in (function, *arguments, *keywords.values()):
            name = impure_call(each, result=False)
            if name:
                self.refuse(Impure(name, is_call=callable(each)))
        return self.bound(function, arguments, keywords)

    def bound(
        self, function: Callable[..., R], arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> tuple[Callable[..., R], Sequence[object], Mapping[str, object]]:
        """A call within the limits: iterators that it is given are counted, functions of the author's guarded."""
        try:
            arguments, keywords = limits.within_limits(function, arguments, keywords)
        except TooMuch as error:
            self.refuse(error)
        new = guarded.guarded(function)
        if new is not function and isinstance(function, FunctionType):
            self.anew[function] = new
        if new is function and not isinstance(function, (FunctionType, MethodType)):
            arguments = [guarded.guarded_argument(each) for each in arguments]
            keywords = {name: guarded.guarded_argument(each) for name, each in keywords.items()}
        return new, arguments, keywords

    def check_order(
        self, function: Callable[..., object], arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> None:
        """Look at a call that a probe's own expression makes: refuse one that depends on the order of a set."""
        if set_order.goes_through(function, arguments, keywords):
            self.refuse(Unordered(text_of(function, "__qualname__")))

    def check_iterated(self, values: object) -> None:
        """Look at what a probe's own expression goes through: refuse a set."""
        if set_order.is_unordered(values):
            self.refuse(Unordered(""))

    def check_result(self, value: object) -> None:
        """Refuse what is too large to keep; all that is made takes memory, so its elements are steps, too."""
        self.bounded(limits.check_kept, value)
        self.count(limits.size(value) >> 3 if type(value) is not range else 0)

    def bounded(self, check: Callable[[Any], R], value: object) -> R:
        """The answer of a check, which may refuse what is too large to keep."""
        try:
            return check(value)
        except TooMuch as error:
            self.refuse(error)

    def refuse(self, error: Impure | TooMuch) -> NoReturn:
        """Stop the computation: whoever catches this goes on until the next step."""
        self.refused = error
        self.ticker = ticker_of(0, self.too_many_steps)
        if COUNTING.watch is self:
            COUNTING.ticker = self.ticker
        raise error


@dataclass(frozen=True, slots=True)
class _Kind:
    """Facts of code that was called."""

    code: CodeType  # kept, so that no other has its identity
    names: dict[str, object]
    trusted: bool
    counts: bool
    traced: bool
    unguarded: bool
    impure: Impure | None


def _kind(frame: FrameType) -> _Kind:
    code, names = frame.f_code, frame.f_globals
    root = _root(str(names.get("__name__", "")))
    if root == "pyebpf":
        return _Kind(code, names, trusted=True, counts=False, traced=False, unguarded=False, impure=None)
    is_guarded = guarded.is_guarded(code)
    traced = not is_guarded and (unguarded.loops(code) or unguarded.grows(code))
    if root not in sys.stdlib_module_names or root in _FOLLOWED:
        alone = root not in _FOLLOWED and not is_guarded and code not in ORIGINALS
        return _Kind(code, names, trusted=False, counts=True, traced=traced, unguarded=alone, impure=None)
    allowed = _allows(root, code.co_name, code.co_qualname.rpartition(".")[0])
    impure = None if allowed else Impure(_shown(root, code.co_qualname))
    return _Kind(code, names, trusted=True, counts=True, traced=traced, unguarded=False, impure=impure)


def compute(function: Callable[..., R], arguments: Sequence[object], keywords: Mapping[str, object]) -> R:
    """Call a function while compiling. Raises Impure if that may come out otherwise in another run, or do something.

    Raises TooMuch if it takes too long, or makes too much.
    """
    given = (*arguments, *keywords.values())
    for each in (function, *given):
        name = impure_call(each)
        if name:
            raise Impure(name, is_call=callable(each))
    changes.check_call(function, arguments, keywords)
    if set_order.goes_through(function, arguments, keywords):
        raise Unordered(text_of(function, "__qualname__"))
    if _is_c(function) and all(map(_plain, given)):
        arguments, keywords = limits.within_limits(function, arguments, keywords)
        value = function(*arguments, **keywords)
        limits.check_kept(value)
        return value
    return _watched(function, arguments, keywords)


def _watched(function: Callable[..., R], arguments: Sequence[object], keywords: Mapping[str, object]) -> R:
    watch = Watch()
    operation = guarded.operation(function)
    function, arguments, keywords = watch.bound(function, arguments, keywords)
    around, ticker = COUNTING.watch, COUNTING.ticker
    before: Any = sys.getprofile()
    traced = sys.gettrace()
    with collector_paused():  # others may have hooked functions into it, which are no part of this
        try:
            COUNTING.watch, COUNTING.ticker = watch, watch.ticker
            sys.settrace(watch.trace)
            sys.setprofile(watch)
            value = guarded.GUARD.operate(operation, *arguments) if operation else function(*arguments, **keywords)
        finally:
            COUNTING.watch, COUNTING.ticker = around, ticker
            if before is None or callable(before):
                sys.setprofile(before)
            else:  # cProfile's own, which only it can put back
                sys.setprofile(None)
                before.enable()
            sys.settrace(traced)
            if watch.refused is not None:
                # Whoever catches everything catches this, too.
                raise watch.refused
    watch.check_result(value)
    return value


def _is_c(function: object) -> bool:
    """Whether no code of the author's runs unless an argument brings it along."""
    return isinstance(function, (BuiltinFunctionType, MethodDescriptorType)) or (
        isinstance(function, type) and function.__module__ == "builtins"
    )


def _plain(value: Any, depth: int = 4) -> bool:
    type_ = type(value)
    if type_ in _PLAIN:
        return True
    if not depth:
        return False
    if type_ in _CONTAINERS:
        return all(_plain(each, depth - 1) for each in value)
    return type_ is dict and all(_plain(each, depth - 1) for item in value.items() for each in item)
