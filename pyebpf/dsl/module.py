"""`Module`: probes written in Python, and their maps."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf import aggregations
from pyebpf.attach import DecoratorMethods
from pyebpf.errors import CompileError, Location, check_argument
from pyebpf.maps.declarations import MapMethods
from pyebpf.module.body import Body
from pyebpf.module.declared_arguments import LazyMethod

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


class Module(DecoratorMethods, MapMethods):
    """Maps and probes of one program.

    Each method that declares a map returns it; each decorator returns a Probe. Nothing is compiled before
    `compile(target)`, which gives the same result for the same input on every machine.
    """

    log2_hist = LazyMethod(lambda: aggregations.log2_hist)
    linear_hist = LazyMethod(lambda: aggregations.linear_hist)
    log_linear_hist = LazyMethod(lambda: aggregations.log_linear_hist)
    counter = LazyMethod(lambda: aggregations.counter)
    total = LazyMethod(lambda: aggregations.total)
    minimum = LazyMethod(lambda: aggregations.minimum)
    maximum = LazyMethod(lambda: aggregations.maximum)
    stats = LazyMethod(lambda: aggregations.stats)

    def body_of(self, value: object, decorator: str) -> Body:
        """The body of what a decorator was put on: a function's, or a body of another front end as it is.

        Raises InvalidValue for anything else.
        """
        if isinstance(value, Body):
            return value
        # Modules of this package, and of Python's, that programs of another front end do without.
        from pyebpf.dsl.body import PythonBody, plain_function

        return PythonBody(plain_function(value, decorator))

    # -- functions that probes call --------------------------------------------------------------------------------

    def subprogram(self, function: F | None = None) -> F:
        """Compile a function once for each program that calls it (BPF-to-BPF).

        A plain function is written out at each call instead.
        """
        from pyebpf.dsl.body import plain_function
        from pyebpf.dsl.subprograms import PythonSubprogram

        entity: Any = PythonSubprogram(plain_function(function, "subprogram"))
        return entity  # type: ignore[no-any-return]  # to a probe's author it is the function

    def replaceable(self, function: F | None = None) -> F:
        """A `subprogram` that another program may take the place of while this one is loaded, by `@bpf.freplace`.

        The verifier looks at it by itself, for any arguments. It has no context: it is given numbers only.
        """
        from pyebpf.dsl.body import plain_function
        from pyebpf.dsl.subprograms import PythonSubprogram

        entity: Any = PythonSubprogram(plain_function(function, "replaceable"), replaceable=True)
        return entity  # type: ignore[no-any-return]  # to a probe's author it is the function

    def define(self, text: str, names: dict[str, object] | None = None) -> SimpleNamespace:
        """Run source text whose probes belong here: for places that keep no source, such as piped input.

        The text sees the caller's names, then `names`, and `bpf` as this module. Returns what it defines.
        """
        frame = sys._getframe(1)
        check_argument("bpf.define(text)", text, str, "source text")
        # Named by its content: the same in every run, and one text's lines are never shown for another's.
        import linecache
        from hashlib import sha256

        file = f"<bpf.define {sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        before: dict[str, object] = {**frame.f_globals, **frame.f_locals, "bpf": self, **(names or {})}
        after = dict(before)
        try:
            code = compile(text, file, "exec", dont_inherit=True)
        except SyntaxError as error:
            column = max((error.offset or 1) - 1, 0)
            where = Location(file, error.lineno or 1, column, text=(error.text or "").rstrip("\n"))
            raise CompileError(f"this is not valid Python: {error.msg}", where) from None
        exec(code, after)  # noqa: S102 - the caller's own source
        missing = object()
        return SimpleNamespace(
            **{
                name: value
                for name, value in after.items()
                if before.get(name, missing) is not value and name != "__builtins__"
            }
        )
